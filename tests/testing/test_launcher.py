"""A DAG whose applications are replaced."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from airflow_backfill.testing.launcher import run_here, without_spark


def test_only_the_gate_waits_for_what_a_test_passes_over():
    """``dag.test()`` runs tasks of a set, one at a time: the consumer of the log may come before the approval."""
    window = ("22:00", "06:00", "Europe/Berlin")
    with DAG("d", schedule=None) as dag:
        made = BackfillTaskGroup("orders", source="/s", target="/t", key=["id"], window=window, approval=True, lanes=2)
    assert without_spark(dag) is dag
    assert (made.consume_log.approval, made.consume_log.window) == (None, None)
    assert made.gate.window is not None
    assert "orders.approve" in made.gate.upstream_task_ids
    assert made.snapshot.partial_kwargs["submit"] is made.consume_log.submit is run_here
