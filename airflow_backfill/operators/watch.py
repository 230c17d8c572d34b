"""Looks at builds that may have no task which could tell that they need a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Variable

from airflow_backfill.builds.folder import read_all, targets_below
from airflow_backfill.builds.glance import glance
from airflow_backfill.core.errors import BackfillError, NotPlanned, SourceUnavailable
from airflow_backfill.core.values.options import checked, invalid
from airflow_backfill.failure import decided
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_store import StoreOptions
from airflow_backfill.notifications.metrics import tell_progress
from airflow_backfill.notifications.warnings import (
    Callbacks,
    Warnings,
    callbacks_in,
    due,
    times_told,
    unattended,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

_Told = dict[str, dict[str, int]]
"""By target and kind of warning: when it was told, in milliseconds since 1970."""


class WatchOperator(BaseOperator):
    """
    Looks once at many builds, and tells which of them need a person: also those whose task has failed for good, whose
    DAG is paused, or whose machine has died. Give it a DAG of its own that runs every few minutes. It also sends the
    builds' metrics. It reads only, and starts no Spark.

    What is told is not told again for a day while it lasts: Airflow's variable ``table_backfill_watch/DAG/TASK`` says
    when that was. A build that cannot be read fails the task, after the others were told. Returns the builds that need
    attention, each with the messages of its warnings.

    :param folder: looks at every build below this folder. (templated)
    :param targets: looks at the builds of these targets. Name one of both. (templated)
    :param on_warning_callback: called for each warning: a notifier, a function of the context, or a list of them. The
        context has ``warning``: ``kind`` (``attention``, ``idle``, ``retention``, ``stuck`` or ``lag``), ``message``,
        ``name`` and ``target``.
    :param warn_lag: how long the oldest pending epoch may be pending; by default there is no warning.
    :param warn_idle: how long no application may run although one is due; None for no warning.
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
        (templated)
    """

    template_fields: Sequence[str] = ("folder", "targets", "ledger_conn_id")
    ui_color = "#f5e6d3"

    def __init__(
        self,
        *,
        folder: str | None = None,
        targets: Sequence[str] | None = None,
        on_warning_callback: Callbacks = None,
        warn_lag: timedelta | None = None,
        warn_idle: timedelta | None = timedelta(hours=1),
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        callbacks_in(on_warning_callback)
        self.folder = folder
        self.targets = targets
        self.on_warning_callback = on_warning_callback
        self.warn_lag = warn_lag
        self.warn_idle = warn_idle
        self.ledger_conn_id = ledger_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        with decided(context):
            return self._watch(context)

    def _watch(self, context: Context) -> list[dict[str, Any]]:
        options = LedgerHook(self.ledger_conn_id).options
        warnings = Warnings(context, self.log, self.on_warning_callback, self.warn_lag)
        name = f"table_backfill_watch/{self.dag_id}/{self.task_id}"
        told = self._told(name)
        found: list[dict[str, Any]] = []
        unread: dict[str, BackfillError] = {}
        now_told: _Told = {}
        targets = self._wanted(options)
        for target, answer in read_all(targets, lambda target: _glanced(target, options)):
            before = told.get(target, {})
            if isinstance(answer, BackfillError):
                if not isinstance(answer, NotPlanned):
                    unread[target] = answer
                    now_told[target] = before
                continue
            said, now_told[target] = self._tell(answer, before, warnings)
            if said:
                found.append({"target": target, "name": answer.get("name"), "warnings": said})
        now_told = {target: kinds for target, kinds in now_told.items() if kinds}
        if now_told != told:
            Variable.set(name, now_told, serialize_json=True)
        if unread:
            target, error = next(iter(unread.items()))
            raise SourceUnavailable(f"{len(unread)} of {len(targets)} builds cannot be read; {target}: {error}")
        self.log.info("%d of %d builds need attention", len(found), len(targets))
        return found

    def _wanted(self, options: StoreOptions) -> Sequence[str]:
        if (self.folder is None) == (self.targets is None):
            raise invalid("folder", self.folder, "or targets must be named, and not both")
        if self.folder is not None:
            return targets_below(checked("folder", self.folder), options)
        if isinstance(self.targets, str) or not self.targets:
            raise invalid("targets", self.targets, "must be a list of locations")
        return list(self.targets)

    def _tell(
        self, found: Mapping[str, Any], told: Mapping[str, int], warnings: Warnings
    ) -> tuple[dict[str, str], dict[str, int]]:
        """What has to be said of a build, and when each kind was told. What does not hold any more is forgotten."""
        if found.get("lag") is not None:
            tell_progress(found)
        idle = None if self.warn_idle is None else self.warn_idle.total_seconds()
        said = unattended(found, warnings.warn_lag, idle)
        new = due(said, told, found["seen"])
        warnings.send(new, found)
        return said, {kind: found["seen"] if kind in new else told[kind] for kind in said}

    def _told(self, name: str) -> _Told:
        """What earlier runs have told. What is damaged is told again."""
        try:
            known = Variable.get(name, default=None, deserialize_json=True)
        except ValueError:
            known = None
        stored = known if isinstance(known, Mapping) else {}
        return {target: times_told(kinds, now_ms()) for target, kinds in stored.items()}


def _glanced(target: str, options: StoreOptions) -> dict[str, Any]:
    """A look at a build. SourceUnavailable also if its source cannot be read now: the next look may tell more."""
    found = glance(target, options)
    trouble = found["trouble"]
    if trouble is not None and trouble["retry"]:
        raise SourceUnavailable(trouble["message"])
    return found
