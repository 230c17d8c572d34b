"""The follower's operator: an idle source costs nothing and ends well, one that is gone is an error by name."""

from __future__ import annotations

import shutil

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.upstream import UpstreamOperator
from tests.airflow.without_spark import built, make_source

WHOLE = ("plan", "snapshot", "consume_log", "catch_up", "verify", "finish")


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
