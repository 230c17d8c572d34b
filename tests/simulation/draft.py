"""What the planner makes of a simulated source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_backfill.core.key_ranges import KeyRanges
from airflow_backfill.core.plan import Plan, SourceFacts, SplitPlan
from airflow_backfill.core.spec import BackfillSpec
from tests.simulation.source import SCHEMA, Source
from tests.simulation.target import SCHEMA as TARGET_SCHEMA
from tests.simulation.target import TABLE_ID


def draft(build: str, source: Source, key_borders: Sequence[int] | None, lanes: int) -> Plan:
    """A plan at the source's head: of its files, or of key ranges that end at ``key_borders``."""
    head = source.head
    at = source.versions[head]
    sizes = [len(keys) for keys in at.files]
    spec = BackfillSpec(name="sim", source="/s", target="/t", key=("k",))
    splits: SplitPlan | KeyRanges = SplitPlan(SplitPlan.cut(sizes, 4), sum(sizes), len(at.rows), "d")
    if key_borders is not None:
        spec = replace(spec, strategy="arrangement")
        splits = KeyRanges(tuple((str(key),) for key in key_borders), sum(sizes), len(at.rows))
    return Plan(
        build=build,
        spec=spec,
        target_id=TABLE_ID,
        target_schema_json=TARGET_SCHEMA,
        target_version=0,
        source=SourceFacts(source.table_id, head, SCHEMA, ()),
        splits=splits,
        lanes=lanes,
        settings={},
    )
