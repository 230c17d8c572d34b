"""The base of orders that a Spark application carries out: cancel, recover, repair, prove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_backfill.builds.ordering import check_errand
from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.hooks.kafka import told_kafka
from airflow_backfill.operators.application import ApplicationOperator
from airflow_backfill.operators.signed import signature

if TYPE_CHECKING:
    from airflow.sdk import Context


class OrderOperator(ApplicationOperator):
    """
    Carries an order out, with the launcher and the Spark settings of the build's other tasks.

    A task instance carries its order out once: a retry or a clear of one that has succeeded returns the first result.
    Trigger another run for another order.

    :param by: who orders it; by default the user who triggered the run. (templated)
    :param why: the reason, for the log of commands. Needed for what deletes or rewrites rows. (templated)
    """

    reads_source: ClassVar[bool] = False
    """Whether the application reads the source. If that is a topic, the order takes the connection to Kafka that a task
    of the build has told Airflow, unless it has one of its own.
    """
    template_fields: Sequence[str] = (*ApplicationOperator.template_fields, "by", "why")
    ui_color = "#f5e6d3"

    def __init__(self, *, by: str | None = None, why: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.by = by
        self.why = why

    def admit(self, signed: Signature) -> bool:
        """Whether an application is needed. Raises if the order could have no effect, or lacks a reason."""
        check_errand(self.ledger.reader(self.target), Errand(self.entry_point), signed)
        return True

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        done = self.succeeded(context)
        if done is not None:
            return done
        needed = self.admit(signature(context, self.by, self.why))
        if self.reads_source and self.kafka_conn_id is None and self.committed().plan.splits.landing:
            self.kafka_conn_id = told_kafka(context, self.target, self.ledger.control(self.target).newest())
        return self.run_application(context) if needed else {"target": self.target}

    def _document(self, context: Context) -> dict[str, Any]:
        return {**super()._document(context), **signature(context, self.by, self.why).to_json()}
