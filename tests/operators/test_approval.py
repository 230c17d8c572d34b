"""The answer of the person who is asked whether the hand-off may begin."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.failure import FAILURE
from airflow_backfill.operators.approval import HandoffApprovalOperator
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

ANN = {"id": "1", "name": "ann"}


def answered(option, by=ANN, **why):
    return {
        "chosen_options": [option],
        "params_input": why,
        "responded_at": datetime.now(timezone.utc),
        "responded_by_user": by,
    }


@pytest.mark.parametrize(("by", "said"), [(ANN, "ann"), (None, "an unnamed user")])
def test_a_rejection_is_not_asked_again_by_a_retry(context, by, said):
    asks = HandoffApprovalOperator(task_id="t", subject="Now?", retries=3)
    with pytest.raises(AirflowFailException, match=f"the hand-off was rejected by {said}"):
        asks.execute_complete(context, answered("Reject", by))
    assert context[FAILURE]["code"] == "HANDOFF_REJECTED"
    assert asks.execute_complete(context, answered("Approve", by))["chosen_options"] == ["Approve"]


def test_a_rejection_tells_its_reason(context):
    asks = HandoffApprovalOperator(task_id="t", subject="Now?")
    assert set(asks.serialized_params) == {"why"}, "Airflow's own form asks for it"
    with pytest.raises(AirflowFailException, match="rejected by ann: the sums are wrong"):
        asks.execute_complete(context, answered("Reject", why="the sums are wrong"))
    assert asks.execute_complete(context, answered("Approve", why=None))["params_input"] == {"why": None}


def test_a_question_of_ones_own_is_asked_instead(context):
    asks = HandoffApprovalOperator(task_id="t", subject="Now?", params={"ticket": Param("", type="string")})
    assert set(asks.serialized_params) == {"ticket"}
    assert asks.execute_complete(context, answered("Approve", ticket="T-1"))["params_input"] == {"ticket": "T-1"}


def test_the_time_for_work_is_no_time_to_answer():
    with DAG("d", schedule=None, default_args={"execution_timeout": timedelta(hours=1)}) as dag:
        BackfillTaskGroup("orders", source="/s", target="/t", key=["id"], approval=True)
        BackfillTaskGroup("own", source="/s", target="/u", key=["id"], approval={"response_timeout": timedelta(days=1)})
    assert dag.task_dict["orders.snapshot"].execution_timeout == timedelta(hours=1)
    assert dag.task_dict["orders.approve"].response_timeout is None
    assert dag.task_dict["own.approve"].response_timeout == timedelta(days=1)
