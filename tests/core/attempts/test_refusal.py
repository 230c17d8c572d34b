from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.refusal import check_reason, refusal
from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.values.control import Command, Errand, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.signature import UNSIGNED, Signature
from tests.core.states import CERTIFICATE, V, state

ALWAYS = {Errand.RECOVER, Errand.EXPLAIN}
STATES = {
    "snapshot": (state(Phase.SNAPSHOT), set()),
    "consume_log": (state(Phase.CONSUME_LOG), {Errand.PROVE}),
    "in part": (state(Phase.CONSUME_LOG, InEpoch(9, 1, 3)), set()),
    "catching up": (state(Phase.CATCH_UP, handoff=V + 2), {Errand.PROVE}),
    "arrived": (state(Phase.CATCH_UP, handoff=V), {Errand.PROVE, Errand.REPAIR}),
    "finished": (state(Phase.FINISHED, handoff=V, certificate=CERTIFICATE), {Errand.PROVE}),
    "upstream": (state(Phase.UPSTREAM, Consumed(V + 1), handoff=V), {Errand.PROVE}),
    "cancelled": (state(Phase.CANCELLED), {Errand.PROVE}),
}


@pytest.mark.parametrize("name", STATES)
def test_each_state_takes_the_errands_that_can_do_something_in_it(name: str) -> None:
    build, allowed = STATES[name]
    for errand in Errand:
        error = refusal(errand, build)
        assert (error is None) == (errand in allowed | ALWAYS), errand
        assert error is None or error.code in ("NOT_ALLOWED_NOW", "CANCELLED")


@pytest.mark.parametrize("order", [Command(Verb.CANCEL, drop=True), Errand.RECOVER, Errand.REPAIR])
def test_what_destroys_needs_a_reason(order: Command | Errand) -> None:
    check_reason(order, Signature(why="a test"))
    with pytest.raises(InvalidSpec, match="why") as caught:
        check_reason(order, UNSIGNED)
    assert caught.value.data["field"] == "why"


@pytest.mark.parametrize("order", [*(Command(verb) for verb in Verb), Errand.PROVE, Errand.EXPLAIN])
def test_nothing_else_needs_one(order: Command | Errand) -> None:
    check_reason(order, UNSIGNED)


def test_a_row_without_a_key_is_not_explained() -> None:
    build = state(Phase.CONSUME_LOG)
    spec = replace(build.plan.spec, key=(), strategy="chain")
    error = refusal(Errand.EXPLAIN, replace(build, plan=replace(build.plan, spec=spec)))
    assert error is not None and "no key" in error.message


def test_a_refused_repair_says_what_comes_first() -> None:
    """Nobody has to guess the command, or the epoch that is applied."""
    build = STATES["upstream"][0]
    error = refusal(Errand.REPAIR, build)
    assert error is not None and f"recover {build.plan.spec.target} --epoch N" in error.message
    assert f"now: {V + 1}" in error.message
    topic = replace(build, plan=replace(build.plan, splits=Partitions("id", (), "rules")))
    error = refusal(Errand.REPAIR, topic)
    assert error is not None and "on_existing='restart'" in error.message
