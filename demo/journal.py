"""What the writer did, in its own words: one line of JSON before each commit, one after it.

The line before holds the rows, so an operation whose outcome nobody recorded is still known, and whether it
landed is read from the table's log by its marker. Standard library only: neither Spark nor Delta has a say.
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
    """One commit to one table: the full rows it leaves behind, and the keys it takes away.

    ``assignments`` are the columns that an ``update`` sets, to the same values in all of its rows.
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
    """An operation and what became of it.

    ``version`` is None unless a commit carries it. An OPTIMIZE with nothing to do is ok without one.
    """

    number: int
    step: int | None
    marker: str
    after: int
    """The table's version before the operation: its commit can only be later."""
    operation: Operation
    outcome: Outcome = "unknown"
    version: int | None = None
    error: str | None = None


class Journal:
    """Appends to a journal file; a line that was written outlives the writer.

    A file that is there already is continued: a torn last line is cut off, numbers go on.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        kept = path.read_bytes() if path.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]
        found = json.loads(kept[: kept.index(b"\n")]) if kept else None
        self.id: str = found["journal"] if found else header["journal"]
        if found and found != {**header, "journal": self.id}:
            raise ValueError(f"{path} was written by a writer with other settings: {found}")
        self._file = path.open("r+b" if kept else "wb")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))
        self.past = read(path)
        """The entries of the writers before."""
        self._next = 1 + len(self.past)
        if not kept:
            self._append(header)

    def begin(self, operation: Operation, after: int, step: int | None = None) -> Entry:
        """The entry of an operation that is about to be tried."""
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
        """Records what became of it."""
        self._append({"end": entry.number, "outcome": outcome, "version": version, "error": error})

    def close(self) -> None:
        self._file.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, default=_tagged, separators=(",", ":")).encode() + b"\n")
        self._file.flush()


def read(path: Path) -> list[Entry]:
    """All entries in order; those that no line closes are unknown. A torn last line is no line."""
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
    """The same entries without unknown ones: each is looked up in the log of its table.

    Only for a writer that is gone, with its JVM if it had one: what still runs may land after the look.
    """
    for entry in entries:
        if entry.outcome == "unknown":
            version = find(tables / entry.operation.table, entry.marker, entry.after)
            yield replace(entry, outcome="failed" if version is None else "ok", version=version)
        else:
            yield entry


def find(table: Path, marker: str, after: int) -> int | None:
    """The version later than ``after`` whose commit carries ``marker`` as its user metadata."""
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
    raise TypeError(f"a journal holds no {type(value).__name__}")


def _untagged(value: dict[str, Any]) -> Any:
    match value:
        case {"$decimal": text}:
            return Decimal(text)
        case {"$date": text}:
            return date.fromisoformat(text)
    return value
