from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.reports.summary import lag, running_out, summarize, told, unread
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.duration import lasting
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import caught_up, planned, sealed
from tests.core.model_target import Model
from tests.core.states import CERTIFICATE, V, state, view
from tests.core.tasks import CANCEL, CONSUME, FINISH, READ, VERIFY, follow
from tests.core.topic_model import TopicModel

ALWAYS = {"build", "name", "source", "target", "strategy", "phase", "snapshot_epoch", "epoch", "handoff", "percent"}


def test_a_summary_is_plain_json_in_every_phase() -> None:
    for phase in Phase:
        summary = summarize(state(phase))
        assert json.loads(json.dumps(summary)) == summary and set(summary) >= ALWAYS


def test_a_planned_build_has_done_nothing() -> None:
    summary = summarize(planned().state())
    assert (summary["phase"], summary["epoch"], summary["percent"], summary["attempt"]) == ("snapshot", None, 0.0, None)
    assert summary["read"] == {"unit": "files", "done": 0, "of": 6}
    assert set(summary["rows"].values()) == {0}


@pytest.mark.parametrize(
    ("positions", "done"),
    [((AtFile(0),) * 3, 0), ((AtFile(1), AtFile(0), AtFile(0)), 1), ((Consumed(V), AtFile(1), AtFile(0)), 3)],
    ids=str,
)
def test_the_snapshot_is_measured_in_files(positions: tuple[AtFile, ...], done: int) -> None:
    summary = summarize(state(Phase.SNAPSHOT, *positions))
    assert summary["read"] == {"unit": "files", "done": done, "of": 6}
    assert summary["epoch"] is None


def test_a_log_that_was_applied_in_one_round_is_done() -> None:
    model = Model()
    model.plan()
    model.write(times=5)
    model.run(READ)
    summary = summarize(model.run(CONSUME))
    assert summary["phase_percent"] == 100 and summary["pending"]["epochs"] == 0


def test_the_three_counters_count_committed_rows_each_in_its_phase() -> None:
    model = Model()
    model.write(rows=5, times=2)
    model.finished()
    model.write(rows=7)
    rows = summarize(model.run(follow(V + 3)))["rows"]
    assert rows == {"consuming_snapshot": 60, "consuming_log_store": 10, "consuming_upstream": 7}


def test_a_retry_does_not_count_twice() -> None:
    model = planned()
    for writes in (2, 3, 4):
        model.start(SnapshotGoal(0, 1, RoundSize(1, 1))).until(CommitRecord, nth=writes)
    summary = summarize(model.run(SnapshotGoal(0, 1, RoundSize(1, 1))))
    assert summary["rows"]["consuming_snapshot"] == 60
    assert summary["read"] == {"unit": "files", "done": 6, "of": 6}


def test_rows_do_not_grow_with_the_number_of_splits() -> None:
    """A number that is already a total is not summed over the splits once more."""
    for splits in (1, 3):
        model = Model([FileSize(100, 10)] * 3, splits=splits)
        model.finished()
        model.write(rows=10)
        assert summarize(model.run(follow(V + 1)))["rows"]["consuming_upstream"] == 10


def test_an_epoch_in_part_is_shown_as_such_and_not_claimed() -> None:
    summary = summarize(state(Phase.CONSUME_LOG, InEpoch(9, 1, 3)))
    assert (summary["epoch"], summary["part"]) == (8, {"epoch": 9, "done": 1, "of": 3})
    assert summarize(state(Phase.CONSUME_LOG, Consumed(9)))["part"] is None


def test_a_cancelled_build_shows_how_far_it_was() -> None:
    model = planned()
    model.start(SnapshotGoal(0, 1, RoundSize(1, 1))).until(CommitRecord, nth=4)
    summary = summarize(model.run(CANCEL))
    assert (summary["phase"], summary["epoch"]) == ("cancelled", None)
    assert summary["read"] == {"unit": "files", "done": 2, "of": 6}


def test_acknowledged_commands_and_the_certificate_are_shown() -> None:
    control = {"number": 4, "paused": True, "rate": 50, "byte_rate": 9, "held": True, "cancelled": False, "skips": True}
    control["dead_letters"] = True
    said = {"control": Control(**control), "certificate": CERTIFICATE, "handoff": V}
    summary = summarize(state(Phase.FINISHED, **said))
    assert summary["control"] == control and summary["certificate"]["digest"] == "digest"
    assert (summary["handoff"], summary["percent"]) == (V, 100.0)


