"""What an explanation says, whatever the source is: the build, the key, what the target holds and what it should."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.state.state import BuildState
from airflow_backfill.spark.explain.values import Values, hidden, naming_errors, target_rows
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.transform.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TARGET_COMMITS = 10_000
"""Commits of the target in which the one that applied a change is looked for."""


def held_rows(spark: SparkSession, state: BuildState, transform: Transform, key: KeyValue) -> list[Values]:
    """The target's rows of a key."""
    with naming_errors():
        rows = open_source(spark, state.plan.spec.target).at(state.proven)
    names = transform.target_key(state.plan.spec.key)
    return target_rows(rows.where(key.matches(names)), transform)


def answer(
    state: BuildState,
    key: KeyValue,
    looked_at: Mapping[str, Any],
    holds: Sequence[Values],
    should: Sequence[Values] | None,
    verdict: tuple[str, str],
) -> dict[str, Any]:
    """The explanation as plain JSON. ``looked_at``: what depends on the kind of source."""
    spec = state.plan.spec
    said, why = verdict
    return {
        "target": spec.target,
        "source": spec.source,
        "build": state.plan.build,
        "strategy": spec.strategy,
        "key": dict(zip(key.names, key.texts, strict=True)),
        **looked_at,
        "applied": state.applied,
        "target_version": state.proven,
        "holds": holds,
        "should_hold": should,
        "verdict": said,
        "why": why,
    }


def hidden_rows(found: Mapping[str, Any], shown: Collection[str]) -> dict[str, Any]:
    """What the target holds and should hold, without values, except those of the columns ``shown``."""
    should = found["should_hold"]
    return {
        "holds": [hidden(row, shown) for row in found["holds"]],
        "should_hold": None if should is None else [hidden(row, shown) for row in should],
    }
