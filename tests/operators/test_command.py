"""Commands of Airflow reach the build."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.command import CommandOperator
from tests.airflow.without_spark import built


def order(context, target, task="t", **options):
    context["ti"].task_id = task
    return CommandOperator(task_id=task, target=str(target), **options).execute(context)


def commands_of(target, build):
    return [command for _, command in BuildReader(str(target)).commands(build)]


def test_commands_are_numbered_in_order(context, source, target):
    build = built(source, target, "plan").plan.build
    said = [
        order(context, target, "a", verb="hold"),
        order(context, target, "b", verb="throttle", rate="1000", byte_rate="2000"),
        order(context, target, "c", verb="throttle", rate="None"),
        order(context, target, "d", verb="cancel", drop="True", why="wrong key"),
    ]
    assert [document["number"] for document in said] == [1, 2, 3, 4]
    commands = commands_of(target, build)
    assert [command.rate for command in commands] == [None, 1000, None, None]
    assert [command.byte_rate for command in commands] == [None, 2000, None, None]
    assert [command.drop for command in commands] == [False, False, False, True]


def test_a_task_that_is_retried_or_cleared_sends_no_second_command(context, source, target):
    build = built(source, target, "plan").plan.build
    first = order(context, target, verb="pause")
    order(context, target, "other", verb="resume")
    assert order(context, target, verb="pause")["number"] == first["number"] == 1
    assert [command.verb.value for command in commands_of(target, build)] == ["pause", "resume"]


def test_who_sends_it_is_the_user_who_triggered_the_run_unless_said_otherwise(context, source, target):
    build = built(source, target, "plan").plan.build
    context["dag_run"] = SimpleNamespace(triggering_user_name="ann")
    order(context, target, "a", verb="pause", why="night shift")
    order(context, target, "b", verb="resume", by="bob", why="")
    first, second = (command.signed for command in commands_of(target, build))
    assert first == Signature("ann", "night shift", first.at, "d/a/r/-1") and first.at is not None
    assert (second.by, second.why) == ("bob", None)


def test_names_may_be_as_long_as_airflow_lets_them_be(context, source, target):
    build = built(source, target, "plan").plan.build
    context["ti"].dag_id, context["ti"].run_id = "d" * 250, "r" * 250
    for _ in range(2):
        assert order(context, target, "t" * 250, verb="pause")["number"] == 1
    assert len(commands_of(target, build)) == 1


def test_a_template_may_give_a_number_for_a_text(context, source, target):
    """With render_template_as_native_obj, the number of a ticket is one."""
    build = built(source, target, "plan").plan.build
    order(context, target, verb="pause", why=4711, by=12)
    assert [(one.signed.by, one.signed.why) for one in commands_of(target, build)] == [("12", "4711")]


def test_a_throttle_ends_at_the_time_that_is_said(context, source, target):
    build = built(source, target, "plan").plan.build
    order(context, target, "a", verb="throttle", rate="5", until="2100-01-01T01:00+01:00")
    assert [command.until for command in commands_of(target, build)] == [4102444800000]


@pytest.mark.parametrize(
    "options",
    [
        {"verb": "stop"},
        {"verb": ""},
        {"verb": "throttle", "rate": "fast"},
        {"verb": "throttle", "rate": -1},
        {"verb": "throttle", "byte_rate": "1 MB"},
        {"verb": "throttle", "rate": 1, "until": "2100-01-01T00:00"},
        {"verb": "throttle", "rate": 1, "until": "soon"},
        {"verb": "throttle", "rate": 1, "until": "2020-01-01T00:00Z"},
        {"verb": "throttle", "until": "2100-01-01T00:00Z"},
        {"verb": "pause", "rate": 5},
        {"verb": "pause", "until": "2100-01-01T00:00Z"},
        {"verb": "hold", "drop": True},
        {"verb": "cancel", "drop": True},
        {"verb": "cancel", "drop": True, "why": ""},
        {"verb": "pause", "by": "two\nlines"},
        {"verb": "pause", "why": "x" * 1001},
        {"verb": "throttle", "rate": 1.5},
        {"verb": "cancel", "why": "wrong key", "drop": "yes"},
    ],
)
def test_what_is_no_command(context, source, target, options):
    build = built(source, target, "plan").plan.build
    with pytest.raises(AirflowFailException, match="SPEC_INVALID"):
        order(context, target, **options)
    assert commands_of(target, build) == []


def test_a_command_that_could_have_no_effect(context, source, target):
    build = built(source, target, "plan", "snapshot", "consume_log", "catch_up").plan.build
    with pytest.raises(AirflowFailException, match="NOT_ALLOWED_NOW"):
        order(context, target, verb="hold")
    assert commands_of(target, build) == []


def test_a_target_without_a_build(context, target):
    with pytest.raises(AirflowFailException, match="NOT_PLANNED"):
        order(context, target, verb="pause")
