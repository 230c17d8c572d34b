"""The first task of a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.core.attempts.settle_plan import changes, check_same
from airflow_backfill.core.errors import BackfillError, InvalidSpec, NotPlanned, TargetExists
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.forecast import described
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.document import encode
from airflow_backfill.core.values.options import whole
from airflow_backfill.core.values.round_size import round_options
from airflow_backfill.ledger.admission import admit_target, check_whole
from airflow_backfill.notifications.shown import show
from airflow_backfill.operators.application import ApplicationOperator
from airflow_backfill.operators.phase import MAX_LANES, cancelled

if TYPE_CHECKING:
    from airflow.sdk import Context

ON_EXISTING = ("resume", "fail", "restart")
SUCCEEDED = "succeeded"
"""The key in ``task_state_store`` of the attempt with which the task succeeded."""
REPORT = "report"
"""The key in ``task_state_store`` of the plan's report."""
OF_SPEC = (
    *("source", "key", "select", "where", "strategy", "new_columns", "topic", "functions"),
    *("proof", "clustering"),
)
"""The options that the spec has by the same names."""


class PlanOperator(ApplicationOperator):
    """
    Checks the request, creates the target, and pins the version of the source to start from.

    Errors in the request or in the tables' logs fail in the worker: no Spark starts, and nothing is written. An
    existing build goes on; a finished one does not change. With ``then``, the application goes on with the snapshot if
    that is small.

    :param build_name: name of the build. Name and target identify it. (templated)
    :param source: absolute path or URI of the Delta table to read; for a topic, its landing table, if there is one.
        (templated)
    :param target: absolute path or URI of the Delta table to create. (templated)
    :param key: columns of the source that identify a row; optional for a chain. (templated)
    :param select: SQL expressions, one per column of the target; by default every column. (templated)
    :param where: SQL condition for rows of the source. (templated)
    :param strategy: how snapshot and log are combined: "snapshot", "arrangement", "chain", "source", or "auto".
        (templated)
    :param new_columns: what to do when the source gets a new column: "stop", or "ignore" it. (templated)
    :param topic: for strategy "source": name and options of the topic whose history comes first. (templated)
    :param functions: functions of your own that ``select`` and ``where`` call: names with versions. (templated)
    :param proof: "full"; "incremental": the source is not read again, needs strategy snapshot or chain; "sampled": only
        a part of the keys is compared. See "The proof" in the documentation. (templated)
    :param clustering: "none", or "key": the target is a clustered table, so that a change of a key rewrites only files
        that may hold it. See "Performance" in the documentation. (templated)
    :param lanes: number of lanes that read the snapshot.
    :param round_bytes: bytes of a round, for the forecast.
    :param round_rows: rows of a round, for the forecast.
    :param on_existing: what to do if the build exists: "resume" it, "fail" unless this task instance began it, or
        "restart" from nothing.
    """

    entry_point = "plan"
    template_fields: Sequence[str] = (*ApplicationOperator.template_fields, "build_name", *OF_SPEC)

    def __init__(
        self,
        *,
        build_name: str,
        source: str | None = None,
        key: Sequence[str] | None = None,
        select: Sequence[str] | None = None,
        where: str | None = None,
        strategy: str | None = None,
        new_columns: str | None = None,
        topic: Mapping[str, Any] | None = None,
        functions: Mapping[str, str] | None = None,
        proof: str | None = None,
        clustering: str | None = None,
        lanes: int = 1,
        round_bytes: int | None = None,
        round_rows: int | None = None,
        on_existing: str = "resume",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.build_name = build_name
        self.source = source
        self.key = key
        self.select = select
        self.where = where
        self.strategy = strategy
        self.new_columns = new_columns
        self.topic = topic
        self.functions = functions
        self.proof = proof
        self.clustering = clustering
        self.lanes = whole("lanes", lanes, 1, MAX_LANES)
        self.round_bytes = round_bytes
        self.round_rows = round_rows
        self.on_existing = on_existing
        self._told: Any = None
        self._before: str | None = None

    @property
    def spec(self) -> BackfillSpec:
        """The rendered request, with all checks that read no table."""
        options = {"name": self.build_name, "target": self.target, **{name: getattr(self, name) for name in OF_SPEC}}
        return BackfillSpec.parse({name: value for name, value in options.items() if value is not None})

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        found = self._planned(context, ran=ran)
        if (me := self.last(context)) is not None:
            context["task_state_store"].set(SUCCEEDED, me.name, retention=NEVER_EXPIRE)
        return found

    def _planned(self, context: Context, *, ran: bool) -> dict[str, Any]:
        spec = self.spec
        round_options(self.round_bytes, self.round_rows)
        if self.on_existing not in ON_EXISTING:
            raise InvalidSpec(
                f"on_existing: must be one of {', '.join(ON_EXISTING)} (got {self.on_existing!r})", field="on_existing"
            )
        if ran:
            return self.result(self.committed())  # and an error if it was dropped meanwhile
        existing = self._existing(spec)
        if existing is not None and self.on_existing == "fail" and not self._began(context):
            raise TargetExists(
                f"on_existing: {spec.target} already has build {existing.plan.build}; use 'resume' to go on with it, "
                "or 'restart' to drop it",
                build=existing.plan.build,
            )
        if existing is not None and (self.on_existing != "restart" or self._left(context, existing, spec)):
            check_same(existing.plan.spec, spec)
            if not cancelled(existing, self.ledger.reader(self.target).commands(existing.plan.build)):
                return self.result(existing)
        elif spec.source is not None:
            self.ledger.source_log(spec.source).admit(spec)
        self._before = None if existing is None else existing.plan.build
        outcome = self.run_application(context)
        if outcome:
            self._tell(context, outcome["report"])
        return self.result(self.committed())

    def meanwhile(self, context: Context, me: Attempt) -> None:
        """Tell the report once the plan is committed, too: the application of a small build goes on for a while."""
        super().meanwhile(context, me)
        if self._told is None and (build := self._new_build()) is not None:
            report = self.ledger.control(self.target).report(build)
            if report is not None:
                self._tell(context, report)

    def reached(self) -> bool:
        return self._new_build() is not None

    def _new_build(self) -> str | None:
        """The build that was planned since this try began; None if there is none, or that cannot be told."""
        with suppress(BackfillError):
            build = self.ledger.reader(self.target).told().plan.build
            return None if build == self._before else build
        return None

    def _tell(self, context: Context, report: dict[str, Any]) -> None:
        if report != self._told:
            self._told = report
            for line in described(report):
                self.log.info(line)
            show(context, REPORT, report)

    def arguments(self) -> list[str]:
        spec, rounds = encode(self.spec.to_json()), round_options(self.round_bytes, self.round_rows)
        then = self.then_arguments()
        return ["--spec", spec, "--on-existing", self.on_existing, "--lanes", str(self.lanes), *rounds, *then]

    def result(self, state: BuildState) -> dict[str, Any]:
        plan, summary = state.plan, summarize(state)
        return {
            "target": plan.spec.target,
            "build": plan.build,
            "name": plan.spec.name,
            "source": plan.spec.source,
            "strategy": plan.spec.strategy,
            "epoch": plan.source.epoch,
            "read": summary["read"],
            "splits": len(plan.splits),
            "bytes": plan.splits.bytes,
            "rows": plan.splits.rows,
            "certificate": summary["certificate"],
        }

    def _began(self, context: Context) -> bool:
        """Whether the build began after this task instance did: no application starts if there is one before."""
        me = self.last(context)
        outcome = None if me is None else self.ledger.control(self.target).outcome(me)
        return me is not None and (outcome is None or outcome["code"] != TargetExists.code)

    def _left(self, context: Context, existing: BuildState, spec: BackfillSpec) -> bool:
        """Whether the build is of a try of this task instance that did not succeed, as its worker was lost: it may have
        been handed over since, and is not dropped by a retry.
        """
        me, newest = self.last(context), existing.newest
        if me is None or newest is None or newest.record.attempt != me.name or changes(existing.plan.spec, spec):
            return False
        return bool(context["task_state_store"].get(SUCCEEDED) != me.name)

    def _existing(self, spec: BackfillSpec) -> BuildState | None:
        control = self.ledger.control(spec.target)
        if self.on_existing != "restart":
            check_whole(control, spec.target)
        elif control.dropping:
            return None  # the restart ends the drop
        if admit_target(self.ledger.delta_log(spec.target), spec) is None:
            return None
        try:
            return self.committed()
        except NotPlanned:
            return None
        except BackfillError as error:
            if error.retry or self.on_existing != "restart":
                raise
            return None  # the restart drops it
