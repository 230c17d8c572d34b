"""spark-submit, the default launcher of applications.

The only file that uses private parts of Airflow. An application belongs to an attempt, so its handle is stored under
the attempt's name. ``tests/operators/test_spark_submit.py`` checks that the installed version has these parts.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_backfill.core.errors import InvalidSpec, KafkaOption, SparkIncomplete
from airflow_backfill.core.kafka.connection import FILE, VARIABLE
from airflow_backfill.hooks.connection import connection
from airflow_backfill.hooks.kafka import file_with, inherited
from airflow_backfill.ledger.process import TASK, own_name
from airflow_backfill.operators.launch import Launch
from airflow_backfill.spark_home import default_jars

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import BaseOperator, Context
    from pydantic import JsonValue

ARGUMENTS = {
    name: parameter
    for name, parameter in inspect.signature(SparkSubmitOperator.__init__).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "application_args"
}
"""The arguments of Airflow's operator that a task may have. Those of the application are ours."""
_NO_JAVA = re.compile(r"^(JAVA_HOME is not set|.*/spark-class: line \d+: .*java: .*)$", re.MULTILINE)
"""What the scripts of Spark say then. No application has begun, so it holds no values of rows."""
_LEVELS = {"WARN": logging.WARNING, "WARNING": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.ERROR}
_MARKED = re.compile(rf"\d[\d/:., -]+ ({'|'.join(_LEVELS)})\b")
"""A line of Spark's log or of an application's: the time, and the level."""
ENDING_SECONDS = 5.0
"""How long a spark-submit that was killed may need to end."""


def with_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Add ``ARGUMENTS`` to the signature of a constructor: Airflow looks there for what ``default_args`` and
    ``partial`` may contain.
    """
    *own, rest = inspect.signature(init).parameters.values()
    init.__signature__ = inspect.Signature([*own, *ARGUMENTS.values(), rest])  # type: ignore[attr-defined]
    return init


def execute_inside(operator: BaseOperator, context: Context) -> None:
    """Execute an operator inside of another one's task. Without its mark Airflow warns that this is a mistake."""
    mark = {f"{type(operator).__name__}__sentinel": ExecutorSafeguard.sentinel_value}
    operator.execute(context, **mark)


def conf_with_jars(start: SparkSubmitOperator, binary: str | None, *, kafka: bool) -> dict[str, Any]:
    """The settings of a start; where it names no jars, with those that a build needs. ``packages=""`` is to name
    none.
    """
    conf = start.conf or {}
    if any(named is not None for named in (start.jars, start.packages, start.driver_class_path)):
        return conf
    return {**default_jars(conf, binary=binary, defaults=start.properties_file, kafka=kafka), **conf}


def check_deployment(start: SparkSubmitOperator, *, secrets: bool) -> None:
    """Refuse what spark-submit cannot do in deploy mode ``cluster``, where the driver starts on another machine.

    InvalidSpec for a standalone master, and for YARN without what is needed to rejoin an application; KafkaOption if
    there are ``secrets`` and no way to the driver but a command line. SourceUnavailable without the connection, for
    which Airflow's hook would take YARN.
    """
    connection("conn_id", start._conn_id)
    hook = start._get_hook()
    master, mode = str(hook._connection["master"]), hook._connection["deploy_mode"]
    if mode != "cluster":
        return
    if master.startswith("spark://"):
        raise InvalidSpec(
            "deploy_mode: a standalone master starts no Python application in deploy mode cluster; use deploy mode "
            "client, or another cluster (YARN, Kubernetes)",
            field="deploy_mode",
        )
    if hook._is_yarn_cluster_mode and start.durable:
        try:
            if not hook._yarn_track_via_rm_api:
                raise ValueError("yarn_track_via_rm_api is not set")
            hook._validate_yarn_track_via_rm_api_config()
        except Exception as error:
            raise InvalidSpec(
                f"yarn_track_via_rm_api: {error}; in deploy mode cluster, a retry asks YARN about the application of "
                "the try before: set yarn_track_via_rm_api=True, and yarn_resourcemanager_webapp_address in the extra "
                "of the connection; or set durable=False, then a retry takes over from that application",
                field="yarn_track_via_rm_api",
            ) from None
    if secrets and not hook._is_yarn_cluster_mode:
        raise KafkaOption(
            "kafka_conn_id: in deploy mode cluster the driver inherits no environment variables; remove kafka_conn_id, "
            f"and set the driver's variable {VARIABLE} from a secret of the cluster, with the connection's extra as "
            f"JSON (Kubernetes: spark.kubernetes.driver.secretKeyRef.{VARIABLE} = NAME:KEY)",
            option="kafka_conn_id",
        )


