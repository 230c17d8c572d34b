"""The forecast of a plan: more work takes longer, a log that is too fast is said so, and nothing divides by zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.kafka.topic_retention import TopicExpiry, TopicRetention
from airflow_backfill.core.reports import forecast as forecasts
from airflow_backfill.core.reports.forecast import RECENT, Work, described, forecast
from airflow_backfill.core.reports.recommend import Advice
from airflow_backfill.core.reports.speeds import APPLY_ROWS_PER_SECOND, Speeds
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.retention import FILES, Retention
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model.test_plan import PLAN

NOW = 10**12
WEEK = Retention.of({})
GIB = 1 << 30


def work(size: int = 10 * GIB, rows: int | None = 10**8, files: int = 100, cores: int = 2) -> Work:
    return Work(files, files, size, rows, RoundSize(), Speeds.usual(cores))


def history(count: int, rows: int, every: int) -> list[Epoch]:
    """``count`` epochs of ``rows`` rows, one every so many milliseconds, the last one just now."""
    return [Epoch(n, NOW - (count - n) * every, rows, rows * 100) for n in range(count)]


@pytest.mark.parametrize(
    ("size", "rows", "files", "rounds"),
    [
        (10 * GIB, 10**8, 100, 5),
        (10 * GIB, 10**9, 100, 50),
        (10 * GIB, None, 100, 5),
        (10 * GIB, 10**8, 3, 3),
        (0, 0, 0, 0),
    ],
)
def test_rounds_follow_the_limit_that_is_reached_first(size: int, rows: int | None, files: int, rounds: int) -> None:
    assert work(size, rows, files).rounds == rounds


def test_more_bytes_take_longer_and_more_cores_less() -> None:
    assert work(size=20 * GIB).seconds > work().seconds > work(cores=4).seconds


def test_the_rates_of_the_source() -> None:
    said = forecast(work(), history(count=60, rows=100, every=60_000), NOW, WEEK)
    assert said["change"] == {"epochs_per_hour": 60.0, "rows_per_second": pytest.approx(1.7, abs=0.05)}
    assert said["pending_after_snapshot"] == 1 + work().seconds // 60 and said["warnings"] == []


def test_what_was_committed_while_the_plan_looked_is_pending_too() -> None:
    """A plan that looks for repeated keys for an hour."""
    past = history(count=60, rows=100, every=60_000)
    soon, late = (forecast(replace(work(), planning=seconds), past, NOW, WEEK) for seconds in (0.0, 3_600.0))
    assert late["pending_after_snapshot"] == soon["pending_after_snapshot"] + 60
    assert late["expected_seconds"]["log"] > soon["expected_seconds"]["log"]


def test_a_busier_source_takes_longer_to_catch_up_with() -> None:
    calm, busy = (forecast(work(), history(60, rows, 60_000), NOW, WEEK) for rows in (100, 10**6))
    assert busy["expected_seconds"]["log"] > calm["expected_seconds"]["log"]
    assert busy["expected_seconds"]["snapshot"] == calm["expected_seconds"]["snapshot"]


def test_how_the_table_was_loaded_is_no_change_rate() -> None:
    load = Epoch(0, NOW - 61 * 60_000, 10**8, 10 * GIB)
    calm = history(60, 100, 60_000)
    assert forecast(work(), [load, *calm], NOW, WEEK)["change"] == forecast(work(), calm, NOW, WEEK)["change"]


def test_a_source_that_is_too_fast() -> None:
    said = forecast(work(), history(60, APPLY_ROWS_PER_SECOND * 2 * 61, 1000), NOW, WEEK)
    assert said["expected_seconds"]["log"] is None and "NOT_CONVERGING" in said["warnings"][0]


def test_a_history_that_is_too_short() -> None:
    short = Retention.of({FILES: "interval 1 minute"})
    said = forecast(work(), history(60, 100, 60_000), NOW, short)
    assert "deletedFileRetentionDuration" in said["warnings"][0]


@pytest.mark.parametrize("recent", [[], history(1, 5, RECENT * 2)[:1]], ids=["none", "one just now"])
def test_a_source_without_a_past(recent: list[Epoch]) -> None:
    said = forecast(work(), recent, NOW, WEEK)
    assert said["warnings"] == []


def test_what_is_older_than_a_day_does_not_count() -> None:
    old = [Epoch(0, NOW - RECENT - 1, 10**9, 1)]
    assert forecast(work(), old, NOW, WEEK)["change"] == {"epochs_per_hour": 0.0, "rows_per_second": 0.0}


def reported(work: Work, proof: str = "full", rows: int = 100) -> dict[str, Any]:
    plan = replace(PLAN, spec=replace(PLAN.spec, proof=ProofKind(proof)))
    recent, advice = history(60, rows, 60_000), Advice("snapshot", "it fits")
    return forecasts.report(plan, work, recent, NOW, WEEK, "a lock", ["a note"], advice)


def said(**changes: Any) -> str:
    return "\n".join(described({**reported(work()), **changes}))


@pytest.mark.parametrize(("proof", "read"), [("full", 30 * GIB), ("incremental", 20 * GIB)])
def test_what_it_is_going_to_cost(proof: str, read: int) -> None:
    small = replace(work(), cores=2)
    cost = reported(small, proof)["expected_cost"]
    assert (cost["read_bytes"], cost["written_bytes"], cost["cores"]) == (read, 10 * GIB, 2)
    assert cost["core_seconds"] > 2 * small.seconds
    twice = reported(replace(work(size=20 * GIB, files=200), cores=2), proof)["expected_cost"]
    assert twice["core_seconds"] == pytest.approx(2 * cost["core_seconds"], rel=0.02)


def test_more_cores_cost_about_as_much_because_they_take_less_time() -> None:
    two, eight = (reported(replace(work(cores=n), cores=n))["expected_cost"]["core_seconds"] for n in (2, 8))
    assert eight == pytest.approx(two, rel=0.1)


def test_a_build_that_never_catches_up_has_no_cost() -> None:
    report = reported(work(), rows=10**7)
    assert report["expected_cost"] is None and "core hours" not in "\n".join(described(report))


def test_it_can_be_read() -> None:
    text = said()
    for part in (
        "100,000,000 rows",
        "60.0 epochs per hour",
        "7.0 days",
        "a lock",
        "note: a note",
        "strategy snapshot",
        "core hours on 1 core with the proof",
    ):
        assert part in text


def test_unknown_figures_can_be_read() -> None:
    text = said(rows=None, expected_seconds={"snapshot": 3, "log": None}, warnings=["too fast"])
    for part in ("an unknown number of rows", "3 seconds", "and the build never catches up", "WARNING: too fast"):
        assert part in text


def test_a_build_that_is_there() -> None:
    assert described({"existing": True}) == ["the build exists already and goes on"]


def test_a_topics_history_that_may_expire_before_it_is_read_is_warned_of() -> None:
    """What is said of the history is Kafka's retention, not the landing table's."""
    soon, late = (TopicExpiry(TopicRetention(7 * 86_400_000, None), NOW - age * 86_400_000) for age in (7, 1))
    advice = Advice("source", "why")
    for expiry, warned in ((soon, True), (late, False)):
        said = forecasts.report(PLAN, work(), [], NOW, WEEK, "lock", [], advice, expiry)
        assert any("topic.expired" in warning for warning in said["warnings"]) is warned
        assert any(line.startswith("Kafka keeps the topic's records: 7.0 days") for line in described(said))
    assert forecasts.report(PLAN, work(), [], NOW, WEEK, "lock", [], advice)["topic_retention"] is None
