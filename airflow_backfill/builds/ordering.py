"""Gives orders to a build: the one way of the command line, the operators and the page in Airflow."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from airflow_backfill.core.attempts.refusal import check_reason, refusal
from airflow_backfill.core.errors import BackfillError, InvalidSpec, NotAllowedNow, NotPlanned, SourceUnavailable
from airflow_backfill.core.values.control import Command, Errand
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.reader import BuildReader

POLL_SECONDS = 0.25
"""Time between two reads of the target's log."""


def ordered(target: str | BuildReader, command: Command, *, once: bool = False) -> int:
    """Append the command beside the target. Returns the number under which a barrier acknowledges it.

    A command without a time gets the current one. ``once``: a command with the same ``via`` was this one, and is not
    given twice. NotPlanned; NotAllowedNow if it could have no effect; InvalidSpec if it destroys without a reason or
    ends before it begins.
    """
    reader = BuildReader.of(target)
    check_reason(command, command.signed)
    state = reader.state()
    signed = command.signed if command.signed.at is not None else replace(command.signed, at=now_ms())
    if once:
        known = (n for n, one in reader.commands(state.plan.build) if one.signed.via == signed.via)
        if (number := next(known, None)) is not None:
            return number
    if command.until is not None and command.until <= now_ms():
        raise invalid("until", command.until, "must be a time in the future")
    if (refused := refusal(command.verb, state)) is not None:
        raise refused
    given, floor = replace(command, signed=signed), state.control.number
    return reader.control.order(state.plan.build, given, floor, once=once)


def only_drops(reader: BuildReader, error: BackfillError) -> bool:
    """Whether only dropping is left of a build with this error: it cannot be read, or its drop has begun."""
    if error.retry or isinstance(error, InvalidSpec):
        return False
    return not isinstance(error, (NotAllowedNow, NotPlanned)) or reader.control.dropping


def check_errand(target: str | BuildReader, errand: Errand, signed: Signature) -> None:
    """Raise what ``ordered`` would raise, for an order that an application carries out. A recovery is possible without
    readable records, so it is refused by its application only.
    """
    check_reason(errand, signed)
    reader = BuildReader.of(target)
    if errand is Errand.RECOVER:
        reader.check_ours()
    elif (refused := refusal(errand, reader.state())) is not None:
        raise refused


def acknowledged(target: str | BuildReader, number: int, seconds: float) -> bool:
    """Whether a barrier acknowledges the command within ``seconds``. The command stands, so a store that does not
    answer for a while is no error.
    """
    reader, deadline = BuildReader.of(target), time.monotonic() + seconds
    while True:
        with suppress(SourceUnavailable):
            if reader.state().control.number >= number:
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
