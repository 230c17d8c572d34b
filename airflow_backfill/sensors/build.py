"""The base of all sensors of builds: they read without a JVM, in a worker or in a trigger."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowSensorTimeout

from airflow_backfill.core.errors import GateTimeout
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.values.options import flag
from airflow_backfill.failure import decided
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.links.target import TargetLink
from airflow_backfill.notifications.shown import WAITING, show
from airflow_backfill.watching.fired import say_error
from airflow_backfill.watching.patience import PATIENCE_POLLS, Patience
from airflow_backfill.watching.watched_build import WatchedBuild

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

GRACE = timedelta(minutes=5)
"""How late a trigger may be: a triggerer needs time to start."""


class BuildSensor(BaseSensorOperator):
    """
    Waits for a committed fact in a target's log. Its own log and its task state say what it waits for.

    :param target: location of the target table. (templated)
    :param build: id of the build; by default the target's newest build. (templated)
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
    :param deferrable: whether to wait in the triggerer.
    """

    template_fields: Sequence[str] = ("target", "build", "ledger_conn_id")
    operator_extra_links = (TargetLink(),)
    ui_color = "#e9e2f3"

    def __init__(
        self,
        *,
        target: str,
        build: str | None = None,
        ledger_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.build = build
        self.ledger_conn_id = ledger_conn_id
        self.deferrable = flag("deferrable", deferrable)
        self._told: tuple[str, ...] = ()

    @cached_property
    def watched(self) -> WatchedBuild:
        """The build, read anew by each poll, and each fact of it once."""
        return WatchedBuild(LedgerHook(self.ledger_conn_id), self.target, self.build)

    @cached_property
    def patience(self) -> Patience:
        """Borne by a task that polls itself. The others have a trigger that bears it, or a process for each poll."""
        return Patience(self.log, 1 if self.deferrable or self.reschedule else PATIENCE_POLLS)

    @abstractmethod
    def look(self) -> Any:
        """The result of the sensor, or Waiting with the reasons."""

    @abstractmethod
    def trigger(self, deadline: float) -> BaseTrigger:
        """The trigger that fires when the sensor can open, at ``deadline`` (seconds since 1970) at the latest."""

    def polling(self, deadline: float) -> dict[str, Any]:
        """The arguments of a trigger that polls this build."""
        names = ("target", "build", "ledger_conn_id", "poke_interval")
        return {"deadline": deadline, **{name: getattr(self, name) for name in names}}

    def late(self) -> Any:
        """The result after ``timeout``; GateTimeout unless a sensor overrides it."""
        reasons = list(self._told)
        raise GateTimeout(
            f"timed out after {timedelta(seconds=self.timeout)}, still waiting: {'; '.join(reasons)}", reasons=reasons
        )

    def execute(self, context: Context) -> Any:
        with decided(context):
            if self.deferrable:
                return self._look_or_defer(context, time.time() + self.timeout)
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                return self.late()

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume. If the trigger has not fired by its deadline, because no triggerer ran, this is what it would do."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout:
            return self.resumed(context, {"deadline": self.deadline(context)})

    def deadline(self, context: Context) -> float:
        """The end of a wait whose trigger was lost, in seconds since 1970: it is over."""
        return 0.0

    def resumed(self, context: Context, event: dict[str, Any]) -> Any:
        """Resume after the trigger fired."""
        say_error(self.log, event)
        with decided(context):
            return self._look_or_defer(context, event["deadline"])

    def poke(self, context: Context) -> PokeReturnValue:
        found = self.patience.ask(self.look)
        if self.patience.error is not None:
            return PokeReturnValue(False)
        if not isinstance(found, Waiting):
            return PokeReturnValue(True, found)
        if found.reasons != self._told:
            self.log.info("waiting: %s", "; ".join(found.reasons))
            show(context, WAITING, list(found.reasons))
            self._told = found.reasons
        return PokeReturnValue(False)

    def _look_or_defer(self, context: Context, deadline: float) -> Any:
        found = self.poke(context)
        if found.is_done:
            return found.xcom_value
        if time.time() >= deadline:
            return self.late()
        self.defer(
            trigger=self.trigger(deadline),
            method_name="resumed",
            # The trigger fires at the deadline by itself; this timeout is for one that hangs, or has no triggerer.
            timeout=timedelta(seconds=deadline - time.time() + 10 * self.poke_interval) + GRACE,
        )
