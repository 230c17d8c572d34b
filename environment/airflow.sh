#!/usr/bin/env bash
# Airflow standalone (SQLite, LocalExecutor) on loopback, with the example DAGs, the demo's tables, and a writer
# that keeps changing them. PORT, SCALE and RATE can be set. Ctrl-C stops all of it.
set -euo pipefail
cd "$(dirname "$0")/.."

port=${PORT:-8080}
export TABLE_BACKFILL_DEMO=${TABLE_BACKFILL_DEMO:-$PWD/.demo}
export AIRFLOW_HOME=${AIRFLOW_HOME:-$PWD/.airflow}
export AIRFLOW__CORE__DAGS_FOLDER=$PWD/dags
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW__CORE__EXECUTOR=LocalExecutor
# On loopback, for one person: whoever reaches the page is an admin.
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS=True
export AIRFLOW__API__HOST=127.0.0.1
export AIRFLOW__API__PORT=$port
export AIRFLOW__API__BASE_URL=http://127.0.0.1:$port
export AIRFLOW__CORE__EXECUTION_API_SERVER_URL=http://127.0.0.1:$port/execution/
export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]"}'
export PYSPARK_PYTHON=$PWD/.venv/bin/python
export PATH=$PWD/.venv/bin:$PATH

.venv/bin/python -m demo prepare
trap 'trap - EXIT; kill 0' EXIT INT TERM
.venv/bin/python -m demo.writer "$TABLE_BACKFILL_DEMO/raw" "$TABLE_BACKFILL_DEMO/tables" \
  "$TABLE_BACKFILL_DEMO/journal.jsonl" --rate "${RATE:-1}" >"$TABLE_BACKFILL_DEMO/writer.log" &
echo "Airflow: http://127.0.0.1:$port (trigger tpch_orders, then tpch_orders_follow; lineitem likewise)"
airflow standalone
