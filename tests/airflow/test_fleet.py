"""A fleet in Airflow: each table is built and followed alone."""

from __future__ import annotations

from tests.airflow.without_spark import commit_to

FLEET = """
from airflow.sdk import DAG
from airflow_backfill.fleet.dags import fleet_dags
globals().update(fleet_dags({{
    "name": "shop",
    "defaults": {{
        "source": {folder!r} + "/{{table}}", "target": {folder!r} + "/copy/{{table}}", "key": ["id"], "max_lag": 0,
        "poke_interval": 0.2, "follow": "*/5 * * * *", "default_args": {{"retries": 0}},
    }},
    "tables": {{"lost": None, "wrong": {{"lanes": 0}}, "source": None}},
}}))
"""


def test_a_table_is_built_and_followed_although_others_fail(airflow, source):
    file = airflow.write(FLEET.format(folder=str(source.parent)))
    dags = ("shop_lost_build", "shop_wrong_build", "shop_source_build")
    assert airflow.run(file, *dags, without_spark=True) == ["failed", "failed", "success"]
    assert airflow.stored("lost.plan", "failure")["code"] == "SOURCE_NOT_DELTA"
    failure = airflow.stored("refused", "failure")
    assert (failure["code"], failure["data"]["table"]) == ("SPEC_INVALID", "wrong")
    assert "table wrong: lanes: must be a whole number from 1 to 256" in airflow.log
    assert [event["epoch"] for event in airflow.events("shop/source/handoff")] == [3]
    commit_to(source, 2)
    assert airflow.run(file, "shop_source_follow", without_spark=True) == ["success"]
    assert [event["epoch"] for event in airflow.events("shop/source")] == [5]
    assert {asset: airflow.asset_state(asset)["epoch"] for asset in ("shop/source/handoff", "shop/source")} == {
        "shop/source/handoff": 3,
        "shop/source": 5,
    }
