"""What a build waits for, as texts."""

from __future__ import annotations

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.throttle_wait import throttle_wait
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.phase import Phase


def waits_for(
    state: BuildState, control: Control, source: Ahead | None, trouble: BackfillError | None, now: int
) -> list[str]:
    """Everything that has to happen before the build goes on; empty if its next task only has to run.

    ``trouble`` is the error that stops the build, if there is one.
    """
    if state.phase is Phase.CANCELLED:
        return ["the plan task: the build was cancelled, and a new plan resumes it"]
    stop = trouble or stopping(state, source)
    operator = [] if stop is None else [f"an operator: {stop}"]
    return [*_commands(state, control, now), *operator, *_phase(state, control)]


def stopping(state: BuildState, source: Ahead | None) -> BackfillError | None:
    """The error of the first pending epoch that will stop the build; None if there is none."""
    epoch = None if source is None else source.stopping(state.reached)
    return None if epoch is None else epoch.stop


def _commands(state: BuildState, control: Control, now: int) -> list[str]:
    throttled = throttle_wait(state, now)
    reasons = []
    if control.cancelled:
        reasons.append("the cancel application: a cancel is ordered")
    if control.number > state.control.number:
        reasons.append(f"the next barrier, which acknowledges commands up to {control.number}")
    if control.paused:
        reasons.append("a resume: the build is paused (table-backfill resume TARGET)")
    if 0 in control.rates:
        reasons.append("another rate: the rate is 0 (table-backfill throttle TARGET RATE)")
    elif control.rates == state.control.rates and throttled:
        reasons.append(f"the throttle: the next round may begin in {-(-throttled // 1000)} s")
    return reasons


def _phase(state: BuildState, control: Control) -> list[str]:
    match state.phase:
        case Phase.SNAPSHOT if state.sealed:
            return ["the consume_log task: the snapshot is read"]
        case Phase.CONSUME_LOG if control.held:
            return ["a release: the gate is on hold (table-backfill release TARGET)"]
        case Phase.CATCH_UP if state.applied == state.handoff:
            proven = state.certificate is not None
            return ["the finish task: the copy is proven"] if proven else [f"the proof at epoch {state.handoff}"]
        case _:
            return []
