"""Orders that a browser sends: read strictly, signed with Airflow's user.

Whoever does not receive the answer can send an order again: with the same ``id``, it is the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill.builds.ordering import check_errand, only_drops
from airflow_backfill.core.attempts.refusal import check_reason, refusal
from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.values.control import Command, Errand, Verb
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.reader import BuildReader

MAX_BYTES = 1 << 14
VIA = "page"
MAX_KEY = 100
"""Columns of a key."""


@dataclass(frozen=True, slots=True)
class Order:
    """A command, or an errand; ``epoch`` is for a recovery, ``key`` and ``since`` are for an explanation."""

    what: Command | Errand
    signed: Signature
    epoch: int | None = None
    key: tuple[str, ...] = ()
    since: int | None = None
    name: str | None = None
    """What tells it from others, if whoever sends it has named it."""

    @property
    def verb(self) -> str:
        return self.what.value if isinstance(self.what, Errand) else self.what.verb.value

    @property
    def needs_spark(self) -> bool:
        """Whether an application of its own carries it out. A cancel can also be ordered without one."""
        return isinstance(self.what, Errand) or self.what.verb is Verb.CANCEL

    def parameters(self, target: str) -> dict[str, Any]:
        """For a run that carries it out; those of other orders are left out."""
        drop = self.what.drop if isinstance(self.what, Command) else None
        given: dict[str, Any] = {"why": self.signed.why, "drop": drop, "epoch": self.epoch}
        given |= {"key": list(self.key) or None, "since": self.since}
        told = {name: value for name, value in given.items() if value is not None}
        return {"target": target, "verb": self.verb, **told}

    def check(self, reader: BuildReader) -> None:
        """Raise what keeps an application from carrying it out."""
        if isinstance(self.what, Errand):
            return check_errand(reader, self.what, self.signed)
        check_reason(self.what, self.signed)
        try:
            refused = refusal(self.what.verb, reader.state())
        except BackfillError as error:
            # What cannot be read can still be dropped.
            refused = None if self.what.drop and only_drops(reader, error) else error
        if refused is not None:
            raise refused
        return None


def order_in(body: bytes, by: str) -> Order:
    """The order in a request's body: ``verb``, and ``rate``, ``byte_rate``, ``until``, ``drop``, ``epoch``, ``key``,
    ``since`` and ``why`` where it takes them; and ``id``, which tells it from other orders with the same content.
    Nothing else is taken from it. InvalidSpec for anything else.
    """
    if len(body) > MAX_BYTES:
        raise InvalidSpec(f"a command has at most {MAX_BYTES} bytes")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidSpec("a command must be a JSON object") from None
    match given:
        case {"verb": str(verb), **more}:
            return _order(verb, more, by)
    raise InvalidSpec("verb: a command must be a JSON object with a verb", field="verb")


_NUMBERS = ("rate", "byte_rate", "until", "epoch", "since")
_TYPES: Mapping[str, type] = {**dict.fromkeys(_NUMBERS, int), "drop": bool, "why": str, "key": list, "id": str}
_ID = re.compile(r"[A-Za-z0-9-]{8,64}", re.ASCII)
_WORDS = {int: "a whole number", bool: "true or false", str: "a text", list: "a list of texts"}


def _order(verb: str, more: Mapping[Any, Any], by: str) -> Order:
    known = [one.value for one in (*Verb, *Errand)]
    if verb not in known:
        raise invalid("verb", verb, f"must be one of {', '.join(known)}")
    wrong = sorted(more.keys() - _TYPES.keys())
    if wrong:
        raise InvalidSpec(
            f"unknown fields {', '.join(map(ascii, wrong))} (known: verb, {', '.join(_TYPES)})", field=ascii(wrong[0])
        )
    for name, kind in _TYPES.items():
        if more.get(name) is not None and type(more[name]) is not kind:
            raise invalid(name, more[name], f"must be {_WORDS[kind]}")
    named = _name(verb, more)
    via = VIA if named is None else f"{VIA}/{named}"
    signed = Signature(by=by, why=(more.get("why") or "").strip() or None, via=via)
    epoch = more.get("epoch")
    if (epoch is not None and verb != Errand.RECOVER.value) or (epoch or 0) < 0:
        raise invalid("epoch", epoch, "only recover takes the epoch at which the rows stand")
    key, since = _key(verb, more)
    if verb in [one.value for one in Errand]:
        return Order(Errand(verb), signed, epoch, key, since, named)
    rates = {name: more.get(name) for name in ("rate", "byte_rate", "until")}
    return Order(Command(Verb(verb), drop=bool(more.get("drop")), signed=signed, **rates), signed, name=named)


def _name(verb: str, more: Mapping[Any, Any]) -> str | None:
    """The id with a digest of the content: an id that is used again for another order does not hide that order."""
    given = more.get("id")
    if given is None:
        return None
    if not _ID.fullmatch(given):
        raise invalid("id", given, "must have 8 to 64 letters, digits and hyphens")
    return f"{given}-{fingerprint([verb, dict(more)])[:8]}"


def _key(verb: str, more: Mapping[Any, Any]) -> tuple[tuple[str, ...], int | None]:
    """The key and the first epoch of an explanation; nothing for other orders."""
    key, since = more.get("key"), more.get("since")
    if verb != Errand.EXPLAIN.value:
        if (key, since) != (None, None):
            raise invalid("key", key, "only explain takes a key, and the first epoch to look at")
        return (), None
    sound = isinstance(key, list) and 0 < len(key) <= MAX_KEY
    if not sound or not all(isinstance(part, str) and "=" in part for part in key or ()):
        raise invalid("key", key, "explain takes column=value for each column of the key")
    if since is not None and since < 0:
        raise invalid("since", since, "must be an epoch or an offset, 0 or more")
    return tuple(key or ()), since
