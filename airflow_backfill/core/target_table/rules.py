"""Properties of the target that would stop a build: checked before each round, not by Delta after hours of work."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill.core.errors import BackfillError, TargetRefuses, UnsafeOption
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.values.phase import BUILDING, Phase

TXN_RETENTION = "delta.setTransactionRetentionDuration"
APPEND_ONLY = "delta.appendOnly"
CONSTRAINT = "delta.constraints."
WAY_OUT = "ALTER TABLE delta.`{target}` {change}, then clear the task"


def check_rules(plan: Plan, phase: Phase, properties: Mapping[str, str]) -> None:
    """Raise UnsafeOption or TargetRefuses if the target's ``properties`` would reject or duplicate rows of ``phase``.

    After the hand-off a CHECK constraint is allowed: a row that violates it stops the round that brings it.
    """
    found = _rule(plan, phase, properties)
    if found is not None:
        raise found


def _rule(plan: Plan, phase: Phase, properties: Mapping[str, str]) -> BackfillError | None:
    if TXN_RETENTION in properties:
        way_out = _way_out(plan, f"UNSET TBLPROPERTIES ('{TXN_RETENTION}')")
        return UnsafeOption(
            f"the target has {TXN_RETENTION} = {properties[TXN_RETENTION]}: when transaction ids expire, a round can "
            f"be written twice; remove the property: {way_out}",
            option=TXN_RETENTION,
        )
    if properties.get(APPEND_ONLY, "").lower() == "true" and not plan.only_appends:
        way_out = _way_out(plan, f"SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false')")
        return TargetRefuses(
            f"the target has {APPEND_ONLY} = true, so the build cannot apply updates and deletes; switch it off: "
            f"{way_out}",
            option=APPEND_ONLY,
        )
    checks = sorted(name for name in properties if name.startswith(CONSTRAINT))
    if checks and phase in BUILDING:
        name = checks[0].removeprefix(CONSTRAINT)
        way_out = _way_out(plan, f"DROP CONSTRAINT `{name}`")
        return TargetRefuses(
            f"the target has the constraint {name}: CHECK ({properties[checks[0]]}), and the first row that violates "
            f"it would stop the build, maybe after hours; drop it: {way_out}. Add it again after the hand-off: Delta "
            "then checks all rows",
            option=checks[0],
        )
    return None


def _way_out(plan: Plan, change: str) -> str:
    return WAY_OUT.format(target=plan.spec.target, change=change)
