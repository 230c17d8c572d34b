"""What is read of a build at one time, each part once and all at once: for ``status`` and for the page in Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.history import COMMITS, History
from airflow_backfill.core.errors import BackfillError, HistoryLost
from airflow_backfill.core.reports.tried import Tried
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.target_table.rules import check_rules
from airflow_backfill.core.values.control import Command, Control, obey
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader

ATTEMPTS = 5
"""Attempts that are looked at."""


@dataclass(frozen=True, slots=True)
class Look:
    now: int
    """When, in milliseconds since 1970."""
    state: BuildState
    commands: Sequence[tuple[int, Command]]
    source: SourceView | None
    """None if it cannot be read, or is another one than planned."""
    trouble: BackfillError | None
    """What keeps the build from going on, apart from an epoch that stops it."""
    history: History
    tried: Sequence[Tried]
    """The last attempts, oldest first."""

    @staticmethod
    def at(reader: BuildReader, now: int, commits: int = COMMITS) -> Look:
        """Look at a build, and at the last ``commits`` commits of its target. Errors as those of ``BuildReader.state``;
        one of the source is in ``trouble``.
        """
        state = reader.state()
        with ThreadPoolExecutor() as pool:
            ordered = pool.submit(reader.commands, state.plan.build)
            looked = pool.submit(_source, reader, state)
            past = pool.submit(History.read, reader.log, state, commits)
            tried = attempts(reader.control, state, now, ATTEMPTS)
        source, trouble = looked.result()
        return Look(now, state, ordered.result(), source, trouble, past.result(), tried)

    @property
    def control(self) -> Control:
        """What is in force, commands included that no barrier has acknowledged."""
        return obey(self.state.control, self.commands).at(self.now)


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
