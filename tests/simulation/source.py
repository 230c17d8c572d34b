"""A model of the source: versions with rows, data files, OPTIMIZE, log clean-up, vacuum, replacement."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from airflow_backfill.core.delta.epochs import FEED, epoch_of, lost
from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.commit import Commit, FileTotals, TableMetadata

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "key", "type": "long", "nullable": True, "metadata": {}}]})
"""The column is one of a landing table's, which no build does without."""
ROWS_PER_FILE = 3

Rows = dict[int, int]


def transform(rows: Rows) -> Rows:
    """The spec's select and where: rows can leave the filter and come back."""
    return {key: value * 2 for key, value in rows.items() if value % 5}


@dataclass(frozen=True)
class Version:
    rows: Rows
    files: tuple[tuple[int, ...], ...]
    """Each data file as the keys in it."""
    commit: Commit
    epochs: dict[str, Epoch] = field(default_factory=dict)
    """What it is to a build, by the build's id."""

    def epoch(self, plan: Plan) -> Epoch:
        if plan.build not in self.epochs:
            self.epochs[plan.build] = epoch_of(plan, self.commit)
        return self.epochs[plan.build]


@dataclass
class Source:
    rng: random.Random
    keys: int
    table_id: str = "source-1"
    versions: list[Version] = field(default_factory=list)
    earliest: int = 0
    vacuumed_before: int = 0
    """Data files of snapshots older than this version are gone."""
    appends: bool = False
    """Whether rows are only added: no feed says what else happens."""
    replaced_at: int | None = None
    """The first version of another table in this one's place."""
    forgot: bool = False
    """Whether it once had other commits than it has now."""
    forked_at: int | None = None
    """The first version that is another one since the table was put back from a backup."""
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        rows = {key: self.rng.randrange(100) for key in range(self.keys)}
        self._commit(rows, _files(rows), rows_changed=len(rows), change=True)

    @property
    def head(self) -> int:
        return len(self.versions) - 1

    def write(self, now: int) -> None:
        """A MERGE: some updates, inserts and deletes, the same key again and again over time; or only inserts."""
        rows = dict(self.versions[-1].rows)
        if self.appends:
            new = {len(rows) + n: self.rng.randrange(100) for n in range(self.rng.randrange(1, 4))}
            self._commit(rows | new, _files(rows | new), rows_changed=len(new), change=True, now=now)
            return
        touched = {self.rng.randrange(self.keys + 4) for _ in range(self.rng.randrange(1, 4))}
        for key in touched:
            if key in rows and self.rng.random() < 0.4:
                del rows[key]
            else:
                rows[key] = self.rng.randrange(100)
        self._commit(rows, _files(rows), rows_changed=len(touched), change=True, now=now)

    def optimize(self, now: int) -> None:
        last = self.versions[-1]
        self._commit(last.rows, _files(last.rows, shift=1), rows_changed=0, change=False, now=now)

    def replace_table(self, now: int) -> None:
        """Replaced, or dropped and made again with a longer log: only the table's id tells."""
        self.table_id = "source-2"
        self.replaced_at = len(self.versions)
        for value in range(3):
            rows = {0: value}
            self._commit(rows, _files(rows), rows_changed=1, change=True, now=now, schema=None if value else SCHEMA)

    def put_back(self, now: int) -> None:
        """The folder as it was at some version, from a backup, and written on past where it had been."""
        end = self.head
        self.forked_at = 1 + min(self.rng.randint(self.earliest, end) for _ in range(2))
        self._forget(self.forked_at)
        while self.head <= end:
            self.write(now)

    def _forget(self, start: int) -> None:
        """Everything from a version on."""
        self.forgot = True
        del self.versions[start:]

    def cure(self) -> None:
        """The table itself returns to its place, and from a backup what its log and folder have lost."""
        if self.replaced_at is not None:
            self.table_id = "source-1"
            if not self.appends and self.rng.random() < 0.5:
                self.restore(self.replaced_at - 1, self.versions[-1].commit.timestamp)
            else:
                self._forget(self.replaced_at)
        self.replaced_at, self.forked_at, self.earliest, self.vacuumed_before = None, None, 0, 0

    def delete(self, now: int) -> None:
        """Rows go, in a source where they never do."""
        rows = dict(self.versions[-1].rows)
        rows.pop(min(rows, default=0), None)
        self._commit(rows, _files(rows), rows_changed=1, change=True, now=now, removes=True)

    def restore(self, version: int, now: int) -> None:
        """What RESTORE TABLE does: the rows, columns and id of a version come back in a version of its own."""
        at, self.schema = self.versions[version], SCHEMA
        self._commit(at.rows, at.files, rows_changed=len(at.rows), change=True, now=now, schema=SCHEMA)

    def drop_column(self, now: int) -> None:
        last = self.versions[-1]
        self.schema = json.dumps({"type": "struct", "fields": []})
        self._commit(last.rows, last.files, rows_changed=0, change=False, now=now, schema=self.schema)

    def _commit(
        self,
        rows: Rows,
        files: tuple[tuple[int, ...], ...],
        *,
        rows_changed: int,
        change: bool,
        now: int = 0,
        schema: str | None = None,
        removes: bool = False,
    ) -> None:
        metadata = None
        if schema or not self.versions:
            metadata = TableMetadata(self.table_id, schema or SCHEMA, (), {FEED: "true"})
        commit = Commit(
            version=len(self.versions),
            timestamp=now,
            operation="MERGE" if change else "OPTIMIZE",
            added=FileTotals(1, rows_changed, rows_changed),
            changed=FileTotals()
            if self.appends or not (change and self.versions)
            else FileTotals(1, rows_changed, rows_changed),
            removed=FileTotals(1, rows_changed, rows_changed) if removes else FileTotals(),
            data_change=change,
            rewrites=not change,
            metadata=metadata,
            digest=f"{len(self.versions)} {'of before' if self.forked_at is None else 'since'}",
        )
        self.versions.append(Version(rows, files, commit))

    def view(self, plan: Plan, after: int) -> SourceView:
        numbers = range(after + 1, self.head + 1)
        epochs = [lost(n) if n < self.earliest else self.versions[n].epoch(plan) for n in numbers]
        digest = self.versions[after].commit.digest if self.earliest <= after <= self.head else None
        return SourceView(self.table_id, self.head, after, Backlog(epochs), digest=digest)

    def read_files(self, version: int, indices: range) -> list[tuple[int, int]]:
        if version < self.vacuumed_before:
            raise HistoryLost(f"a data file of version {version} is gone", version=version)
        at = self.versions[version]
        if indices and indices[-1] >= len(at.files):
            raise HistoryLost(f"version {version} has other files than were planned", version=version)
        rows = {key: at.rows[key] for n in indices for key in at.files[n]}
        return list(transform(rows).items())

    def read_keys(self, version: int, low: float, high: float) -> list[tuple[int, int]]:
        if version < self.vacuumed_before:
            raise HistoryLost(f"a data file of version {version} is gone", version=version)
        rows = {key: value for key, value in self.versions[version].rows.items() if low < key <= high}
        return list(transform(rows).items())

    def changes(self, start: int, stop: int) -> tuple[Rows, set[int]]:
        """Net upserts and deletes of target rows over ``start <= e < stop``, from the versions' own rows."""
        if start < self.earliest:
            raise HistoryLost(f"epoch {start} is gone", version=start)
        upserts: Rows = {}
        deletes: set[int] = set()
        for version in range(start, stop):
            before, after = self.versions[version - 1].rows, self.versions[version].rows
            shown = transform(after)
            for key in before.keys() | after.keys():
                if before.get(key) == after.get(key):
                    continue
                upserts.pop(key, None)
                deletes.discard(key)
                if key in shown:
                    upserts[key] = shown[key]
                else:
                    deletes.add(key)
        return upserts, deletes


def _files(rows: Rows, shift: int = 0) -> tuple[tuple[int, ...], ...]:
    keys = sorted(rows)
    size = ROWS_PER_FILE + shift
    return tuple(tuple(keys[i : i + size]) for i in range(0, len(keys), size))
