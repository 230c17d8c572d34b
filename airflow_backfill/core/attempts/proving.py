"""The proof of a build, and one without a commit: for a build that works meanwhile, or has been handed over."""

from __future__ import annotations

from airflow_backfill.core.errors import BackfillError, NotAllowedNow, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.source.identity import check_history
from airflow_backfill.core.state.effect import Asks, ReadSourceLog, VerifyTarget
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.differing import how_many_differ
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash


def compared(state: BuildState, asked: VerifyTarget) -> Asks[Certificate]:
    """The certificate of a comparison. If it fails because the source was replaced meanwhile, raises SourceReplaced."""
    try:
        return (yield from asked)
    except BackfillError as error:
        if not error.retry:
            source = yield from ReadSourceLog(state.reached)
            check_history(state.plan, source, state.reached, state.stands)
        raise


def prove(build: str | None, row_hash: RowHash, *, full: bool = False) -> Asks[Certificate]:
    """The certificate of the newest epoch at which the whole target stands. Writes nothing and fences nobody.

    Raises NotAllowedNow if the target stands at no epoch, VerificationFailed if its rows differ, SourceReplaced if the
    source no longer has the history that the target was built from.
    """
    state = yield from load(build)
    if state.applied is None or state.part is not None:
        raise NotAllowedNow(
            "the target stands at no epoch now: its snapshot is not complete, or an epoch is applied in parts; prove "
            "it when status shows an applied epoch",
            phase=state.phase.value,
        )
    no_rows = state.totals.records_without_row
    check_history(state.plan, (yield from ReadSourceLog(state.applied)), state.applied, state.stands)
    anew = full or row_hash is not RowHash.TYPED or state.recovered is not None
    kind = ProofKind.FULL if anew else state.plan.spec.proof
    asked = VerifyTarget(state.applied, state.proven, state.positions, row_hash, kind, no_rows)
    try:
        return (yield from compared(state, asked))
    except VerificationFailed as failed:
        counts, target = failed.data.get("counts"), state.plan.spec.target
        if state.phase is Phase.CATCH_UP or not state.plan.spec.key or counts is None:
            raise
        way_out = (
            f"to rewrite these keys, stop the build's tasks, run `table-backfill recover {target} --epoch "
            f"{state.applied} --why REASON` and `table-backfill repair {target} --why REASON`, then clear what you "
            "stopped and the tasks after it (after the hand-off: verify and finish first)"
            if state.plan.splits.recoverable
            else "plan the build again with on_existing='restart'"
        )
        raise VerificationFailed(
            f"{how_many_differ(counts, keyed=True)}: the target is not the transformed source at epoch "
            f"{state.applied}; {way_out}",
            **failed.data,
        ) from failed
