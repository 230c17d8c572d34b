"""What the shell does if a store does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.state import effect as fx
from airflow_backfill.spark.run.interpreter import READS_AGAIN, Shell

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("failures", [len(READS_AGAIN), len(READS_AGAIN) + 1])
def test_a_store_is_asked_again_for_a_minute_and_a_half(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    shell, answers, waited = Shell(spark, str(tmp_path / "target")), iter(range(100)), list[float]()

    def answer(effect: fx.Effect[Any]) -> int:
        if (number := next(answers)) < failures:
            raise SourceUnavailable("503 Slow Down")
        return number

    monkeypatch.setattr(shell.reader, "answer", answer)
    monkeypatch.setattr(shell.stopped, "wait", waited.append)
    if failures > len(READS_AGAIN):
        with pytest.raises(SourceUnavailable):
            shell.answer(fx.ReadHead())
    else:
        assert shell.answer(fx.ReadHead()) == failures
    assert waited == list(READS_AGAIN) and 60 < sum(waited) < 90
