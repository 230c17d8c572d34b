"""An attempt as people see it: whose task it is, when it began and ended, and whether it lives.

The protocol never asks whether an attempt lives: the newest attempt wins whatever the others do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from typing import Any

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.control import LOOKS

SIGN_SECONDS = 30.0
"""Time between two signs of life of an application."""
SILENT_MS = 480_000
"""An application without a sign of life for this long, in milliseconds, has probably died. Several signs may fail, and
the reader's clock may be five minutes ahead of the driver's.
"""
UNCHANGED_MS = 180_000
"""A process that looks again and again has one clock, and needs less: after this long without a newer sign, in
milliseconds, the application has probably died.
"""
STARTING_MS = 900_000
"""A start may take this long, in milliseconds: the cluster may have to make room."""
APART_MS = 60_000
"""Clocks that differ by more than this, in milliseconds, are told of."""
FENCED = "FENCED"


class Life(str, Enum):
    STARTING = "starting"
    """It was drawn, and its application has not begun yet."""
    RUNNING = "running"
    """Its application gave a sign of life a short time ago."""
    SILENT = "silent"
    """Neither an outcome nor a recent sign of life: it has probably died."""
    SUPERSEDED = "superseded"
    """No outcome, and a newer attempt of the same task has begun."""
    ENDED = "ended"
    """Its outcome is stored."""
    UNKNOWN = "unknown"
    """No outcome and no times: an older version of the package drew it."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A task instance of Airflow."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """Times are milliseconds since 1970, None if unknown."""

    generation: int
    attempt: str
    task: str
    """The application."""
    life: Life
    instance: Instance | None = None
    """None if Airflow did not start it."""
    try_number: int | None = None
    last_try: bool = False
    """Whether Airflow starts no other try of its task after it."""
    by: str | None = None
    why: str | None = None
    drawn: int | None = None
    started: int | None = None
    """When its application began."""
    seen: int | None = None
    """The last sign of life of its application, or its last commit."""
    ended: int | None = None
    outcome: str | None = None
    """``OK`` or the code of the error with which it ended; None before."""
    retry: bool = False
    """Whether another attempt can help against that error."""
    message: str | None = None
    application: str | None = None
    ui: str | None = None
    cost: Mapping[str, Any] | None = None
    """What its application had cost at its last sign of life; None if unknown, as in a service."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The data of that error. It may hold values of rows, so it is not in ``to_json``."""
    damage: BackfillError | None = None
    """The error of a file that should tell more of it."""

    @property
    def works(self) -> bool:
        """Whether it is work on the build: it does not only look, and no newer attempt has taken over."""
        return self.task not in LOOKS and self.outcome != FENCED

    @property
    def lives(self) -> bool:
        return self.life in (Life.STARTING, Life.RUNNING)

    @property
    def failed(self) -> bool:
        """Whether it ended with an error, other than that a newer attempt has taken over, or has probably died."""
        return self.life is Life.SILENT or self.outcome not in (None, "OK", FENCED)

    @property
    def lost(self) -> bool:
        """Whether it failed, and Airflow does not try again."""
        return self.failed and (not self.retry or self.last_try)

    @property
    def last(self) -> int | None:
        """The last time at which something is known of it."""
        return max((at for at in (self.drawn, self.started, self.seen, self.ended) if at is not None), default=None)

    @property
    def behind(self) -> int:
        """By how many milliseconds at least the driver's clock is behind that of the worker who started it: nothing
        begins before it is drawn. 0 for a difference that says nothing.
        """
        if self.drawn is None or self.started is None:
            return 0
        found = self.drawn - self.started
        return found if found > APART_MS else 0

    def to_json(self) -> dict[str, Any]:
        named = asdict(self.instance) if self.instance else dict.fromkeys(("dag_id", "task_id", "run_id", "map_index"))
        left_out = ("instance", "life", "retry", "last_try", "data", "damage")
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return {**plain, **named, "life": self.life.value}

    @staticmethod
    def unreadable(generation: int, damage: BackfillError) -> AttemptStatus:
        """An attempt of which nothing but its number is known."""
        return AttemptStatus(generation, "", "", Life.UNKNOWN, message=str(damage), damage=damage)

    @staticmethod
    def told(
        generation: int,
        document: Mapping[str, Any],
        announced: Mapping[str, Any],
        outcome: Mapping[str, Any] | None,
        seen: int | None,
        now: int,
        damage: BackfillError | None = None,
        unchanged: int = 0,
    ) -> AttemptStatus:
        """The attempt as its files beside the target tell it. ``seen``: its last sign of life, see ``last_sign``.
        An outcome that was presumed, because a launcher lost its application, is none if there is a later sign.
        ``damage``: why one of the files tells nothing; then its life is unknown, unless another one says that it ended.
        ``unchanged``: for how long its last sign of life has been the newest one, as far as whoever looks has seen it.
        """
        said = outcome or {}
        where: list[Any] = [document.get(name) for name in ("dag_id", "task_id", "run_id", "map_index")]
        one = AttemptStatus(
            generation=generation,
            attempt=document["attempt"],
            task=document.get("task", ""),
            life=Life.UNKNOWN,
            instance=None if None in where else Instance(*where),
            try_number=document.get("try_number"),
            last_try=bool(document.get("last_try")) or None in where,
            by=document.get("by"),
            why=document.get("why"),
            drawn=document.get("at"),
            started=announced.get("at"),
            seen=seen,
            ended=said.get("at"),
            outcome=said.get("code"),
            retry=bool(said.get("retry")),
            data=data if isinstance(data := said.get("data"), Mapping) else {},
            message=said.get("message") if damage is None else str(damage),
            damage=damage,
            application=announced.get("application"),
            ui=announced.get("ui"),
            cost=announced.get("cost"),
        )
        if said.get("presumed") and one.ended is not None and (seen or 0) + one.behind > one.ended:
            return AttemptStatus.told(generation, document, announced, None, seen, now, damage, unchanged)
        told = outcome is not None or damage is None
        return replace(one, life=_life(one, outcome is not None, now, unchanged)) if told else one


