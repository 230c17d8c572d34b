"""What grows: how many requests, bytes, seconds and megabytes a look at a build costs, each at two sizes.

``python -m bench.what_grows [name ...]`` measures again and keeps the tables in bench/RESULTS.md. It needs no Spark,
because the logs are generated. Each request takes 20 ms more where seconds are measured, as on an object store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.delta.epochs import FEED
from airflow_backfill.core.errors import NotConverging
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.delta.epoch_files import read_epochs
from airflow_backfill.testing.applications import Shell
from airflow_backfill.testing.applications import main as application
from airflow_backfill.testing.json_log import JsonLog
from airflow_backfill.triggers import poll as waits
from airflow_backfill.triggers.lag import LagTrigger
from airflow_backfill.watching.gate_watch import GateWatch
from bench import generated
from bench.requests import Requests, counted
from bench.results import Results

HERE = Path(__file__).parent
DELAY = 0.02
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
SECTION = "what grows"
HEAD = ["| what | grows with | size | cost | size | cost |", "|---|---|---|---|---|---|"]
Measured = tuple[str, int, int, Callable[[Path, int], str]]


def source(path: Path) -> str:
    """A table of a few commits with a change data feed, without data."""
    log = JsonLog(str(path))
    metadata = TableMetadata(path.parent.name, SCHEMA, (), {FEED: "true"})
    now = now_ms()
    log.land(Commit(0, now, "CREATE TABLE", metadata=metadata, protocol=Protocol(1, 4)))
    log.land(Commit(1, now, "WRITE", added=FileTotals(4, 400, 40), data_change=True))
    return str(path)


def consumed(folder: Path, commits: int = 0) -> str:
    """The target of a build that has consumed its log and is on hold, after so many commits without a barrier."""
    target = str(folder / "target")
    spec = {"name": "orders", "source": source(folder / "source"), "target": target, "key": ["id"]}
    place = ["--target", target]
    application("plan", [*place, "--spec", json.dumps(spec)])
    generated.commits(target, commits, added=FileTotals(), data_change=False)
    application("snapshot", place)
    application("consume_log", [*place, "--max-lag-epochs", "0"])
    reader = BuildReader(target)
    reader.control.order(reader.state().plan.build, Command(Verb.HOLD))
    JsonLog(target).write_checksum()
    return target


def observed(target: str) -> None:
    """A barrier whose attempt has seen all that is pending, and applied little of it."""
    shell = Shell(target)
    goal = ConsumeLogGoal(RoundSize(epochs=1), MaxLag(epochs=0), 9)
    steps = iter(range(6))

    def answer(effect: object) -> object:
        if next(steps, None) is None and type(effect).__name__ == "ReadCommands":
            raise NotConverging("enough")
        return shell.answer(effect)  # type: ignore[arg-type]

    try:
        drive(run(goal, Attempt(10**6, "observer")), answer)
    except NotConverging:
        pass
    JsonLog(target).write_checksum()


def asked(requests: Requests, look: Callable[[], object]) -> int:
    requests.taken()
    look()
    return requests.taken().total()


def poll(folder: Path, pending: int) -> str:
    target = consumed(folder)
    generated.commits(str(folder / "source"), pending)
    observed(target)
    with counted() as requests:
        watch = GateWatch(target, MaxLag(epochs=0))
        return f"{asked(requests, watch.live)} requests at first, then {asked(requests, watch.live)}"


def step(folder: Path, commits: int) -> str:
    target, log = consumed(folder, commits), str(folder / "source")
    generated.commits(log, commits, added=FileTotals(), data_change=False)
    reader = BuildReader(target)
    watch = watch_source(reader.state().plan)
    watch.view(1)
    for table in (target, log):
        generated.commits(table, 1, added=FileTotals(), data_change=False)
    with counted() as requests:
        looked = asked(requests, reader.state), asked(requests, lambda: watch.view(1))
        return f"{looked[0]} requests for the target, {looked[1]} for the source"


def newest(folder: Path, files: int) -> str:
    target = consumed(folder)
    observed(target)
    version = JsonLog(target).head
    size = generated.grown(target, version, files)
    with counted() as requests:
        start = time.process_time()
        BuildReader(target).state()
        return f"{requests.bytes / 1e6:.3g} of {size / 1e6:.3g} MB, {1000 * (time.process_time() - start):.0f} ms"


def attempts(folder: Path, count: int) -> str:
    target = consumed(folder)
    generated.attempts(target, count)
    control = ControlFolder.beside(target)
    highest = control.attempts(1)[-1][0]
    control.draw_attempt({}, highest)  # the costs of those before were never summed up
    with counted() as requests:
        drawn = asked(requests, lambda: control.draw_attempt({}, highest))
        return f"{drawn} requests to draw one, {asked(requests, lambda: control.attempts(5, highest))} to show five"


def commands(folder: Path, count: int) -> str:
    target = consumed(folder)
    build = BuildReader(target).state().plan.build
    for _ in range(count):
        BuildReader(target).control.order(build, Command(Verb.HOLD))
    control = ControlFolder.beside(target)
    with counted() as requests:
        first = asked(requests, lambda: control.commands(build))
        return f"{first} requests at first, then {asked(requests, lambda: control.commands(build))}"


def progress(folder: Path, lanes: int) -> str:
    from tests.ledger.json_target import JsonBuild, fx

    build = JsonBuild(folder, (fx.FileSize(100, 10),) * lanes, splits=lanes)
    build.plan(lanes)
    for lane in range(lanes):
        build.run(SnapshotGoal(lane, lanes, RoundSize()), Attempt(2 + lane, f"a{lane}"))
    build.target.write_checksum()
    reader = BuildReader(build.location)
    reader.plan(build.stored_plan.build)
    with counted() as requests:
        told, proven = asked(requests, reader.told), asked(requests, reader.state)
        return f"{told} requests; a proven state, which a driver reads once, takes {proven}"


def first_look(folder: Path, pending: int) -> str:
    target = consumed(folder)
    generated.commits(str(folder / "source"), pending)
    watch = watch_source(BuildReader(target).state().plan)
    with counted(DELAY):
        start = time.perf_counter()
        watch.view(1)
        seconds, start = time.perf_counter() - start, time.perf_counter()
        watch.view(1)
        return f"{seconds:.1f} s; then {time.perf_counter() - start:.2f} s"


def epochs_of_round(folder: Path, epochs: int) -> str:
    table = source(folder / "source")
    generated.commits(table, epochs)
    with counted(DELAY) as requests:
        start = time.perf_counter()
        read_epochs(None, table, EpochRange(2, 2 + epochs))  # type: ignore[arg-type]
        return f"{time.perf_counter() - start:.1f} s, {requests.taken().total():,} requests"


def gates(folder: Path, count: int) -> str:
    """All wait in one process, as in a triggerer."""
    targets = [consumed(folder / str(number)) for number in range(count)]
    for number in range(count):
        generated.commits(str(folder / str(number) / "source"), 20)
    before = resident()
    triggers = [LagTrigger(watch=GateWatch(t, MaxLag(epochs=10**6)).to_json(), poke_interval=0) for t in targets]

    async def all_wait() -> None:
        assert not any(await asyncio.gather(*(trigger.poll() for trigger in triggers)))

    async def twice(requests: Requests) -> str:
        await all_wait()
        first = requests.taken().total() / count
        start, cpu = time.perf_counter(), time.process_time()
        await all_wait()
        seconds, cpu, each = time.perf_counter() - start, time.process_time() - cpu, requests.taken().total() / count
        took = f"{seconds:.1f} s for a poll of all, {cpu:.2f} s of it CPU"
        return f"{first:.0f} requests each at first, then {each:.0f}; {took}"

    turns = patch.object(waits, "_TURNS", asyncio.Semaphore(waits.AT_ONCE))  # belongs to one loop
    with counted(DELAY) as requests, turns:
        found = asyncio.run(twice(requests))
    return f"{found}; {resident() - before} MB"


def resident() -> int:
    """Megabytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


