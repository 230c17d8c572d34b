"""What the planner makes of a simulated source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_backfill.core.kafka.offsets import MAX, Batch, Offsets
from airflow_backfill.core.kafka.opening import Expiry, opened
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.model.plan import Plan, SourceFacts, Splits
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.splits.ranges import KeyRanges
from airflow_backfill.core.values.proof_kind import ProofKind
from tests.simulation.landing import LandingSource
from tests.simulation.target import SCHEMA as TARGET_SCHEMA

if TYPE_CHECKING:
    from tests.simulation.world import World


def draft(world: World) -> Plan:
    """A plan at the source's head, for the strategy of this world."""
    source, borders = world.source, world.key_borders
    at = source.versions[source.head]
    sizes = [len(keys) for keys in at.files]
    splits: Splits = FileSplits(FileSplits.cut(sizes, 4), sum(sizes), len(at.rows), "d")
    if borders is not None:
        splits = KeyRanges(tuple((str(key),) for key in borders), sum(sizes), len(at.rows))
    if isinstance(source, LandingSource):
        # Where retention is to lose something, a hole is taken for that.
        compacted = world.fatal != "expire"
        partitions = [_opened(source, n, compacted) for n in source.partitions]
        splits = Partitions(source.topic_id, tuple(partitions), "rules", compacted)
    strategy = "chain" if world.chain else "snapshot" if borders is None else "arrangement"
    proof = ProofKind.INCREMENTAL if world.adds_up else ProofKind.FULL
    spec = BackfillSpec(name="sim", source="/s", target="/t", key=("k",), strategy=strategy, proof=proof)
    if isinstance(source, LandingSource):
        order = "o" if world.ordered else None
        topic = TopicSpec("topic", checkpoint="/notes" if source.noted else None, order=order)
        spec = replace(spec, key=("k",) if world.keyed else (), strategy="source", topic=topic)
    return Plan(
        build=world.build,
        spec=spec,
        target_id=world.target.table_id,
        target_schema_json=TARGET_SCHEMA,
        target_version=0,
        source=SourceFacts(
            source.table_id, source.head, source.schema, (), feed=not source.appends, digest=at.commit.digest
        ),
        splits=splits,
        lanes=world.lanes,
        settings={},
    )


def _opened(source: LandingSource, partition: int, compacted: bool) -> Split:
    log = source.partitions[partition].log
    landed = source.kept(partition, Offsets(0, MAX), source.head)
    kept = [offset for offset in landed if offset < log.start]
    expiry = Expiry(Batch(kept[0], kept[-1], len(kept)) if kept else None, compacted=compacted)
    return opened(partition, log, max(landed, default=None), None, expiry)
