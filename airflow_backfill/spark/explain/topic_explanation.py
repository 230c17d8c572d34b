"""Why a row of a topic's build is as it is: each record of its key that Kafka or the landing table still has, what
became of it, which commit of the target took it, and whether the target holds what these records say.

Nothing is written. All records of the partitions in which the key may be are read, the newest ones unless more are
asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import BackfillError, HistoryLost, InvalidSpec
from airflow_backfill.core.kafka.reach import Fate
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.reports.explained_topic import verdict
from airflow_backfill.core.splits.partitions import held as held_by
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.hidden import HIDDEN
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.explain.answer import MAX_TARGET_COMMITS, answer, held_rows, hidden_rows
from airflow_backfill.spark.explain.values import (
    MAX_CHANGES,
    Values,
    hidden_images,
    image_of,
    made_of,
    naming_errors,
    parsed,
    target_rows,
)
from airflow_backfill.spark.kafka.dead_letters import dead_letters, good
from airflow_backfill.spark.kafka.decoding import DEAD, TOMBSTONE
from airflow_backfill.spark.kafka.key_records import FATE, KEPT, KeyRecords, Place
from airflow_backfill.spark.kafka.landing_table import RAW
from airflow_backfill.spark.kafka.last_values import last_per_key, last_places
from airflow_backfill.spark.kafka.topic_source import History
from airflow_backfill.spark.session.redaction import redacts
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.transform.transform import OWN, Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IMAGE, _MADE, _AT, _WHY = OWN + "image", OWN + "made", OWN + "at", OWN + "why"


@dataclass(frozen=True)
class TopicExplanation:
    """Explains one key of a topic's build whose state was just loaded. ``reader`` reads the target's log."""

    spark: SparkSession
    reader: BuildReader
    state: BuildState

    def of(self, given: Sequence[str], since: int | None = None) -> dict[str, Any]:
        """The explanation as plain JSON; see ``docs/schema/explain.json``. ``given`` names the key as ``column=value``,
        ``since`` the first offset to look at in each partition (by default the newest ``MAX_OFFSETS`` offsets). Errors
        of Kafka, if there is no landing table to read instead.
        """
        if since is not None and since < 0:
            raise InvalidSpec(f"--since: must be an offset, 0 or more (got {since})", field="--since")
        key = KeyValue.parse(self.spark, self.transform.source_schema, self.state.plan.spec.key, given)
        records = KeyRecords(self.history, self.state, key, since)
        with naming_errors(), held(records.found()) as found:
            shown, more = self._shown(found)
            should, unknown = self._should_hold(found, records)
        holds = held_rows(self.spark, self.state, self.transform, key)
        judged = verdict(holds, should, unknown, [Fate(one["fate"]) for one in shown])
        looked_at = {"topic": self._topic(records), "records": shown, "truncated": more}
        explained = answer(self.state, key, looked_at, holds, should, judged)
        return redacted(explained, {*key.names, *self._target_key}) if redacts() else explained

    @cached_property
    def history(self) -> History:
        return History(self.spark, self.state.plan)

    @property
    def transform(self) -> Transform:
        return self.history.transform

    @cached_property
    def _target_key(self) -> tuple[str, ...]:
        return self.transform.target_key(self.state.plan.spec.key)

    def _topic(self, records: KeyRecords) -> dict[str, Any]:
        """What was looked at."""
        spec, logs = self.state.plan.spec.topic, records.logs or {}
        assert spec is not None
        partitions = [
            {
                "partition": n,
                "from": some.start,
                "to": some.last,
                "kafka_from": logs[n].start if n in logs else None,
                "gone": records.gone.get(n, 0),
            }
            for n, some in records.ranges.items()
        ]
        error = None if records.error is None else records.error.to_json()
        return {"name": spec.name, "landing_epoch": records.epoch, "partitions": partitions, "error": error}

    def _shown(self, found: DataFrame) -> tuple[list[dict[str, Any]], bool]:
        """The newest records, oldest first, and whether there are more."""
        by = ("partition", "offset") if self.history.order is None else ("timestamp", "partition", "offset")
        with held(found.orderBy(*(F.col(name).desc() for name in by)).limit(MAX_CHANGES + 1)) as some:
            at = F.unix_millis("timestamp").alias(_AT)
            kept = {(row[0], row[1]): row for row in some.select("partition", "offset", at, KEPT, FATE).collect()}
            whole = F.col(DEAD).isNull()
            rows = self.history.records.decode(some.select(RAW.names)).select(
                *("partition", "offset", TOMBSTONE, F.col(f"{DEAD}.reason").alias(_WHY)),
                F.when(whole, image_of(self.transform)).alias(_IMAGE),
                F.when(whole & ~F.col(TOMBSTONE), made_of(self.transform)).alias(_MADE),
            )
            records = {(row[0], row[1]): row for row in rows.collect()}
        places = list(kept)[:MAX_CHANGES]
        commits = self._taken_in({place for place in places if kept[place][FATE] == Fate.TAKEN.value})
        shown = [
            {
                "partition": place[0],
                "offset": place[1],
                "at": kept[place][_AT],
                "kept_by": list(kept[place][KEPT]),
                "fate": kept[place][FATE],
                "tombstone": records[place][TOMBSTONE],
                "undecodable": records[place][_WHY],
                "image": parsed(records[place][_IMAGE]),
                "made": parsed(records[place][_MADE]),
                "applied_in": commits.get(place),
            }
            for place in reversed(places)
        ]
        return shown, len(kept) > MAX_CHANGES

    def _should_hold(self, found: DataFrame, records: KeyRecords) -> tuple[list[Values] | None, str | None]:
        """What the target must hold of the key, or None and why that is unknown."""
        taken = found.where(F.col(FATE) == Fate.TAKEN.value).select(RAW.names)
        decoded = self.history.records.decode(taken)
        try:
            with last_per_key(good(decoded), self.transform, self._target_key, self.history.order) as net:
                last = next((tuple(row[-2:]) for row in last_places(net, self._target_key).collect()), None)
                doubt = records.doubt(last, undecodable=not dead_letters(decoded).isEmpty())
                return (target_rows(net.rows(), self.transform), None) if doubt is None else (None, doubt)
        except BackfillError as error:
            return None, error.message

    def _taken_in(self, places: Iterable[Place]) -> dict[Place, dict[str, Any]]:
        """The commit of the target that took each record, as far as its log goes back."""
        left, found = set(places), {}
        build, first = self.state.plan.build, self.state.plan.target_version + 1
        try:
            for number, commit in enumerate(self.reader.log.newest_first(first)):
                if not left or number == MAX_TARGET_COMMITS:
                    break
                record = barrier_record(commit, build)
                if record is None:
                    continue
                reached = held_by(record.positions)
                for place in [p for p in left if p[0] in reached and p[0] % record.layout.lanes == record.lane]:
                    if place[1] <= reached[place[0]]:
                        found[place] = {"version": commit.version, "at": commit.timestamp}
                    else:
                        left.remove(place)
            else:
                left = set()
        except HistoryLost:
            pass  # log clean-up has deleted older commits
        return {place: commit for place, commit in found.items() if place not in left}


def redacted(found: Mapping[str, Any], shown: Collection[str]) -> dict[str, Any]:
    """The explanation without values of rows, except those of the columns ``shown`` and the places of records."""
    names = {*shown, "partition", "offset"}
    records = hidden_images(found["records"], names)
    return {
        **found,
        "records": [{**one, "undecodable": one["undecodable"] and HIDDEN} for one in records],
        **hidden_rows(found, names),
    }
