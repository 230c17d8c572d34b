#!/usr/bin/env bash
# Guarantees a working .venv: the locked packages, this project (editable), the locked jars, a Java runtime.
# Repeatable. Takes the newest Python from 3.10 to 3.13 on PATH, or the one that PYTHON names. Asks apt for Java and
# venv only where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

# A name on PATH is not enough: version managers leave stubs there that do not run.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3.10 python3 python}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  say 'Python 3.10, 3.11, 3.12 or 3.13 is needed: environment/lock.txt is resolved for these' >&2
  return 1
}

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -- "$@"; fi
}

# Spark 4 runs on Java 17 and newer. Distributions carry 17 or, the newest ones, 21.
install_java() {
  as_root apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null 2>&1 ||
    as_root apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless >/dev/null
}

system_packages() {
  local python=$1 java=java
  [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
  local has_java=true has_venv=true
  command -v "$java" >/dev/null || has_java=false
  "$python" -c 'import ensurepip' 2>/dev/null || has_venv=false
  if $has_java && $has_venv; then return; fi
  say 'installing system packages'
  as_root apt-get update -qq
  $has_java || install_java
  $has_venv || as_root apt-get install -y -qq --no-install-recommends "python$(version "$python")-venv" >/dev/null
}

python=$(find_python)
system_packages "$python"
if [ "$(version .venv/bin/python)" != "$(version "$python")" ]; then
  say "creating .venv with Python $(version "$python")"
  "$python" -m venv --clear .venv
fi
say 'installing the locked packages'
# uv takes a quarter of pip's time for the rest.
environment/install_uv.sh .venv
uv=(.venv/bin/uv pip)
"${uv[@]}" sync --quiet --python .venv --compile-bytecode \
  --require-hashes --build-constraints environment/lock.txt environment/lock.txt
"${uv[@]}" install --quiet --python .venv --no-deps --no-build-isolation --editable .
say 'fetching the locked jars'
.venv/bin/python environment/jars.py broker s3a s3proxy &
others=$!
.venv/bin/python environment/jars.py jars
say 'archiving the classes of Spark'
environment/class_archive.sh || say 'no archive: Spark will start a little more slowly'
wait "$others"
say 'done'
