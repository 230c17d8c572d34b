"""Builds in every state that the page shows, made without Spark in a moment that looks like hours: the clock of the
applications is moved on by each look at it, and the source's writer commits meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.state.effect import FileSize
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit, FileTotals
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.differing import how_many_differ
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger import control_folder
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run import sign_of_life
from airflow_backfill.testing import applications
from airflow_backfill.testing.json_log import JsonLog
from tests.airflow.without_spark import commit_to, make_source
from tests.plugin import database

FILES, FILE_BYTES, FILE_ROWS = 96, 128 << 20, 1_400_000
EPOCH_ROWS = 21_000
SECONDS = 1000
COST = {
    **{"core_seconds": 2_760, "read_bytes": 9_400_000_000, "written_bytes": 8_100_000_000},
    **{"shuffled_bytes": 310_000_000, "driver_requests": 2_190},
}
"""Of each application."""
NOWHERE = "archive"
"""The connection to a store that does not answer."""


class Stopped(BaseException):
    """Whoever works is killed here: it stores no outcome."""


Until = Callable[[BuildReader], bool]
Steps = Mapping[str, Until | None]


class Scene:
    """Tables in a folder, and the moment up to which they have a past."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._now = time.time_ns() // 1_000_000
        self.clock = self._now

    def build(self, name: str, steps: Steps, *, ago: float, every: float, strategy: str = "snapshot") -> str:
        """A build whose last commit was ``ago`` seconds ago. ``steps``: applications, each with what it is killed at.
        The source has a commit ``every`` so many seconds.
        """
        # Played once to know how long it takes: times of commits cannot be moved afterwards, readers compare digests.
        self.clock = self._now
        self._play(self._place / "rehearsals", name, steps, every, strategy)
        self.clock = 2 * self._now - self.clock - round(ago * SECONDS)
        return self._play(self._place, name, steps, every, strategy, told=True)

    def _play(self, place: Path, name: str, steps: Steps, every: float, strategy: str, *, told: bool = False) -> str:
        source, target = place / "raw" / name, place / "marts" / name
        make_source(source)
        spec = {"name": name, "source": str(source), "target": str(target), "key": ["id"], "strategy": strategy}
        reader, writer = BuildReader(str(target)), JsonLog(str(source))
        committed = self.clock

        def tick(until: Until | None) -> int:
            nonlocal committed
            self.clock += 7 * SECONDS
            while committed + every * SECONDS < self.clock:
                committed += round(every * SECONDS)
                writer.land(_epoch(writer.head + 1, committed))
            if until is not None and _is(until, reader):
                raise Stopped
            return self.clock

        for application, until in steps.items():
            line = ["--target", str(target)]
            line += ["--spec", json.dumps(spec)] if application == "plan" else []
            line += ["--max-lag-epochs", "2"] if application in ("consume_log", "catch_up") else []
            line += ["--round-rows", str(2 * FILE_ROWS)] if application == "snapshot" else []
            line += ["--round-rows", str(2 * EPOCH_ROWS)] if application == "consume_log" else []
            if told:
                me = self.drawn(reader, name, application, self.clock)
                line += ["--generation", str(me.generation), "--attempt", me.name]
            rows = 2 * (FILE_ROWS if application == "snapshot" else EPOCH_ROWS)
            with _scenery(self, partial(tick, until), rows), suppress(Stopped):
                applications.main(application, line)
        writer.write_checksum()
        return str(target)

    def drawn(self, reader: BuildReader, name: str, application: str, at: int) -> Attempt:
        """An attempt of a task, beside the target and in Airflow's database."""
        task = f"{name}.{application}"
        instance = {"dag_id": f"shop_{name}", "task_id": task, "run_id": database.RUN, "map_index": -1, "try_number": 1}
        me = reader.draw_attempt({"task": application, "at": at, **instance})
        stored = json.dumps({"generation": me.generation, "name": me.name})
        told = {"target": reader.target, "ledger_conn_id": None, "attempt": stored, "at": at / SECONDS}
        database.ran(f"shop_{name}", task, **told, state="failed" if application == "verify" else "running")
        return me


def order(target: str, verb: Verb, by: str, why: str | None, at: int, **more: Any) -> None:
    ordered(target, Command(verb, signed=Signature(by=by, why=why, at=at, via="page"), **more))


def alive(target: str) -> None:
    """The last attempt's application runs."""
    control, now = ControlFolder.beside(target), time.time_ns() // 1_000_000
    generation, document = control.attempts()[-1]
    control.announce(
        Attempt(generation, document["attempt"]),
        {"at": document["at"], "alive": now, "ui": "http://spark.test:4040", "cost": COST},
    )


