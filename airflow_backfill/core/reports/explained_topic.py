"""The explanation of a row of a topic's build: the verdict, and the explanation as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_backfill.core.kafka.reach import Fate
from airflow_backfill.core.reports.explained_row import EQUAL, Row, conclusion, heading, made, shown, time, unequal


def verdict(
    holds: Sequence[Row], should: Sequence[Row] | None, unknown: str | None, fates: Sequence[Fate]
) -> tuple[str, str]:
    """Whether the target ``holds`` what it ``should``, and what that means. ``unknown``: why that cannot be said.
    ``fates``: what became of each record of the key.
    """
    if (other := unequal(holds, should, unknown)) is not None:
        return other
    missed, pending = fates.count(Fate.MISSED), fates.count(Fate.PENDING)
    never = f"; {_many(missed)} of the key never landed: no row is made of {'it' if missed == 1 else 'them'}"
    later = f"; {_many(pending)} of the key {'is' if pending == 1 else 'are'} still pending"
    more = (never if missed else "") + (later if pending else "")
    return EQUAL, f"the target holds what the records say that the build has taken{more}"


def as_text(found: Mapping[str, Any]) -> str:
    """The explanation as lines."""
    lines = [heading(found), f"  topic     {looked_at(found)}"]
    lines += [f"  WARNING   {said}" for said in warnings(found)]
    for one in records(found):
        lines.append(f"  record    {one['place']}, {time(one['at'])}, {one['kept']}; {one['fate']}")
        lines += [f"            had    {one['had']}"] if one["had"] is not None else []
        lines.append(f"            {'made   ' if one['had'] is not None else ''}{one['made']}")
    lines += [] if found["records"] else ["            no record of the key"]
    return "\n".join([*lines, *conclusion(found)])


def looked_at(found: Mapping[str, Any]) -> str:
    """Which offsets of the topic were looked at."""
    topic = found["topic"]
    partitions: Sequence[Mapping[str, Any]] = topic["partitions"]
    if len(partitions) == 1:
        (one,) = partitions
        return f"{topic['name']}, partition {one['partition']}: offsets {one['from']:,} to {one['to']:,} looked at"
    offsets = sum(one["to"] - one["from"] + 1 for one in partitions)
    return f"{topic['name']}, {len(partitions)} partitions: {offsets:,} offsets looked at"


def warnings(found: Mapping[str, Any]) -> list[str]:
    """What may be missing in the explanation."""
    topic = found["topic"]
    said = [
        f"partition {one['partition']}: {one['gone']:,} offsets before {one['kafka_from']:,} are neither in Kafka nor "
        "in the landing table: deleted, or never a record"
        for one in topic["partitions"]
        if one["gone"]
    ]
    said += [] if topic["error"] is None else [f"only the landing table was read: {topic['error']['message']}"]
    return said + (["there are more records; these are the newest"] if found["truncated"] else [])


def records(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of the key, in the order in which they count: ``place``, ``at`` (a time), who has ``kept`` it, its
    ``fate``, and as texts the values that it ``had`` (None if it cannot be decoded) and the row that is ``made`` of it.
    """
    return [
        {
            "place": f"offset {one['offset']:,} of partition {one['partition']}",
            "at": one["at"],
            "kept": _kept(one["kept_by"]),
            "fate": _fate(one),
            "had": None if one["undecodable"] is not None else shown(_values(one["image"])),
            "made": _made(one),
        }
        for one in found["records"]
    ]


def _values(image: Row) -> Row:
    """The record without its place and time, which are named, and without headers where it has none."""
    named = ("partition", "offset", "timestamp", *(() if image.get("headers") else ("headers",)))
    return {name: value for name, value in image.items() if name not in named}


def _made(one: Mapping[str, Any]) -> str:
    if one["undecodable"] is not None:
        return f"cannot be decoded: {one['undecodable']}; it changes no row"
    return "no row: a tombstone deletes it" if one["tombstone"] else made(one["made"])


def _many(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _kept(by: Sequence[str]) -> str:
    names = {"kafka": "in Kafka", "landing": "in the landing table"}
    return " and ".join(names[one] for one in by) if len(by) > 1 else f"only {names[by[0]]}"


def _fate(one: Mapping[str, Any]) -> str:
    applied = one["applied_in"]
    return (
        {
            Fate.BEFORE: "before the start of the history, so it makes no row",
            Fate.TAKEN: "taken; the target's log no longer says in which version",
            Fate.PENDING: "pending" if "landing" in one["kept_by"] else "pending: not read yet, or not landed",
            Fate.MISSED: "never landed, although later records have, so it makes no row",
            Fate.LATER: "after the end of the history, so it belongs to the stream that follows",
        }[Fate(one["fate"])]
        if applied is None
        else f"taken in version {applied['version']}"
    )
