from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.model.record import Layout
from airflow_backfill.core.reports.attempt_status import AttemptStatus, Instance, Life
from airflow_backfill.core.splits.files import AtFile, FileSplits
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.plugin.whole import CELLS, strip
from tests.core.states import V, state


def half_read(splits: int) -> BuildState:
    """A build of this many splits of two files, in two lanes. Of each three, one is read, one begun, one not."""
    build = state(Phase.SNAPSHOT, AtFile(0), generation=7)
    positions = tuple((Consumed(V), AtFile(1), AtFile(0))[split % 3] for split in range(splits))
    plan = replace(build.plan, splits=FileSplits(tuple(range(0, 2 * splits + 1, 2)), 100, None, "d"))
    return replace(build, plan=plan, positions=positions, layout=Layout(1, 2), lanes=(build.newest, None))


def attempt(generation: int, lane: int, tried: int, task: str = "snapshot") -> AttemptStatus:
    instance = Instance("orders", "snapshot", "run", lane)
    return AttemptStatus(generation, f"a{generation}", task, Life.RUNNING, instance, tried)


def with_rows(build: BuildState, rows: tuple[int, ...]) -> BuildState:
    splits = replace(build.plan.splits, rows=sum(rows), split_rows=rows)
    return replace(build, plan=replace(build.plan, splits=splits))


def test_a_split_says_what_records_hold_of_it_and_no_more() -> None:
    found = strip(half_read(3), ())
    assert [cell["said"] for cell in found["cells"]] == [
        "split 0: stands at epoch 7; files read: 2, files left: 0",
        "split 1: being read; files read: 1, files left: 1; lane 1",
        "split 2: not started; files read: 0, files left: 2; lane 0, last committed by attempt 7",
    ]
    assert [cell["done"] for cell in found["cells"]] == [1.0, 0.5, 0.0]
    assert found["reading"] == ["split 1: being read; files read: 1, files left: 1; lane 1"]


def test_rows_are_called_read_only_if_their_whole_split_is() -> None:
    found = strip(with_rows(half_read(3), (1000, 20, 3)), ())
    assert [cell["said"].split("; ")[1] for cell in found["cells"]] == [
        "files read: 2, files left: 0, rows read: 1,000",
        "files read: 1, files left: 1, rows being read: 20",
        "files read: 0, files left: 2, rows not started: 3",
    ]


def test_a_cell_is_full_only_if_no_file_is_left() -> None:
    build = half_read(1)
    almost = replace(build.plan, splits=replace(build.plan.splits, borders=(0, 10_000)))
    [cell] = strip(replace(build, plan=almost, positions=(AtFile(9_999),)), [])["cells"]
    assert cell["done"] == 0.999


def test_a_split_says_the_newest_try_of_its_lane() -> None:
    tries = (attempt(6, 0, 1), attempt(9, 0, 3), attempt(10, 1, 2), attempt(11, 0, 5, "verify"))
    assert [cell["said"].split("; ")[-1] for cell in strip(half_read(3), tries)["cells"]] == [
        "files read: 2, files left: 0",
        "lane 1, attempt 10 is try 2",
        "lane 0, last committed by attempt 7, attempt 9 is try 3",
    ]
    before_its_commit = strip(half_read(3), tries[:1])["cells"][2]["said"]
    assert before_its_commit.endswith("lane 0, last committed by attempt 7")


def test_a_single_lane_has_no_index() -> None:
    build = replace(half_read(3), layout=Layout(1, 1))
    found = strip(replace(build, lanes=build.lanes[:1]), (attempt(9, -1, 4),))
    assert found["reading"][0].endswith("attempt 9 is try 4")


def test_many_splits_share_cells_and_add_up() -> None:
    found = strip(half_read(3 * CELLS), ())
    assert (found["count"], len(found["cells"]), len(found["reading"])) == (3 * CELLS, CELLS, 8)
    assert found["cells"][-1] == {
        "done": 0.5,
        "said": f"splits {3 * CELLS - 3} to {3 * CELLS - 1}: 1 of 3 read; files read: 3, files left: 3",
    }
    counted = with_rows(half_read(3 * CELLS), (1000, 20, 3) * CELLS)
    assert strip(counted, ())["cells"][-1]["said"].endswith(
        "files read: 3, files left: 3, rows read: 1,000, rows being read: 20, rows not started: 3"
    )
