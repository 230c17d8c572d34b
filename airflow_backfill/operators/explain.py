"""Says why a row of a target is as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.values.control import Errand
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.operators.order import OrderOperator
from airflow_backfill.operators.signed import number


class ExplainOperator(OrderOperator):
    """
    Says why a row is as it is, as ``table-backfill explain`` does. The explanation holds values of the row, so it lies
    beside the target, where the page in Airflow reads it for those who may command the build; ``table-backfill clean``
    removes it. The task returns the verdict only. Writes nothing to the target.

    :param key: the key as ``column=value``, for each of its columns: a list, or its JSON. (templated)
    :param since: the first epoch to look at; by default the one after the planned epoch, at most 10,000 before the
        newest. For a topic: the first offset; by default at most 10,000,000 before the newest. (templated)
    """

    entry_point = Errand.EXPLAIN.value
    reads_source = True
    template_fields: Sequence[str] = (*OrderOperator.template_fields, "key", "since")

    def __init__(self, *, key: Sequence[str] | str, since: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key = key
        self.since = since

    def admit(self, signed: Signature) -> bool:
        self.arguments()
        return super().admit(signed)

    def arguments(self) -> list[str]:
        since = number("since", self.since)
        return [*(f"--key={part}" for part in _parts(self.key)), *([] if since is None else ["--since", str(since)])]


def _parts(key: Sequence[str] | str) -> list[str]:
    try:
        found = json.loads(key) if isinstance(key, str) else list(key)
    except (TypeError, ValueError, RecursionError):
        found = None
    if isinstance(found, list) and found and all(isinstance(part, str) and "=" in part for part in found):
        return found
    raise invalid("key", key, "must be column=value, for each column of the key")
