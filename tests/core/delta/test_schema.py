"""Which changes of a schema matter to the rows of a build."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_backfill.core.delta.schema import schema_change


def column(name: str, of: Any = "long", nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": of, "nullable": nullable, "metadata": metadata}


def schema(*columns: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(columns)})


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


ID, NAME = column("id"), column("name", "string")
MAPPED = {"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-4"}
STOPPING = [
    ("drop", [ID, NAME], [ID], "name"),
    ("rename", [ID, NAME], [ID, column("title", "string")], "name"),
    ("retype", [ID], [column("id", "string")], "id"),
    ("widen", [column("id", "integer")], [column("id", "long")], "id"),
    ("another column's id", [column("id", **MAPPED)], [column("id", **{**MAPPED, "delta.columnMapping.id": 5})], "id"),
    ("mapping switched on", [ID], [column("id", **MAPPED)], "id"),
    ("inner field dropped", [column("s", struct(ID, NAME))], [column("s", struct(ID))], "s"),
    ("inner field added", [column("s", struct(ID))], [column("s", struct(ID, NAME))], "s"),
    ("inner type", [column("a", {"type": "array", "elementType": "long", "containsNull": True})],
     [column("a", {"type": "array", "elementType": "string", "containsNull": True})], "a"),
    ("case", [ID], [column("ID")], "id"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "name"), [c[1:] for c in STOPPING], ids=[c[0] for c in STOPPING])
def test_a_schema_change_names_epoch_and_column(before: list[Any], after: list[Any], name: str) -> None:
    for allow_new in (True, False):
        error = schema_change(schema(*before), schema(*after), 12, allow_new=allow_new)
        assert error is not None and error.data["epoch"] == 12
        assert error.data["column"] == name and "12" in str(error)
        assert name in str(error)


def mapping(name: str, number: int) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}


def named(field: dict[str, Any], number: int) -> dict[str, Any]:
    """A column whose files name it as the table does."""
    return {**field, "metadata": mapping(field["name"], number)}


HARMLESS = [
    ("may be null", [column("id", nullable=False)], [ID]),
    ("inner field may be null", [column("s", struct(column("id", nullable=False)))], [column("s", struct(ID))]),
    ("element may be null", [column("a", {"type": "array", "elementType": "long", "containsNull": False})],
     [column("a", {"type": "array", "elementType": "long", "containsNull": True})]),
    ("comment", [ID], [column("id", comment="the key")]),
    ("default", [ID], [column("id", CURRENT_DEFAULT="1")]),
    ("high-water mark", [column("id", **{"delta.identity.highWaterMark": 4})],
     [column("id", **{"delta.identity.highWaterMark": 9})]),
    ("inner comment", [column("s", struct(ID))], [column("s", struct(column("id", comment="x")))]),
    ("same", [ID, NAME], [ID, NAME]),
    ("mapping switched on, with the names that files have", [column("s", struct(ID)), NAME],
     [column("s", struct(named(ID, 2)), **mapping("s", 1)), named(NAME, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [c[1:] for c in HARMLESS], ids=[c[0] for c in HARMLESS])
def test_what_rows_do_not_see_is_no_schema_change(before: list[Any], after: list[Any]) -> None:
    assert schema_change(schema(*before), schema(*after), 12, allow_new=False) is None


def test_a_new_column_follows_the_policy() -> None:
    error = schema_change(schema(ID), schema(ID, NAME), 12, allow_new=False)
    assert error is not None and error.data == {"epoch": 12, "column": "name"}
    assert schema_change(schema(ID), schema(ID, NAME), 12, allow_new=True) is None


def test_what_files_call_a_column_is_compared_with_the_epoch_before() -> None:
    """Somebody has let the build go on after the mapping was switched off, or a column dropped and added again."""
    planned, since = schema(column("id", **MAPPED)), schema(ID)
    assert schema_change(planned, since, 12) is not None
    assert schema_change(planned, since, 13, before=since) is None
    assert schema_change(planned, planned, 14, before=since) is not None, "other files hold its values"
    assert schema_change(planned, planned, 15, before="damaged") is None
    for other in schema(NAME), schema(column("id", "string")):
        assert schema_change(planned, other, 16, before=other) is not None, "the build cannot read it"


def test_columns_that_the_build_does_not_read_may_go_and_change() -> None:
    mine, other = column("id", **MAPPED), column("x", **{**MAPPED, "delta.columnMapping.id": 5})
    before = schema(mine, other)
    for after in ([mine], [mine, {**other, "type": "string"}], [mine, {**other, "name": "y"}]):
        assert schema_change(before, schema(*after), 12, used=["id"]) is None
        assert schema_change(before, schema(*after), 12) is not None
    dropped = schema_change(before, schema(other), 12, used=["id"])
    assert dropped is not None and dropped.data["column"] == "id"
    renamed = {**NAME, "name": "title", "metadata": mapping("name", 2)}
    assert schema_change(schema(ID, NAME), schema(named(ID, 1), renamed), 12, used=["id"]) is None
    assert schema_change(schema(ID, NAME), schema(named(ID, 1), renamed), 12) is not None
    added = schema_change(before, schema(mine, other, column("z")), 12, used=["id"])
    assert added is not None and added.data["column"] == "z"


def test_columns_in_another_order_hold_the_same_rows() -> None:
    assert schema_change(schema(ID, NAME), schema(NAME, ID), 12, allow_new=False) is None


@pytest.mark.parametrize("damaged", ["", "{", "{}", "[]", '{"fields": [1]}', '{"fields": [{}]}', "[" * 100_000])
def test_a_schema_that_cannot_be_read_is_a_change_of_it(damaged: str) -> None:
    changed = schema_change(schema(column("id")), damaged, 7, allow_new=True)
    assert changed is not None and "epoch 7 has an unreadable schema" in changed.message
