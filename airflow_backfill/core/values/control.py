"""Commands of operators to a build, and the control state that they result in.

Commands are numbered documents beside the target. They take effect at the next barrier, whose record acknowledges the
highest number that it knew. A pause and a rate of 0 both stop new rounds of the snapshot, and each is lifted by its own
command (S004.17). A throttle sets both rates, rows and bytes; the slower one counts. A throttle with an end is lifted
by the first look at the commands after it, by the clock of the attempt that looks; the record of the next barrier says
so, and what a record has lifted stays lifted. Only speed depends on that clock. Two commands are permanent: after a
skip, lost records are counted and no longer stop the build; after a dead-letter, undecodable records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import UNSIGNED, Signature


class Verb(str, Enum):
    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"
    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class Errand(str, Enum):
    """An order that an application of its own carries out. Its value is the application's name."""

    RECOVER = "recover"
    REPAIR = "repair"
    PROVE = "prove"
    EXPLAIN = "explain"

    @property
    def looks(self) -> bool:
        """Whether it only looks: it writes no row, and is no work on the build."""
        return self in (Errand.PROVE, Errand.EXPLAIN)


LOOKS = frozenset(errand.value for errand in Errand if errand.looks)
"""The applications of errands that only look."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Rates are per second, None is unlimited; only throttle takes them. Only cancel takes ``drop``.

    Two commands with the same effect are equal, whoever signed them.
    """

    verb: Verb
    rate: int | None = None
    """Rows."""
    drop: bool = False
    byte_rate: int | None = None
    until: int | None = None
    """When a throttle ends, milliseconds since 1970; None if only another command ends it. No limit follows."""
    signed: Signature = field(default=UNSIGNED, compare=False)

    def __post_init__(self) -> None:
        for name in ("rate", "byte_rate", "until"):
            value = getattr(self, name)
            if value is not None and type(value) is not int:
                raise invalid(name, value, "must be a whole number")
        for name, rate in (("rate", self.rate), ("byte_rate", self.byte_rate)):
            if rate is not None and (self.verb is not Verb.THROTTLE or rate < 0):
                raise InvalidSpec(
                    f"{name}: only throttle takes a rate, and it must be at least 0 (got {rate} for {self.verb.value})",
                    field=name,
                    value=rate,
                )
        if self.until is not None and (self.until < 0 or (self.rate, self.byte_rate) == (None, None)):
            raise InvalidSpec("until: only a throttle with a rate ends at a time; leave it out", field="until")
        if self.drop and self.verb is not Verb.CANCEL:
            raise InvalidSpec(f"drop: only cancel takes it, not {self.verb.value}; leave it out", field="drop")

    def to_json(self) -> dict[str, Any]:
        end = {} if self.until is None else {"until": self.until}
        effect = {"verb": self.verb.value, "rate": self.rate, "drop": self.drop, "byte_rate": self.byte_rate}
        return {**effect, **end, **self.signed.to_json()}

    @staticmethod
    def from_json(value: Any) -> Command:
        match value:
            case {"verb": str(verb), "rate": rate, "drop": bool(drop), "byte_rate": byte_rate, **more}:
                _check_known(more)
                until: Any = more.get("until")
                with suppress(ValueError, InvalidSpec):
                    return Command(Verb(verb), rate, drop, byte_rate, until, Signature.in_document(value))
        raise RecordInvalid(f"not a command: {value!r}"[:300], value=repr(value)[:200])


_ADDED = {"until", "by", "why", "at", "via"}
"""Fields that documents of version 0.1 do not have."""


def _check_known(added: Mapping[Any, Any]) -> None:
    """RecordInvalid for a field that only a newer version can have written: its effect must not be ignored."""
    unknown = sorted(str(name) for name in added.keys() - _ADDED)
    if unknown:
        raise RecordInvalid(
            f"a command has fields that this version does not know: {', '.join(unknown)[:200]}; use a newer version",
            fields=unknown[:20],
        )


@dataclass(frozen=True, slots=True)
class Control:
    """The control state in force. ``number`` is the last command that it includes."""

    number: int = 0
    paused: bool = False
    rate: int | None = None
    held: bool = False
    cancelled: bool = False
    drop: bool = False
    byte_rate: int | None = None
    skips: bool = False
    """Whether the build of a topic goes on without the records that neither Kafka nor the landing table has."""
    dead_letters: bool = False
    """Whether undecodable records of a topic go to a table beside the target, if the plan names no other."""
    until: int | None = None
    """When the throttle ends, milliseconds since 1970; None if only a command ends it."""

    @property
    def stopped(self) -> bool:
        """Whether no new round of the snapshot may start."""
        return self.paused or 0 in self.rates

    @property
    def rates(self) -> tuple[int | None, int | None]:
        """Rows and bytes per second; None for no limit."""
        return self.rate, self.byte_rate

    @property
    def limited(self) -> bool:
        """Whether a throttle is in force."""
        return self.rates != (None, None)

    def at(self, now: int) -> Control:
        """What is in force ``now``, in milliseconds since 1970: a throttle whose end has come is lifted."""
        if self.until is None or now < self.until:
            return self
        return replace(self, rate=None, byte_rate=None, until=None)

    def to_json(self) -> dict[str, Any]:
        empty = Control()
        return {name: getattr(self, name) for name in _NAMES if getattr(self, name) != getattr(empty, name)}

    @staticmethod
    def from_json(value: Any) -> Control:
        if not isinstance(value, dict) or not set(value) <= set(_NAMES):
            raise RecordInvalid(f"not a control state: {value!r}", value=repr(value)[:200])
        for name, part in value.items():
            wanted = int if name in ("number", "rate", "byte_rate", "until") else bool
            if type(part) is not wanted or part < 0:
                raise RecordInvalid(f"not a control state: {value!r}", value=repr(value)[:200])
        return Control(**value)


_NAMES = tuple(one.name for one in fields(Control))


def obey(control: Control, commands: Iterable[tuple[int, Command]]) -> Control:
    """``control`` after the numbered ``commands`` that it does not include yet."""
    effects: dict[str, Any] = {}
    for number, command in commands:
        if number > effects.get("number", control.number):
            effects |= {"number": number, **_effect(command)}
    return replace(control, **effects) if effects else control


def resumed(control: Control, commands: Sequence[tuple[int, Command]], number: int) -> Control:
    """``obey``, but every cancel up to ``number`` is lifted; a later one stays in force."""
    known = obey(control, [(n, command) for n, command in commands if n <= number])
    if known.number <= number:
        known = replace(known, cancelled=False, drop=False)
    return obey(known, commands)


def _effect(command: Command) -> dict[str, Any]:
    match command.verb:
        case Verb.PAUSE:
            return {"paused": True}
        case Verb.RESUME:
            return {"paused": False}
        case Verb.THROTTLE:
            return {"rate": command.rate, "byte_rate": command.byte_rate, "until": command.until}
        case Verb.HOLD:
            return {"held": True}
        case Verb.RELEASE:
            return {"held": False}
        case Verb.CANCEL:
            return {"cancelled": True, "drop": command.drop}
        case Verb.SKIP:
            return {"skips": True}
        case Verb.DEAD_LETTER:
            return {"dead_letters": True}
