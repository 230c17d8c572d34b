"""The status of a build, as text and as JSON: its committed state, and how far the source is ahead."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.commands import logged
from airflow_backfill.builds.history import COMMITS
from airflow_backfill.builds.look import ATTEMPTS, RESTS, Look
from airflow_backfill.builds.waiting import stopping, waits_for
from airflow_backfill.core.errors import BackfillError, NotPlanned
from airflow_backfill.core.reports import way_out
from airflow_backfill.core.reports.clocks import doubts
from airflow_backfill.core.reports.difference import difference, named
from airflow_backfill.core.reports.due import to_clear
from airflow_backfill.core.reports.health import health, health_of_plan, in_words
from airflow_backfill.core.reports.progress import Speed
from airflow_backfill.core.reports.summary import running_out, told
from airflow_backfill.core.values.differing import counted
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.reader import BuildReader

SHOWN_COMMANDS = 20
SHOWN_PARTITIONS = 8
PLANNING = "planning"
"""The phase of a build whose plan is not committed yet."""


def status(target: str | BuildReader, *, commits: int = COMMITS) -> dict[str, Any]:
    """The summary of the committed state, the current lag, what the build waits for, its speed, and the last commands
    and attempts, as plain JSON. ``commits``: in so many of the target, the barriers that acknowledged commands are
    looked for.

    While the first plan is made there is no state: ``phase`` is ``planning`` then, and only ``target``, ``since``,
    ``health``, ``waits_for``, ``clocks``, ``attempts`` and ``seen`` are there. NotPlanned if nothing is planned.
    """
    reader, now = BuildReader.of(target), now_ms()
    try:
        return shown(Look.at(reader, now, commits))
    except NotPlanned as missing:
        return planning(reader, now, missing)


def shown(look: Look) -> dict[str, Any]:
    """The status, from what was read of the build."""
    state, source, control, now = look.state, look.source, look.control, look.now
    ahead = None if state.phase in RESTS else source
    stop = look.trouble or stopping(state, ahead)
    recent = look.history.recent
    known = health(state, control, look.commands, look.statuses, stop, now, lambda: recent.longest_ms)
    trouble = look.trouble or look.damage
    speed = Speed.of_barriers(state, recent.of_this_phase) if known.moves else None
    return {
        **told(state, source, speed, now),
        "health": known.to_json(),
        "ordered": control.number,
        "waits_for": waits_for(state, control, ahead, look.trouble, now),
        "clocks": doubts(look.statuses, source, now),
        "to_clear": [asdict(instance) for instance in to_clear(state, look.statuses)],
        "difference": difference(look.settling, state.certificate, state.plan.spec.key),
        "commands": logged(state, look.commands[-SHOWN_COMMANDS:], look.history),
        "attempts": [one.to_json() for one in look.statuses],
        "trouble": None if trouble is None else way_out.told(trouble),
    }


def planning(reader: BuildReader, now: int, missing: BackfillError) -> dict[str, Any]:
    """The status of a build that is being planned, in place of a state that is ``missing``. Raises that if the last
    attempt was no plan or has planned, and DocumentDamaged if the files of that attempt do not tell.
    """
    found = attempts(reader.control, None, now, ATTEMPTS)
    last = found.statuses
    if found.damage is not None and not (last and last[-1].task):
        raise found.damage
    if not last or last[-1].task != "plan" or last[-1].outcome == "OK":
        raise missing
    known = health_of_plan(last[-1], now)
    return {
        "phase": PLANNING,
        "target": reader.target,
        "since": last[-1].drawn,
        "health": known.to_json(),
        "waits_for": [known.why],
        "clocks": doubts(last, None, now),
        "attempts": [one.to_json() for one in last],
        "trouble": None if found.damage is None else way_out.told(found.damage),
        "seen": now,
    }


def as_text(found: dict[str, Any]) -> str:
    """The status as about a dozen lines."""
    if found["phase"] == PLANNING:
        since = "" if found["since"] is None else f" for {_duration((found['seen'] - found['since']) // 1000)}"
        health = f"  health    {_health(found)}"
        lines = [f"{found['target']}: planning{since}", health, *_way_out(found), *_unread(found), *_clocks(found)]
        return "\n".join([*lines, *map(_attempt, found["attempts"])])
    rows, read = found["rows"], found["read"]
    lines = [
        f"{found['name']}: {found['phase']} {found['phase_percent']} %, in all {found['percent']} %{_ahead(found)}",
        f"  source    {_source(found)}",
        f"  target    {found['target']}, version {found['target_version']}, {_stands(found)}",
        f"  {read['unit']:<9} {read['done']:,} of {read['of']:,}, {found['snapshot_bytes']:,} bytes",
        f"  rows      {rows['consuming_snapshot']:,} snapshot, {rows['consuming_log_store']:,} log, "
        f"{rows['consuming_upstream']:,} upstream{_no_rows(found)}",
        f"  pending   {_pending(found['lag'])}",
        *_warnings(found),
        f"  health    {_health(found)}",
        *_way_out(found),
        *(f"  waits for {reason}" for reason in found["waits_for"]),
        *([f"  still     {found['waits']}"] if found["waits"] else []),
        *_unread(found),
        *_clocks(found),
        *_in_force(found),
        *_partitions(found),
    ]
    if found["certificate"] is not None:
        proof = found["certificate"]
        what = f"{proof['rows']:,} rows at epoch {proof['epoch']}"
        lines.append(f"  proven    {what}, {proof['kind']}, {proof['digest']}")
        if proof["gone"]:
            lines.append(f"            Kafka has deleted {proof['gone']:,} records since: counted, not compared")
    lines += _differs(found["difference"])
    if found["cost"] is not None:
        lines.append(f"  cost      {_cost(found['cost'])}")
    clear = found["to_clear"] if found["health"]["needs_attention"] else []
    return "\n".join([*lines, *map(_to_clear, clear), *map(_attempt, found["attempts"])])


_SOURCES = (("topic", "topic {topic}"), ("source", "{source}, planned at epoch {snapshot_epoch}"))
"""What a build reads, by the name in the summary."""


def _source(found: dict[str, Any]) -> str:
    return ", then its landing table ".join(text.format_map(found) for name, text in _SOURCES if found[name])


def _differs(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    what = counted(found["counts"]) or found["message"]
    keys = [f"            {line}" for line in named(found["keys"])]
    return [f"  differs   as attempt {found['generation']} has found: {what}", *keys]


def _attempt(one: dict[str, Any]) -> str:
    said = one["outcome"] or f"no outcome yet, {one['life']}"
    by = "" if one["by"] is None else f", by {one['by']}"
    why = "" if one["why"] is None else f": {one['why']}"
    return f"  attempt   {one['generation']} {one['task'] or 'of an unknown task'}: {said}{by}{why}"


def _to_clear(one: dict[str, Any]) -> str:
    lane = f", map index {one['map_index']}" if one["map_index"] >= 0 else ""
    return f"  to clear  {one['task_id']}{lane} in run {one['run_id']} of {one['dag_id']}, if the build does not go on"


def _ahead(found: dict[str, Any]) -> str:
    speed, left = found["rows_per_second"], found["seconds_left"]
    said = [] if speed is None else [f"{speed:,.0f} rows/s"]
    if left is not None:
        said.append(f"{_duration(left)} left")
    return f" ({', '.join(said)})" if said else ""


def _health(found: dict[str, Any]) -> str:
    health = found["health"]
    by = "" if health["by"] is None else f" by {health['by']}"
    since = "" if health["since"] is None else f", for {_duration((found['seen'] - health['since']) // 1000)}"
    return f"{in_words(health)}{by}{since}: {health['why']}"


def _no_rows(found: dict[str, Any]) -> str:
    counts = {name: found[f"{name}_rows"] for name in ("undecodable", "unwanted", "repeated")}
    return "".join(f", {count:,} {name}" for name, count in counts.items() if count)


def _stands(found: dict[str, Any]) -> str:
    part = found["part"]
    where = "before the snapshot's epoch" if found["epoch"] is None else f"at epoch {found['epoch']}"
    where += "" if found["seen_epoch"] in (None, found["epoch"]) else f", announced through epoch {found['seen_epoch']}"
    where += "" if part is None else f" and {part['done']} of {part['of']} parts of epoch {part['epoch']}"
    return where if found["handoff"] is None else f"{where}, hand-off at epoch {found['handoff']}"


def _cost(cost: dict[str, int]) -> str:
    requests = cost["driver_requests"] + cost["worker_requests"]
    said = (
        f"{cost['core_seconds'] / 3600:,.2f} core hours, {cost['read_bytes']:,} bytes read, "
        f"{cost['written_bytes']:,} written, {requests:,} requests, in {cost['attempts']:,} attempts"
    )
    return f"at least {said}; {cost['uncounted']:,} did not report everything" if cost["uncounted"] else said


def _pending(lag: dict[str, int] | None) -> str:
    if lag is None:
        return "unknown, because the source cannot be read"
    if not lag["epochs"]:
        return f"nothing, the source is at epoch {lag['head']}"
    since = _duration(lag["age"] // 1000)
    return f"{lag['epochs']:,} epochs, about {lag['rows']:,} rows, up to epoch {lag['head']}; the oldest for {since}"


def _warnings(found: dict[str, Any]) -> list[str]:
    warning = running_out(found)
    return [] if warning is None else [f"  WARNING   {warning}"]


def _way_out(found: dict[str, Any]) -> list[str]:
    wanted = found["health"]["way_out"]
    return [] if wanted is None else [f"  way out   {wanted}"]


def _unread(found: dict[str, Any]) -> list[str]:
    """What cannot be read, unless the health names it."""
    trouble = found["trouble"]
    known = trouble is None or trouble["message"] in found["health"]["why"]
    return [] if known else [f"  WARNING   [{trouble['code']}] {trouble['message']}"]


def _clocks(found: dict[str, Any]) -> list[str]:
    return [f"  clock     {doubt}" for doubt in found["clocks"]]


def _in_force(found: dict[str, Any]) -> list[str]:
    control = found["control"]
    names = ("paused", "held", "cancelled", "skips", "dead_letters")
    said = [name.replace("_", " ") for name in names if control[name]]
    if control["rate"] is not None:
        said.append(f"{control['rate']:,} rows/s at most")
    if control["byte_rate"] is not None:
        said.append(f"{control['byte_rate']:,} bytes/s at most")
    return [f"  in force  {', '.join(said)}"] if said else []


def _landed(offset: int | None) -> str:
    return "nothing landed" if offset is None else f"landed up to {offset}"


def _partitions(found: dict[str, Any]) -> list[str]:
    """The unfinished partitions of a topic, those with the most records left first."""
    behind = [one for one in found["partitions"] or () if one["state"] != "finished"]
    behind.sort(key=lambda one: -one["left"])
    lines = [
        f"  partition {one['partition']}: {one['state'].replace('_', ' ')} at {one['offset']}, {one['left']:,} records "
        f"left{_age(one['oldest'], found['seen'])}, {_landed(one['landed'])}"
        for one in behind[:SHOWN_PARTITIONS]
    ]
    more = len(behind) - len(lines)
    return lines + ([f"  and {more} more unfinished partitions"] if more else [])


def _age(oldest: int | None, now: int) -> str:
    return "" if oldest is None else f", the oldest is {_duration((now - oldest) // 1000)} old"


def _duration(seconds: int) -> str:
    """In words; none for a time that has yet to come, by another clock."""
    hours, rest = divmod(max(seconds, 0), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
