"""Runs a Spark application of a build: one attempt per application.

The result is the outcome that the attempt writes beside the target. It counts whatever happens to the process, the
launcher or the worker; exit codes are ignored.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.core.errors import ApplicationFailed, BackfillError, error_in
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import checked, invalid
from airflow_backfill.failure import decided, last_try
from airflow_backfill.hooks.kafka import bootstrap_servers, kafka_environment, tell_kafka
from airflow_backfill.hooks.ledger import LedgerHook, store_environment
from airflow_backfill.ledger.requests import REQUESTS
from airflow_backfill.links.spark_ui import SparkUiLink
from airflow_backfill.links.target import TargetLink
from airflow_backfill.notifications.lineage import TellsLineage
from airflow_backfill.notifications.metrics import tell_attempt
from airflow_backfill.notifications.warnings import Callbacks, Warnings, callbacks_in
from airflow_backfill.operators.ended import failure, said
from airflow_backfill.operators.launch import Launch, Launcher
from airflow_backfill.operators.package import entry_points, package_zip
from airflow_backfill.operators.progress import Reporter
from airflow_backfill.operators.rejoining import belonging, rejoin, still_runs
from airflow_backfill.operators.spark_submit import (
    ARGUMENTS,
    SparkSubmit,
    check_deployment,
    execute_inside,
    with_arguments,
)
from airflow_backfill.spark_home import ENDS

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pydantic import JsonValue

ATTEMPT = "attempt"
"""The key in ``task_state_store`` of the attempt whose application was started last."""
RESUME = "resume"
"""The key of the method that resumes the launcher's operator after its deferral."""


class Follows(Protocol):
    """A task whose phase another task's application may go on with: a ``PhaseOperator``, or the gate."""

    entry_point: ClassVar[str]

    @property
    def task_id(self) -> str: ...

    @property
    def upstream_task_ids(self) -> set[str]: ...

    def settings(self) -> list[str]: ...


