"""Attempts in a model of both tables: what the tests of attempts have in common."""

from __future__ import annotations

from collections import Counter

from airflow_backfill.core.state.effect import AppendFiles, ApplyEpochs
from tests.core.model_target import Model


def events(model: Model) -> list[str]:
    return [record.event.value for record in model.records()]


def files_read(model: Model) -> Counter[int]:
    """How often each file is in the target."""
    works = [work for work in model.works if isinstance(work, AppendFiles)]
    return Counter(n for work in works for first, stop in work.runs for n in range(first, stop))


def epochs_applied(model: Model) -> Counter[int]:
    """How often each epoch is in the target."""
    works = [work for work in model.works if isinstance(work, ApplyEpochs)]
    return Counter(e for work in works for e in range(work.epochs.start, work.epochs.stop) if work.bucket == 0)
