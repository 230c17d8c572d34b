"""The phase that applies the log until the gate can open."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf

from airflow_backfill.core.attempts.goals import ConsumeLogGoal
from airflow_backfill.core.gates.gate import Broken, Ready, Waiting
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import checked, flag, invalid
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.failure import decided
from airflow_backfill.notifications.shown import WAITING, show
from airflow_backfill.operators.rounds import LogRoundsOperator
from airflow_backfill.triggers.lag import LagTrigger
from airflow_backfill.watching.conditions import window_of
from airflow_backfill.watching.fired import say_error
from airflow_backfill.watching.gate_watch import GateWatch
from airflow_backfill.watching.instance import Instance
from airflow_backfill.watching.patience import PATIENCE_POLLS, Patience

if TYPE_CHECKING:
    from airflow.sdk import Context

LEAST_INTERVAL = timedelta(milliseconds=50)
"""Between two polls: with none, a trigger would do nothing else."""


class ConsumeLogOperator(LogRoundsOperator):
    """
    Applies the epochs after the snapshot, until at most ``max_lag`` is pending.

    While a hold, the window or a missing approval keeps the gate closed, the task waits without a worker and without
    Spark. It starts Spark again when twice ``max_lag`` is pending, or a chain has to announce an epoch. So the target
    is fresh when the gate opens.

    :param window: when the hand-off may begin, as for the gate.
    :param approval: id of the task in the same DAG run that approves the hand-off. If that task fails, this one fails
        for good. (templated)
    :param poke_interval: seconds between two polls while it waits.
    :param deferrable: whether to wait in the triggerer.
    """

    entry_point = "consume_log"
    template_fields: Sequence[str] = (*LogRoundsOperator.template_fields, "approval")

    def __init__(
        self,
        *,
        window: Sequence[str] | None = None,
        approval: str | None = None,
        poke_interval: float | timedelta = 30.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = None if window is None else window_of(window)
        self.approval = approval
        self.poke_interval = duration("poke_interval", poke_interval, LEAST_INTERVAL).total_seconds()
        self.deferrable = flag("deferrable", deferrable)

    def task(self) -> ConsumeLogGoal:
        return ConsumeLogGoal(self.size, self.lag, self.patience)

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.applied}

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        watch = self._watch(context)
        patience = Patience(self.log, 1 if self.deferrable else PATIENCE_POLLS)  # the trigger has had its own
        while True:
            observed = patience.ask(watch.live)
            if observed is None:
                time.sleep(self.poke_interval)
                continue
            if self.task().done(observed.state):
                return self.result(observed.state)
            match observed.verdict:
                case Broken(error):
                    raise error
                case Waiting() as waiting if observed.state.phase is not Phase.SNAPSHOT:
                    if ran and observed.only_lag:
                        return self.result(observed.state)  # the application has just ended within max_lag
                    if not observed.wake:
                        self._wait(context, watch, waiting.reasons, observed.progress)
                        ran = False
                        continue
                case Ready():
                    return self.result(observed.state)
            self.check(observed.state)
            self.run_application(context)
            ran = True

    def resumed(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Resume after the trigger fired."""
        say_error(self.log, event)
        with decided(context):
            return self.proceed(context)

    def _wait(self, context: Context, watch: GateWatch, reasons: tuple[str, ...], progress: Mapping[str, Any]) -> None:
        show(context, WAITING, list(reasons))
        self.log.info("the target is fresh; waiting: %s", "; ".join(reasons))
        known = self.warnings(context).tell(progress)
        if self.deferrable:
            trigger = LagTrigger(watch=watch.to_json(), poke_interval=self.poke_interval, **known)
            self.defer(trigger=trigger, method_name="resumed")
        time.sleep(self.poke_interval)

    def _watch(self, context: Context) -> GateWatch:
        ti, approval = context["ti"], None
        if self.approval is not None:
            asks, dag = checked("approval", self.approval), self.get_dag()
            if dag is not None and not dag.has_task(asks):
                raise invalid("approval", asks, "the DAG has no such task, so nobody can approve the hand-off")
            approval = Instance(ti.dag_id, ti.run_id, asks, ti.map_index)
        return GateWatch(self.target, self.lag, self.build, self.window, approval, self.ledger_conn_id)
