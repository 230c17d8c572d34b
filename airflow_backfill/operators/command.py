"""Sends commands to a running build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.moment import moment
from airflow_backfill.core.values.options import choice
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.failure import decided
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.links.target import TargetLink
from airflow_backfill.operators.signed import NONE, is_true, number, signature

if TYPE_CHECKING:
    from airflow.sdk import Context


class CommandOperator(BaseOperator):
    """
    Sends a command to a build. It takes effect at the next barrier, whose record acknowledges its number. A cancel also
    needs an application that carries it out: use ``CancelOperator``.

    A retry or a clear of the task sends no second one. A command that could have no effect in the build's phase fails
    the task.

    :param target: location of the target table. (templated)
    :param verb: pause, resume, throttle, hold, release, skip, dead-letter or cancel. (templated)
    :param rate: rows per second, for throttle; None for no limit. (templated)
    :param byte_rate: bytes per second that the snapshot reads, for throttle; None for no limit. (templated)
    :param drop: for cancel: whether the ``CancelOperator`` that must follow deletes the target, too. (templated)
    :param until: for throttle: when it ends, as an ISO time with a zone, e.g. ``2026-01-31T06:00+01:00``. No limit
        follows. (templated)
    :param by: who sends it; by default the user who triggered the run. (templated)
    :param why: the reason, for the log of commands; needed for a cancel with ``drop``. (templated)
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
        (templated)
    """

    template_fields: Sequence[str] = (
        "target",
        "verb",
        "rate",
        "byte_rate",
        "drop",
        "until",
        "by",
        "why",
        "ledger_conn_id",
    )
    operator_extra_links = (TargetLink(),)
    ui_color = "#f5e6d3"

    def __init__(
        self,
        *,
        target: str,
        verb: str,
        rate: int | str | None = None,
        byte_rate: int | str | None = None,
        drop: bool | str = False,
        until: str | None = None,
        by: str | None = None,
        why: str | None = None,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.verb = verb
        self.rate = rate
        self.byte_rate = byte_rate
        self.drop = drop
        self.until = until
        self.by = by
        self.why = why
        self.ledger_conn_id = ledger_conn_id

    def command(self, signed: Signature) -> Command:
        """The rendered command; InvalidSpec if it is invalid."""
        verb = Verb(choice({"verb": self.verb}, "verb", [verb.value for verb in Verb]))
        rate, byte_rate = number("rate", self.rate), number("byte_rate", self.byte_rate)
        until = None if self.until in NONE else moment("until", str(self.until))
        return Command(verb, rate, is_true("drop", self.drop), byte_rate, until, signed)

    def execute(self, context: Context) -> dict[str, Any]:
        with decided(context):
            command = self.command(signature(context, self.by, self.why))
            reader = LedgerHook(self.ledger_conn_id).reader(self.target)
            number = ordered(reader, command, once=True)
            build = reader.state().plan.build
        return {"target": self.target, "build": build, "number": number, **command.to_json()}
