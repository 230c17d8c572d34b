"""Sends a command to a running build from Airflow's UI: trigger this DAG and fill in the form."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_backfill.core.values.control import Verb
from airflow_backfill.operators.command import CommandOperator

with DAG(
    "steer_table_backfill",
    schedule=None,
    params={
        "target": Param("", type="string", minLength=1, description="Location of the target table"),
        "verb": Param("pause", enum=[verb.value for verb in Verb], description="Command"),
        "rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: rows per second, 0 stops"),
        "byte_rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: bytes per second"),
        "until": Param(None, type=["null", "string"], format="date-time", description="throttle: when it ends"),
        "drop": Param(False, type="boolean", description="cancel: also delete the target"),
        "why": Param(None, type=["null", "string"], maxLength=1000, description="The reason; needed with drop"),
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
        until="{{ params.until }}",
        why="{{ params.why }}",
    )
