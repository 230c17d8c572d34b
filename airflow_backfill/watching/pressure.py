"""Whether a build asks writers of its source to wait, for the sensor and its trigger."""

from __future__ import annotations

import logging

from airflow_backfill.core.errors import BackfillError, NotPlanned
from airflow_backfill.core.gates.admission import admit
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.watching.watched_build import WatchedBuild

log = logging.getLogger(__name__)


def pressure(build: WatchedBuild, max_lag: MaxLag) -> Waiting | None:
    """Why a writer should wait; None if it may commit. An error of the build never holds a writer back."""
    try:
        state = build.state()
        source = build.stopped(state, build.source(state))
        commands = build.commands(state)
    except NotPlanned as missing:
        log.info("the writer may commit, because there is no build: %s", missing.message)
        return None
    except BackfillError as error:
        log.warning("the writer may commit, because the build cannot be read: %s", error)
        return None
    return admit(state, source, commands, max_lag, now_ms())
