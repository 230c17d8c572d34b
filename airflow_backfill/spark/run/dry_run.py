"""A plan that creates nothing: every precondition with pass or fail, the cost, and a rehearsal of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_backfill.core.attempts.settle_plan import check_same
from airflow_backfill.core.errors import BackfillError, NotConverging
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.target_table.rules import check_rules
from airflow_backfill.spark.preflight.table import STEPS
from airflow_backfill.spark.preflight.two_writers import commit_guarantee
from airflow_backfill.spark.run.planner import Planner
from airflow_backfill.spark.session.failure import coded

STORE = "the target's store keeps two writers apart"
TARGET = "the target is free, or has this build"
COLUMNS = "a target that exists has the columns of the build"
DEFAULTS = "new tables get no property that a build cannot work with"
LANES = "the strategy can work in so many lanes"
TOPIC = "the topic, its landing table and the expressions"
STRATEGY = "a strategy fits the source"
SPLITS = "the source can be cut into splits"
KEEPS_UP = "the build catches up with the log"

_Result = TypeVar("_Result")


class Checks:
    """Runs steps, and notes how each ended: ``pass``, ``fail`` with the error, or ``not checked``."""

    def __init__(self) -> None:
        self.noted: dict[str, dict[str, Any]] = {}

    def run(
        self, name: str, work: Callable[[], _Result], detail: Callable[[_Result], str | None] = lambda _: None
    ) -> Any:
        """What ``work`` returns; None if it fails."""
        try:
            result = work()
        except Exception as error:
            self.fails(name, coded(error))
            return None
        self.noted[name] = {"name": name, "result": "pass", "detail": detail(result), "error": None}
        return result

    def begins(self, name: str) -> None:
        """A step begins inside of the work: those before it have passed."""
        for before in self.noted.values():
            if before["result"] == "running":
                before["result"] = "pass"
        self.noted[name] = {"name": name, "result": "running", "detail": None, "error": None}

    def fails(self, name: str, error: BackfillError) -> None:
        """The running step fails; ``name`` if none runs."""
        at = next((one["name"] for one in self.noted.values() if one["result"] == "running"), name)
        self.noted[at] = {"name": at, "result": "fail", "detail": error.message, "error": error.to_json()}

    def skipped(self, *names: str) -> None:
        for name in names:
            self.noted.setdefault(name, {"name": name, "result": "not checked", "detail": None, "error": None})


class DryRun(Planner):
    """What a plan would do. Reads source and target; creates nothing outside a temporary folder, which it removes."""

    measured_from = 0.0

    def explain(self) -> dict[str, Any]:
        """Plain JSON: ``checks``, the plan's ``report`` (None if a check failed before), whether all is ``good``."""
        checks, spec = Checks(), self._spec
        guarantee = checks.run(STORE, lambda: commit_guarantee(self._spark, spec.target), lambda said: said)
        existing = checks.run(TARGET, self._known, lambda build: build and f"build {build}, which goes on")
        report: dict[str, Any] | None = None
        if existing:
            report = {"existing": True, "commit_guarantee": guarantee}
        else:
            checks.run(DEFAULTS, self._check_defaults)
            checks.run(LANES, self._check_lanes)
            report = self._source_checked(checks, guarantee or "")
        good = all(one["result"] == "pass" for one in checks.noted.values())
        return {"target": spec.target, "checks": list(checks.noted.values()), "report": report, "good": good}

    def _known(self) -> str | None:
        """The build that the target has, if it is the same; None if the target is free."""
        existing = self._existing()
        if existing is None:
            return None
        check_same(existing.plan.spec, self._spec)
        check_rules(existing.plan, existing.phase, self._shell.reader.properties)
        return existing.plan.build

    def _source_checked(self, checks: Checks, guarantee: str) -> dict[str, Any] | None:
        steps = STEPS if self._spec.topic is None else (TOPIC,)
        looked = checks.run(steps[-1], lambda: self._inspected(checks.begins))
        if looked is None:
            checks.skipped(*steps, COLUMNS, STRATEGY, SPLITS, KEEPS_UP)
            return None
        found, advice = looked
        if checks.noted[TARGET]["result"] == "pass":
            checks.run(COLUMNS, lambda: self._check_columns(found))
        checks.skipped(COLUMNS)
        chosen = checks.run(STRATEGY, lambda: self._choose(advice), lambda name: name)
        cut = None
        if chosen is not None:
            cut = checks.run(SPLITS, lambda: self._preparation().cut(found), lambda cut: f"{len(cut.splits)} splits")
        if cut is None:
            checks.skipped(SPLITS, KEEPS_UP)
            return None
        draft = Plan(
            build="",
            spec=self._spec,
            target_id="",
            target_schema_json=found.transform.schema.json(),
            target_version=0,
            source=found.source,
            splits=cut.splits,
            lanes=self._lanes,
            settings=self._settings.to_json(),
        )
        report = self._report(draft, found, guarantee, cut, advice)
        slow = NotConverging("the source changes faster than the build applies; give Spark more cores")
        if report["rehearsal"]["converges"]:
            checks.run(KEEPS_UP, lambda: None)
        else:
            checks.fails(KEEPS_UP, slow)
        return report