@contextmanager
def with_secrets(start: SparkSubmitOperator, environment: Mapping[str, str]) -> Iterator[None]:
    """Let the driver have these variables: it inherits them from spark-submit, or finds them in a file beside it. One
    that inherits also knows this process, and ends with it.

    On YARN in deploy mode ``cluster``, Kafka's connection is in the file: YARN puts it into the driver's working
    directory, by way of a folder of the store that only this user can read.
    """
    inherits = {**environment, TASK: own_name()}
    with ExitStack() as stack:
        if VARIABLE in environment and start._get_hook()._is_yarn_cluster_mode:
            path = stack.enter_context(file_with({VARIABLE: inherits.pop(VARIABLE)}))
            start.files = ",".join(filter(None, (start.files, f"{path}#{FILE}")))
        stack.enter_context(inherited(inherits))
        yield


class LevelledLog:
    """A log of lines of spark-submit: Airflow's hook logs all of them as INFO, and here a line that Spark or the
    application has marked as a warning or an error is one.
    """

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, line: Any, *args: Any, **named: Any) -> None:
        marked = _MARKED.match(str(line))
        self._log.log(logging.INFO if marked is None else _LEVELS[marked[1]], line, *args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class LevelledSparkSubmit(SparkSubmitOperator):
    """Airflow's operator, with a ``LevelledLog``."""

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        hook._log = cast("Any", LevelledLog(hook.log))
        return hook


class SparkSubmit(LevelledSparkSubmit):
    """Submits one application.

    :param launch: the application. spark-submit inherits its environment.
    :param arguments: the task's values for ``ARGUMENTS``, already rendered.
    """

    template_fields = ()

    def __init__(self, *, launch: Launch, arguments: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(
            **{
                **kwargs,
                **arguments,
                "task_id": launch.task_id.rpartition(".")[2],
                "application": launch.application,
                "application_args": list(launch.arguments),
                "py_files": launch.py_files,
                "conf": dict(launch.conf),
                "name": launch.name,
            }
        )
        self.environment = launch.environment
        if "://" not in launch.application:  # an image with the application has its jars, too
            self.conf = conf_with_jars(self, arguments.get("spark_binary"), kafka=VARIABLE in launch.environment)

    def execute(self, context: Context) -> None:
        """Submit the application and wait for its end. SparkIncomplete if this machine has no spark-submit, or no Java
        for it.
        """
        with with_secrets(self, self.environment):
            try:
                super().execute(context)
            except AirflowException as error:
                found = _NO_JAVA.search(str(error))
                if found is None:
                    raise
                raise SparkIncomplete(
                    f"spark-submit finds no Java on this worker ({found[0]}); install Java 17, or correct JAVA_HOME"
                ) from error
            except FileNotFoundError as error:
                if error.filename != self._get_hook()._connection["spark_binary"]:
                    raise
                raise SparkIncomplete(
                    f"{error.filename} is not on the PATH of this worker; install Spark there, for example with "
                    "pip install 'airflow-backfill[spark]'"
                ) from None

    def execute_resumable(self, context: Context) -> None:
        """Submit, store the handle for longer than Airflow does, and wait."""
        store = context["task_state_store"]
        store.delete(self._K8S_DRIVER_STATUS_KEY)  # may be of the previous application
        handle = self.submit_job(context)
        if self.durable and handle is not None:
            store.set(self.external_id_key, handle, retention=NEVER_EXPIRE)
        self.poll_until_complete(handle, context)

    @property
    def has_ended(self) -> bool:
        """Whether the application does surely not run: in deploy mode ``client`` it ends with spark-submit. A driver in
        deploy mode ``cluster`` may outlive it.
        """
        if self._hook is None:
            return True  # nothing was submitted
        process = self._hook._submit_sp
        modes = (self._hook._connection["deploy_mode"], (self.conf or {}).get("spark.submit.deployMode"))
        if process is not None:
            with suppress(TimeoutExpired):  # it may just have been killed
                process.wait(ENDING_SECONDS)
        return "cluster" not in modes and (process is None or process.poll() is not None)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        if self._hook is not None and self._hook._is_yarn_cluster_mode:
            # Only a submission sets this. Without it, a kill after a reconnect does not reach the application.
            self._hook._yarn_application_id = cast("str", external_id)
        super().poll_until_complete(external_id, context)
