"""Upgrades documents of format 1, which have lists where format 2 has named fields.

Releases up to 0.1 wrote format 1, and their builds can go on. An invalid value is kept, and refused when the document
is read as format 2.
"""

from __future__ import annotations

from typing import Any

_NAMES = {
    "layout": ("number", "lanes"),
    "epochs": ("start", "stop"),
    "source": ("version", "digest"),
    "bound": ("start", "value", "stalled", "least"),
    "pending": ("head", "epochs", "rows", "at"),
    "news": ("seen", "version", "seq", "generation", "attempt", "open"),
}
_CERTIFICATE = ("epoch", "target_version", "rows", "digest", "buckets", "at", "gone")
_TAIL = ("at", "seq", "generation", "attempt", "event", "control", "totals", "due", "next_lanes", "decided_by")


def upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """A record of format 1 as one of format 2; ValueError if its lists are too long or too short."""
    document = {**record, "airflow_backfill": 2}
    document |= {name: _named(record[name], _NAMES[name]) for name in _NAMES.keys() & record.keys()}
    document["positions"] = [{"splits": number, **_position(position)} for number, position in record["positions"]]
    if "certificate" in record:
        document["certificate"] = _certificate(record["certificate"])
    if "others" in record:
        tails = {lane: _named(tail, _TAIL) for lane, tail in record["others"].items()}
        document["others"] = {lane: _without_none(tail) for lane, tail in tails.items()}
    return document


def upgraded_announcement(announcement: dict[str, Any]) -> dict[str, Any]:
    """An announcement of format 1 as one of format 2."""
    epochs = announcement["epochs"]
    rest = {name: part for name, part in announcement.items() if name != "epochs"} | {"airflow_backfill_seen": 2}
    return rest if epochs is None else {**rest, "epochs": _named(epochs, _NAMES["epochs"])}


def _named(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(values, list) or len(values) != len(names):
        raise ValueError(f"expected values of {', '.join(names)}, found {values!r}"[:200])
    return dict(zip(names, values, strict=True))


def _certificate(values: Any) -> dict[str, Any]:
    """``gone`` was always written, ``lost`` only if records were lost; format 2 omits both while they are 0."""
    more = isinstance(values, list) and len(values) > len(_CERTIFICATE)
    named = _named(values, (*_CERTIFICATE, "lost") if more else _CERTIFICATE)
    none_gone = type(named["gone"]) is int and named["gone"] == 0
    return {name: part for name, part in named.items() if name != "gone" or not none_gone}


def _without_none(document: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in document.items() if part is not None}


def _position(value: Any) -> dict[str, Any]:
    match value:
        case int(files):
            return {"files": files}
        case [epoch]:
            return {"epoch": epoch}
        case [epoch, dict(partition)]:
            return {"epoch": epoch, "partition": partition}
        case [epoch, chunks, list(key)]:
            return {"epoch": epoch, "chunks": chunks, "key": key}
        case [epoch, done, of]:
            return {"epoch": epoch, "parts_done": done, "parts": of}
    raise ValueError(f"not a position: {value!r}"[:200])