def last_sign(announced: Mapping[str, Any], committed: int | None) -> int | None:
    """When an application was last known to be alive, by the driver's clock; None if it has not begun."""
    signs = (announced.get("alive"), announced.get("at"), committed)
    return max((at for at in signs if at is not None), default=None)


def _life(one: AttemptStatus, ended: bool, now: int, unchanged: int) -> Life:
    if ended:
        return Life.ENDED
    if one.seen is not None:
        # A clock that is behind is so by as much more as the start took.
        patience = SILENT_MS + (STARTING_MS if one.behind else 0)
        silent = now - one.seen - one.behind
        return Life.RUNNING if silent <= patience and unchanged <= UNCHANGED_MS else Life.SILENT
    if one.drawn is None:
        return Life.UNKNOWN
    return Life.STARTING if now - one.drawn <= STARTING_MS else Life.SILENT


def newest_of(statuses: Iterable[AttemptStatus]) -> dict[tuple[str, Instance], AttemptStatus]:
    """The newest attempt of each task instance and application."""
    found = {}
    for one in sorted(statuses, key=lambda one: one.generation):
        if one.instance is not None:
            found[one.task, one.instance] = one
    return found


def lanes_of(one: AttemptStatus, statuses: Iterable[AttemptStatus]) -> list[AttemptStatus]:
    """The newest attempts of the task instances that Airflow mapped from the task of ``one``, which is among them."""
    if one.instance is None:
        return [one]
    task = replace(one.instance, map_index=-1)
    newest = newest_of(statuses).items()
    return [each for (name, at), each in newest if (name, replace(at, map_index=-1)) == (one.task, task)]