def test_what_was_seen_of_the_source_stays_when_a_task_did_not_look() -> None:
    """The finish does not look at the source: its record must not say that nothing is pending."""
    model = caught_up(times=4)
    model.run(VERIFY)
    model.run(FINISH)
    seen = summarize(model.state())["pending"]
    assert (seen["head"], seen["epochs"]) == (V + 4, 4)


def test_a_command_that_no_barrier_has_acknowledged_is_not_shown_as_in_force() -> None:
    model = sealed()
    model.order(Command(Verb.HOLD))
    assert not summarize(model.state())["control"]["held"]


HOUR = 3_600_000


def test_the_lag_says_how_long_the_needed_past_stays_readable() -> None:
    found = lag(state(Phase.CONSUME_LOG), view(V + 3, rows=5, at=HOUR, kept=10 * HOUR), 4 * HOUR)
    assert found == {"head": V + 3, "epochs": 3, "rows": 15, "age": 3 * HOUR, "readable": 7 * HOUR, "kept": 10 * HOUR}


def test_nothing_pending_needs_no_past() -> None:
    found = lag(state(Phase.CONSUME_LOG), view(kept=HOUR), 4 * HOUR)
    assert (found["epochs"], found["age"], found["readable"]) == (0, 0, None)
    assert running_out({"lag": found}) is None


@pytest.mark.parametrize(("age", "warned"), [(0, False), (7, False), (8, True), (10, True), (11, True)])
def test_the_warning_comes_when_a_quarter_of_the_retention_is_left(age: int, warned: bool) -> None:
    log, source = state(Phase.CONSUME_LOG), view(V + 1, at=HOUR)
    warning = running_out({"lag": lag(log, replace(source, kept=10 * HOUR), (1 + age) * HOUR)})
    assert (warning is not None) is warned
    assert warning is None or f" {lasting(max(10 - age, 0) * 3600)} more" in warning
    found = {"lag": lag(log, source, (1 + age) * HOUR)}
    assert running_out(found) is None, "nobody knows how long it is kept"


@pytest.fixture
def half_read() -> TopicModel:
    """A topic whose partitions have unread records of different age."""
    model = TopicModel(60, 30)
    model.kept_ms, model.oldest = 10 * HOUR, {0: 2 * HOUR, 1: HOUR}
    model.plan()
    attempt = model.start(SnapshotGoal(0, 1, RoundSize(10**9, 20)))
    attempt.until(CommitRecord, nth=3)
    return model


def test_kafka_keeps_the_first_unread_record_for_so_long(half_read: TopicModel) -> None:
    build = half_read.state()
    assert unread(build, 4 * HOUR) == {"readable": 7 * HOUR, "kept": 10 * HOUR}
    assert told(build, None, None, 4 * HOUR)["history_left"] == 7 * HOUR
    assert (unread(build, 12 * HOUR) or {})["readable"] == 0


def test_the_earlier_of_two_ends_counts(half_read: TopicModel) -> None:
    """The landing table has its own retention."""
    build = half_read.state()
    for kept, left in ((3, 2), (30, 7)):
        landing = view(build.reached + 1, at=3 * HOUR, kept=kept * HOUR)
        assert told(build, landing, None, 4 * HOUR)["history_left"] == left * HOUR


@pytest.mark.parametrize(("hours", "warned"), [(8, False), (9, True), (12, True)])
def test_a_topic_that_deletes_soon_is_warned_of(half_read: TopicModel, hours: int, warned: bool) -> None:
    warning = running_out(told(half_read.state(), None, None, hours * HOUR))
    assert (warning is not None) is warned
    assert warning is None or "retention.ms" in warning


def test_a_cancelled_build_needs_no_past(half_read: TopicModel) -> None:
    half_read.order(Command(Verb.CANCEL))
    half_read.run(CANCEL)
    assert told(half_read.state(), None, None, 12 * HOUR)["history_left"] is None


def test_what_is_read_needs_no_past(half_read: TopicModel) -> None:
    while not half_read.state().read:
        half_read.run(SnapshotGoal(0, 1, RoundSize(10**9)))
    found = told(half_read.state(), None, None, 12 * HOUR)
    assert (found["unread"], found["history_left"], running_out(found)) == (None, None, None)