def differs(scene: Scene, target: str) -> None:
    """A proof has failed."""
    control = ControlFolder.beside(target)
    scene.drawn(BuildReader(target), target.rpartition("/")[2], "verify", time.time_ns() // 1_000_000 - 800_000)
    generation, document = control.attempts()[-1]
    state = BuildReader(target).state()
    counts = {"missing": 3, "extra": 1, "stale": 5}
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    error = VerificationFailed(
        f"{how_many_differ(counts, keyed=True)}: version {state.proven} of the target is not the transformed source at "
        f"epoch {state.applied}; run `table-backfill repair {target} --why REASON`, which rewrites these keys, then "
        "clear verify",
        epoch=state.applied,
        target_version=state.proven,
        counts=counts,
        sample=[{"kind": kind, "key": {"id": str(1042 + 86_081 * n)}} for n, kind in enumerate(kinds)],
    )
    control.store_outcome(Attempt(generation, document["attempt"]), error.to_json())


def explained(scene: Scene, target: str) -> None:
    """A row was explained on somebody's order."""
    reader, now = BuildReader(target), time.time_ns() // 1_000_000
    state = reader.state()
    instance = {"dag_id": "steer_table_backfill", "task_id": "explain", "run_id": database.RUN, "map_index": -1}
    me = reader.draw_attempt({"task": "explain", "at": now - 90_000, "by": "ed", "why": "ticket 4711", **instance})
    epoch = state.plan.source.epoch
    before, after = ({"order_id": 42, "amount": amount, "status": "open"} for amount in (20.0, 25.0))
    made = {"order_id": 42, "amount_eur": 23.0, "status": "open"}
    change = {"epoch": epoch + 3, "at": now - 7_200_000, "operation": "MERGE", "change": "update_postimage"}
    applied = {"version": 40, "at": now - 7_000_000}
    found = {
        **{"target": target, "source": state.plan.spec.source, "build": state.plan.build, "strategy": "snapshot"},
        "key": {"order_id": "42"},
        "snapshot": {"epoch": epoch, "rows": [{"image": before, "made": {**made, "amount_eur": 18.4}}], "error": None},
        "epochs": {"from": epoch + 1, "to": epoch + 9, "looked_at": 9, "read": 1, "missing": []},
        "changes": [{**change, "image": after, "made": made, "applied_in": applied}],
        **{"truncated": False, "applied": state.applied, "target_version": state.proven, "holds": [made]},
        **{"should_hold": [made], "verdict": "equal"},
        "why": f"the target holds what the source says at epoch {state.applied}",
    }
    reader.control.store_explanation(me, found)
    outcome = {"code": "OK", "result": {"verdict": "equal"}, "at": now - 60_000}
    reader.control.store_outcome(me, outcome)


def _epoch(version: int, at: int) -> Commit:
    return Commit(version, at, "WRITE", added=FileTotals(1, 900_000, EPOCH_ROWS), data_change=True)


def _is(until: Until, reader: BuildReader) -> bool:
    try:
        return until(reader)
    except Exception:
        return False


@contextmanager
def _scenery(scene: Scene, now: Callable[[], int], rows: int) -> Iterator[None]:
    """Applications with another clock, and with larger files."""
    larger = {
        "now_ms": now,
        "FILES": (FileSize(bytes=FILE_BYTES, rows=FILE_ROWS),) * FILES,
        "BYTES": FILES * FILE_BYTES,
        "ROWS": rows,
        "MOST_SECONDS": 0.0,
        "COST": COST,
    }
    before, own = {name: getattr(applications, name) for name in larger}, control_folder.now_ms
    for name, value in larger.items():
        setattr(applications, name, value)
    control_folder.now_ms = sign_of_life.now_ms = lambda: scene.clock
    try:
        yield
    finally:
        control_folder.now_ms = sign_of_life.now_ms = own
        for name, value in before.items():
            setattr(applications, name, value)


def percent(most: float) -> Until:
    return lambda reader: reader.state().totals.snapshot_bytes >= most / 100 * FILES * FILE_BYTES


def rounds(phase: str, most: int) -> Until:
    def reached(reader: BuildReader) -> bool:
        state = reader.state()
        return state.phase.value == phase and state.totals.log_epochs >= most

    return reached


def shown(place: Path) -> dict[str, str]:
    """The builds, by name."""
    scene, now = Scene(place), time.time_ns() // 1_000_000
    read: dict[str, Any] = {"plan": None, "snapshot": None}
    built = {
        "orders": scene.build("orders", {**read, "consume_log": rounds("consume_log", 70)}, ago=4, every=24),
        "lineitem": scene.build("lineitem", {"plan": None, "snapshot": percent(63)}, ago=600, every=40),
        "customers": scene.build("customers", dict.fromkeys(WHOLE), ago=5_000, every=90),
        "stock": scene.build("stock", {"plan": None, "snapshot": percent(20)}, ago=470_000, every=9_000),
        "parcels": scene.build("parcels", {**read, "consume_log": None, "catch_up": None}, ago=900, every=100),
        "events": scene.build("events", {**read, "consume_log": None}, ago=30, every=70, strategy="chain"),
        "returns": scene.build(
            "returns", {"plan": None, "snapshot": percent(8)}, ago=5, every=300, strategy="snapshot"
        ),
    }
    commit_to(place / "raw" / "stock", 5, at=now / SECONDS - 460_000)
    for name in ("orders", "returns"):
        alive(built[name])
    differs(scene, built["parcels"])
    explained(scene, built["customers"])
    order(built["lineitem"], Verb.THROTTLE, "ada", "nightly load of the warehouse", now - 1_500_000, rate=90_000)
    order(built["lineitem"], Verb.PAUSE, "ed", "the cluster is being upgraded", now - 600_000)
    order(built["events"], Verb.HOLD, "ada", "wait for the team of events", now - 9_000_000)
    planning = str(place / "marts" / "suppliers")
    scene.drawn(BuildReader(planning), "suppliers", "plan", now - 70_000)
    unreachable = "s3a://archive/marts/clicks"
    told = {"ledger_conn_id": NOWHERE, "attempt": json.dumps({"generation": 3, "name": "0" * 32}), "at": now / SECONDS}
    database.ran("shop_clicks", "clicks.snapshot", target=unreachable, **told)
    return {**built, "suppliers": planning, "clicks": unreachable}


WHOLE = ("plan", "snapshot", "consume_log", "catch_up", "verify", "finish")


if __name__ == "__main__":
    shown(Path(sys.argv[1]))
