"""Somebody puts an older copy of the target's folder in its place, from a backup, while an attempt works on it."""

from __future__ import annotations

import pytest

from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import TargetDiverged
from airflow_backfill.core.state import effect as fx
from tests.core.builds import upstream
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.tasks import follow


def put_back(model: Model, version: int) -> None:
    del model.target.commits[version + 1 :]
    model._txns = {app: seq for commit in model.target.commits for app, seq in commit.txns.items()}


@pytest.mark.parametrize("lands", [True, False])
def test_no_epoch_is_left_out(lands: bool) -> None:
    """The log then ends before what the attempt has seen, and its round may land on top."""
    model = upstream(2)
    backup = model.target.head
    model.write(times=3)
    model.run(follow(model.source.head))
    model.write()
    attempt = model.start(follow(model.source.head))
    while not isinstance(attempt.until(fx.CommitRecord).work, fx.ApplyEpochs):
        attempt.step()
    if not lands:
        attempt.step()
    put_back(model, backup)
    with pytest.raises(TargetDiverged, match=f"ends at version {backup + lands}, "):
        attempt.finish()

    if lands:
        with pytest.raises(TargetDiverged, match=f"RESTORE TABLE .* TO VERSION AS OF {backup}, "):
            model.run(follow(model.source.head))
        model.foreign("RESTORE", restored=backup)
        Running(model, recover(model.attempt())).finish()
    model.works.clear()
    assert model.run(follow(model.source.head)).applied == model.source.head
    taken = [epoch for work in model.works if isinstance(work, fx.ApplyEpochs) for epoch in work.epochs]
    assert taken == list(range(model.source.head - 3, model.source.head + 1))
