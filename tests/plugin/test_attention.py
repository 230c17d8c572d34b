"""The order of the overview."""

from __future__ import annotations

import random
from typing import Any

from airflow_backfill.plugin.attention import attention, rank


def build(place: str, condition: str = "working", **given: Any) -> dict[str, Any]:
    health = {"condition": condition, "needs_attention": given.pop("needs_attention", False)}
    told = {"name": place, "target": f"/lake/{place}", "phase": "snapshot", "health": health, "problems": []} | given
    return {**told, "attention": attention(told)}


def test_who_needs_attention_comes_first_and_the_oldest_epoch_next() -> None:
    ordered = [
        build("unreachable", trouble={"code": "SOURCE_UNAVAILABLE"}, lag=None),
        build("zone", "stuck", needs_attention=True),
        build("paused", "paused", lag={"age": 9_000}),
        build("gate", "waiting", lag={"age": 5}),
        build("late", lag={"age": 60_000}),
        build("a table", lag={"age": 10}),
        build("b table", lag={"age": 10}),
        build("finished", "done", phase="finished"),
        build("dropped", "done", phase="dropped", name=None),
    ]
    for seed in range(20):
        shuffled = random.Random(seed).sample(ordered, len(ordered))
        assert [one["target"] for one in sorted(shuffled, key=rank)] == [one["target"] for one in ordered]
