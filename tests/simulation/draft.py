"""What the planner makes of a simulated source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_backfill.core.kafka.opening import opened
from airflow_backfill.core.kafka.partitions import Partitions
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.key_ranges import KeyRanges
from airflow_backfill.core.plan import Plan, SourceFacts, SplitPlan, Splits
from airflow_backfill.core.spec import BackfillSpec
from tests.simulation.landing import LandingSource
from tests.simulation.source import SCHEMA
from tests.simulation.target import SCHEMA as TARGET_SCHEMA
from tests.simulation.target import TABLE_ID

if TYPE_CHECKING:
    from tests.simulation.world import World


def draft(world: World) -> Plan:
    """A plan at the source's head, for the strategy of this world."""
    source, borders = world.source, world.key_borders
    at = source.versions[source.head]
    sizes = [len(keys) for keys in at.files]
    splits: Splits = SplitPlan(SplitPlan.cut(sizes, 4), sum(sizes), len(at.rows), "d")
    if borders is not None:
        splits = KeyRanges(tuple((str(key),) for key in borders), sum(sizes), len(at.rows))
    if isinstance(source, LandingSource):
        partitions = [opened(n, p.log, _landed(source, n), None) for n, p in source.partitions.items()]
        splits = Partitions(source.topic_id, tuple(partitions), "rules")
    strategy = "chain" if world.chain else "snapshot" if borders is None else "arrangement"
    spec = BackfillSpec(name="sim", source="/s", target="/t", key=("k",), strategy=strategy)
    if isinstance(source, LandingSource):
        order = "o" if world.ordered else None
        topic = TopicSpec("topic", checkpoint="/notes" if source.noted else None, order=order)
        spec = replace(spec, key=("k",) if world.keyed else (), strategy="source", topic=topic)
    return Plan(
        build=world.build,
        spec=spec,
        target_id=TABLE_ID,
        target_schema_json=TARGET_SCHEMA,
        target_version=0,
        source=SourceFacts(source.table_id, source.head, SCHEMA, (), feed=not source.appends),
        splits=splits,
        lanes=world.lanes,
        settings={},
    )


def _landed(source: LandingSource, partition: int) -> int | None:
    """The greatest offset that the landing table has."""
    return max((offset for rows in source.added.values() for p, offset in rows if p == partition), default=None)
