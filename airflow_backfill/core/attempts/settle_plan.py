"""How all planners of a build agree on one plan.

Several planners may run at the same time, and again later. The plan record is seq 1 of its own lane, so exactly one
commit succeeds. Every planner reads the log back and adopts the plan that it finds there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from airflow_backfill.core.errors import Fenced, HistoryLost, RecordInvalid, SpecChanged, TargetContended
from airflow_backfill.core.model.plan import Plan, app_id
from airflow_backfill.core.model.registry import AUTO
from airflow_backfill.core.model.spec import BackfillSpec, difference
from airflow_backfill.core.state.effect import (
    Asks,
    CommitPlan,
    CopyPlan,
    ReadCommit,
    ReadHead,
    SleepUntil,
)
from airflow_backfill.core.target_table.foreign_commits import check_unplanned
from airflow_backfill.core.values.commit import Commit

TRIES = 5


def settle(draft: Plan, now: int, asked: BackfillSpec | None = None) -> Asks[Plan]:
    """The plan of the build: ``draft`` if its commit wins, else the plan that won. ``asked`` is the spec behind the
    draft, if that spec leaves something to the planner.

    Raises SpecChanged if the plan that won has another spec, TargetDiverged if another writer has changed the target
    since the draft.
    """
    for tries in range(TRIES):
        written = yield from CommitPlan(draft)
        head = yield from ReadHead()
        for version in range(draft.target_version + 1, head + 1):
            commit = yield from ReadCommit(version)
            plan = plan_in(commit, draft.build)
            if plan is not None:
                if not (yield from is_of_table(plan, version)):
                    raise Fenced(
                        f"{plan.spec.target} was dropped while its build was planned, and holds another table since; "
                        "this plan does not belong to that table",
                        version=version,
                    )
                check_same(plan.spec, asked or draft.spec)
                yield from CopyPlan(plan)
                return plan
            check_unplanned(draft, commit)
        if written.error is not None:
            raise written.error
        yield from SleepUntil(now + (250 << tries), now, "another commit came first")
    raise TargetContended(
        f"another commit came first in each of {TRIES} tries, so the plan is not committed; Airflow tries again"
    )


def is_of_table(plan: Plan, version: int) -> Asks[bool]:
    """Whether a plan that was committed as ``version`` is of the table in whose log it is: a planner that was
    committing while its target was dropped may commit into the log of the next table.
    """
    try:
        for before in range(version - 1, -1, -1):
            commit = yield from ReadCommit(before)
            if commit.metadata is not None:
                return commit.metadata.table_id == plan.target_id
    except HistoryLost:
        pass  # nobody commits as late as that
    return True


def plan_in(commit: Commit, build: str) -> Plan | None:
    """The plan of ``build`` in this commit; None if the commit holds another record."""
    if commit.txns.get(app_id(build)) != 1:
        return None
    try:
        document = json.loads(commit.user_metadata or "")
    except (ValueError, RecursionError):
        raise RecordInvalid(f"version {commit.version}: the plan is not JSON", version=commit.version) from None
    plan = Plan.from_json(document)
    if plan.build != build:
        raise RecordInvalid(f"version {commit.version} holds the plan of build {plan.build}", found=plan.build)
    return plan


def changes(planned: BackfillSpec, asked: BackfillSpec) -> dict[str, list[Any]]:
    """The options that differ, each with its planned and its requested value. A strategy that the planner chose is
    kept.
    """
    return difference(planned, replace(asked, strategy=planned.strategy) if asked.strategy == AUTO else asked)


def check_same(planned: BackfillSpec, asked: BackfillSpec) -> None:
    """Raise SpecChanged with the difference unless both specs ask for the same data."""
    if changed := changes(planned, asked):
        shown = "; ".join(f"{name}: planned {was!r}, now {is_!r}" for name, (was, is_) in changed.items())
        raise SpecChanged(
            f"the build was planned with another spec: {shown}; restore it, or plan again with on_existing='restart'",
            difference=changed,
        )
