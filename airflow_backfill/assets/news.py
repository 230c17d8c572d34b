"""Asset events about committed progress, each emitted once.

Airflow emits an event for every outlet whenever a task succeeds. A task that is retried, cleared or has nothing to do
would emit the same again, and a try that dies between its commit and its success would emit nothing. So an event
contains the ledger's totals, and a new one is emitted only if they differ from those of the last event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.execution_time.context import AssetStateStoreAccessor, InletEventsAccessors

from airflow_backfill.core.state.state import BuildState

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pydantic import JsonValue

STANDS = "table_backfill"
"""The key in ``asset_state_store``: build, target, and the last epoch of the source that is applied."""
FIRST_EVENTS = 1_000
"""Events of an asset that are looked through for a build's last one, as long as none is known."""
BEGINNING = "2000-01-01T00:00:00+00:00"
"""Before all events."""
SKEW = timedelta(minutes=5)
"""By how much clocks of API servers, which date events, may differ."""

Told = Mapping[str, Any] | None
"""The content of a build's last event; None if there was none."""


News: TypeAlias = Callable[[Told], "dict[str, Any] | None"]
"""Maps the content of the last event to that of the new one, or to None for no event."""


def tell(context: Context, task: BaseOperator, state: BuildState, news: News) -> None:
    """Emit an event for each asset among the outlets of ``task``, if there are ``news``. Either way, the asset's state
    says at which epoch its table stands.
    """
    kept, build = [], state.plan.build
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            stands: dict[str, JsonValue] = {"build": build, "target": state.plan.spec.target, "epoch": state.applied}
            store = context["asset_state_store"][outlet]
            store.set(STANDS, stands)
            extra = news(last_told(store, outlet, build))
            if extra is None:
                continue
            context["outlet_events"][outlet].extra.update({"build": build, **extra})
        kept.append(outlet)
    task.outlets = kept  # of this try only: the runner emits these outlets


def last_told(store: AssetStateStoreAccessor, asset: Asset, build: str) -> Told:
    """The newest event of ``asset`` about ``build``. The asset's store keeps up to where its events were searched, and
    the one found: hundreds of tables may tell one asset, and Airflow's clean-up deletes old events.
    """
    key, upto, told = f"{STANDS}/{build}", None, None
    known = store.get(key)
    if isinstance(known, dict):
        upto, told = known.get("upto"), known.get("extra")
    events = InletEventsAccessors([asset])[asset].ascending(False)
    if isinstance(upto, str):
        events = events.after((datetime.fromisoformat(upto) - SKEW).isoformat())
    else:
        events, upto = events.limit(FIRST_EVENTS), BEGINNING
    mine = next((event for event in events if event.extra and event.extra.get("build") == build), None)
    if len(events):
        upto, told = (mine or events[0]).timestamp.isoformat(), told if mine is None else mine.extra
    store.set(key, {"upto": upto, "extra": told})
    return cast("Told", told)


def refuse_loop(task: BaseOperator) -> None:
    """ValueError if ``task`` emits an asset that schedules its own DAG, which would start itself for ever."""
    dag = task.get_dag()
    if dag is None:
        return
    scheduled = set(_names(getattr(dag.timetable, "asset_condition", None)))
    loop = [o.name for o in task.outlets if isinstance(o, Asset) and scheduled & {o.name, o.uri}]
    if loop:
        raise ValueError(
            f"{task.task_id} emits {', '.join(loop)}, and {dag.dag_id} is scheduled on it, so it would start itself "
            "for ever; remove it from the task's outlets or from the schedule"
        )


def _names(condition: Any) -> Iterator[str]:
    """The names and URIs of all assets in a schedule: one asset, a reference to one, or any combination."""
    for part in getattr(condition, "objects", ()):
        yield from _names(part)
    for name in (getattr(condition, "name", None), getattr(condition, "uri", None)):
        if name:
            yield name
