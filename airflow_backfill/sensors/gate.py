"""The gate between consuming the log and catching up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.sdk import PokeReturnValue
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.core.gates.gate import Broken, Waiting
from airflow_backfill.core.gates.max_lag import MAX_LAG
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import invalid
from airflow_backfill.failure import decided
from airflow_backfill.notifications.warnings import Callbacks, Warnings, callbacks_in
from airflow_backfill.sensors.build import BuildSensor
from airflow_backfill.watching.conditions import lag_arguments, max_lag_of, window_of
from airflow_backfill.watching.gate_watch import GateWatch, Observation

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

DEADLINE = "deadline"
"""The key in ``task_state_store`` of the end of the wait, in seconds since 1970."""


class Refresher(Protocol):
    """A task whose application applies and announces epochs: ``ConsumeLogOperator``."""

    def render_template_fields(self, context: Context) -> None: ...
    def check(self, state: BuildState) -> None: ...
    def run_application(self, context: Context) -> Any: ...
    def waits(self, context: Context) -> bool: ...
    def resume_application(self, context: Context, failed: str | None = None, /, **kwargs: Any) -> Any: ...
    def on_kill(self) -> None: ...


class GateSensor(BuildSensor):
    """
    Opens when the hand-off may begin: at most ``max_lag`` is pending, no hold is in force, and the window is open.
    Fails for good if the build cannot go on.

    The lag is the one in the build's newest record. A gate with ``consume_log`` keeps the target fresh while it waits:
    it runs that task's application when twice ``max_lag`` is pending, or a chain has to announce an epoch, within
    ``poke_interval``. Without it no epoch is applied or announced while the gate waits.

    :param max_lag: how much of the log may be pending: a number of epochs, or the age of the oldest one.
    :param window: when the hand-off may begin: two times of day and a time zone, e.g.
        ``("22:00", "06:00", "Europe/Berlin")``. By default any time.
    :param consume_log: the task that applied the log before the gate. Its application runs on the gate's worker, which
        therefore needs what the worker of that task needs, such as spark-submit.
    :param on_warning_callback: called, with the context and ``warning`` in it, when the build needs a look: a notifier,
        a function, or a list of them. See "Notifications" in the documentation.
    :param warn_lag: how long the oldest pending epoch may be pending before a warning is sent; by default none is.
    """

    entry_point: ClassVar[str] = "gate"

    def __init__(
        self,
        *,
        max_lag: int | timedelta = MAX_LAG,
        window: Sequence[str] | None = None,
        consume_log: Refresher | None = None,
        on_warning_callback: Callbacks = None,
        warn_lag: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_lag = max_lag_of(max_lag)
        self.window = None if window is None else window_of(window)
        if consume_log is not None and not hasattr(consume_log, "run_application"):
            raise invalid("consume_log", consume_log, "must be a ConsumeLogOperator, and not a mapped one")
        self.consume_log = consume_log
        self.on_warning_callback = callbacks_in(on_warning_callback)
        self.warn_lag = None if warn_lag is None else duration("warn_lag", warn_lag)
        self._rendered = False
        self._progress: Mapping[str, Any] | None = None
        self._observed: Observation | None = None  # for the consumer of the log, by the last look
        self._known: dict[str, Any] = {}

    def settings(self) -> list[str]:
        """The arguments of this gate in an application that goes on through it."""
        window = ["--window", *self.window.to_json()] if self.window is not None else []
        return [*lag_arguments(self.max_lag), *window]

    @cached_property
    def watch(self) -> GateWatch:
        return GateWatch(
            target=self.target,
            max_lag=self.max_lag,
            build=self.build,
            window=self.window,
            ledger_conn_id=self.ledger_conn_id,
        )

    def execute(self, context: Context) -> Any:
        context["task_state_store"].delete(DEADLINE)  # of the try before
        return super().execute(context)

    def look(self) -> Any:
        observed = self.watch.gate()
        self._progress = observed.progress
        match observed.verdict:
            case Waiting() as waiting:
                self._observed = None if self.consume_log is None else self.watch.live()
                return waiting
            case Broken(error):
                raise error
            case ready:
                return {"target": self.target, "build": self.build, "epoch": ready.epoch}

    def poke(self, context: Context) -> PokeReturnValue:
        found = super().poke(context)
        if self.patience.error is not None:
            return found
        if self._progress is not None:
            warnings = Warnings(context, self.log, self.on_warning_callback, self.warn_lag)
            self._known = warnings.tell(self._progress)
        observed = self._observed
        if found.is_done or observed is None or not observed.wake:
            return found
        refresher = self._refresher(context)
        refresher.check(observed.state)
        refresher.run_application(context)
        return super().poke(context)

    def trigger(self, deadline: float) -> BaseTrigger:
        from airflow_backfill.triggers.gate import GateTrigger
        from airflow_backfill.triggers.lag import LagTrigger

        kind = GateTrigger if self.consume_log is None else LagTrigger
        return kind(watch=self.watch.to_json(), deadline=deadline, poke_interval=self.poke_interval, **self._known)

    def launcher_resumed(self, context: Context, **kwargs: Any) -> Any:
        """Resume after the operator that runs the application was deferred. A gate that did not wait in the triggerer
        before does so from now on.
        """
        failed = kwargs.get(TRIGGER_FAIL_REPR)
        with decided(context):
            deadline = self.deadline(context)
            if failed is None:
                self._refresher(context).resume_application(context, **kwargs)
            else:
                self._refresher(context).resume_application(context, TRIGGER_FAIL_REPR, **failed)
            return self._look_or_defer(context, deadline)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume. If the trigger of the application has failed, its outcome counts all the same."""
        failed = (next_kwargs or {}).get("error") == TriggerFailureReason.TRIGGER_FAILURE
        if failed and self.consume_log is not None and self.consume_log.waits(context):
            next_method, next_kwargs = "launcher_resumed", {TRIGGER_FAIL_REPR: next_kwargs}
        return super().resume_execution(next_method, next_kwargs, context)

    def deadline(self, context: Context) -> float:
        """The end of the wait: the trigger that was lost may be that of an application."""
        known = context["task_state_store"].get(DEADLINE)
        return float(known) if isinstance(known, (int, float)) else time.time() + self.timeout

    def on_kill(self) -> None:
        if self.consume_log is not None:
            self.consume_log.on_kill()

    def _look_or_defer(self, context: Context, deadline: float) -> Any:
        context["task_state_store"].set(DEADLINE, deadline, retention=NEVER_EXPIRE)
        return super()._look_or_defer(context, deadline)

    def _refresher(self, context: Context) -> Refresher:
        assert self.consume_log is not None
        if not self._rendered:
            self.consume_log.render_template_fields(context)
            self._rendered = True
        return self.consume_log
