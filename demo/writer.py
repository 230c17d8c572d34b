"""A process that changes the source tables in small commits until it is stopped.

SIGTERM and SIGINT end it after the current commit; SIGUSR1 triggers an OPTIMIZE. Each commit is written to the journal
before and after, and printed. With the same journal, a new writer continues where the last one ended or crashed. Run
one writer at a time: no process of the last one may be running.
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
from demo.signals import set_on_signal
from demo.tpch import TABLES

CONFLICT_TRIES = 5
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast and how long the writer writes."""

    rate: float = 1.0
    """Maximum commits per second."""
    commits: int | None = None
    """Number of commits; None: until it is stopped."""
    optimize_after: int | None = 20
    """After this many commits, each table is optimized once."""

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ValueError(f"the rate is {self.rate} commits per second, so nothing would commit; it must be above 0")


@dataclass
class Summary:
    """The results of one run."""

    versions: dict[str, int]
    """The last version of each table that this writer committed."""
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
    """Commits the series of changes to the named tables."""

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
        """Commit until ``stop`` is set or ``pace`` is reached. Optimize whenever ``optimize`` is set."""
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
        """Record the outcomes that the last writer left open. Returns the steps that each table has."""
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
        for _ in range(CONFLICT_TRIES):
            if self._landed(operation, step):
                return
            self._summary.retries += 1
        raise RuntimeError(
            f"{operation.kind} of {operation.table} lost against other commits {CONFLICT_TRIES} times; stop the other "
            "writers of the table, then start the writer again"
        )

    def _landed(self, operation: Operation, step: int | None) -> bool:
        """One try, with its journal entries. False if another commit came first. Other errors leave the outcome
        unknown.
        """
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
            raise RuntimeError(
                f"operation {entry.number} was acknowledged, but no commit of {name} has its marker {entry.marker}: "
                "the table or its log was changed by hand; create the tables again"
            )
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
    """A writer of the tables that ``demo.load`` created from ``raw``. A step changes ``size`` orders.

    Seed, size and names determine the series of changes: a journal can only be continued with the same ones.
    """
    header = {"journal": uuid.uuid4().hex, "seed": seed, "size": size, "tables": list(names)}
    refresh = Refresh(seed, size, hot_orders(raw))
    return Writer(tables, names, open_engine(engine, tables), Journal(journal, header), refresh, report)


def main() -> None:
    pace = Pace()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path, help="directory of the parquet files of demo.tpch")
    parser.add_argument("tables", type=Path, help="directory of the Delta tables of demo.load")
    parser.add_argument("journal", type=Path, help="JSON lines; an existing journal is continued")
    parser.add_argument("--table", choices=tuple(TABLES), help="write only this table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=10, help="orders changed in a step, with their lineitems")
    parser.add_argument("--rate", type=float, default=pace.rate, help="maximum commits per second")
    parser.add_argument("--commits", type=int, help="number of commits; without it, until stopped")
    parser.add_argument(
        "--optimize-after",
        type=int,
        default=pace.optimize_after,
        help="commits before the one OPTIMIZE; 0: never",
    )
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    arguments = parser.parse_args()

    stop, optimize = threading.Event(), threading.Event()
    set_on_signal({signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGUSR1: optimize})
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
