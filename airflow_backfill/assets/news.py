"""Asset events that tell what the ledger says, each thing once.

Airflow emits an event of every outlet whenever a task succeeds. A task that is retried, or cleared, or has nothing
to do, would tell the same again, and a try that dies between its commit and its success would tell nothing. So an
event carries totals of the ledger, and what the last event said decides whether there is anything new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, BaseOperator
from airflow.sdk.execution_time.context import InletEventsAccessors

if TYPE_CHECKING:
    from airflow.sdk import Context

RECENT = 100
"""How many events of an asset are looked at: others may emit it, too."""

Told = Mapping[str, Any] | None
"""What the last event of a build said; None if there was none."""


def tell(context: Context, task: BaseOperator, build: str, news: Callable[[Told], dict[str, Any] | None]) -> None:
    """Let each asset among the outlets of ``task`` tell what ``news`` makes of its last event; no event if that
    is None.
    """
    kept = []
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            extra = news(last_told(outlet, build))
            if extra is None:
                continue
            context["outlet_events"][outlet].extra.update({"build": build, **extra})
        kept.append(outlet)
    task.outlets = kept  # of this try only: the runner emits what it finds here


def last_told(asset: Asset, build: str) -> Told:
    """What the newest event of ``asset`` says that is about ``build``."""
    events = InletEventsAccessors([asset])[asset].ascending(False).limit(RECENT)
    return next((extra for event in events if (extra := event.extra or {}).get("build") == build), None)


def refuse_loop(dag: DAG, task: BaseOperator) -> None:
    """ValueError if ``task`` emits what its own DAG is scheduled on: the DAG would start itself for ever."""
    scheduled = set(_names(getattr(dag.timetable, "asset_condition", None)))
    loop = [o.name for o in task.outlets if isinstance(o, Asset) and scheduled & {o.name, o.uri}]
    if loop:
        raise ValueError(
            f"{task.task_id} emits {', '.join(loop)}, and {dag.dag_id} is scheduled on it: it would start itself"
        )


def _names(condition: Any) -> Iterator[str]:
    """The names and URIs of all assets in a schedule: one asset, a reference to one, or any combination."""
    for part in getattr(condition, "objects", ()):
        yield from _names(part)
    for name in (getattr(condition, "name", None), getattr(condition, "uri", None)):
        if name:
            yield name
