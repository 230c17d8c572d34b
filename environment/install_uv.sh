#!/usr/bin/env bash
# Puts the locked uv into a virtual environment: install_uv.sh VENV
set -euo pipefail
requirement=$(mktemp)
trap 'rm -f "$requirement"' EXIT
sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^ /p}' "$(dirname "$0")/lock.txt" >"$requirement"
"$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r "$requirement"
