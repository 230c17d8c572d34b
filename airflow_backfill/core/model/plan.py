"""The plan: everything that is decided once and holds for the whole build.

It lives in the record of seq 1 of ``<build>/plan`` in the target's log, so exactly one of any number of
racing planners wins, and the others adopt it. Every later record names its fingerprint. Retries read the
pinned epoch from here and never resolve "latest" again (docs/behaviours/snapshot.md, S000.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.core.model.registry import Traits, registered
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.kinds import splits_from_json
from airflow_backfill.core.splits.splits import Splits
from airflow_backfill.core.values.document import encode, fingerprint

FORMAT = 1
MAX_BYTES = 1 << 26
LANE = "plan"


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source as it was planned: identity, the pinned epoch, the shape of its rows."""

    table_id: str
    epoch: int
    schema_json: str
    partition_columns: tuple[str, ...]
    feed: bool = True
    """Whether it has a change data feed."""
    digest: str | None = None
    """Of the pinned epoch's commit: another history of the same table has another one there."""
    columns: tuple[str, ...] | None = None
    """Those that the build reads; None for all of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    build: str
    spec: BackfillSpec
    target_id: str
    target_schema_json: str
    target_version: int
    """The newest version of the target that the planner proved to hold no row of anybody."""
    source: SourceFacts
    splits: Splits
    lanes: int
    settings: Mapping[str, str]
    """Session settings that change what an expression means: every session sets them."""
    made: tuple[str, ...] = ()
    """What the plan created, and cancel may drop."""

    @property
    def appends(self) -> bool:
        """Whether the source may only add rows: without a feed nobody says which rows changed, without a key, whose;
        and a landing table holds what a topic holds.
        """
        return self.splits.landing or not self.source.feed or not self.spec.key

    @property
    def only_appends(self) -> bool:
        """Whether every round of rows is an append. Of a topic's keyed records the last one of each key counts."""
        return self.appends and not (self.splits.landing and self.spec.key)

    @property
    def strategy(self) -> Traits:
        return registered(self.spec.strategy)

    def to_json(self) -> dict[str, Any]:
        digest = {} if self.source.digest is None else {"digest": self.source.digest}
        columns = {} if self.source.columns is None else {"columns": list(self.source.columns)}
        return {
            "airflow_backfill_plan": FORMAT,
            "build": self.build,
            "spec": self.spec.to_json(),
            "target": {
                "id": self.target_id,
                "schema": self.target_schema_json,
                "version": self.target_version,
            },
            "source": {
                "id": self.source.table_id,
                "epoch": self.source.epoch,
                "schema": self.source.schema_json,
                "partitions": list(self.source.partition_columns),
                "feed": self.source.feed,
                **digest,
                **columns,
            },
            "splits": self.splits.to_json(),
            "lanes": self.lanes,
            "settings": dict(self.settings),
            "made": list(self.made),
        }

    @staticmethod
    def from_json(value: Any) -> Plan:
        if not isinstance(value, dict) or "airflow_backfill_plan" not in value:
            raise RecordInvalid(f"not a plan of a table backfill: {repr(value)[:200]}", value=repr(value)[:200])
        found = value["airflow_backfill_plan"]
        if type(found) is not int or found != FORMAT:
            shown = repr(found)[:50]
            raise RecordInvalid(f"the plan has format {shown}, this version knows {FORMAT}", format=shown)
        try:
            source, target = value["source"], value["target"]
            columns = source["columns"] if "columns" in source else None
            plan = Plan(
                build=value["build"],
                spec=BackfillSpec.parse(value["spec"]),
                target_id=target["id"],
                target_schema_json=target["schema"],
                target_version=target["version"],
                source=SourceFacts(
                    source["id"],
                    source["epoch"],
                    source["schema"],
                    tuple(source["partitions"]),
                    source["feed"],
                    source.get("digest"),
                    None if columns is None else tuple(columns),
                ),
                splits=splits_from_json(value["splits"]),
                lanes=value["lanes"],
                settings=dict(value["settings"]),
                made=tuple(value["made"]),
            )
            # Whatever was left out, added or of another type would not come back.
            sound = encode(plan.to_json()) == encode(value) and plan._sound()
        except (InvalidSpec, KeyError, TypeError, ValueError, RecursionError) as error:
            raise RecordInvalid(f"the plan is damaged: {str(error)[:200]}") from None
        if not sound:
            raise RecordInvalid("the plan is damaged: its fields make no sense")
        return plan

    def _sound(self) -> bool:
        source, splits = self.source, self.splits
        texts = (self.build, self.target_id, self.target_schema_json, source.table_id, source.schema_json)
        more = (*source.partition_columns, *(source.columns or ()), *self.settings.values(), *self.made)
        rows = 0 if splits.rows is None else splits.rows
        counts = (self.target_version, source.epoch, self.lanes, splits.bytes, rows)
        return (
            all(isinstance(text, str) for text in (*texts, *more))
            and all(type(count) is int and count >= 0 for count in counts)
            and self.lanes >= 1
            and isinstance(source.feed, bool)
            and (source.digest is None or isinstance(source.digest, str))
            and splits.sound
        )

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.to_json())

    def encode(self) -> str:
        """The plan's text; RecordInvalid if nobody could read it again, before anything is committed with it."""
        text = encode(self.to_json())
        if len(text) > MAX_BYTES:
            raise RecordInvalid(f"a plan of {len(text):,} characters is too large: {MAX_BYTES:,} are allowed")
        Plan.from_json(json.loads(text))
        return text


def app_id(build: str) -> str:
    """The transaction id of the plan record."""
    return f"{build}/{LANE}"


def build_id(target_id: str, name: str) -> str:
    """The build's id: the same for every retry, clear and DAG run that meets the same target and name."""
    return fingerprint([target_id, name])
