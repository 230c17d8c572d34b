from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.builds.phase_times import PROBES, phase_times
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.reader import BuildReader
from tests.core.running import Running
from tests.ledger.json_target import JsonBuild

Time = tuple[str, int, int | None]


def times(reader: BuildReader, state: BuildState | None = None) -> list[Time]:
    found = phase_times(reader.log, state or reader.state())
    return [(one["phase"], one["from"], one["to"]) for one in found]


def test_each_phase_begins_where_the_one_before_ends(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.finished()
    found = times(BuildReader(build.location))
    assert [phase for phase, _, _ in found] == ["snapshot", "consume_log", "catch_up", "finished"]
    assert [end for _, _, end in found] == [start for _, start, _ in found[1:]] + [None]
    assert all(start <= (end or start) for _, start, end in found)


def test_a_build_without_a_barrier_has_no_times(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    assert times(BuildReader(build.location)) == []


def test_a_recovery_leads_back_to_a_phase_that_is_not_over(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    reached = build.finished().reached
    before = times(build.reader)
    build.now += 3_600_000
    Running(build, recover(build.attempt(), reached)).finish()
    assert times(build.reader) == [*before[:2], (*before[2][:2], None)]


def test_what_clean_up_has_deleted_is_left_out(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.finished()
    reader = BuildReader(build.location)
    state, whole = reader.state(), times(reader)
    for version in (0, 1):
        (Path(build.location) / "_delta_log" / commit_name(version)).unlink()
    assert times(reader, state)[1:] == whole[1:]


class Long:
    """The log of a build with very many commits: the real ones, each repeated, or followed by others."""

    def __init__(self, log: Any, newest: int, times: int, others: bool = False) -> None:
        self._log, self._newest, self._times, self._others = log, newest, times, others
        self.read_versions: list[int] = []

    def read(self, version: int) -> Commit:
        self.read_versions.append(version)
        if version > self._newest * self._times:
            raise HistoryLost("none", version=version)
        commit: Commit = self._log.read(version // self._times)
        return replace(commit, user_metadata=None) if self._others and version % self._times else commit


@pytest.mark.parametrize(("repeated", "others"), [(1, False), (10_000, False), (23, True)])
def test_a_long_log_takes_few_reads(repeated: int, others: bool, tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.finished()
    reader = BuildReader(build.location)
    state = reader.state()
    assert state.newest is not None
    long = Long(reader.log, state.newest.version, repeated, others)
    stretched = replace(state, newest=replace(state.newest, version=state.newest.version * repeated))
    found = phase_times(long, stretched)  # type: ignore[arg-type]
    assert [(one["phase"], one["from"]) for one in found] == [(phase, start) for phase, start, _ in times(reader)]
    assert len(long.read_versions) <= 5 * 4 * PROBES
