"""Which orders a build refuses: those that could have no effect in its phase. One decision for the command line, the
operators and the page in Airflow.
"""

from __future__ import annotations

from airflow_backfill.core.attempts.goals import RepairGoal
from airflow_backfill.core.errors import BackfillError, Cancelled, NotAllowedNow
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.strategy import strategy_of
from airflow_backfill.core.values.control import Command, Errand, Verb
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.signature import Signature


def refusal(order: Verb | Errand, state: BuildState) -> BackfillError | None:
    """Why the order could have no effect on the build now; None if it may be given."""
    match order:
        case Errand.RECOVER:
            return None
        case Errand.REPAIR:
            return _raised(state)
        case Errand.PROVE:
            stands = state.applied is not None and state.part is None
            return None if stands else _refused(state, "prove: the target stands at no epoch now; wait for one")
        case Errand.EXPLAIN:
            return None if state.plan.explains else _refused(state, "explain: the build has no key")
    if state.phase is Phase.CANCELLED and order is not Verb.CANCEL:
        return _refused(state, f"{order.value}: {Cancelled().message}")
    finished = state.phase in (Phase.FINISHED, Phase.UPSTREAM)
    if finished and order is Verb.CANCEL:
        return _refused(state, "cancel: the build is finished, so there is nothing to cancel")
    if (finished or state.phase is Phase.CATCH_UP) and order in (Verb.HOLD, Verb.RELEASE):
        return _refused(state, f"{order.value}: the build has passed its gate, so the command has no effect")
    useless = strategy_of(state.plan).useless(order, state) if isinstance(order, Verb) else None
    return None if useless is None else _refused(state, f"{order.value}: {useless}")


def check_reason(order: Command | Errand, signed: Signature) -> None:
    """InvalidSpec unless an order that deletes or rewrites rows has a reason."""
    destroys = order.drop if isinstance(order, Command) else not order.looks
    if destroys and signed.why is None:
        name = "cancel with drop" if isinstance(order, Command) else order.value
        fix = f"{name} deletes or rewrites rows of the target: give a reason for the log of commands (--why REASON)"
        raise invalid("why", None, fix)


def _raised(state: BuildState) -> BackfillError | None:
    try:
        RepairGoal().check(state)
    except BackfillError as error:
        return _refused(state, f"repair: {error.message}")
    return None


def _refused(state: BuildState, message: str) -> NotAllowedNow:
    return NotAllowedNow(message, phase=state.phase.value)
