"""Keeps the rate of a build at what a clock or another signal says, and out of the way of people."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

from airflow.sdk import BaseOperator

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.attempts.refusal import refusal
from airflow_backfill.core.errors import BackfillError, NotPlanned
from airflow_backfill.core.gates.window import Window
from airflow_backfill.core.values.control import Command, Verb, obey
from airflow_backfill.core.values.limit import Limit
from airflow_backfill.core.values.options import invalid, whole
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.failure import decided
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.links.target import TargetLink
from airflow_backfill.operators.signed import NONE, number, signature
from airflow_backfill.watching.conditions import window_of

if TYPE_CHECKING:
    from airflow.sdk import Context

Signal: TypeAlias = "Callable[[Context], Limit | int | None]"

BUDGET = "budget"
"""Who signs the throttles of this operator. A throttle with another signature is a person's."""
KEPT_COMMANDS = 50
"""Newest commands of a build that stay: every process that works on it reads them all."""


class ThrottleOperator(BaseOperator):
    """
    Throttles a build to what ``signal`` or ``rate`` says now, if that differs from what is in force.

    Run it in a DAG every few minutes, one for each build. It leaves a person's throttle alone until that ends or is
    lifted (``table-backfill throttle TARGET none``), and does nothing while there is no build, or a cancelled one. If
    ``signal`` raises, the task fails, and the rate stays as it is.

    Returns what it did, and why: ``did`` is "throttled", "nothing" or "left alone".

    :param target: location of the target table. (templated)
    :param rate: rows per second; None or "" for no limit, 0 to stop. (templated)
    :param signal: instead of ``rate``, a function of the context that returns one, or a ``Limit``: ``by_the_clock``
        makes such a function.
    :param why: the reason, for the log of commands, unless the function's ``Limit`` has one. (templated)
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
        (templated)
    """

    template_fields: Sequence[str] = ("target", "rate", "why", "ledger_conn_id")
    operator_extra_links = (TargetLink(),)
    ui_color = "#f5e6d3"

    def __init__(
        self,
        *,
        target: str,
        rate: int | str | None = None,
        signal: Signal | None = None,
        why: str | None = None,
        ledger_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.rate = rate
        if signal is not None and not callable(signal):
            raise invalid("signal", signal, "must be a function of the context, such as by_the_clock(…)")
        # No template: Airflow would call it, with other arguments.
        self.signal = signal
        self.why = why
        self.ledger_conn_id = ledger_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with decided(context):
            wanted = self._wanted(context)
            did, why = self._throttle(context, wanted)
        self.log.info("%s: %s", did, why)
        return {"target": self.target, "did": did, "why": why, "rate": wanted.rate, "byte_rate": wanted.byte_rate}

    def _throttle(self, context: Context, wanted: Limit) -> tuple[str, str]:
        reader, now = LedgerHook(self.ledger_conn_id).reader(self.target), now_ms()
        try:
            state = reader.state()
        except NotPlanned as missing:
            return "nothing", missing.message
        refused = refusal(Verb.THROTTLE, state)
        if refused is not None:
            return "nothing", str(refused)
        commands = reader.commands(state.plan.build)
        control = obey(state.control, commands).at(now)
        last = [command for _, command in commands if command.verb is Verb.THROTTLE][-1:]
        if control.limited and not (last and last[0].signed.by == BUDGET):
            person = last[0].signed if last else Signature()
            return "left alone", f"throttled by {person.by or 'an unnamed user'}: {person.why or 'no reason was given'}"
        if (*control.rates, control.until) == (*wanted.rates, wanted.until):
            return "nothing", f"the rate is right already: {wanted.why or 'no reason was given'}"
        signed = replace(signature(context, BUDGET, None), why=wanted.why)
        command = Command(Verb.THROTTLE, wanted.rate, False, wanted.byte_rate, wanted.until, signed)
        number = ordered(reader, command)
        self._forget(reader.control, commands[:-KEPT_COMMANDS])
        return "throttled", f"command {number}, {wanted.why or 'no reason was given'}"

    def _forget(self, control: ControlFolder, commands: Sequence[tuple[int, Command]]) -> None:
        """Delete the throttles of this operator among old commands: a newer one has replaced them."""
        try:
            for number, command in commands:
                if command.signed.by == BUDGET:
                    control.forget(number)
        except BackfillError as error:
            self.log.warning("old throttles stay, and every task of the build reads them: %s", error)

    def _wanted(self, context: Context) -> Limit:
        said = self.rate if self.signal is None else self.signal(context)
        why = None if self.why in NONE else str(self.why)
        if isinstance(said, Limit):
            return replace(said, why=why if said.why is None else str(said.why))
        return Limit(number("rate", said), why=why)


def by_the_clock(*windows: tuple[Sequence[str], int | None]) -> Signal:
    """
    A ``signal`` for ``ThrottleOperator``: that of the first window that is open, and no limit outside of all windows.

    Each throttle ends with its window by itself, also if Airflow does not run then.

    :param windows: each two times of day and a time zone, and rows per second within them, e.g.
        ``(("08:00", "18:00", "Europe/Berlin"), 20_000)``; None for no limit.
    """
    known = [(window_of(window), None if rate is None else whole("rate", rate, 0)) for window, rate in windows]

    def limit(context: Context) -> Limit:
        now = now_ms()
        for window, rate in known:
            if window.open_at(now):
                hours = f"{window.start:%H:%M} to {window.stop:%H:%M} {window.zone}"
                return Limit(rate, until=None if rate is None else closes(window, now), why=f"it is {hours}")
        return Limit(why="no window is open")

    return limit


def closes(window: Window, now: int) -> int:
    """When an open window closes first, also if clocks are changed before. Times are milliseconds since 1970."""
    zone = ZoneInfo(window.zone)

    def wall(at: int) -> datetime:
        return datetime.fromtimestamp(at / 1000, zone)

    clock = wall(now)
    day = clock.date() if clock.time() < window.stop else clock.date() + timedelta(days=1)
    left = datetime.combine(day, window.stop) - clock.replace(tzinfo=None)
    end = now + round(left.total_seconds() * 1000)
    same = clock.utcoffset()
    changed = now + bisect_left(range(now, end), True, key=lambda at: wall(at).utcoffset() != same)
    another = wall(changed).utcoffset() != same  # else the window closes within a millisecond, or for no longer
    return closes(window, changed) if another and window.open_at(changed) else changed
