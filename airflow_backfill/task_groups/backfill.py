"""A whole table backfill as one task group: from the plan to the hand-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import takewhile
from string import printable
from typing import Any, TypeVar
from urllib.parse import quote

from airflow.sdk import Asset, BaseOperator, TaskGroup, TriggerRule

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.gates.max_lag import MAX_LAG
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.options import flag, invalid, whole
from airflow_backfill.notifications.warnings import Callbacks
from airflow_backfill.operators.application import ApplicationOperator
from airflow_backfill.operators.approval import HandoffApprovalOperator
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.launch import Launcher
from airflow_backfill.operators.phase import MAX_LANES, PhaseOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.sensors.gate import GateSensor

T = TypeVar("T", bound=BaseOperator)
TASKS = ("plan", "snapshot", "consume_log", "approve", "gate", "catch_up", "verify", "finish")
RETRIES = 3
"""The default number of retries of a task."""


class BackfillTaskGroup(TaskGroup):
    """
    Builds a Delta table from a source that keeps changing, up to the hand-off.

    The tasks are ``plan >> snapshot >> consume_log >> gate >> catch_up >> verify >> finish``. Each can be killed,
    retried or cleared at any time.

    :param group_id: id of the group, and by default the name of the build.
    :param source: absolute path or URI of the Delta table to read; for a topic, its landing table, if there is one.
        (templated)
    :param target: absolute path or URI of the Delta table to create. (templated)
    :param key: columns of the source that identify a row; optional for a chain. (templated)
    :param select: SQL expressions, one per column of the target; by default every column. (templated)
    :param where: SQL condition for rows of the source. (templated)
    :param name: name of the build. Name and target identify it. (templated)
    :param strategy: "snapshot": one pinned version; "arrangement": ranges of the key, each at the newest version;
        "chain": announces epochs before it applies them, without key or feed if rows are only added; "source": the
        history of a topic, then its landing table; or "auto": the strategy that the plan recommends. (templated)
    :param new_columns: what to do when the source gets a new column: "stop", or "ignore" it. (templated)
    :param topic: for strategy "source": the topic whose history comes before ``source``, its landing table. ``name``,
        ``first`` ("earliest", or a time), ``key`` and ``value`` ("bytes", "string", "json:<schema>", "decoder:<name>"),
        ``undecodable`` ("stop", "dead_letters:<location>"), ``expired`` ("stop", "skip"), ``order``, ``checkpoint``.
        The group's ``key``, ``select`` and ``where`` then name columns of decoded records. (templated)
    :param functions: functions of your own that ``select`` and ``where`` call: names with versions. (templated)
    :param kafka_conn_id: connection of type ``kafka`` to the topic's brokers. (templated)
    :param max_lag: how much of the log may be pending when the gate opens: epochs, or the age of the oldest one.
    :param lanes: number of tasks that read the snapshot in parallel.
    :param window: when the hand-off may begin, e.g. ``("22:00", "06:00", "Europe/Berlin")``.
    :param approval: whether a user has to approve the hand-off in Airflow's UI; or arguments of the
        ``ApprovalOperator``, such as ``assigned_users``.
    :param verify: whether to prove that the target equals its source before the hand-off.
    :param proof: "full"; "incremental": the source is not read again, needs strategy snapshot or chain; "sampled": only
        a part of the keys is compared. See "The proof" in the documentation. (templated)
    :param clustering: "none", or "key": the target is a clustered table, so that a change of a key rewrites only files
        that may hold it. See "Performance" in the documentation. (templated)
    :param gate_timeout: how long the gate waits before it fails for good.
    :param poke_interval: seconds between two polls of tasks that wait.
    :param deferrable: whether to wait in the triggerer, without a worker.
    :param on_existing: what to do if the build exists: "resume" it, "fail", or "restart" from nothing.
    :param round_bytes: limit for the source's bytes in a round; a single file or epoch may be larger. By default it
        follows from the cores of the cluster: 256 MiB for each, at least 2 GiB.
    :param round_rows: limit for the source's rows in a round; a single file or epoch may be larger. By default 2.5
        million for each core, at least 20 million.
    :param handoff_asset: the asset that the finish task emits, once per build.
    :param ledger_conn_id: connection with the settings of the tables' store; by default they come from the environment.
    :param share_applications: whether the application of one phase goes on with the next ones: from the snapshot (with
        several lanes: from consume_log) through an open gate to the finish. That of a small build (up to 256 MiB) goes
        on from the plan. A closed gate, an approval, a task with other Spark arguments, and one that waits for a task
        of yours end it. Tasks whose goal is then reached start nothing.
    :param on_warning_callback: called, with the context and ``warning`` in it, when the build goes on and needs a look:
        a notifier, a function, or a list of them.
    :param warn_lag: how long the oldest pending epoch may be pending before a warning is sent; by default none is.
    :param submit: starts the Spark applications with another operator than spark-submit, see ``Launch``.
    :param spark: arguments of ``SparkSubmitOperator`` for all tasks that run Spark, e.g. ``conn_id`` and ``conf``.
    :param task_args: arguments of single tasks, by task name, e.g. ``{"snapshot": {"driver_memory": "8g"}}``.
    """

    def __init__(
        self,
        group_id: str,
        *,
        target: str,
        source: str | None = None,
        key: Sequence[str] | None = None,
        select: Sequence[str] | None = None,
        where: str | None = None,
        name: str | None = None,
        strategy: str | None = None,
        new_columns: str | None = None,
        topic: Mapping[str, Any] | None = None,
        functions: Mapping[str, str] | None = None,
        kafka_conn_id: str | None = None,
        max_lag: int | timedelta = MAX_LAG,
        lanes: int = 1,
        window: Sequence[str] | None = None,
        approval: bool | Mapping[str, Any] = False,
        verify: bool = True,
        proof: str | None = None,
        clustering: str | None = None,
        gate_timeout: timedelta = timedelta(days=7),
        poke_interval: float | timedelta = 30.0,
        deferrable: bool = True,
        on_existing: str = "resume",
        round_bytes: int | None = None,
        round_rows: int | None = None,
        handoff_asset: Asset | None = None,
        ledger_conn_id: str | None = None,
        share_applications: bool = True,
        on_warning_callback: Callbacks = None,
        warn_lag: timedelta | None = None,
        submit: Launcher | None = None,
        spark: Mapping[str, Any] | None = None,
        task_args: Mapping[str, Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id, **kwargs)
        if "retries" not in self.dag.default_args:
            self.default_args.setdefault("retries", RETRIES)
        self._task_args: Mapping[str, Any] = _mapping("task_args", task_args)
        self._check(lanes, verify, approval, share_applications, handoff_asset)
        asks = approval is not False  # a mapping without arguments asks, too
        # In a mapped group each build takes its own plan. Lanes are mapped themselves, and their plan is not.
        self._index = "ti.map_index" if lanes == 1 else "-1"
        # Ids may be in any language, but at an asset whose URI is not ASCII the DAG processor ends, for all DAGs.
        asset = quote(f"table-backfill/{self.dag.dag_id}/{self.group_id}/handoff", safe=printable)
        self.handoff_asset = handoff_asset or Asset(asset)

        rounds = {"round_bytes": round_bytes, "round_rows": round_rows}
        waiting = {"poke_interval": poke_interval, "deferrable": deferrable}
        later = {
            "ledger_conn_id": ledger_conn_id,
            "target": self._planned("target"),
            "build": self._planned("build"),
        }
        warnings = {"on_warning_callback": on_warning_callback, "warn_lag": warn_lag}
        applications = {"submit": submit, "kafka_conn_id": kafka_conn_id, **warnings, **_mapping("spark", spark)}
        with self:
            self.plan = self._task(
                PlanOperator,
                "plan",
                do_xcom_push=True,  # the other tasks take the target and the build from its result
                **applications,
                ledger_conn_id=ledger_conn_id,
                build_name=name or self.group_id,
                source=source,
                target=target,
                key=key,
                select=select,
                where=where,
                strategy=strategy,
                new_columns=new_columns,
                topic=topic,
                functions=functions,
                proof=proof,
                clustering=clustering,
                lanes=lanes,
                **rounds,
                on_existing=on_existing,
            )
            self.snapshot = self._snapshot(lanes, **later, **applications, **rounds)
            self.consume_log = self._task(
                ConsumeLogOperator,
                "consume_log",
                **later,
                **applications,
                **rounds,
                **waiting,
                max_lag=max_lag,
                window=window,
                approval=self.child_id("approve") if asks else None,
            )
            self.gate = self._task(
                GateSensor,
                "gate",
                **later,
                **waiting,
                **warnings,
                max_lag=max_lag,
                window=window,
                timeout=duration("gate_timeout", gate_timeout).total_seconds(),
                consume_log=self.consume_log,
            )
            self.catch_up = self._task(CatchUpOperator, "catch_up", **later, **applications, **rounds, max_lag=max_lag)
            self.verify = self._task(VerifyOperator, "verify", **later, **applications) if verify else None
            self.finish = self._task(
                FinishOperator, "finish", **later, **applications, verified=verify, outlets=[self.handoff_asset]
            )
            if share_applications:
                before = [self.snapshot, self.consume_log] if lanes == 1 else [self.consume_log]
                after = [self.catch_up, *([self.verify] if self.verify else []), self.finish]
                for tasks in [before, after] if asks else [[*before, self.gate, *after]]:
                    _share(tasks)
                if lanes == 1:
                    _goes_on(self.plan, [self.snapshot, *self.snapshot.then])
            if asks:
                self.snapshot >> self._approve(approval if isinstance(approval, Mapping) else {}) >> self.gate
        self.plan >> self.snapshot >> self.consume_log >> self.gate >> self.catch_up
        if self.verify is None:
            self.catch_up >> self.finish
        else:
            self.catch_up >> self.verify >> self.finish

    def _task(self, operator: type[T], task: str, **arguments: Any) -> T:
        own = _mapping(f"task_args.{task}", self._task_args.get(task))
        return operator(**{"task_id": task, **self._rule(task), **arguments, **own})

    def _snapshot(self, lanes: int, **arguments: Any) -> Any:
        if lanes == 1:
            return self._task(SnapshotOperator, "snapshot", **arguments)
        own = _mapping("task_args.snapshot", self._task_args.get("snapshot"))
        arguments = {"task_id": "snapshot", "lanes": lanes, **self._rule("snapshot"), **arguments, **own}
        return SnapshotOperator.partial(**arguments).expand(lane=list(range(lanes)))

    def _rule(self, task: str) -> dict[str, Any]:
        """Each task after the plan runs only if all tasks before it have succeeded. A rule in ``default_args`` is for
        branches of the DAG, and would lead past a gate that was skipped.
        """
        return {} if task == "plan" else {"trigger_rule": TriggerRule.ALL_SUCCESS}

    def _approve(self, approval: Mapping[str, Any]) -> HandoffApprovalOperator:
        found = f"{self._plan()}.get('rows')"
        rows = f"{{% if {found} %}}{{{{ '{{:,}}'.format({found}) }}}} rows{{% else %}}all records{{% endif %}}"
        asked = {
            "subject": f"Hand over {self.group_id}?",
            "body": f"The snapshot is read: {rows}, as of epoch {self._planned('epoch')}. "
            f"{self._planned('target')} stays fresh until you decide.",
            # Airflow would take that of default_args, which is for work, as the time to answer.
            "execution_timeout": None,
        }
        return self._task(HandoffApprovalOperator, "approve", **{**asked, **approval})

    def _planned(self, field: str) -> str:
        """A template for a field of the plan's result: later tasks take only the target and the build from it. Without
        a result it is empty, and an empty target is an error that says what to do.
        """
        return f"{{{{ {self._plan()}.get('{field}', '') }}}}"

    def _plan(self) -> str:
        return f"(ti.xcom_pull(task_ids='{self.child_id('plan')}', map_indexes={self._index}) or {{}})"

    def _check(
        self, lanes: int, verify: bool, approval: bool | Mapping[str, Any], share: bool, asset: Asset | None
    ) -> None:
        whole("lanes", lanes, 1, MAX_LANES)
        flag("verify", verify)
        flag("share_applications", share)
        if asset is not None and not isinstance(asset, Asset):
            raise invalid("handoff_asset", asset, "must be an Asset: no other outlet gets an event")
        if not isinstance(approval, bool | Mapping):
            raise invalid(
                "approval", approval, "must be True, False, or arguments of the ApprovalOperator, and is no template"
            )
        unknown = sorted(set(self._task_args) - set(TASKS))
        if unknown:
            raise InvalidSpec(
                f"task_args: unknown tasks {', '.join(unknown)} (known: {', '.join(TASKS)})", field="task_args"
            )


def _mapping(field: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise invalid(field, given, "must be a mapping of arguments")
    return given or {}


def _share(tasks: Sequence[PhaseOperator | GateSensor]) -> None:
    """Let the application of each task go on with the next ones."""
    for n, task in enumerate(tasks):
        if isinstance(task, PhaseOperator):
            _goes_on(task, tasks[n + 1 :])


def _goes_on(task: ApplicationOperator, others: Sequence[PhaseOperator | GateSensor]) -> None:
    """Let the application of a task go on with the phases of those that start Spark in the same way."""
    task.then = list(takewhile(partial(_shared, task), others))


def _shared(task: ApplicationOperator, other: PhaseOperator | GateSensor) -> bool:
    return isinstance(other, GateSensor) or task.shares_with(other)
