"""Waits for a committed fact in a target's log."""

from __future__ import annotations

from functools import cached_property

from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.triggers.poll import PollTrigger
from airflow_backfill.watching.watched_build import WatchedBuild


class BuildTrigger(PollTrigger):
    """
    Polls one build.

    :param target: location of the target table.
    :param build: id of the build; the target's newest build if None.
    :param ledger_conn_id: connection with the settings of the tables' store; None: from the environment.
    """

    arguments = (*PollTrigger.arguments, "target", "build", "ledger_conn_id")

    def __init__(
        self,
        *,
        target: str,
        build: str | None,
        ledger_conn_id: str | None,
        poke_interval: float,
        deadline: float | None = None,
    ) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self.target = target
        self.build = build
        self.ledger_conn_id = ledger_conn_id

    @cached_property
    def watched(self) -> WatchedBuild:
        """The build, read anew by each poll, and each fact of it once."""
        return WatchedBuild(LedgerHook(self.ledger_conn_id), self.target, self.build)
