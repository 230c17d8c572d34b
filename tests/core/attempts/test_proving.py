"""A proof on request: in which states it is possible, and that it changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.errors import NotAllowedNow, TargetDiverged, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from tests.core.builds import finished, logged, planned, sealed, upstream
from tests.core.model_target import NO_LAG, PATIENCE, Model
from tests.core.running import Running
from tests.core.tasks import V
from tests.core.topic_model import TopicModel


def proven(model: Model, row_hash: RowHash = RowHash.TYPED) -> Certificate:
    certificate: Certificate = Running(model, prove(None, row_hash)).finish()
    return certificate


@pytest.mark.parametrize(
    ("make", "epoch"),
    [(sealed, V), (logged, V + 3), (finished, V), (lambda: upstream(2), V + 2)],
    ids=["sealed", "consume_log", "finished", "upstream"],
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


def refuted(model: Model, monkeypatch: pytest.MonkeyPatch) -> VerificationFailed:
    """The error of a proof that finds a difference."""
    answer = Model.answer

    def differing(self: Model, effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.VerifyTarget):
            raise VerificationFailed("run repair", counts={"missing": 3})
        return answer(self, effect)

    monkeypatch.setattr(Model, "answer", differing)
    with pytest.raises(VerificationFailed, match="missing") as failed:
        proven(model)
    assert failed.value.data["counts"] == {"missing": 3}
    return failed.value


def test_the_way_out_leads_through_a_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(f"recover .* --epoch {V + 2}", refuted(upstream(2), monkeypatch).message)


def test_the_way_out_of_a_topic_leads_through_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TopicModel(5)
    model.spec = replace(model.spec, key=("key",))
    model.plan()
    model.run(SnapshotGoal(0, 1, RoundSize()))
    model.land(0, 0, 5)
    model.run(ConsumeLogGoal(RoundSize(), NO_LAG, PATIENCE))
    message = refuted(model, monkeypatch).message
    assert "on_existing='restart'" in message and "recover" not in message
