"""Lets a build go on without its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.operators.order import OrderOperator


class RecoverOperator(OrderOperator):
    """
    Lets a build go on without its records, as ``table-backfill recover`` does; a verification must follow.

    :param epoch: the source's epoch at which the target's rows stand. (templated)
    """

    entry_point = Errand.RECOVER.value
    template_fields: Sequence[str] = (*OrderOperator.template_fields, "epoch")

    def __init__(self, *, epoch: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch

    def admit(self, signed: Signature) -> bool:
        if not str(self.epoch).isdecimal():
            raise invalid("epoch", self.epoch, "must be the number of an epoch, 0 or more")
        return super().admit(signed)

    def arguments(self) -> list[str]:
        return ["--epoch", str(self.epoch)]
