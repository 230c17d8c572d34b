"""Whether a build asks writers of its source to wait, for the sensor and its trigger."""

from __future__ import annotations

import logging
import time

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.gates.admission import admit
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.hooks.ledger import LedgerHook

log = logging.getLogger(__name__)


def pressure(hook: LedgerHook, target: str, build: str | None, max_lag: MaxLag) -> Waiting | None:
    """Why a writer should wait; None if it may commit. An error of the build never holds a writer back."""
    try:
        reader = hook.reader(target)
        state = reader.state(build)
        source = hook.watcher(state.plan).view(state.reached)
        commands = reader.commands(state.plan.build)
    except BackfillError as error:
        log.info("the writer may commit, because the build cannot be read: %s", error)
        return None
    return admit(state, source, commands, max_lag, time.time_ns() // 1_000_000)
