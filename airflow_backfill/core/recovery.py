"""Going on with a build whose records cannot be read, or cannot be believed any more.

Records age out of a log that is cleaned up too early, and somebody may have restored the target or written to it.
What is left is the plan, the transaction ids, which Delta carries in its checkpoints, and the rows. Somebody names the
epoch at which the target should stand; one barrier says so, the build is in catch-up with that hand-off epoch, and only
a verification can finish it. Nothing of the records before is used, but who wrote the last one, where it is left: the
newest attempt wins here, too.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from airflow_backfill.core.attempt import Attempt
from airflow_backfill.core.commit import Commit
from airflow_backfill.core.control import Control
from airflow_backfill.core.effect import (
    Effect,
    Head,
    Look,
    Looked,
    Nothing,
    ReadCommit,
    ReadPlan,
    ReadTransactions,
    Transactions,
    Watch,
    Write,
    Written,
)
from airflow_backfill.core.errors import Fenced, HistoryLost, NotAllowedNow, NotPlanned, RecordInvalid, TargetContended
from airflow_backfill.core.phase import Event, Phase
from airflow_backfill.core.plan import LANE, Plan
from airflow_backfill.core.position import Consumed
from airflow_backfill.core.reading import load
from airflow_backfill.core.record import Layout, Record, barrier_record
from airflow_backfill.core.source import SourceView, check_source
from airflow_backfill.core.state import BuildState

TRIES = 5


def recover(me: Attempt, epoch: int) -> Generator[Effect, Any, BuildState]:
    """The state with the target said to stand at ``epoch``. Raises NotAllowedNow where no proof could ever hold."""
    for _ in range(TRIES):
        found: Transactions = yield ReadTransactions()
        build, layout, seq = _newest_lane(found.versions)
        plan: Plan | None = yield ReadPlan(build)
        if plan is None:
            raise RecordInvalid(f"the plan of build {build} is nowhere to be found", build=build)
        if found.table_id != plan.target_id:
            raise NotAllowedNow("another table took the target's place", planned=plan.target_id, found=found.table_id)
        if plan.of_topic:
            raise NotAllowedNow(
                "where a topic's history ended, and the landing table took over, is known from the records alone; plan "
                "the build again with on_existing='restart'"
            )
        if epoch < plan.source.epoch:
            raise NotAllowedNow(f"the target cannot stand at {epoch}, before the snapshot's epoch {plan.source.epoch}")
        source: SourceView = yield Watch(epoch)
        check_source(plan, source, epoch)
        looked: Looked = yield Look(files=False)
        head: int = yield Head()
        _check_newest(me, (yield from _last_record(f"{build}/{layout}/0", head)))
        # Commands of before are known and over: a cancel among them must not end what somebody just recovered.
        control = Control(number=max((number for number, _ in looked.commands), default=0))
        written: Written = yield Write(_record(plan, layout, seq + 1, me, head, epoch, control), Nothing())
        state = yield from load(build)
        newest = None if state.newest is None else state.newest.record
        if newest is not None and newest.attempt == me.name:
            return state
        _check_newest(me, newest)
        if written.error is not None:
            raise written.error
    raise TargetContended(f"{TRIES} tries in a row lost to other commits", tries=TRIES)


def _check_newest(me: Attempt, last: Record | None) -> None:
    if last is not None and last.generation > me.generation:
        raise Fenced(f"attempt {last.attempt} has taken over", attempt=me.name, by=last.attempt)


def _last_record(lane: str, head: int) -> Generator[Effect, Any, Record | None]:
    """The last record of a lane; None if the log has lost it, or it cannot be read."""
    for version in range(head, -1, -1):
        try:
            commit: Commit = yield ReadCommit(version)
            if lane in commit.txns:
                return barrier_record(commit)
        except (HistoryLost, RecordInvalid):
            return None
    return None


def _newest_lane(versions: Mapping[str, int]) -> tuple[str, int, int]:
    """Build, layout and seq of the only lane of the newest layout."""
    builds = [name.removesuffix(f"/{LANE}") for name in versions if name.endswith(f"/{LANE}")]
    if len(builds) != 1:
        raise NotPlanned(f"the target holds {len(builds)} builds: nothing to recover", builds=sorted(builds))
    (build,) = builds
    lanes = [tuple(map(int, name.split("/")[1:])) for name in versions if _is_lane(name, build)]
    newest = max((layout for layout, _ in lanes), default=1)
    last = [lane for layout, lane in lanes if layout == newest]
    if last != [0]:
        raise NotAllowedNow(
            f"layout {newest} has lanes {sorted(last)}: the snapshot was still being read, and a part of it cannot be "
            "proven; plan the build again with on_existing='restart'",
            layout=newest,
        )
    return build, newest, versions[f"{build}/{newest}/0"]


def _is_lane(name: str, build: str) -> bool:
    parts = name.split("/")
    return parts[0] == build and len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit()


def _record(plan: Plan, layout: int, seq: int, me: Attempt, head: int, epoch: int, control: Control) -> Record:
    return Record(
        build=plan.build,
        plan=plan.fingerprint,
        layout=Layout(layout, 1),
        lane=0,
        seq=seq,
        generation=me.generation,
        attempt=me.name,
        prev=head,
        tails=(-1,),
        event=Event.RECOVER,
        phase=Phase.CATCH_UP,
        positions=(Consumed(epoch),) * len(plan.splits),
        control=control,
        handoff=epoch,
    )
