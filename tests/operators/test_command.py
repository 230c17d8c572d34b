"""Commands of Airflow reach the build."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.command import CommandOperator
from tests.airflow.without_spark import built


def order(context, target, **options):
    return CommandOperator(task_id="t", target=str(target), **options).execute(context)


def test_commands_are_numbered_in_order(context, source, target):
    build = built(source, target, "plan").plan.build
    said = [
        order(context, target, verb="hold"),
        order(context, target, verb="throttle", rate="1000", byte_rate="2000"),
        order(context, target, verb="throttle", rate="None"),
        order(context, target, verb="cancel", drop="True"),
    ]
    assert [document["number"] for document in said] == [1, 2, 3, 4]
    commands = [command for _, command in BuildReader(str(target)).commands(build)]
    assert [command.rate for command in commands] == [None, 1000, None, None]
    assert [command.byte_rate for command in commands] == [None, 2000, None, None]
    assert [command.drop for command in commands] == [False, False, False, True]


@pytest.mark.parametrize(
    "options",
    [
        {"verb": "stop"},
        {"verb": ""},
        {"verb": "throttle", "rate": "fast"},
        {"verb": "throttle", "rate": -1},
        {"verb": "throttle", "byte_rate": "1 MB"},
        {"verb": "pause", "rate": 5},
        {"verb": "hold", "drop": True},
    ],
)
def test_what_is_no_command(context, source, target, options):
    build = built(source, target, "plan").plan.build
    with pytest.raises(AirflowFailException, match="SPEC_INVALID"):
        order(context, target, **options)
    assert BuildReader(str(target)).commands(build) == []


def test_a_target_without_a_build(context, target):
    with pytest.raises(AirflowFailException, match="SOURCE_NOT_DELTA"):
        order(context, target, verb="pause")
