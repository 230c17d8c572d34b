"""Ends a build, and may delete its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_backfill.builds.ordering import only_drops, ordered
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.control import Command, Verb, obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.operators.order import OrderOperator
from airflow_backfill.operators.signed import is_true


class CancelOperator(OrderOperator):
    """
    Ends a build, as ``table-backfill cancel`` does; a later plan resumes it. Its other tasks end within seconds.

    :param drop: whether to delete the target and the build's files beside it, whatever is wrong with its records; also
        done if a cancel with ``drop`` was ordered before. (templated)
    """

    entry_point = "cancel"
    template_fields: Sequence[str] = (*OrderOperator.template_fields, "drop")

    def __init__(self, *, drop: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drop = drop
        self._drops = False

    def admit(self, signed: Signature) -> bool:
        reader = self.ledger.reader(self.target)
        self._drops = is_true("drop", self.drop)
        command = Command(Verb.CANCEL, drop=self._drops, signed=signed)
        try:
            before = reader.state()
            self._drops = self._drops or obey(before.control, reader.commands(before.plan.build)).drop
            ordered(reader, replace(command, drop=self._drops), once=True)
        except BackfillError as error:
            if not (self._drops and only_drops(reader, error)):
                raise
            self.log.warning("the build cannot be read, and is dropped as it is: %s", error)
            return True
        return self._drops or before.phase is not Phase.CANCELLED

    def arguments(self) -> list[str]:
        return ["--drop"] if self._drops else []
