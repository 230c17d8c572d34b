"""What is read of a build at one time, each part once and all at once: for ``status`` and for the page in Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from airflow_backfill.builds.attempts import attempts, last_settling
from airflow_backfill.builds.history import COMMITS, History
from airflow_backfill.core.errors import BackfillError, DocumentDamaged, HistoryLost
from airflow_backfill.core.reports.attempt_status import AttemptStatus
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.target_table.rules import check_rules
from airflow_backfill.core.values.control import Command, Control, obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader

ATTEMPTS = 5
"""Attempts that are looked at."""
RESTS = (Phase.FINISHED, Phase.CANCELLED)
"""Phases in which nobody waits for the source."""


@dataclass(frozen=True, slots=True)
class Look:
    now: int
    """When, in milliseconds since 1970."""
    state: BuildState
    commands: Sequence[tuple[int, Command]]
    """Empty if one of them is damaged."""
    source: SourceView | None
    """None if it cannot be read, or is another one than planned."""
    trouble: BackfillError | None
    """What keeps the build from going on, apart from an epoch that stops it. A build that rests needs no source."""
    damage: BackfillError | None
    """The error of a file of an attempt that cannot be read. The build goes on without it."""
    history: History
    statuses: Sequence[AttemptStatus]
    """The last attempts, oldest first."""
    settling: AttemptStatus | None
    """The last attempt that has told whether keys differ."""

    @staticmethod
    def at(reader: BuildReader, now: int, commits: int = COMMITS) -> Look:
        """Look at a build, and at the last ``commits`` commits of its target. Errors as those of ``BuildReader.state``;
        one of the source or of the commands is in ``trouble``, one of the attempts in ``damage``.
        """
        state = reader.state()
        with ThreadPoolExecutor() as pool:
            ordered = pool.submit(commands_of, reader, state)
            # It opens a store, as this thread would.
            looked = pool.submit(copy_context().run, _source, reader, state)
            past = pool.submit(History.read, reader.log, state, commits)
            told = attempts(reader.control, state, now, ATTEMPTS)
        (source, trouble), (commands, unread) = looked.result(), ordered.result()
        if state.phase in RESTS:
            trouble = None
        settling = last_settling(reader.control, told.statuses[-ATTEMPTS:])
        return Look(
            now, state, commands, source, unread or trouble, told.damage, past.result(), told.statuses, settling
        )

    @property
    def control(self) -> Control:
        """What is in force, commands included that no barrier has acknowledged."""
        return obey(self.state.control, self.commands).at(self.now)


def commands_of(reader: BuildReader, state: BuildState) -> tuple[Sequence[tuple[int, Command]], DocumentDamaged | None]:
    """The commands; none, and the error that stops the build at its next barrier, if one of them is damaged."""
    try:
        return reader.commands(state.plan.build), None
    except DocumentDamaged as error:
        return (), error


def _source(reader: BuildReader, state: BuildState) -> tuple[SourceView | None, BackfillError | None]:
    """The source if it can be read, and the error that stops the build. Deleted epochs are in the source's view."""
    try:
        source = watch_source(state.plan, options=reader.options).view(state.reached)
    except BackfillError as error:
        return None, error
    try:
        check_source(state.plan, source, state.reached, state.stands)
    except HistoryLost:
        return source, None
    except BackfillError as error:
        return None, error
    try:
        check_rules(state.plan, state.phase, reader.properties)
    except BackfillError as error:
        return source, error
    return source, None
