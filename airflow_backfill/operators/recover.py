"""Lets a build go on after its target was restored, or without its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.operators.order import OrderOperator
from airflow_backfill.operators.signed import number


class RecoverOperator(OrderOperator):
    """
    Lets a build go on whose target was restored or whose records are lost, as ``table-backfill recover`` does.

    :param epoch: the source's epoch at which the target's rows stand; a verification must follow. None if the target
        was restored to one of its versions: the build goes on from there. (templated)
    """

    entry_point = Errand.RECOVER.value
    template_fields: Sequence[str] = (*OrderOperator.template_fields, "epoch")

    def __init__(self, *, epoch: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch

    def admit(self, signed: Signature) -> bool:
        self.arguments()
        return super().admit(signed)

    def arguments(self) -> list[str]:
        epoch = number("epoch", self.epoch)
        return [] if epoch is None else ["--epoch", str(epoch)]
