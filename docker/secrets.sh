#!/usr/bin/env bash
# Writes docker/.env with secrets of this machine's own; leaves an existing one alone.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
hex() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
set -o noclobber
cat >.env <<EOF
POSTGRES_PASSWORD=$(hex)
AIRFLOW_JWT_SECRET=$(hex)
AIRFLOW_API_SECRET_KEY=$(hex)
AIRFLOW_FERNET_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
KAFKA_PASSWORD=$(hex)
SPARK_AUTH_SECRET=$(hex)
EOF
