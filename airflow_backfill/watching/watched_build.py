"""A build and its source as a task that waits reads them: what a decision needs, and each fact once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from airflow_backfill.core.errors import CredentialsExpired
from airflow_backfill.core.gates.gate import observed_upto
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.reader import BuildReader


class WatchedBuild:
    """The target's build, or its newest one if ``build`` is None. Opens the tables once."""

    def __init__(self, hook: LedgerHook, target: str, build: str | None = None) -> None:
        self._hook, self._target, self._build = hook, target, build
        self._watch: tuple[str, SourceWatch] | None = None

    @cached_property
    def _reader(self) -> BuildReader:
        return self._hook.reader(self._target)

    def state(self) -> BuildState:
        """The committed state; NotPlanned or TargetDiverged as for ``BuildReader.state``."""
        if self._hook.renewed():  # the former store may still answer, and nothing would happen there any more
            self._reopen()
        try:
            return self._reader.state(self._build)
        except CredentialsExpired:
            self._hook.renew()  # a wait may last longer than they do
            self._reopen()
            return self._reader.state(self._build)

    def _reopen(self) -> None:
        self._watch = None
        self.__dict__.pop("_reader", None)

    def commands(self, state: BuildState) -> Sequence[tuple[int, Command]]:
        return self._reader.commands(state.plan.build)

    def aging(self, state: BuildState, now: int) -> bool:
        return self._reader.aging(state, now)

    def source(self, state: BuildState) -> Glance:
        """The source now. Whether an epoch stops the build is left open."""
        return self._source(state).glance(state.reached, {commit.version for commit in state.stands})

    def stopped(self, state: BuildState, source: Glance) -> Glance:
        """The source with the first epoch that stops the build. The newest record vouches for those that its attempt
        had observed, so only later ones are read.
        """
        upto = observed_upto(state, source)
        return self._source(state).stopped(source, state.reached if upto is None else upto)

    def _source(self, state: BuildState) -> SourceWatch:
        plan = state.plan
        if self._watch is None or self._watch[0] != plan.build:
            self._watch = plan.build, self._hook.watcher(plan)
        return self._watch[1]
