"""A model of the target's Delta log: optimistic transactions with ids, conflicts, RESTORE, foreign writers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.model.plan import app_id as plan_app_id
from airflow_backfill.core.values.commit import Commit, FileTotals, TableMetadata

TABLE_ID = "target-1"
DROPPED = "d" * 32
"""The build of the table that stood here before."""
SCHEMA = '{"type":"struct","fields":[]}'
Bag = Counter[tuple[int, int]]


def same(one: Bag, other: Bag) -> bool:
    """Whether both hold the same rows. As dictionaries they are compared many times faster, but they may differ in
    zeros.
    """
    return dict.__eq__(one, other) or one == other


@dataclass(frozen=True)
class Landed:
    commit: Commit
    content: Bag
    writer: str
    """The process that wrote it, or "" for somebody else."""


@dataclass
class Transaction:
    """A commit under way: what it read is fixed when it begins."""

    app_id: str
    version: int
    text: str
    appends: Bag
    removes_keys: frozenset[int]
    merge: bool
    read_version: int
    skipped: bool
    writer: str


@dataclass
class Target:
    log: list[Landed] = field(default_factory=list)
    table_id: str = TABLE_ID
    earliest: int = 0
    """The oldest version whose commit was not cleaned up."""
    rules: dict[str, str] = field(default_factory=dict)
    """Properties under which nothing may be written."""
    txns: dict[str, int] = field(default_factory=dict)
    """The greatest version of each transaction id; a RESTORE takes none back."""

    def __post_init__(self) -> None:
        metadata = TableMetadata(self.table_id, SCHEMA)
        self._land(Commit(0, operation="CREATE TABLE", metadata=metadata), Counter(), "")

    @property
    def head(self) -> int:
        return len(self.log) - 1

    @property
    def content(self) -> Bag:
        return self.log[-1].content

    def read(self, version: int) -> Commit:
        if not self.earliest <= version <= self.head:
            raise HistoryLost(f"version {version} of the target's log is gone", version=version)
        return self.log[version].commit

    def last_txn(self, app_id: str) -> int:
        return self.txns.get(app_id, 0)

    def begin(
        self,
        app_id: str,
        version: int,
        text: str,
        writer: str,
        appends: Bag,
        removes: frozenset[int],
        merge: bool,
    ) -> Transaction:
        """As Delta does: a version that is already there makes the write a silent no-op."""
        skipped = self.last_txn(app_id) >= version
        return Transaction(app_id, version, text, appends, removes, merge, self.head, skipped, writer)

    def finish(self, txn: Transaction) -> str | None:
        """Land the transaction, or return the kind of its conflict. A skipped one returns None, too."""
        if txn.skipped:
            return None
        if txn.read_version > self.head:
            return "ConcurrentWrite"  # of a table that was dropped, and the next one has fewer commits
        since = [landed.commit for landed in self.log[txn.read_version + 1 :]]
        if any(txn.app_id in commit.txns for commit in since):
            return "ConcurrentTransaction"
        if any(commit.metadata is not None for commit in since):
            return "MetadataChanged"
        if txn.merge and any(commit.added.files or commit.rewrites for commit in since):
            return "ConcurrentAppend"
        content: Bag = Counter({row: n for row, n in self.content.items() if row[0] not in txn.removes_keys})
        content.update(txn.appends)
        rows = sum(txn.appends.values())
        commit = Commit(
            self.head + 1,
            operation="MERGE" if txn.merge else "WRITE",
            added=FileTotals(files=1 if rows else 0, rows=rows),
            data_change=bool(rows or txn.removes_keys),
            txns={txn.app_id: txn.version},
            user_metadata=txn.text,
            metrics={"numOutputRows": rows},
        )
        self._land(commit, content, txn.writer)
        return None

    def clean_up(self) -> None:
        """Everything ages out but what came since the newest barrier was begun: who waits renews no more than that."""
        self.earliest = max(self.earliest, self._needed)

    @property
    def outlived(self) -> bool:
        """Whether the newest barrier was begun by a sleeper, before commits that have aged out since."""
        return self._needed < self.earliest

    @property
    def _needed(self) -> int:
        """The first version after what the newest barrier's writer knew."""
        for landed in reversed(self.log):
            document = json.loads(landed.commit.user_metadata or "{}") if landed.writer else {}
            if "airflow_backfill" in document:
                return int(document["prev"]) + 1
        return self.earliest

    def optimize(self) -> None:
        """Somebody's, or an auto-compaction in a session whose user metadata lands on it, too."""
        text = self.log[-1].commit.user_metadata
        self._foreign("OPTIMIZE", self.content, rewrites=True, text=text)

    def set_property(self) -> None:
        metadata = TableMetadata(self.table_id, SCHEMA, configuration={"a": str(self.head), **self.rules})
        self._land(Commit(self.head + 1, operation="SET TBLPROPERTIES", metadata=metadata), self.content, "")

    @property
    def properties(self) -> Mapping[str, str]:
        found = (landed.commit.metadata for landed in reversed(self.log) if landed.commit.metadata is not None)
        return next(found).configuration

    def rule(self, **rules: str) -> None:
        """Somebody sets these rules, and takes off those that were there."""
        self.rules = rules
        self.set_property()

    def append_foreign(self) -> None:
        """With a copy of the last record, but without a transaction id."""
        text = next((x.commit.user_metadata for x in reversed(self.log) if x.commit.user_metadata), None)
        self._foreign("WRITE", self.content + Counter({(999, 999): 1}), data_change=True, text=text)

    def late(self, build: str, rows: int = 0, *, plans: bool = False) -> bool:
        """What an attempt of a dropped build commits that was committing when its table was dropped: like the newest
        commit of ``build``, with this many rows, and its plan only if ``plans``. False if there is nothing to be like.
        """
        ours = (one.commit for one in reversed(self.log) if one.writer and not one.commit.data_change)
        text, txns = next(((one.user_metadata, one.txns) for one in ours), (None, {}))
        if text is None or (plan_app_id(build) in txns and not plans):
            return False
        self._foreign(
            "WRITE",
            self.content + Counter({(999, 999): rows}),
            data_change=rows > 0,
            text=text.replace(build, DROPPED).replace(json.dumps(self.table_id), '"dropped"'),
            txns={name.replace(build, DROPPED): version for name, version in txns.items()},
        )
        return True

    def append_quietly(self, strays: bool = False) -> None:
        """A commit that adds a row, and says that it changes none. With ``strays``, its numbers agree: the file
        that it rewrites is one of the table that stood here before.
        """
        content, file = self.content + Counter({(999, 999): 1}), FileTotals(1, 1, 1)
        removed = file if strays else FileTotals()
        self._foreign("OPTIMIZE", content, rewrites=True, added=file, removed=removed, strays=strays)

    def restore(self, version: int) -> None:
        """Rows go back; transaction ids stay (as Delta does)."""
        self._foreign("RESTORE", self.log[version].content, data_change=True, restored=version)

    def put_right(self, content: Bag) -> None:
        """Somebody makes the rows what they have to be."""
        self._foreign("RESTORE", content, data_change=True)

    def _foreign(
        self,
        operation: str,
        content: Bag,
        *,
        data_change: bool = False,
        rewrites: bool = False,
        text: str | None = None,
        added: FileTotals | None = None,
        removed: FileTotals | None = None,
        strays: bool = False,
        restored: int | None = None,
        txns: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        commit = Commit(
            self.head + 1,
            operation=operation,
            added=added or FileTotals(files=int(data_change)),
            removed=removed or FileTotals(),
            data_change=data_change,
            rewrites=rewrites,
            strays=strays,
            user_metadata=text,
            restored=restored,
            txns=txns,
        )
        self._land(commit, content, "")

    def _land(self, commit: Commit, content: Bag, writer: str) -> None:
        self.log.append(Landed(commit, Counter(content), writer))
        for app_id, version in commit.txns.items():
            self.txns[app_id] = max(version, self.txns.get(app_id, 0))
