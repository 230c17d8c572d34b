"""The follower's operator: an idle source costs nothing and ends well, one that is gone is an error by name."""

from __future__ import annotations

import shutil

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.testing.launcher import run_here
from tests.airflow.without_spark import WHOLE, built, long_ago, make_source


def follow(context, target):
    """What the operator returns; no attempt is begun, so no Spark is started."""
    attempts = BuildReader(str(target)).control.attempts()
    try:
        return UpstreamOperator(task_id="t", target=str(target)).execute(context)
    finally:
        assert BuildReader(str(target)).control.attempts() == attempts


def test_an_idle_source_starts_nothing(context, source, target):
    state = built(source, target, *WHOLE)
    assert follow(context, target)["epoch"] == 3
    assert built(source, target).proven == state.proven


def test_a_source_that_is_gone_is_an_error(context, source, target):
    built(source, target, *WHOLE)
    shutil.rmtree(source)
    with pytest.raises(AirflowFailException, match="SOURCE_NOT_DELTA"):
        follow(context, target)


def test_a_source_that_was_made_anew_is_an_error(context, source, target):
    built(source, target, *WHOLE)
    shutil.rmtree(source)
    make_source(source)
    with pytest.raises(AirflowFailException, match="SOURCE_REPLACED"):
        follow(context, target)


def test_a_record_that_would_age_out_of_the_log_is_renewed(context, source, target):
    built(source, target, *WHOLE)
    long_ago(target)
    operator = UpstreamOperator(task_id="t", target=str(target), submit=run_here)
    assert operator.execute(context)["epoch"] == 3
    state = BuildReader(str(target)).state()
    assert not BuildReader(str(target)).aging(state, state.newest.at)
    assert (state.newest.record.event, state.newest.record.phase) == (Event.CLAIM, Phase.FINISHED)
