"""The writer's journal: one line of JSON before each commit, and one after it.

The line before has the rows. So an operation without a recorded outcome is still known, and its marker in the table's
log says whether it landed. Standard library only: no Spark, no Delta.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Kind = Literal["append", "delete", "update", "merge", "optimize"]
Outcome = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One commit to one table: the complete rows that it writes, and the keys that it deletes.

    ``assignments`` are the columns that an ``update`` sets, with the same value in all rows.
    """

    table: str
    kind: Kind
    upserts: tuple[Row, ...] = ()
    deletes: tuple[Key, ...] = ()
    assignments: Row | None = None

    @property
    def rows(self) -> int:
        return len(self.upserts) + len(self.deletes)


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation and its outcome.

    ``version`` is None without a commit. An OPTIMIZE with nothing to do is ok without a version.
    """

    number: int
    step: int | None
    marker: str
    after: int
    """The table's version before the operation: its commit has a greater one."""
    operation: Operation
    outcome: Outcome = "unknown"
    version: int | None = None
    error: str | None = None


class Journal:
    """Appends to a journal file. A written line survives the end of the writer.

    An existing file is continued: an incomplete last line is removed, and numbers go on.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        kept = path.read_bytes() if path.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]
        found = json.loads(kept[: kept.index(b"\n")]) if kept else None
        self.id: str = found["journal"] if found else header["journal"]
        if found and found != {**header, "journal": self.id}:
            raise ValueError(
                f"{path} was written by a writer with other settings, so its changes cannot be continued: {found}; use "
                "the same settings or a new journal"
            )
        self._file = path.open("r+b" if kept else "wb")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))
        self.past = read(path)
        """The entries of earlier writers."""
        self._next = 1 + len(self.past)
        if not kept:
            self._append(header)

    def begin(self, operation: Operation, after: int, step: int | None = None) -> Entry:
        """Record an operation before it is tried."""
        entry = Entry(self._next, step, f"{self.id}/{self._next}", after, operation)
        self._next += 1
        self._append(
            {
                "begin": entry.number,
                "step": step,
                "marker": entry.marker,
                "after": after,
                "table": operation.table,
                "kind": operation.kind,
                "upserts": operation.upserts,
                "deletes": operation.deletes,
                "assignments": operation.assignments,
            }
        )
        return entry

    def end(self, entry: Entry, outcome: Outcome, version: int | None = None, error: str | None = None) -> None:
        """Record its outcome."""
        self._append({"end": entry.number, "outcome": outcome, "version": version, "error": error})

    def close(self) -> None:
        self._file.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, default=_tagged, separators=(",", ":")).encode() + b"\n")
        self._file.flush()


def read(path: Path) -> list[Entry]:
    """All entries in order; without a second line, with an unknown outcome. An incomplete last line is ignored."""
    entries: dict[int, Entry] = {}
    with path.open(encoding="utf-8") as lines:
        for text in lines:
            if not text.endswith("\n"):
                break
            line = json.loads(text, object_hook=_untagged)
            if "begin" in line:
                entries[line["begin"]] = _entry(line)
            elif "end" in line:
                closed = entries[line["end"]]
                entries[line["end"]] = replace(
                    closed, outcome=line["outcome"], version=line["version"], error=line["error"]
                )
    return list(entries.values())


def resolved(entries: Iterable[Entry], tables: Path) -> Iterator[Entry]:
    """The same entries, with unknown outcomes looked up in the log of their table.

    Call it only after the writer and its JVM have ended: a running commit may land later.
    """
    for entry in entries:
        if entry.outcome == "unknown":
            version = find(tables / entry.operation.table, entry.marker, entry.after)
            yield replace(entry, outcome="failed" if version is None else "ok", version=version)
        else:
            yield entry


def find(table: Path, marker: str, after: int) -> int | None:
    """The version after ``after`` whose commit has ``marker`` as its user metadata; None if there is none."""
    version = after + 1
    while (commit := table / "_delta_log" / f"{version:020d}.json").exists():
        with commit.open(encoding="utf-8") as actions:
            for action in map(json.loads, actions):
                if action.get("commitInfo", {}).get("userMetadata") == marker:
                    return version
        version += 1
    return None


def _entry(line: Mapping[str, Any]) -> Entry:
    operation = Operation(
        line["table"],
        line["kind"],
        tuple(line["upserts"]),
        tuple(tuple(key) for key in line["deletes"]),
        line["assignments"],
    )
    return Entry(line["begin"], line["step"], line["marker"], line["after"], operation)


def _tagged(value: Any) -> dict[str, str]:
    match value:
        case Decimal():
            return {"$decimal": str(value)}
        case date():
            return {"$date": value.isoformat()}
    raise TypeError(f"a journal cannot store a value of type {type(value).__name__}; add it to _tagged and _untagged")


def _untagged(value: dict[str, Any]) -> Any:
    match value:
        case {"$decimal": text}:
            return Decimal(text)
        case {"$date": text}:
            return date.fromisoformat(text)
    return value