class ApplicationOperator(TellsLineage):
    """
    Runs an application for a target, unless its goal is already committed.

    With ``then``, the application goes on with the phases of these tasks after its own goal, up to a closed gate, or to
    a task that also waits for another one. Their tasks start an application only if work is left.

    Takes all arguments of ``SparkSubmitOperator``, with the same ones templated. A coded error fails the task for good,
    unless a retry can help; an application that ends without an outcome is retried.

    :param target: location of the target table. (templated)
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
        Those of S3 also reach spark-submit, through environment variables, but not in deploy mode ``cluster``.
        (templated)
    :param submit: starts the application with another operator than spark-submit: a function that takes a ``Launch``
        and returns the operator.
    :param applications: folder of the entry points on Spark's driver, if it differs from the worker's: for images that
        contain this package, e.g. ``local:///opt/table-backfill/spark_apps``. (templated)
    :param kafka_conn_id: connection of type ``kafka``, for a topic's history. It reaches the driver through an
        environment variable, or on YARN in deploy mode ``cluster`` in a file, never through arguments. In deploy mode
        ``cluster`` elsewhere it is refused. (templated)
    :param on_warning_callback: called, with the context and ``warning`` in it, when the build goes on and needs a look:
        a notifier, a function, or a list of them. See "Notifications" in the documentation.
    :param warn_lag: how long the oldest pending epoch may be pending before a warning is sent; by default none is.
    """

    entry_point: ClassVar[str]
    template_fields: Sequence[str] = ("target", "ledger_conn_id", "applications", "kafka_conn_id", "spark")
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark": "json"}
    operator_extra_links = (SparkUiLink(), TargetLink())
    ui_color = "#dbeaf5"

    @with_arguments
    def __init__(
        self,
        *,
        target: str,
        ledger_conn_id: str | None = None,
        submit: Launcher | None = None,
        applications: str | None = None,
        kafka_conn_id: str | None = None,
        on_warning_callback: Callbacks = None,
        warn_lag: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        given = {name: kwargs.pop(name) for name in ARGUMENTS if name in kwargs}
        super().__init__(**kwargs)
        self.spark = {name: value for name, value in given.items() if name in SparkSubmitOperator.template_fields}
        self.spark.setdefault("name", f"table-backfill-{self.entry_point}")
        self._untemplated = {name: value for name, value in given.items() if name not in self.spark}
        if submit is not None and not callable(submit):
            raise invalid("submit", submit, "must be a function that takes a Launch and returns an operator")
        self.target = target
        self.ledger_conn_id = ledger_conn_id
        self.submit = submit
        self.applications = applications
        self.kafka_conn_id = kafka_conn_id
        self.on_warning_callback = callbacks_in(on_warning_callback)
        self.warn_lag = None if warn_lag is None else duration("warn_lag", warn_lag)
        self.then: Sequence[Follows] = ()
        self.spark_ui = ""
        self._launched: BaseOperator | None = None
        self._killed = False

    def shares_with(self, other: ApplicationOperator) -> bool:
        """Whether both start Spark alike, so that one application can do the work of both."""
        return self._start_settings == other._start_settings

    @property
    def _start_settings(self) -> tuple[Any, ...]:
        named = {name: value for name, value in self.spark.items() if name != "name"}
        return named, self._untemplated, self.submit, self.applications, self.kafka_conn_id, self.ledger_conn_id

    @abstractmethod
    def arguments(self) -> list[str]:
        """The arguments of this application, without target and attempt."""

    def then_arguments(self) -> list[str]:
        """The arguments that name the phases of ``then``."""
        found, before = list[str](), {self.task_id, *self.get_flat_relative_ids(upstream=True)}
        for task in self.then:
            if not task.upstream_task_ids <= before:
                break
            before.add(task.task_id)
            found += ["--then", shlex.join([task.entry_point, *task.settings()])]
        return found

    def committed(self) -> BuildState:
        """The build's committed state."""
        return self.ledger.reader(self.target).state()

    def servers(self) -> str | None:
        return bootstrap_servers(self.kafka_conn_id)

    @abstractmethod
    def proceed(self, context: Context, *, ran: bool = False) -> Any:
        """Do the remaining work. ``ran``: an application of this task has just succeeded."""

    def reached(self) -> bool:
        """Whether what this task runs for is committed: then it is no failure of this task if its application dies."""
        return False

    def execute(self, context: Context) -> Any:
        with decided(context):
            return self.proceed(context)

    def launcher_resumed(self, context: Context, **kwargs: Any) -> Any:
        """Resume after the operator of ``submit`` was deferred."""
        return self._resumed(context, None, kwargs)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume. If the trigger of that operator has failed, the outcome counts all the same."""
        if next_method == TRIGGER_FAIL_REPR and self.waits(context):
            return self._resumed(context, next_method, next_kwargs or {})
        return super().resume_execution(next_method, next_kwargs, context)

    def _resumed(self, context: Context, failed: str | None, kwargs: dict[str, Any]) -> Any:
        with decided(context):
            self.resume_application(context, failed, **kwargs)
            return self.proceed(context, ran=True)

    def on_kill(self) -> None:
        self._killed = True
        if self._launched is not None:
            self._launched.on_kill()

    @cached_property
    def ledger(self) -> LedgerHook:
        return LedgerHook(self.ledger_conn_id)

    def run_application(self, context: Context) -> dict[str, Any]:
        """Run the application in a new attempt, or rejoin a running one. Returns the result in its outcome."""
        store = context["task_state_store"]
        trial = self._launch(Attempt(1, "none"))  # raises what is wrong with it before an attempt is drawn
        if self.submit is None:
            check_deployment(self._spark_submit(trial), secrets=self.kafka_conn_id is not None)
        if self.kafka_conn_id is not None:
            tell_kafka(context, self.target, self.kafka_conn_id)
        before = self.last(context)
        if before is not None:
            operator = self._operator(context, before)
            if still_runs(operator, context):
                self._launched = operator
                return self._settle(context, before, lambda: rejoin(operator, context))
        me = self.ledger.reader(self.target).draw_attempt(self._document(context))
        store.set(ATTEMPT, {**asdict(me), "target": self.target}, retention=NEVER_EXPIRE)
        tell_attempt(context["ti"].dag_id, self.task_id)
        return self._settle(context, me, lambda: self._start(context, me))

    def last(self, context: Context) -> Attempt | None:
        """The attempt whose application this task started last; None if there is none, or it has another target: the
        target in the DAG was changed since, or a mapped list is in another order.
        """
        match context["task_state_store"].get(ATTEMPT):
            case {"target": str(target)} if target != self.target:
                return None
            case stored:
                return attempt_in(stored)

    def succeeded(self, context: Context) -> dict[str, Any] | None:
        """The result of this task's last application; None if it did not succeed, or there is none."""
        me = self.last(context)
        outcome = None if me is None else self.ledger.control(self.target).outcome(me)
        return cast("dict[str, Any]", outcome["result"]) if outcome is not None and outcome["code"] == "OK" else None

    def resume_application(self, context: Context, failed: str | None = None, /, **kwargs: Any) -> dict[str, Any]:
        """Resume the deferred operator of ``submit``. Returns the result in the application's outcome. ``failed``: what
        Airflow calls instead of its method, if its trigger has failed.
        """
        store = context["task_state_store"]
        me, method = self.last(context), failed or str(store.get(RESUME))
        store.delete(RESUME)
        if me is None:
            raise ApplicationFailed("the deferred attempt is no longer in the task's state store")
        launched = self._launched = self._operator(context, me)
        return self._settle(context, me, lambda: launched.resume_execution(method, kwargs, context))

    def waits(self, context: Context) -> bool:
        """Whether the operator of ``submit`` was deferred and is to be resumed."""
        return context["task_state_store"].get(RESUME) is not None

    def meanwhile(self, context: Context, me: Attempt) -> None:
        """Show what there is to show while the application works: the link to Spark's UI, once that has an address."""
        if not self.spark_ui:
            announced = self.ledger.control(self.target).announced(me) or {}
            self.spark_ui = announced.get("ui") or ""
            if self.spark_ui:
                context["ti"].xcom_push(key=SparkUiLink().xcom_key, value=self.spark_ui)

    def _settle(self, context: Context, me: Attempt, run: Callable[[], Any]) -> dict[str, Any]:
        """Run, then return or raise the attempt's outcome, whatever happened to the process. If there is none, the
        launcher's error is raised, and stored as the outcome.
        """
        trouble: BaseException | None = None
        before = REQUESTS.made
        try:
            with self._reporter(context, lambda: self.meanwhile(context, me), (me, self._document(context))):
                run()
        except TaskDeferred as deferred:
            context["task_state_store"].set(RESUME, deferred.method_name, retention=NEVER_EXPIRE)
            self.defer(
                trigger=deferred.trigger,
                method_name="launcher_resumed",
                kwargs=deferred.kwargs,
                timeout=deferred.timeout,
            )
        except AirflowTaskTimeout as error:
            self.on_kill()
            trouble = error
        except Exception as error:
            trouble = error
        finally:
            self._count(me, REQUESTS.made - before)
        outcome = self.ledger.control(self.target).outcome(me)
        if outcome is None or outcome.get("presumed"):  # by an earlier try, which has lost touch with it
            why = said(trouble, killed=self._killed)
            ended = self._launched is None or (isinstance(self._launched, SparkSubmit) and self._launched.has_ended)
            self._store_failure(me, trouble, why, presumed=not ended)
            if ended and self.reached():
                self.log.warning("it had reached the goal of this task; the next one goes on: %s", why)
                return {}
            if isinstance(trouble, BackfillError):
                raise trouble
            raise failure(why, me) from trouble
        if outcome["code"] != "OK":
            raise error_in(outcome) from trouble
        return cast("dict[str, Any]", outcome["result"])

    def _store_failure(self, me: Attempt, trouble: BaseException | None, why: str, *, presumed: bool) -> None:
        """Store why an application failed that could not store it. Only the first line: the others are of its log, and
        may have values of rows. ``presumed``: it may outlive its launcher, and then gives signs of life.
        """
        error = trouble if isinstance(trouble, BackfillError) else failure(why.partition("\n")[0], me)
        try:
            self.ledger.control(self.target).store_outcome(me, {**error.to_json(), "presumed": presumed})
        except BackfillError:
            self.log.warning("the outcome could not be stored", exc_info=True)

    def _count(self, me: Attempt, requests: int) -> None:
        """Add this worker's requests to what the attempt has cost. What cannot be stored is left out."""
        if requests:
            try:
                self.ledger.control(self.target).add_requests(me, requests)
            except BackfillError:
                self.log.warning("%d requests could not be counted", requests, exc_info=True)

    def report(self, context: Context) -> None:
        """Store the build's progress, as a running application would."""
        self._reporter(context, lambda: None).look()

    def _reporter(
        self, context: Context, also: Callable[[], None], me: tuple[Attempt, Mapping[str, Any]] | None = None
    ) -> Reporter:
        store, warnings = context["task_state_store"], self.warnings(context)
        return Reporter(self.ledger, self.target, store, self.log, warnings, also, me)

    def warnings(self, context: Context) -> Warnings:
        """Tells the warnings of the build."""
        return Warnings(context, self.log, self.on_warning_callback, self.warn_lag)

    def _start(self, context: Context, me: Attempt) -> None:
        self._launched = self._operator(context, me)
        execute_inside(self._launched, context)

    def _operator(self, context: Context, me: Attempt) -> BaseOperator:
        """The operator that runs the application of an attempt."""
        launch = self._launch(me)
        if self.submit is None:
            return belonging(self._spark_submit(launch), me)
        operator = self.submit(launch)
        operator.render_template_fields(context)
        return belonging(operator, me)

    def _spark_submit(self, launch: Launch) -> SparkSubmit:
        return SparkSubmit(launch=launch, arguments={**self._untemplated, **self.spark})

    def _launch(self, me: Attempt) -> Launch:
        py_files, conf = self.spark.get("py_files"), self.spark.get("conf") or {}
        if not isinstance(conf, Mapping):
            why = "a template gives a mapping in a DAG with render_template_as_native_obj=True"
            raise invalid("conf", None, f"must be a mapping of Spark's settings, and is a {type(conf).__name__}; {why}")
        return Launch(
            application=self.spark.get("application") or self._entry_point,
            arguments=tuple(self._command_line(me)),
            py_files=py_files if py_files is not None else package_zip(),
            conf={**ENDS, **conf},
            environment={**store_environment(self.ledger_conn_id), **kafka_environment(self.kafka_conn_id)},
            name=self.spark["name"],
            task_id=self.task_id,
            attempt=me.name,
            generation=me.generation,
            target=self.target,
        )

    @property
    def _entry_point(self) -> str:
        named = self.applications
        folder = entry_points() if named in (None, "") else checked("applications", named)
        return f"{folder.rstrip('/')}/{self.entry_point}.py"

    def _command_line(self, me: Attempt) -> list[str]:
        place = ["--target", self.target, "--generation", str(me.generation), "--attempt", me.name]
        return [*place, *self.arguments()]

    def _document(self, context: Context) -> dict[str, Any]:
        """What is stored of an attempt beside the target."""
        ti = context["ti"]
        return {
            "task": self.entry_point,
            "dag_id": ti.dag_id,
            "task_id": ti.task_id,
            "run_id": ti.run_id,
            "try_number": ti.try_number,
            "last_try": last_try(context),
            "map_index": ti.map_index,
        }


def attempt_in(stored: JsonValue) -> Attempt | None:
    """The attempt in ``task_state_store``; None if there is none."""
    match stored:
        case {"generation": int(generation), "name": str(name)}:
            return Attempt(generation, name)
        case _:
            return None
