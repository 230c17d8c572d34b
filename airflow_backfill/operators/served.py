"""Tasks whose applications a service runs, for ``submit=``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from airflow_backfill.core.errors import ApplicationFailed, InvalidSpec
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.service.heartbeat import UNWATCHED_SECONDS
from airflow_backfill.core.service.request import Request, of_attempt
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import flag, invalid
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.operators.launch import Launch
from airflow_backfill.spark_home import ENDS
from airflow_backfill.triggers.request import RequestTrigger
from airflow_backfill.watching.fired import LAST, say_error
from airflow_backfill.watching.patience import Patience
from airflow_backfill.watching.request_watch import RequestWatch

if TYPE_CHECKING:
    from airflow.sdk import Context


MOST_SECONDS = UNWATCHED_SECONDS / 3
"""Time between two polls of a request."""
LOOK_SECONDS = 1800.0
"""Time after which a task that waits looks at its build: for metrics, and warnings such as ``stuck``."""


@dataclass(frozen=True)
class Served:
    """
    A launcher for ``submit=``: the service of a ``ServiceOperator`` runs the application, and the task waits without
    a worker.

    The settings of Spark are those of the service. So is the Kafka connection: no secret is in a request.

    :param service: location of the service's folder, as its ``ServiceOperator`` has it.
    :param ledger_conn_id: connection with the settings of the folder's store; by default they come from the
        environment.
    :param patience_seconds: how long a service may take to take the request, before the task is retried.
    :param poke_interval: seconds between two polls while the task waits, at most 300: a request that nobody has looked
        at for 15 minutes is withdrawn.
    :param deferrable: whether to wait in the triggerer.
    """

    service: str
    ledger_conn_id: str | None = None
    patience_seconds: float = 900.0
    poke_interval: float = 5.0
    deferrable: bool = True

    def __post_init__(self) -> None:
        Location.parse(self.service)
        flag("deferrable", self.deferrable)
        for name in ("patience_seconds", "poke_interval"):
            object.__setattr__(self, name, duration(name, getattr(self, name)).total_seconds())
        if not 0 < self.poke_interval <= MOST_SECONDS:
            raise invalid("poke_interval", self.poke_interval, f"must be more than 0 and at most {MOST_SECONDS:.0f}")

    def __call__(self, launch: Launch) -> ServedOperator:
        return ServedOperator(task_id=launch.task_id.rpartition(".")[2], launch=launch, served=self)


class ServedOperator(BaseOperator):
    """
    Makes a request to a service, and waits until its work has ended.

    :param launch: the application.
    :param served: the service.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, launch: Launch, served: Served, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.launch = launch
        self.served = served
        self._watch: RequestWatch | None = None

    def execute(self, context: Context) -> None:
        request = requested(self.launch, now_ms())
        watch = self._watch = self._watch_of(request.name)
        watch.sign()  # before the request, which nobody watches otherwise if the worker is killed now
        watch.folder.ask(request)
        self.log.info("asked the service at %s for %s", self.served.service, request.application)
        if self.served.deferrable:
            self._defer(watch)
        patience = Patience(self.log)
        while not patience.ask(watch.over):
            time.sleep(self.served.poke_interval)
        self._conclude(watch)

    def resumed(self, context: Context, event: Mapping[str, Any]) -> None:
        """Resume after the trigger fired, and wait on if the work goes on: it may only have been time to look at the
        build, or the triggerer's store did not answer, or a service took the request before a worker was free.
        """
        say_error(self.log, event)
        folder = LedgerHook(self.served.ledger_conn_id).service(self.served.service)
        name = of_attempt(folder.names(), self.launch.attempt)
        if name is None:
            return self._check_refusal(folder)
        watch = self._watch_of(name)
        if LAST not in event or watch.lives(event[LAST]):
            watch.sign()
            self._defer(watch)
        self._conclude(watch)

    def _defer(self, watch: RequestWatch) -> NoReturn:
        deadline = time.time() + max(LOOK_SECONDS, 2 * watch.patience_seconds)
        trigger = RequestTrigger(watch=watch.to_json(), poke_interval=self.served.poke_interval, deadline=deadline)
        self.defer(trigger=trigger, method_name="resumed")

    def on_kill(self) -> None:
        if self._watch is not None:
            self._watch.folder.remove(self._watch.name)

    def _conclude(self, watch: RequestWatch) -> None:
        """Withdraw the request and raise ApplicationFailed, if its work is lost; the service's error, if it has refused
        the request.
        """
        if not watch.folder.wanted(watch.name):
            return self._check_refusal(watch.folder)
        taker = watch.folder.taken_by(watch.name)
        watch.folder.remove(watch.name)
        if taker is None:
            raise ApplicationFailed(
                f"no service took the request within {watch.patience_seconds:.0f} s: look whether the task with the "
                f"ServiceOperator of {watch.service} runs; if other requests hold all its places, raise its at_once, "
                "or patience_seconds of Served",
                service=watch.service,
            )
        raise ApplicationFailed(f"service {taker} of {watch.service} has died", service=watch.service)

    def _check_refusal(self, folder: ServiceFolder) -> None:
        refusal = folder.refusal(self.launch.attempt)
        if refusal is not None:
            raise refusal

    def _watch_of(self, name: str) -> RequestWatch:
        return RequestWatch(self.served.service, name, self.served.patience_seconds, self.served.ledger_conn_id)


def requested(launch: Launch, now: int) -> Request:
    """The request for an application; InvalidSpec if it needs what no request can bring. ``now``: milliseconds."""
    if VARIABLE in launch.environment:
        raise InvalidSpec(
            "kafka_conn_id: a request brings no secret to a service; set kafka_conn_id of the ServiceOperator instead",
            field="kafka_conn_id",
        )
    if others := sorted(launch.conf.keys() - ENDS.keys()):
        raise InvalidSpec(
            f"conf: the settings of Spark are those of the service, and this task has others ({', '.join(others)})"
            "; set conf of the ServiceOperator instead",
            field="conf",
        )
    attempt = Attempt(launch.generation, launch.attempt)
    return Request(Path(launch.application).stem, launch.target, attempt, launch.arguments, now)
