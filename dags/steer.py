"""Steers a build while it runs, from Airflow's page: trigger this DAG and fill in the form."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_backfill.core.values.control import Verb
from airflow_backfill.operators.command import CommandOperator

with DAG(
    "steer_table_backfill",
    schedule=None,
    params={
        "target": Param("", type="string", minLength=1, description="Location of the target table"),
        "verb": Param("pause", enum=[verb.value for verb in Verb], description="What to do"),
        "rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: rows per second, 0 is a pause"),
        "byte_rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: bytes per second"),
        "drop": Param(False, type="boolean", description="cancel: remove what the plan made"),
    },
    tags=["table backfill"],
):
    CommandOperator(
        task_id="command",
        target="{{ params.target }}",
        verb="{{ params.verb }}",
        rate="{{ params.rate }}",
        byte_rate="{{ params.byte_rate }}",
        drop="{{ params.drop }}",
    )
