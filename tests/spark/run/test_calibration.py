from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.spark.preflight.table import inspect_source
from airflow_backfill.spark.run import calibration
from airflow_backfill.spark.run.calibration import Work, calibrated
from airflow_backfill.spark.target_table import apply
from tests.spark.history import Source


def test_the_first_time_warms_up_and_the_faster_one_of_the_others_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lasting = [0.0], iter([3.0, 1.5, 1.0])
    monkeypatch.setattr(calibration.time, "monotonic", lambda: clock[0])

    def do() -> None:
        clock[0] += next(lasting)

    work = Work(do)
    assert clock[0] == 3.0, "once at first"
    assert work.seconds == work.seconds == 1.0 and work.warm_up == 2.0


def merged(source: Source) -> None:
    for start in (0, 10, 20):
        source.merge(source.rows(start, start + 20, "merged"))


def added(source: Source) -> None:
    for start in (1_000, 1_010, 1_020):
        source.append(start, start + 10)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("change", "key", "merges"),
    [(merged, True, True), (added, True, False), (added, False, False)],
)
def test_changes_are_applied_as_the_source_needs_it(
    change: Callable[[Source], None],
    key: bool,
    merges: bool,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(source)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    called = []

    def spied(name: str) -> Callable[..., Any]:
        real = getattr(apply, name)

        def call(*of: Any, **named: Any) -> Any:
            called.append(name)
            return real(*of, **named)

        return call

    for name in ("merge", "append"):
        monkeypatch.setattr(apply, name, spied(name))
    options = {"name": "build", "source": source.path, "target": "/target", "select": list(source.columns)}
    spec = BackfillSpec.parse(
        {**options, "key": [source.key] if key else [], "strategy": "snapshot" if key else "chain"}
    )
    speeds = calibrated(source.spark, inspect_source(source.spark, spec))
    assert speeds.measured and speeds.copy_bytes > 0 and speeds.round_seconds > 0
    copies, changes = 3, 6 if key else 0
    assert called.count("merge") == (changes if merges else 0)
    assert called.count("append") == copies + (0 if merges else changes)
    assert [path.name for path in tmp_path.iterdir()] == ["source"], "nothing is left"
