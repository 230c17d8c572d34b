from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts import settle_plan as planning
from airflow_backfill.core.attempts.settle_plan import check_same, plan_in, settle
from airflow_backfill.core.errors import ApplicationFailed, RecordInvalid, SpecChanged, TargetContended, TargetDiverged
from airflow_backfill.core.model.plan import Plan, app_id
from airflow_backfill.core.state.effect import CommitOutcome, CommitPlan, CopyPlan, SleepUntil
from airflow_backfill.core.values.commit import Commit, FileTotals
from tests.core.model_target import Model
from tests.core.running import Running


def settling(model: Model, draft: Plan | None = None) -> Running:
    return Running(model, settle(draft or model.draft(), model.now))


def committing() -> tuple[Model, Running]:
    """A planner that is about to commit its plan."""
    model = Model()
    planner = settling(model)
    planner.until(CommitPlan)
    return model, planner


def plans(model: Model) -> list[Plan]:
    build = model.draft().build
    commits = [model.target.read(version) for version in range(model.target.head + 1)]
    return [plan for commit in commits if (plan := plan_in(commit, build)) is not None]


def test_the_only_planner_gets_its_own_plan() -> None:
    model = Model()
    assert settling(model).finish() == model.draft()
    assert plans(model) == [model.draft()] == [model.stored_plan]


def test_planning_again_finds_the_same_plan_though_the_source_has_moved_on() -> None:
    model = Model()
    first = settling(model).finish()
    later = replace(model.draft(), source=replace(model.draft().source, epoch=10))
    assert settling(model, later).finish() == first and plans(model) == [first]


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5, 6, 7), (7, 3, 0, 1, 6, 2, 5, 4)], ids=str)
def test_of_eight_planners_at_once_one_lands_and_all_adopt_it(order: tuple[int, ...]) -> None:
    model = Model()
    drafts = [replace(model.draft(), source=replace(model.draft().source, epoch=7 + n)) for n in range(8)]
    planners = [settling(model, draft) for draft in drafts]
    for planner in planners:
        planner.until(CommitPlan)
    for n in order:
        planners[n].step()
    assert {planner.finish().source.epoch for planner in planners} == {7 + order[0]}
    assert len(plans(model)) == 1


def test_a_plan_from_another_spec_is_an_error_with_the_difference() -> None:
    model = Model()
    settling(model).finish()
    draft = model.draft()
    other = replace(draft, spec=replace(draft.spec, where="n > 1", key=("id", "name")))
    with pytest.raises(SpecChanged) as raised:
        settling(model, other).finish()
    assert raised.value.data == {"difference": {"where": [None, "n > 1"], "key": [["id"], ["id", "name"]]}}
    assert plans(model) == [draft]


def test_the_same_spec_is_the_same() -> None:
    spec = Model().spec
    check_same(spec, replace(spec))


@pytest.mark.parametrize("error", [None, ApplicationFailed("the response was lost")], ids=["told", "lost"])
def test_what_the_client_was_told_does_not_matter_once_the_plan_is_there(error: ApplicationFailed | None) -> None:
    model, planner = committing()
    model.answer(planner.waits_at)
    planner.step(CommitOutcome(conflict="x" if error is None else None, error=error))
    assert planner.finish() == model.draft()


def test_an_error_is_raised_if_nothing_landed() -> None:
    model, planner = committing()
    planner.step(CommitOutcome(error=ApplicationFailed("the request was lost")))
    with pytest.raises(ApplicationFailed, match="request"):
        planner.finish()
    assert plans(model) == []


def test_a_lost_race_against_maintenance_is_tried_again_a_few_times() -> None:
    model = Model()
    planner, waits = settling(model), []
    for _ in range(planning.TRIES):
        planner.until(CommitPlan)
        model.foreign("OPTIMIZE", data_change=False)
        planner.step(CommitOutcome(conflict="MetadataChanged"))
        planner.until(SleepUntil)
        waits.append(planner.waits_at.until - model.now)  # type: ignore[union-attr]
        planner.step(CommitOutcome())
    with pytest.raises(TargetContended):
        planner.finish()
    assert waits == sorted(waits) and waits[0] > 0


def test_rows_of_somebody_else_before_the_plan_end_it() -> None:
    model = Model()
    model.foreign(added=FileTotals(1, 1, 1))
    with pytest.raises(TargetDiverged, match="move that table away, or name another target"):
        settling(model).finish()


def test_rows_that_somebody_wrote_before_the_draft_was_made_are_none_of_its_business() -> None:
    """The planner has proven the target empty up to the version that the draft names."""
    model = Model()
    model.foreign("OPTIMIZE", data_change=False)
    draft = replace(model.draft(), target_version=1)
    assert settling(model, draft).finish() == draft


def test_the_copy_beside_the_target_is_the_plan_that_won() -> None:
    model = Model()
    first, second = settling(model), settling(model, replace(model.draft(), lanes=3))
    first.until(CopyPlan)
    assert second.until(CopyPlan) == CopyPlan(model.draft())


TEXTS = (None, "", "{", "[]", "null", '{"airflow_backfill_plan":1}', "[" * 100_000)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text)[:20])
def test_a_plan_commit_that_holds_no_plan_is_refused(text: str | None) -> None:
    draft = Model().draft()
    with pytest.raises(RecordInvalid):
        plan_in(Commit(4, txns={app_id(draft.build): 1}, user_metadata=text), draft.build)


def test_a_plan_of_another_build_in_this_ones_place_is_refused() -> None:
    draft = Model().draft()
    with pytest.raises(RecordInvalid, match="b2"):
        plan_in(
            Commit(4, txns={app_id(draft.build): 1}, user_metadata=replace(draft, build="b2").encode()), draft.build
        )


def test_other_commits_hold_no_plan() -> None:
    draft = Model().draft()
    text = draft.encode()
    others: list[dict[str, Any]] = [{}, {app_id("b2"): 1}, {app_id(draft.build): 2}, {f"{draft.build}/1/0": 1}]
    assert [plan_in(Commit(4, txns=txns, user_metadata=text), draft.build) for txns in others] == [None] * 4
