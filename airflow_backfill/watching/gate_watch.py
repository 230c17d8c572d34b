"""Reads a build that is on its way to the gate: for the sensor, the operator that consumes the log, and their triggers.

Only its plain data is sent to a triggerer. What it remembers saves requests in the next poll; where that is lost, it is
read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any

from airflow_backfill.core.errors import Rejected
from airflow_backfill.core.gates.gate import (
    Broken,
    Conditions,
    Verdict,
    Waiting,
    decide,
    decide_by_record,
    observed_upto,
)
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.gates.window import Window
from airflow_backfill.core.reports.summary import told
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.chain import unannounced
from airflow_backfill.core.values.control import obey
from airflow_backfill.core.values.phase import BUILDING, Phase
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.watching.conditions import high_water
from airflow_backfill.watching.instance import Instance
from airflow_backfill.watching.watched_build import WatchedBuild


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a poll: the committed state, and the gate's verdict."""

    state: BuildState
    verdict: Verdict
    wake: bool
    """Whether the task has something to do, if only to renew the record."""
    progress: Mapping[str, Any]
    """What people are told of the build."""

    @property
    def only_lag(self) -> bool:
        """Whether the gate waits only for pending epochs to be applied."""
        verdict = self.verdict
        return isinstance(verdict, Waiting) and verdict.lag and len(verdict.reasons) == 1


@dataclass
class GateWatch:
    """The build to watch, and the conditions of its gate. A poll costs the same whatever is pending."""

    target: str
    max_lag: MaxLag
    build: str | None = None
    window: Window | None = None
    approval: Instance | None = None
    ledger_conn_id: str | None = None

    @cached_property
    def _build(self) -> WatchedBuild:
        return WatchedBuild(LedgerHook(self.ledger_conn_id), self.target, self.build)

    def gate(self) -> Observation:
        """The gate's verdict with the lag of the newest barrier."""
        now = now_ms()
        state = self._build.state()
        if state.phase not in BUILDING:
            return self._over(state, now)
        source = self._build.source(state)
        if observed_upto(state, source) is None:
            source = self._build.stopped(state, source)
        progress = told(state, source, None, now)
        verdict = decide_by_record(state, source, self._build.commands(state), self._conditions(now), now)
        return Observation(state, verdict, not isinstance(verdict, Waiting), progress)

    def live(self) -> Observation:
        """The gate's verdict with the current lag, and whether the task has something to do."""
        now = now_ms()
        state = self._build.state()
        if state.phase not in BUILDING:
            return self._over(state, now)
        commands = self._build.commands(state)
        source = self._build.stopped(state, self._build.source(state))
        progress = told(state, source, None, now)
        approval = self.approval.state() if self.approval is not None else "success"
        if approval in ("failed", "upstream_failed", "skipped", "removed"):
            return Observation(
                state,
                Broken(Rejected(f"the hand-off was not approved: its approval task is {approval}", state=approval)),
                True,
                progress,
            )
        conditions = replace(self._conditions(now), approved=approval == "success")
        stopped = obey(state.control, commands).at(now).stopped
        observed = Observation(state, decide(state, source, commands, conditions, now), True, progress)
        if not isinstance(observed.verdict, Waiting) or (observed.only_lag and not stopped):
            return observed
        far = decide(state, source, commands, replace(conditions, max_lag=high_water(self.max_lag)), now)
        behind = isinstance(far, Waiting) and far.lag and not stopped
        unsealed = state.phase is Phase.SNAPSHOT  # the task before was passed over: nothing else would say so
        return replace(observed, wake=unsealed or behind or unannounced(state, source) or self._build.aging(state, now))

    def _over(self, state: BuildState, now: int) -> Observation:
        """Of a build that has passed its gate, or was cancelled. Its source is not looked at: when a finished build is
        run or cleared again, the source's history may be gone, or all of it.
        """
        nothing = Glance(state.plan.source.table_id, state.reached, state.reached)
        verdict = decide(state, nothing, self._build.commands(state), self._conditions(now), now)
        return Observation(state, verdict, True, told(state, nothing, None, now))

    def _conditions(self, now: int) -> Conditions:
        return Conditions.at(now, self.max_lag, self.window)

    def to_json(self) -> dict[str, Any]:
        approval = self.approval
        return {
            "target": self.target,
            "max_lag": [self.max_lag.epochs, self.max_lag.age],
            "build": self.build,
            "window": None if self.window is None else self.window.to_json(),
            "approval": None if approval is None else list(astuple(approval)),
            "ledger_conn_id": self.ledger_conn_id,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> GateWatch:
        window, approval = value["window"], value["approval"]
        return GateWatch(
            target=value["target"],
            max_lag=MaxLag(*value["max_lag"]),
            build=value["build"],
            window=None if window is None else Window.from_json(window),
            approval=None if approval is None else Instance(*approval),
            ledger_conn_id=value["ledger_conn_id"],
        )
