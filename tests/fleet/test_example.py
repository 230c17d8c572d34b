"""The check of a fleet that the documentation shows, of the example."""

from __future__ import annotations

from pathlib import Path

from airflow_backfill.fleet.dags import fleet_dags

FLEET = Path(__file__).parents[2] / "dags" / "fleet.yaml"


def test_no_table_of_the_fleet_is_wrong():
    dags = fleet_dags(FLEET)
    assert [dag.doc_md for dag in dags.values() if dag.has_task("refused")] == []
