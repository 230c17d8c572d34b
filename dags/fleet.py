"""A fleet: all tables of a YAML file, each with a DAG that builds it and a DAG that follows its source."""

from __future__ import annotations

from pathlib import Path

from airflow_backfill.fleet.dags import fleet_dags

globals().update(fleet_dags(Path(__file__).with_name("fleet.yaml")))
