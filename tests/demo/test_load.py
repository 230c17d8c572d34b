from __future__ import annotations

import json
from itertools import pairwise

import pytest
from deltalake import DeltaTable

from demo.fold import compare
from demo.load import BASE_VERSION, load_table
from demo.reading import by_delta_rs
from demo.tpch import ORDERS, TABLES, files, rows
from tests.demo.reading import by_spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_loaded_table_equals_tpch(spark, raw, loaded, table):
    at = loaded / table.name
    assert DeltaTable(at).version() == BASE_VERSION
    for actual in (by_spark(spark, at, BASE_VERSION), by_delta_rs(at, BASE_VERSION)):
        difference = compare(rows(raw, table), actual, table.key)
        assert difference.equal, difference


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_loaded_table_has_what_sources_have(raw, loaded, table):
    delta = DeltaTable(loaded / table.name)
    assert {"changeDataFeed", "deletionVectors"} <= set(delta.protocol().writer_features)
    assert delta.metadata().configuration == {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "true",
        "delta.targetFileSize": str(max(path.stat().st_size for path in files(raw, table))),
    }
    commit = loaded / table.name / "_delta_log" / f"{BASE_VERSION - 1:020d}.json"
    added = [action["add"] for action in map(json.loads, commit.read_text().splitlines()) if "add" in action]
    assert len(delta.file_uris()) == 7
    assert sum(file["deletionVector"]["cardinality"] for file in added) > 0


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_file_holds_a_range_of_keys(loaded, table):
    commit = loaded / table.name / "_delta_log" / f"{0:020d}.json"
    added = [action["add"] for action in map(json.loads, commit.read_text().splitlines()) if "add" in action]
    stats = [json.loads(file["stats"]) for file in added]
    key = table.order_key
    ranges = sorted((each["minValues"][key], each["maxValues"][key]) for each in stats)
    assert all(high < low for (_, high), (low, _) in pairwise(ranges))


def test_a_table_that_is_there_is_not_touched(spark, raw, loaded):
    with pytest.raises(FileExistsError):
        load_table(spark, raw, loaded, ORDERS)
    assert DeltaTable(loaded / ORDERS.name).version() == BASE_VERSION
