"""What all phases have in common: one Spark application per task, one attempt per application, results from the log.

What the process that ran the application said is never asked. The application belongs to an attempt, which leaves
an outcome beside the target; the goal of a phase is a committed fact in the target's log. So a task can be retried
or cleared at any moment, and finds out by itself what is left to do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import NEVER_EXPIRE
from airflow.sdk.exceptions import TaskDeferred

from airflow_backfill.core.attempt import Attempt
from airflow_backfill.core.control import obey
from airflow_backfill.core.errors import ApplicationFailed, Cancelled
from airflow_backfill.core.phase import Phase
from airflow_backfill.core.state import BuildState
from airflow_backfill.core.task import Task
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.links.spark_ui import SparkUiLink
from airflow_backfill.links.target import TargetLink
from airflow_backfill.operators.failure import decided, error_in
from airflow_backfill.operators.launch import Launch, Launcher
from airflow_backfill.operators.package import entry_points, package_zip
from airflow_backfill.operators.progress import Reporter

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from pydantic import JsonValue

ATTEMPT = "attempt"
"""The key in ``task_state_store`` of the attempt whose application was started last."""


class BackfillPhaseOperator(SparkSubmitOperator):
    """
    Runs one phase of a table backfill as a Spark application, unless its goal is reached already.

    Takes everything that ``SparkSubmitOperator`` takes. A coded error fails the task for good, unless trying again
    can help; a Spark application that ended without a word is tried again.

    :param target: location of the target table. (templated)
    :param build: id of the build, as ``plan`` returned it; the target's newest build if not given. (templated)
    :param submit: starts the application with another operator than spark-submit: a function that is given a
        ``Launch`` and returns the operator.
    :param applications: folder of the entry points as Spark's driver sees it, if it is not the worker's: for cluster
        modes whose image holds this package, e.g. ``local:///opt/table-backfill/spark_apps``.
    """

    phase: ClassVar[str]
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "target", "build", "applications")
    operator_extra_links = (SparkUiLink(), TargetLink())
    ui_color = "#dbeaf5"

    def __init__(
        self,
        *,
        target: str,
        build: str | None = None,
        submit: Launcher | None = None,
        applications: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"table-backfill-{self.phase}")
        super().__init__(**kwargs)
        self.target = target
        self.build = build
        self.submit = submit
        self.applications = applications
        self.spark_ui = ""
        self._launched: BaseOperator | None = None

    # --- what a phase is ---

    @abstractmethod
    def task(self) -> Task:
        """The core's task, which knows when the goal is reached and whether its turn has come."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """The application's own arguments."""

    @abstractmethod
    def result(self, state: BuildState) -> dict[str, Any]:
        """What the committed state says about this phase; the same however often it is asked."""

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        """The result, after the application has run if the goal is not yet reached."""
        state = self.committed()
        if not ran and not self.task().done(state):
            self.check(state)
            self.run_application(context, floor=highest_generation(state))
            state = self.committed()
        return self.result(state)

    # --- what Airflow calls ---

    def execute(self, context: Context) -> dict[str, Any]:
        with decided(context):
            return self.proceed(context)

    def launcher_resumed(
        self, context: Context, attempt: list[Any], method: str, kwargs: dict[str, Any], event: Any = None
    ) -> dict[str, Any]:
        """Go on after the launcher's operator was deferred."""
        me = Attempt(*attempt)
        with decided(context):
            self._launched = self._launcher(context, me)
            resumed = {**kwargs, "event": event} if event is not None else kwargs
            self._settle(context, me, lambda: self._launched.resume_execution(method, resumed, context))
            return self.proceed(context, ran=True)

    def on_kill(self) -> None:
        if self._launched is not None:
            self._launched.on_kill()
        elif self.submit is None:
            super().on_kill()

    # --- reading ---

    @property
    def ledger(self) -> LedgerHook:
        return LedgerHook()

    def committed(self) -> BuildState:
        """The build's committed state."""
        return self.ledger.reader(self.target).state(self.build)

    def check(self, state: BuildState) -> None:
        """Raise what the application would raise at once: no Spark has to start for it."""
        commands = self.ledger.reader(self.target).commands(state.plan.build)
        if state.phase is Phase.CANCELLED or obey(state.control, commands).cancelled:
            raise Cancelled("the build was cancelled; plan it again to resume it")
        self.task().check(state)

    # --- running the application ---

    def run_application(self, context: Context, floor: int = 0) -> dict[str, Any]:
        """Run the application under an attempt of its own, or rejoin one that runs; its outcome's result."""
        store = context["task_state_store"]
        me = self._running(context)
        if me is None:
            me = self.ledger.control(self.target).draw_attempt(self._document(context), floor)
            store.set(ATTEMPT, [me.generation, me.name], retention=NEVER_EXPIRE)
        self.external_id_key = f"spark_job_id/{me.name}"
        with Reporter(self.ledger, self.target, store, self.log):
            return self._settle(context, me, lambda: self._start(context, me))

    def _settle(self, context: Context, me: Attempt, run: Any) -> dict[str, Any]:
        """Run, then read the attempt's outcome, whatever became of the process."""
        trouble = None
        try:
            run()
        except TaskDeferred as deferred:
            self.defer(
                trigger=deferred.trigger,
                method_name="launcher_resumed",
                kwargs={
                    "attempt": [me.generation, me.name],
                    "method": deferred.method_name,
                    "kwargs": deferred.kwargs or {},
                },
                timeout=deferred.timeout,
            )
        except Exception as error:
            trouble = error
        outcome = self.ledger.control(self.target).outcome(me)
        if outcome is None:
            raise ApplicationFailed(
                f"the {self.phase} application ended without an outcome", attempt=me.name
            ) from trouble
        if outcome["code"] != "OK":
            raise error_in(outcome) from trouble
        return cast("dict[str, Any]", outcome["result"])

    def _start(self, context: Context, me: Attempt) -> None:
        self.application_args = self._command_line(me)
        if self.submit is not None:
            self._launched = self._launcher(context, me)
            self._launched.execute(context)
            return
        self.application = self.application or self._entry_point
        self.py_files = self.py_files if self.py_files is not None else package_zip()
        self._hook = None  # one hook per application: it holds the arguments
        super().execute(context)

    def _launcher(self, context: Context, me: Attempt) -> BaseOperator:
        assert self.submit is not None
        operator = self.submit(
            Launch(
                application=self.application or self._entry_point,
                arguments=tuple(self._command_line(me)),
                py_files=self.py_files if self.py_files is not None else package_zip(),
                conf=dict(self.conf or {}),
                name=self.name,
                task_id=self.task_id,
            )
        )
        operator.render_template_fields(context)
        return operator

    @property
    def _entry_point(self) -> str:
        return f"{(self.applications or entry_points()).rstrip('/')}/{self.phase}.py"

    def _command_line(self, me: Attempt) -> list[str]:
        line = ["--target", self.target, "--generation", str(me.generation), "--attempt", me.name]
        if self.build is not None:
            line += ["--build", self.build]
        return line + self.arguments()

    def _document(self, context: Context) -> dict[str, Any]:
        """What is remembered of an attempt beside the target."""
        ti = context["ti"]
        return {
            "task": self.phase,
            "dag_id": ti.dag_id,
            "task_id": ti.task_id,
            "run_id": ti.run_id,
            "try_number": ti.try_number,
            "map_index": ti.map_index,
        }

    # --- rejoining an application that outlived its worker ---

    def _running(self, context: Context) -> Attempt | None:
        """The attempt of this task whose application is still running, as the cluster says."""
        stored = context["task_state_store"].get(ATTEMPT)
        if self.submit is not None or not self.durable or not isinstance(stored, list):
            return None
        me = Attempt(*stored)
        handle = context["task_state_store"].get(f"spark_job_id/{me.name}")
        if handle is None or not self.is_job_active(self.get_job_status(handle, context)):
            return None
        self.log.info("rejoining the application of attempt %s: %s", me.name, handle)
        return me

    def execute_resumable(self, context: Context) -> None:
        """Submit and keep the handle under the attempt's name; with a handle, only wait for its application."""
        store = context["task_state_store"]
        handle = store.get(self.external_id_key) if self.durable else None
        if handle is None:
            store.delete(self._K8S_DRIVER_STATUS_KEY)  # of an application before this one
            handle = self.submit_job(context)
            if self.durable and handle is not None:
                store.set(self.external_id_key, handle, retention=NEVER_EXPIRE)
        self.poll_until_complete(handle, context)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        if self._hook is not None and self._hook._is_yarn_cluster_mode:
            # Only submitting sets it, and without it a kill after a reconnect would not reach the application.
            self._hook._yarn_application_id = cast("str", external_id)
        super().poll_until_complete(external_id, context)


def highest_generation(state: BuildState) -> int:
    """The highest generation that the log knows: a new attempt has to be above it."""
    return max((barrier.record.generation for barrier in state.known), default=0)
