"""Source and target of a build as OpenLineage names and describes them.

Imported only where Airflow's OpenLineage provider is installed.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    RunFacet,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)

from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger.location import Location

Lineage: TypeAlias = "OperatorLineage[Dataset, RunFacet]"
FACET = "tableBackfill"
OFFSETS = "tableBackfillOffsets"
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@attr.define
class BuildRunFacet(RunFacet):
    """Which build a task belongs to, and where it stands."""

    build: str
    name: str
    strategy: str
    phase: str
    handoff: int | None
    """The source's version at which the copy was handed over."""
    certificate: dict[str, Any] | None
    """The proof that the target equals the source."""


@attr.define
class OffsetsFacet(InputDatasetFacet):
    """How far a build has read a topic."""

    partitions: list[dict[str, int]]
    """``partition``, ``from`` and ``to``: the first and the last offset of the history that the target has. Partitions
    of which it has none are left out.
    """


def only_target(target: str) -> Lineage:
    """The lineage of a task of which nothing else is known yet."""
    return OperatorLineage(outputs=[_dataset(OutputDataset, target)])


def lineage(application: str, state: BuildState, servers: str | None = None) -> Lineage:
    """Source and target as of the committed state. ``application`` is the task's entry point, ``servers`` are the
    brokers of a topic (``bootstrap.servers``): without them, a topic has no name that other tools know.
    """
    plan, summary = state.plan, summarize(state)
    stands = plan.source.epoch if state.applied is None else state.applied
    rows = {
        "snapshot": state.totals.snapshot_rows,
        "consume_log": state.totals.log_rows,
        "catch_up": state.totals.log_rows,
        "upstream": state.totals.upstream_rows,
    }.get(application)
    target = _dataset(OutputDataset, plan.spec.target, state.proven, plan.target_schema_json)
    if rows is not None:
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        target.outputFacets = {"outputStatistics": facet}
    run = BuildRunFacet(
        **{name: summary[name] for name in ("build", "name", "strategy", "phase", "handoff", "certificate")}
    )
    table = [] if plan.spec.source is None else [plan.spec.source]
    return OperatorLineage(
        inputs=[
            *_topic(state, servers),
            *(_dataset(InputDataset, source, stands, plan.source.schema_json) for source in table),
        ],
        outputs=[target],
        run_facets={FACET: run},
    )


def _topic(state: BuildState, servers: str | None) -> list[InputDataset]:
    """The topic that a build reads, if it reads one: its decoded columns, and the offsets of its history."""
    topic, plan = state.plan.spec.topic, state.plan
    if servers is None or not topic:
        return []
    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in plan.splits.columns]
    facets: dict[str, DatasetFacet] = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}
    reaches = sorted(plan.splits.reaches(state.positions, alone=plan.spec.source is None).items())
    read = [{"partition": n, "from": one.first, "to": one.seam} for n, one in reaches if one.first <= one.seam]
    records = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rowCount=state.totals.snapshot_rows, size=state.totals.snapshot_bytes
    )
    first = servers.split(",")[0].strip()
    return [
        InputDataset(
            namespace=f"kafka://{first.rpartition('://')[2]}",
            name=topic.name,
            facets=facets,
            inputFacets={OFFSETS: OffsetsFacet(read), "inputStatistics": records},
        )
    ]


def _dataset(kind: type[Dataset], place: str, version: int | None = None, schema: str | None = None) -> Any:
    location = Location.parse(place)
    facets: dict[str, Any] = {}
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    if schema:
        columns = json.loads(schema)["fields"]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=[_column(column) for column in columns])
    if location.local:
        return kind(namespace="file", name=location.path, facets=facets)
    scheme = _SCHEMES.get(location.scheme, location.scheme)
    return kind(namespace=f"{scheme}://{location.authority}", name=location.path.strip("/"), facets=facets)


def _column(column: dict[str, Any]) -> schema_dataset.SchemaDatasetFacetFields:
    kind = column["type"]
    return schema_dataset.SchemaDatasetFacetFields(
        name=column["name"], type=kind if isinstance(kind, str) else kind["type"]
    )
