"""A process that keeps changing the source tables, one small commit after the other, until it is stopped.

SIGTERM and SIGINT end it after the commit under way, SIGUSR1 asks for an OPTIMIZE. Each commit is journaled
before and after, and printed. Started again with the same journal it goes on where the last writer ended,
however that one ended. One writer at a time: nothing of the last one may still be running.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from demo.engine import ENGINES, Engine, open_engine
from demo.journal import Journal, Operation, find, resolved
from demo.load import BASE_VERSION
from demo.refresh import Refresh, hot_orders
from demo.signals import heed
from demo.tpch import TABLES

TRIES = 5
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast and how long the writer writes."""

    rate: float = 1.0
    """Commits per second, at most."""
    commits: int | None = None
    """Ends after so many; None goes on until it is stopped."""
    optimize_after: int | None = 20
    """After so many commits comes an OPTIMIZE of each table, once."""

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ValueError(f"the rate is {self.rate} commits per second; it must be above 0")


@dataclass
class Summary:
    """What one run did."""

    versions: dict[str, int]
    """The last version of each table that is the writer's own."""
    commits: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    retries: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.commits.items()))
        versions = ", ".join(f"{name} at v{version}" for name, version in self.versions.items())
        total = self.commits.total()
        rate = total / self.seconds if self.seconds else 0.0
        return (
            f"{total} commits ({kinds}) of {self.rows} rows in {self.seconds:.1f} s, {rate:.2f} commits/s, "
            f"{self.retries} retries; {versions}"
        )


class Writer:
    """Turns the series of changes into commits of the tables named."""

    def __init__(
        self,
        tables: Path,
        names: tuple[str, ...],
        engine: Engine,
        journal: Journal,
        refresh: Refresh,
        report: Report,
    ) -> None:
        self._tables = tables
        self._engine = engine
        self._journal = journal
        self._refresh = refresh
        self._report = report
        self._summary = Summary(dict.fromkeys(names, BASE_VERSION))

    def run(self, pace: Pace, stop: threading.Event, optimize: threading.Event) -> Summary:
        """Commits until ``stop`` is set or ``pace`` is done; compacts whenever ``optimize`` is set."""
        summary = self._summary
        begun = due = time.monotonic()
        for step, operation in self._operations(self._settle(), optimize):
            due = max(due, time.monotonic() - 1 / pace.rate)
            if stop.wait(due - time.monotonic()):
                break
            self._commit(operation, step)
            due += 1 / pace.rate
            total = summary.commits.total()
            if operation.kind != "optimize" and total == pace.optimize_after:
                optimize.set()
            if total == pace.commits:
                break
        summary.seconds = time.monotonic() - begun
        return summary

    def _settle(self) -> set[tuple[int | None, str]]:
        """Closes what the last writer left open. Returns which tables have which steps."""
        past = self._journal.past
        done = set()
        for before, entry in zip(past, resolved(past, self._tables), strict=True):
            if before.outcome == "unknown":
                self._journal.end(entry, entry.outcome, entry.version)
            if entry.outcome == "ok":
                done.add((entry.step, entry.operation.table))
            if entry.version is not None:
                self._summary.versions[entry.operation.table] = entry.version
        return done

    def _operations(
        self, done: set[tuple[int | None, str]], optimize: threading.Event
    ) -> Iterator[tuple[int | None, Operation]]:
        names = self._summary.versions
        while True:
            if optimize.is_set():
                optimize.clear()
                yield from ((None, Operation(name, "optimize")) for name in names)
            step = self._refresh.steps
            for operation in self._refresh.step():
                if operation.rows and operation.table in names and (step, operation.table) not in done:
                    yield step, operation

    def _commit(self, operation: Operation, step: int | None) -> None:
        for _ in range(TRIES):
            if self._landed(operation, step):
                return
            self._summary.retries += 1
        raise RuntimeError(f"{operation.kind} of {operation.table} lost against other commits {TRIES} times")

    def _landed(self, operation: Operation, step: int | None) -> bool:
        """One try, journaled. False if another commit came first; other errors leave the outcome unknown."""
        name = operation.table
        begun = time.monotonic()
        entry = self._journal.begin(operation, self._summary.versions[name], step)
        conflict: Exception | None = None
        try:
            self._engine.apply(operation, entry.marker)
        except self._engine.conflicts as raised:
            conflict = raised
        version = find(self._tables / name, entry.marker, entry.after)
        if version is None and conflict:
            self._journal.end(entry, "failed", error=str(conflict))
            self._report(f"{entry.number} {name} {operation.kind} failed: {conflict}")
            return False
        if version is None and operation.rows:
            raise RuntimeError(f"operation {entry.number} was acknowledged, but no commit carries it")
        self._journal.end(entry, "ok", version)
        if version is not None:
            self._summary.versions[name] = version
            self._summary.commits[operation.kind] += 1
            self._summary.rows += operation.rows
        at = "nothing to do" if version is None else f"v{version}"
        took = 1000 * (time.monotonic() - begun)
        self._report(f"{entry.number} {name} {at} {operation.kind} {operation.rows} rows {took:.0f} ms")
        return True


def open_writer(
    raw: Path,
    tables: Path,
    journal: Path,
    *,
    names: tuple[str, ...] = tuple(TABLES),
    seed: int = 1,
    size: int = 10,
    engine: str = "delta-rs",
    report: Report = print,
) -> Writer:
    """A writer of the tables that ``demo.load`` made of ``raw``. A step changes ``size`` orders.

    Seed, size and names decide the series of changes: a journal is continued with the same ones only.
    """
    header = {"journal": uuid.uuid4().hex, "seed": seed, "size": size, "tables": list(names)}
    refresh = Refresh(seed, size, hot_orders(raw))
    return Writer(tables, names, open_engine(engine, tables), Journal(journal, header), refresh, report)


def main() -> None:
    pace = Pace()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path, help="parquet files that demo.tpch made")
    parser.add_argument("tables", type=Path, help="directory of the Delta tables that demo.load made")
    parser.add_argument("journal", type=Path, help="JSON lines; continued if it is there")
    parser.add_argument("--table", choices=tuple(TABLES), help="write only this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=10, help="orders changed by a step, with their lineitems")
    parser.add_argument("--rate", type=float, default=pace.rate, help="commits per second, at most")
    parser.add_argument("--commits", type=int, help="end after so many")
    parser.add_argument(
        "--optimize-after",
        type=int,
        default=pace.optimize_after,
        help="commits before the one OPTIMIZE; 0 is never",
    )
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    arguments = parser.parse_args()

    stop, optimize = threading.Event(), threading.Event()
    heed({signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGUSR1: optimize})
    writer = open_writer(
        arguments.raw,
        arguments.tables,
        arguments.journal,
        names=(arguments.table,) if arguments.table else tuple(TABLES),
        seed=arguments.seed,
        size=arguments.size,
        engine=arguments.engine,
        report=lambda line: print(line, flush=True),
    )
    pace = Pace(arguments.rate, arguments.commits, arguments.optimize_after)
    print(writer.run(pace, stop, optimize), flush=True)


if __name__ == "__main__":
    main()
