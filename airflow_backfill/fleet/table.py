"""One table of a fleet: its options, or the error in them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable

from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.options import check_known, checked, invalid, location, normal
from airflow_backfill.operators.served import Served
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

_OF_GROUP = [
    name
    for name, parameter in inspect.signature(BackfillTaskGroup.__init__).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "handoff_asset"
]
OPTIONS = (*_OF_GROUP, "follow", "service", "default_args")
"""What a table may have: the options of ``BackfillTaskGroup``, and those that only a fleet has."""
DURATIONS = ("max_lag", "gate_timeout", "warn_lag")


@dataclass(frozen=True)
class Table:
    """A table with checked options, or with ``error``.

    :param group: arguments of its ``BackfillTaskGroup``.
    :param follow: when its follower runs, as cron; None for no follower.
    :param default_args: arguments of all its tasks.
    """

    name: str
    group: Mapping[str, Any]
    follow: str | None
    default_args: Mapping[str, Any]
    error: InvalidSpec | None = None

    def broken(self, error: Exception) -> Table:
        """This table, with the error that keeps it from being built. It names the table."""
        said, data = (error.message, error.data) if isinstance(error, BackfillError) else (str(error), {})
        wrong = InvalidSpec(f"table {self.name}: {said}", **{**data, "table": self.name})
        return Table(self.name, {}, self.follow, {}, wrong)


def tables(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """A table for each document. Of two with the same target, the second one is broken."""
    targets: dict[str, str] = {}
    for name, options in documents.items():
        table = _table(name, options)
        target = normal(str(table.group.get("target")))
        if table.error is None and target in targets:
            fix = f"is the target of table {targets[target]}, too; name another one"
            table = table.broken(invalid("target", table.group["target"], fix))
        targets.setdefault(target, name)
        yield table


def _table(name: str, given: Mapping[str, Any]) -> Table:
    plain = Table(name, {}, None, {})
    options = {option: value for option, value in given.items() if value is not None}
    try:
        check_known(given, OPTIONS)
        follow = _cron(options)
        plain = Table(name, {}, follow, {})
        group = {option: options[option] for option in _OF_GROUP if option in options}
        group |= {option: _duration(option, group[option]) for option in DURATIONS if option in group}
        if "service" in options:
            group["submit"] = Served(location(options, "service"), options.get("ledger_conn_id"))
        _check_spec(name, group)
        default_args = options.get("default_args") or {}
        if not isinstance(default_args, Mapping):
            raise invalid("default_args", default_args, "must be a mapping, such as {pool: spark}")
        return Table(name, group, follow, default_args)
    except (BackfillError, ValueError, TypeError) as error:
        return plain.broken(error)


def _check_spec(name: str, group: Mapping[str, Any]) -> None:
    """InvalidSpec for a wrong spec. One with templates is checked by the plan, which renders them."""
    names = {field.name for field in fields(BackfillSpec)}
    spec = {option: value for option, value in group.items() if option in names}
    if "{{" not in str(spec):
        BackfillSpec.parse({"name": name, **spec})


def _cron(options: Mapping[str, Any]) -> str | None:
    if "follow" not in options:
        return None
    follow = checked("follow", options["follow"])
    try:
        CronTriggerTimetable(follow, timezone="UTC").validate()
    except Exception:
        raise invalid("follow", follow, "must be a cron expression, such as '*/15 * * * *', or null") from None
    return follow


def _duration(option: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    try:
        return timedelta(**value)
    except TypeError:
        raise invalid(option, dict(value), "must be a duration, such as {minutes: 5}") from None
