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
    never = f"; {missed} records of the key never landed, so no row is made of them" if missed else ""
    later = f"; {pending} records of the key are still pending" if pending else ""
    return EQUAL, f"the target holds what the records say that the build has taken{never}{later}"


def as_text(found: Mapping[str, Any]) -> str:
    """The explanation as lines."""
    topic = found["topic"]
    lines = [heading(found), f"  topic     {topic['name']}, {_looked_at(topic['partitions'])}"]
    gone = [one for one in topic["partitions"] if one["gone"]]
    for one in gone:
        lines.append(
            f"  WARNING   partition {one['partition']}: {one['gone']:,} offsets before {one['kafka_from']} are neither "
            "in Kafka nor in the landing table any more, or never had a record"
        )
    if topic["error"] is not None:
        lines.append(f"  WARNING   only the landing table was read: {topic['error']['message']}")
    for one in found["records"]:
        place = f"offset {one['offset']} of partition {one['partition']}"
        lines.append(f"  record    {place}, {time(one['at'])}, {_kept(one['kept_by'])}; {_fate(one)}")
        if one["undecodable"] is not None:
            lines.append(f"            cannot be decoded: {one['undecodable']}; it changes no row")
            continue
        lines.append(f"            had    {shown(one['image'])}")
        lines.append(f"            made   {'no row: a tombstone' if one['tombstone'] else made(one['made'])}")
    lines += [] if found["records"] else ["            no record of the key"]
    if found["truncated"]:
        lines.append("  WARNING   there are more records; these are the newest")
    return "\n".join([*lines, *conclusion(found)])


def _looked_at(partitions: Sequence[Mapping[str, Any]]) -> str:
    offsets = sum(one["to"] - one["from"] + 1 for one in partitions)
    if len(partitions) == 1:
        (one,) = partitions
        return f"partition {one['partition']}: offsets {one['from']:,} to {one['to']:,} looked at"
    return f"{len(partitions)} partitions: {offsets:,} offsets looked at"


def _kept(by: Sequence[str]) -> str:
    names = {"kafka": "in Kafka", "landing": "in the landing table"}
    return " and ".join(names[one] for one in by) if len(by) > 1 else f"only {names[by[0]]}"


def _fate(one: Mapping[str, Any]) -> str:
    applied = one["applied_in"]
    return (
        {
            Fate.BEFORE: "before the history's start, so no row is made of it",
            Fate.TAKEN: "taken, by which version is no longer in the target's log",
            Fate.PENDING: "pending" if "landing" in one["kept_by"] else "pending: not read yet, or not landed",
            Fate.MISSED: "never landed, although later records have: no row is made of it",
            Fate.LATER: "after the end of the history, so it belongs to the stream that follows",
        }[Fate(one["fate"])]
        if applied is None
        else f"taken in version {applied['version']}"
    )
