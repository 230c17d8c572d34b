"""The plan: everything that is decided once for the whole build.

It is the record with seq 1 of ``<build>/plan`` in the target's log. If several planners race, one wins and the others
adopt its plan. Every later record names the plan's fingerprint. Retries read the pinned epoch from the plan and never
resolve "latest" again (docs/behaviours/snapshot.md, S000.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.core.model.registry import Traits, registered
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.kinds import splits_from_json
from airflow_backfill.core.splits.splits import Splits
from airflow_backfill.core.values.document import encode, fingerprint, fingerprint_of

FORMAT = 1
MAX_BYTES = 1 << 26
LANE = "plan"
SMALL_BYTES = 1 << 28
"""To read so many bytes takes about as long as to start Spark."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source at the time of the plan: identity, pinned epoch, schema."""

    table_id: str
    epoch: int
    schema_json: str
    partition_columns: tuple[str, ...]
    feed: bool = True
    """Whether it has a change data feed."""
    digest: str | None = None
    """Hash of the pinned epoch's commit. A table that was restored from a backup has another commit there."""
    columns: tuple[str, ...] | None = None
    """The columns that the build reads; None for all."""


@dataclass(frozen=True)
class Plan:
    build: str
    spec: BackfillSpec
    target_id: str
    target_schema_json: str
    target_version: int
    """The newest version of the target that the planner found without rows."""
    source: SourceFacts
    splits: Splits
    lanes: int
    settings: Mapping[str, str]
    """Session settings that affect results. Every session of the build uses these values."""
    made: tuple[str, ...] = ()
    """Tables that the plan created. Cancel may drop them."""

    @property
    def appends(self) -> bool:
        """Whether the source may only add rows. Without a feed it is unknown which rows changed; without a key no
        update can be applied; a landing table only receives records.
        """
        return self.splits.landing or not self.source.feed or not self.spec.key

    @property
    def only_appends(self) -> bool:
        """Whether every round only appends rows. A topic with a key keeps the last record of each key, so it merges."""
        return self.appends and not (self.splits.landing and self.spec.key)

    @property
    def explains(self) -> bool:
        """Whether the changes of one row can be told apart: by a key."""
        return bool(self.spec.key)

    @property
    def small(self) -> bool:
        """Whether the application that commits the plan goes on with the snapshot."""
        return self.splits.bytes <= SMALL_BYTES

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
            raise RecordInvalid(
                f"the plan has format {shown}, but this version of the package reads {FORMAT}; use a newer version, or "
                "restore the file if it is damaged",
                format=shown,
            )
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
            # A field that is missing, unknown or of another type does not survive the round trip.
            if plan._text != encode(value):
                raise ValueError("it has other fields than this version writes")
            sound = plan._sound()
        except (InvalidSpec, KeyError, TypeError, ValueError, RecursionError) as error:
            what = "the plan is damaged, or a newer version of the package wrote it"
            raise RecordInvalid(f"{what}: {str(error)[:200]}") from None
        if not sound:
            raise RecordInvalid("the plan is damaged: its fields contradict each other")
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

    @cached_property
    def _text(self) -> str:
        return encode(self.to_json())

    @cached_property
    def fingerprint(self) -> str:
        """What every record names. Kept, because a plan may have 10,000 splits, and each record is compared with it."""
        return fingerprint_of(self._text)

    def encode(self) -> str:
        """The plan as text. Raises RecordInvalid if it could not be read back; nothing is committed then."""
        text = self._text
        if len(text) > MAX_BYTES:
            raise RecordInvalid(f"the plan has {len(text):,} characters; the maximum is {MAX_BYTES:,}")
        Plan.from_json(json.loads(text))
        return text


def app_id(build: str) -> str:
    """The transaction id of the plan record."""
    return f"{build}/{LANE}"


def build_id(target_id: str, name: str) -> str:
    """The build's id. Every retry and DAG run with the same target and name gets the same id."""
    return fingerprint([target_id, name])
