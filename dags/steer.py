"""Gives a build an order from Airflow's UI: trigger this DAG and fill in the form.

Orders that need Spark run where the build's own applications run.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, task
from places import spark

from airflow_backfill.core.values.control import Errand, Verb
from airflow_backfill.hooks.airflow_api import ANSWERS
from airflow_backfill.operators.answer import AnswerOperator
from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.command import CommandOperator
from airflow_backfill.operators.explain import ExplainOperator
from airflow_backfill.operators.prove import ProveOperator
from airflow_backfill.operators.recover import RecoverOperator
from airflow_backfill.operators.repair import RepairOperator

ORDERS = [*(verb.value for verb in Verb), *(errand.value for errand in Errand), *ANSWERS]
TARGET, WHY = "{{ params.target }}", "{{ params.why }}"

with DAG(
    "steer_table_backfill",
    schedule=None,
    params={
        "target": Param("", type="string", minLength=1, description="Location of the target table"),
        "verb": Param("pause", enum=ORDERS, description="What to do"),
        "why": Param(None, type=["null", "string"], maxLength=1000, description="The reason; needed where rows go"),
        "rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: rows per second, 0 stops"),
        "byte_rate": Param(None, type=["null", "integer"], minimum=0, description="throttle: bytes per second"),
        "until": Param(None, type=["null", "string"], format="date-time", description="throttle: when it ends"),
        "drop": Param(False, type="boolean", description="cancel: also delete the target"),
        "epoch": Param(None, type=["null", "integer"], minimum=0, description="recover: the epoch of the rows"),
        "key": Param(None, type=["null", "array"], items={"type": "string"}, description="explain: column=value"),
        "since": Param(None, type=["null", "integer"], minimum=0, description="explain: the first epoch or offset"),
    },
    tags=["table backfill", "steers table backfills"],  # the second one: the page gives its orders with this DAG
):

    @task.branch
    def chosen(params: dict | None = None) -> str:
        verb = (params or {})["verb"]
        if verb in ANSWERS:
            return "answer"
        return verb if verb in ("cancel", "recover", "repair", "prove", "explain") else "command"

    chosen() >> [
        CommandOperator(
            task_id="command",
            target=TARGET,
            verb="{{ params.verb }}",
            rate="{{ params.rate }}",
            byte_rate="{{ params.byte_rate }}",
            until="{{ params.until }}",
            why=WHY,
        ),
        AnswerOperator(task_id="answer", target=TARGET, answer="{{ params.verb }}", why=WHY),
        CancelOperator(task_id="cancel", target=TARGET, why=WHY, drop="{{ params.drop }}", **spark()),
        RecoverOperator(task_id="recover", target=TARGET, why=WHY, epoch="{{ params.epoch }}", **spark()),
        RepairOperator(task_id="repair", target=TARGET, why=WHY, **spark()),
        ProveOperator(task_id="prove", target=TARGET, why=WHY, **spark()),
        ExplainOperator(
            task_id="explain",
            target=TARGET,
            why=WHY,
            key="{{ params.key | tojson }}",
            since="{{ params.since }}",
            **spark(),
        ),
    ]
