"""A table's log as a source, while others commit to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.delta_source import DeltaSourceLog
from airflow_backfill.ledger.local_store import LocalStore
from tests.ledger.json_target import JsonBuild


class Altered(LocalStore):
    """After the first listing somebody changes the table."""

    build: JsonBuild | None

    def list(self, folder: str, after: str = "") -> Iterator[str]:
        listed = list(super().list(folder, after))
        if self.build is not None:
            build, self.build = self.build, None
            build.alter(schema_json='{"type":"struct","fields":[]}')
        return iter(listed)


def test_a_plan_pins_an_epoch_with_its_own_schema(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    source, head = LocalStore(build.spec.source), build.epoch
    planned = DeltaSourceLog(DeltaLog(source)).admit(build.spec)
    altered = Altered(build.spec.source)
    altered.build = build
    assert DeltaSourceLog(DeltaLog(altered)).admit(build.spec) == planned
    assert planned.facts.epoch == head == DeltaLog(source).head() - 1
