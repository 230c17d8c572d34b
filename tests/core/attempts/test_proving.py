"""A proof on request: in which states it is possible, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.errors import NotAllowedNow, SourceReplaced, TargetDiverged, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash
from tests.core.builds import finished, logged, planned, sealed, upstream
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.tasks import CONSUME, V


def proven(model: Model, row_hash: RowHash = RowHash.TYPED) -> Certificate:
    certificate: Certificate = Running(model, prove(None, row_hash)).finish()
    return certificate


def while_(verb: Verb) -> Model:
    """The log is consumed, and the command is in force."""
    model = logged()
    model.order(Command(verb))
    attempt = model.start(CONSUME)
    while not attempt.ended and not isinstance(attempt.waits_at, fx.SleepUntil):
        attempt.step()
    control = model.state().control
    assert (control.held, control.paused) == (verb is Verb.HOLD, verb is Verb.PAUSE)
    return model


@pytest.mark.parametrize(
    ("make", "epoch"),
    [
        *((sealed, V), (logged, V + 3), (finished, V), (lambda: upstream(2), V + 2)),
        *((lambda: while_(Verb.HOLD), V + 3), (lambda: while_(Verb.PAUSE), V + 3)),
    ],
    ids=["sealed", "consume_log", "finished", "upstream", "held", "paused"],
)
def test_it_is_proven_where_it_stands_and_goes_on(make: Callable[[], Model], epoch: int) -> None:
    model = make()
    before, head = model.state(), model.target.head
    assert proven(model).epoch == epoch
    assert (model.state(), model.target.head) == (before, head)
    wanted = [effect for effect in model.effects if isinstance(effect, fx.VerifyTarget)][-1]
    assert (wanted.target_version, wanted.positions, wanted.kind) == (head, before.positions, ProofKind.FULL)


def test_a_snapshot_that_is_not_complete_stands_nowhere() -> None:
    with pytest.raises(NotAllowedNow, match="stands at no epoch"):
        proven(planned())


def test_a_foreign_change_of_rows_is_named_first() -> None:
    model = logged()
    model.foreign("DELETE", data_change=True)
    with pytest.raises(TargetDiverged):
        proven(model)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_source_that_is_replaced_meanwhile_is_the_error(replaced: bool) -> None:
    model = upstream(2)
    attempt = Running(model, prove(None, RowHash.TYPED))
    attempt.until(fx.VerifyTarget)
    if replaced:
        model.alter(table_id="source-2")
    attempt.step(VerificationFailed("rows differ"))
    with pytest.raises(SourceReplaced if replaced else VerificationFailed):
        attempt.finish()


@pytest.mark.parametrize("counts", [{"missing": 3}, None])
@pytest.mark.parametrize("recoverable", [True, False])
def test_the_way_out_leads_through_a_recovery(
    monkeypatch: pytest.MonkeyPatch, recoverable: bool, counts: dict[str, int] | None
) -> None:
    """Where one is possible (not of a topic), and where it helps: what has not landed is no row that differs."""
    model, data = upstream(2), {} if counts is None else {"counts": counts}
    answer = Model.answer

    def differs(self: Model, effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.VerifyTarget):
            raise VerificationFailed("do this", **data)
        return answer(self, effect)

    monkeypatch.setattr(Model, "answer", differs)
    monkeypatch.setattr(type(model.state().plan.splits), "recoverable", recoverable)
    way_out = f"recover .* --epoch {V + 2}" if recoverable else "on_existing='restart'"
    with pytest.raises(VerificationFailed, match="do this" if counts is None else f"missing.*{way_out}") as failed:
        proven(model)
    assert failed.value.data == data and ("recover" in failed.value.message) == (counts is not None and recoverable)
