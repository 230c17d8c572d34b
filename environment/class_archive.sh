#!/usr/bin/env bash
# Makes .venv/spark.jsa, Java's archive of the classes that Spark and Delta load: with it a small application starts in
# two thirds of the time. Nothing depends on it: without it, or with another Java, everything only starts more slowly.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=.venv/spark.jsa
key=$({ cat environment/lock.txt environment/jars.lock; java -version 2>&1; } | sha256sum)
if [ -f "$archive" ] && [ "$(cat "$archive.key" 2>/dev/null)" = "$key" ]; then exit 0; fi
rm -f "$archive" "$archive.key"
jars=$(printf '%s:' "$PWD"/.venv/jars/*.jar)
options="$(.venv/bin/python -c 'from environment import quick; print(quick.OPTIONS)') -XX:ArchiveClassesAtExit=$PWD/$archive"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! PATH=$PWD/.venv/bin:$PATH PYTHONPATH=$PWD PYSPARK_PYTHON=$PWD/.venv/bin/python .venv/bin/spark-submit \
  --master 'local[2]' --driver-memory 1g --driver-class-path "${jars%:}" --conf spark.driver.host=127.0.0.1 \
  --conf spark.ui.enabled=false --conf spark.log.level=ERROR --conf "spark.driver.extraJavaOptions=$options" \
  --conf "spark.sql.warehouse.dir=$(mktemp -d)" spark_apps/warm_up.py >"$log" 2>&1; then
  grep -v "^\[.*\[cds" "$log" | tail -n 20 >&2
  exit 1
fi
printf '%s' "$key" >"$archive.key"
