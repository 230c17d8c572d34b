"""What a look at a build asks of the store, at two sizes: the same, whatever has grown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import HistoryLost, RecordInvalid
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.load import catch_up
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger import control_folder
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.read_ahead import ReadAhead
from airflow_backfill.ledger.reader import BuildReader
from bench import generated
from bench.requests import Requests, counted
from tests.core.model_target import FILES, ROUND
from tests.core.tasks import V
from tests.ledger.json_target import JsonBuild

SIZES = (20, 1_200)
Run = Callable[..., str]


@pytest.fixture
def asked() -> Iterator[Requests]:
    with counted() as requests:
        yield requests


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path)
    build.sealed()
    return build


def cost(asked: Requests, look: Callable[[], object]) -> Counter[str]:
    asked.taken()
    look()
    return asked.taken()


@pytest.mark.parametrize("size", SIZES)
def test_a_look_at_a_log_that_is_known_lists_what_is_new(tmp_path: Path, asked: Requests, size: int) -> None:
    build = JsonBuild(tmp_path)
    generated.commits(build.spec.source, size)
    log = DeltaLog(LocalStore(build.spec.source))
    log.newest()
    assert cost(asked, log.newest) == {"list": 1, "read": 1}
    assert cost(asked, log.head) == {"list": 1}
    generated.commits(build.spec.source, 3)
    head = V + size + 3
    assert cost(asked, lambda: log.newest()) == {"list": 1, "read": 2} and log.head() == head


def test_a_hole_behind_the_known_head_is_no_end(build: JsonBuild) -> None:
    log = DeltaLog(LocalStore(build.spec.source))
    assert log.head() == V
    generated.commits(build.spec.source, 3)
    Path(build.spec.source, "_delta_log", f"{V + 1:020}.json").unlink()
    assert log.head() == V + 3
    with pytest.raises(HistoryLost, match=f"version {V + 1} was deleted"):
        log.read(V + 1)
    source = watch_source(build.plan()).glance(V)
    assert source.first is not None and isinstance(source.first.stop, HistoryLost)


def test_a_log_that_is_shorter_or_another_one_is_read_anew(build: JsonBuild) -> None:
    generated.commits(build.spec.source, 5)
    log, folder = DeltaLog(LocalStore(build.spec.source)), Path(build.spec.source, "_delta_log")
    first = log.newest()
    assert first.version == V + 5
    for version in (V + 4, V + 5):
        (folder / f"{version:020}.json").unlink()
        (folder / f"{version:020}.crc").unlink(missing_ok=True)
    assert log.head() == V + 3
    generated.commits(build.spec.source, 2, timestamp=6, operation="MERGE")
    assert log.newest().mark != first.mark and log.newest().version == V + 5


@pytest.mark.parametrize("size", SIZES)
def test_a_state_costs_two_requests_while_no_commit_is_added(build: JsonBuild, asked: Requests, size: int) -> None:
    reader = BuildReader(build.location)
    before = reader.state()
    generated.commits(build.location, size, data_change=False, added=generated.FileTotals())
    reader.state()
    assert cost(asked, reader.state) == {"list": 1, "read": 1}
    assert reader.state().newest == before.newest


@pytest.mark.parametrize("files", [10, 40_000])
def test_a_commit_of_a_target_is_read_up_to_its_files(build: JsonBuild, asked: Requests, files: int) -> None:
    state = build.state()
    size = generated.grown(build.location, state.proven, files)
    asked.bytes = 0
    assert BuildReader(build.location).state() == state
    assert asked.bytes < min(size, 2 << 20) + 20_000


@pytest.mark.parametrize("size", SIZES)
def test_a_glance_at_the_source_is_the_same_whatever_is_pending(build: JsonBuild, asked: Requests, size: int) -> None:
    watch = watch_source(build.plan())
    watch.glance(V, [V])
    generated.commits(build.spec.source, size, timestamp=5)
    watch.glance(V, [V])
    assert cost(asked, lambda: watch.glance(V, [V])) == {"list": 1, "read": 3}
    source = watch.glance(V, [V])
    assert (source.head, source.count(V), source.oldest(V).at) == (V + size, size, 5)  # type: ignore[union-attr]


def test_each_epoch_is_looked_through_once_for_one_that_stops_the_build(build: JsonBuild, asked: Requests) -> None:
    watch = watch_source(build.plan())
    generated.commits(build.spec.source, 30)
    source = watch.glance(V)
    assert cost(asked, lambda: watch.stopped(source, V + 10)) == {"read": 20}
    assert cost(asked, lambda: watch.stopped(source, V + 10)) == {}
    build.alter(schema_json='{"type":"struct","fields":[]}')
    generated.commits(build.spec.source, 30)
    source = watch.glance(V)
    stopped = watch.stopped(source, V + 10)
    assert stopped.stops is not None and stopped.stops.number == V + 31
    assert stopped.stopping(V) == stopped.stops and stopped.stopping(V + 31) is None
    assert cost(asked, lambda: watch.stopped(source, V + 10)) == {}


@pytest.mark.parametrize("size", [300, 3_000])
def test_an_attempt_is_drawn_by_one_listing_of_what_is_newer(build: JsonBuild, asked: Requests, size: int) -> None:
    generated.attempts(build.location, size)
    control = ControlFolder.beside(build.location)
    highest = control.attempts()[-1][0]
    control.draw_attempt({}, highest - 5)  # the first one to delete another adds up what is left
    assert cost(asked, lambda: control.draw_attempt({}, highest - 5)) == {"list": 3, "write": 2, "read": 4, "delete": 5}
    assert cost(asked, lambda: control.attempts(5, highest)) == {"list": 1, "read": 5}


def test_old_attempts_are_forgotten_and_no_number_is_given_twice(
    build: JsonBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 20
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", kept)
    control = ControlFolder.beside(build.location)
    drawn = [control.draw_attempt({"n": n}, 0) for n in range(kept)]
    ended = drawn[1::2]
    for attempt in ended:
        control.store_outcome(attempt, {"code": "OK"})
        control.announce(attempt, {})
    before = drawn[0].generation
    later = [control.draw_attempt({"n": -1}, 0) for _ in range(kept)]
    assert [one.generation for one in later] == [before + kept + n for n in range(kept)]
    left = {number for number, _ in control.attempts(10_000)}
    assert {one.generation for one in drawn} & left == {one.generation for one in drawn if one not in ended}
    names = os.listdir(f"{build.location}.backfill/attempts")
    assert not {name for name in names if int(name[:9]) in {one.generation for one in ended}}


@pytest.mark.parametrize("size", [3, 60])
def test_a_command_is_read_once(build: JsonBuild, asked: Requests, size: int) -> None:
    name = build.state().plan.build
    for number in range(size):
        build.reader.control.order(name, Command(Verb.THROTTLE, rate=number))
    control = ControlFolder.beside(build.location)
    assert len(control.commands(name)) == size
    assert cost(asked, lambda: control.commands(name)) == {"list": 1}
    build.reader.control.order(name, Command(Verb.PAUSE))
    assert cost(asked, lambda: control.commands(name)) == {"list": 1, "read": 1}
    assert control.commands(name)[-1][1] == Command(Verb.PAUSE)


def test_the_commands_of_another_build_are_read_although_their_numbers_are_known(build: JsonBuild) -> None:
    control = ControlFolder.beside(build.location)
    control.order("first", Command(Verb.CANCEL, drop=True))
    assert len(control.commands("first")) == 1
    for path in Path(f"{build.location}.backfill/commands").iterdir():
        path.unlink()
    ControlFolder.beside(build.location).order("second", Command(Verb.PAUSE))
    assert [command for _, command in control.commands("second")] == [Command(Verb.PAUSE)]


def test_commits_in_a_row_are_read_side_by_side_and_once(build: JsonBuild) -> None:
    state = build.state()
    generated.commits(build.location, 100, data_change=False, added=generated.FileTotals())
    reader = BuildReader(build.location)
    with counted(delay=0.002) as requests:
        later = drive(catch_up(state), reader.answer)
    assert later.proven == state.proven + 100
    assert requests.taken()["read"] <= 101 and requests.at_once > 4


@pytest.mark.parametrize("direction", [1, -1])
def test_reading_ahead_brings_no_error_forward(build: JsonBuild, direction: int) -> None:
    log, first = build.reader.log, build.state().proven
    generated.commits(build.location, 60, data_change=False, added=generated.FileTotals())
    folder = Path(build.location, "_delta_log")
    (folder / f"{first + 30:020}.json").unlink()
    (folder / f"{first + 40:020}.json").write_text("no commit")
    assert log.head() == first + 60
    commits = ReadAhead(log)
    for version in range(first + 1, first + 61)[::direction]:
        wrong = {first + 30: HistoryLost, first + 40: RecordInvalid}.get(version)
        if wrong is None:
            assert commits.read(version).version == version
        else:
            with pytest.raises(wrong):
                commits.read(version)


@pytest.mark.parametrize("lanes", [2, 12])
def test_progress_is_told_by_the_newest_record_alone(tmp_path: Path, asked: Requests, lanes: int) -> None:
    build = JsonBuild(tmp_path, FILES[:1] * lanes, splits=lanes)
    build.plan(lanes)
    for lane in range(lanes):
        build.run(SnapshotGoal(lane, lanes, ROUND), Attempt(2 + lane, f"a{lane}"))
    reader = BuildReader(build.location)
    reader.told()
    assert cost(asked, reader.told) == {"list": 1, "read": 2}
    assert cost(asked, reader.state).total() > lanes
    assert reader.told().totals == reader.state().totals