MEASURES: dict[str, Measured] = {
    "a poll of a gate": ("pending epochs", 100, 10_000, poll),
    "a step of a driver": ("commits of both logs", 1_000, 100_000, step),
    "the newest commit of a target": ("files that it touches", 1_000, 1_000_000, newest),
    "attempts": ("earlier attempts", 1_000, 30_000, attempts),
    "commands": ("ordered commands", 1, 300, commands),
    "progress of a lane": ("lanes", 4, 64, progress),
    "a driver's first look at the source": ("pending epochs", 1_000, 10_000, first_look),
    "a round's look at its commits": ("epochs of the round", 100, 1_000, epochs_of_round),
    "waiting gates": ("gates in one triggerer", 100, 1_000, gates),
}


@contextmanager
def silent() -> Iterator[None]:
    """Without logs, and without waiting for the disk."""
    logging.disable(logging.CRITICAL)
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), patch("os.fsync"):
            yield
    finally:
        logging.disable(logging.NOTSET)


def measured(name: str) -> str:
    what, *sizes, measure = MEASURES[name]
    costs = []
    for size in sizes:
        with TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder, silent():
            Path(folder, "build").mkdir()
            costs += [f"{size:,}", measure(Path(folder, "build"), size)]
    return f"| {' | '.join([name, what, *costs])} |"


def main() -> None:
    results = Results(HERE / "RESULTS.md")
    for name in sys.argv[1:] or MEASURES:
        row = measured(name)
        print(row, flush=True)
        known = {line.split(" | ")[0].removeprefix("| "): line for line in results.section(SECTION)[2:]}
        known[name] = row
        results.keep(SECTION, [*HEAD, *(known[one] for one in MEASURES if one in known)])


if __name__ == "__main__":
    main()
