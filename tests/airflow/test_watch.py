"""A watch in Airflow: the example's own file, run after run."""

from __future__ import annotations

from pathlib import Path

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.without_spark import built

EXAMPLE = Path(__file__).parents[2] / "dags" / "watch.py"


def test_each_run_knows_what_the_run_before_has_told(airflow, source, target):
    built(source, target, "plan", "snapshot")
    reader = BuildReader(str(target))
    place = {"dag_id": "d", "task_id": "orders.verify", "run_id": "r", "map_index": -1, "last_try": True}
    me = reader.draw_attempt({"task": "verify", **place})
    reader.control.store_outcome(me, VerificationFailed("2 keys differ").to_json())
    told, text = target.parent / "told.txt", EXAMPLE.read_text().replace("    print(", "    open(TOLD, 'a').write(")
    places = f"LAKE, TOLD = {str(target.parent)!r}, {str(told)!r}"
    file = airflow.write(text.replace("from places import LAKE", places))
    assert airflow.run(file, "watch_table_backfills", "watch_table_backfills") == ["success", "success"]
    first, second = airflow.returned("watch")
    assert first == second and list(first[0]["warnings"]) == ["attention"], first
    assert told.read_text().count("orders: attention: waiting for an operator: attempt") == 1, told.read_text()
