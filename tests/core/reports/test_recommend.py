"""Which strategy is recommended for what is seen of a source, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.settle_plan import check_same
from airflow_backfill.core.errors import BackfillError, FeedOff, InvalidSpec
from airflow_backfill.core.model.registry import AUTO
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.recommend import Advice, Sighted, recommend

HOUR, WEEK = 3600.0, 7 * 24 * 3600.0
CALM = Sighted(feed=True, key=True, ordered=True, only_adds=False, seconds=HOUR, kept=WEEK, often=lambda: 1.2)


def advised(**changes: object) -> Advice:
    found = recommend(replace(CALM, **changes))  # type: ignore[arg-type]
    assert isinstance(found, Advice), found
    return found


def test_a_source_that_keeps_its_files_for_long_enough_is_pinned() -> None:
    advice = advised()
    assert advice.strategy == "snapshot" and "60.0 minutes expected, 7.0 days kept" in advice.why


@pytest.mark.parametrize("seconds", [WEEK, None])
def test_one_that_would_not_is_read_in_ranges_and_the_cost_is_said(seconds: float | None) -> None:
    advice = advised(seconds=seconds, often=lambda: 17.3)
    assert advice.strategy == "arrangement"
    assert "read about 17.3 times" in advice.why and "deletedFileRetentionDuration" in advice.why


def test_a_key_without_an_order_cannot_be_cut_by() -> None:
    assert advised(seconds=WEEK, ordered=False).strategy == "snapshot"


@pytest.mark.parametrize("missing", ["feed", "key"])
def test_without_feed_or_key_only_added_rows_can_be_followed(missing: str) -> None:
    advice = advised(**{missing: False}, only_adds=True)
    assert advice.strategy == "chain" and missing in advice.why


@pytest.mark.parametrize(("missing", "error"), [("feed", FeedOff), ("key", InvalidSpec)])
def test_where_nothing_fits_it_is_said_what_is_missing(missing: str, error: type[BackfillError]) -> None:
    assert isinstance(recommend(replace(CALM, **{missing: False})), error)  # type: ignore[arg-type]


def test_reading_costs_are_only_looked_at_where_they_matter() -> None:
    def never() -> float:
        raise AssertionError("an expensive look for nothing")

    advised(often=never)


def test_a_choice_that_was_left_to_the_planner_is_not_asked_for_again() -> None:
    planned = BackfillSpec(name="orders", source="/a", target="/b", key=("id",), strategy="arrangement")
    check_same(planned, replace(planned, strategy=AUTO))
