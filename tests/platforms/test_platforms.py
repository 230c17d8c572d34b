"""The example of each platform, with the provider's own operator: outcome, kill, and a worker that is lost."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from tests.airflow.without_spark import built
from tests.platforms.servers import REJOINS, Platform, later
from tests.waiting import until

SOON = 20.0


@pytest.fixture
def planned(source, target) -> None:
    built(source, target, "plan")


@pytest.fixture
def task(target, submit, planned):
    """A task that starts its applications on the platform."""

    def made(**more: Any) -> SnapshotOperator:
        spark = {"applications": "s3a://lake/code/spark_apps", "py_files": "s3a://lake/code/airflow_backfill.zip"}
        return SnapshotOperator(task_id="t", target=str(target), submit=submit, **spark, **more)

    return made


def drawn(target):
    return BuildReader(str(target)).control.attempts()


def test_an_application_runs_there_and_its_outcome_counts(context, target, platform: Platform, task):
    assert task(conf={"spark.a": "b"}).execute(context)["epoch"] == 3
    [job] = platform.cluster.jobs
    assert job.application == "s3a://lake/code/spark_apps/snapshot.py"
    assert job.arguments[:2] == ("--target", str(target))
    assert "spark.a" in str(job.request)


def test_each_attempt_has_a_job_of_its_own(context, target, platform: Platform, task, submit):
    """A task may start several applications, and operators keep the handle of their last job."""
    task().execute(context)
    second = ConsumeLogOperator(
        task_id="t", target=str(target), submit=submit, max_lag=0, py_files="s3a://lake/code.zip"
    )
    assert second.execute(context)["epoch"] == 3
    assert [job.state for job in platform.cluster.jobs] == ["success", "success"]


def test_a_coded_error_fails_the_task_for_good(context, platform: Platform, task):
    platform.cluster.fences = True
    with pytest.raises(AirflowFailException, match="FENCED"):
        task().execute(context)


def test_an_application_that_dies_is_tried_again(context, target, platform: Platform, task):
    platform.cluster.keeps = True
    dying = later(lambda: (platform.cluster.started.wait(SOON), platform.cluster.kill(0)))
    with pytest.raises(AirflowException, match="APPLICATION_FAILED") as raised:
        task().execute(context)
    dying.join()
    assert not isinstance(raised.value, AirflowFailException)
    platform.cluster.keeps = False
    assert task().execute(context)["epoch"] == 3
    assert len(platform.cluster.jobs) == 2 and len(drawn(target)) == 3


def test_a_killed_task_kills_its_application(context, platform: Platform, task):
    platform.cluster.keeps = True
    killed = task()
    thread = later(lambda: attempted(killed, context))
    assert platform.cluster.started.wait(SOON)
    wait_until_known(killed)
    killed.on_kill()
    assert platform.cluster.jobs[0].ended.wait(SOON) and platform.cluster.jobs[0].state == "killed"
    thread.join(SOON)


def test_a_lost_worker(context, target, platform: Platform, task):
    """Where the operator keeps the handle of its job, the next try rejoins it. Elsewhere it starts another one, which
    takes over.
    """
    platform.cluster.keeps = True
    lost = task()
    later(lambda: attempted(lost, context))
    assert platform.cluster.started.wait(SOON)
    wait_until_known(lost)
    before = dict(context["task_state_store"])
    context["task_state_store"] = type(context["task_state_store"])(before)  # as the lost worker left it
    platform.cluster.keeps = False
    if platform.name in REJOINS:
        threading.Timer(0.3, platform.cluster.let_go, [0]).start()
    again = task()
    assert again.execute(context)["epoch"] == 3
    if platform.name in REJOINS:
        assert len(platform.cluster.jobs) == 1 and len(drawn(target)) == 2
    else:
        assert len(platform.cluster.jobs) == 2 and len(drawn(target)) == 3
        platform.cluster.kill(0)


def test_a_kill_after_a_rejoin_kills_the_application(context, platform: Platform, task):
    if platform.name not in REJOINS:
        pytest.skip("starts another application")
    platform.cluster.keeps = True
    lost = task()
    later(lambda: attempted(lost, context))
    assert platform.cluster.started.wait(SOON)
    wait_until_known(lost)
    again = task()
    thread = later(lambda: attempted(again, context))
    wait_until_known(again)
    again.on_kill()
    assert platform.cluster.jobs[0].ended.wait(SOON) and len(platform.cluster.jobs) == 1
    thread.join(SOON)


def attempted(operator: SnapshotOperator, context: Any) -> None:
    """A try whose end nobody looks at."""
    with suppress(AirflowException, AirflowFailException):
        operator.execute(context)


def wait_until_known(operator: SnapshotOperator) -> None:
    """Until the operator of the platform knows its job, and its handle is stored."""
    names = ("_batch_id", "run_id", "job_id", "pod")
    until(lambda: any(getattr(operator._launched, name, None) is not None for name in names), SOON)
    time.sleep(0.1)
