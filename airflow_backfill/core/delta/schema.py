"""The schema policy: which changes of a schema affect the rows of a build."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from airflow_backfill.core.errors import SchemaChanged

PHYSICAL_NAME = "delta.columnMapping.physicalName"
_SKIPPED = frozenset(("metadata", "nullable", "containsNull", "valueContainsNull"))
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_MAPPING = ("delta.columnMapping.id", PHYSICAL_NAME)


def schema_change(
    planned: str,
    after: str,
    version: int,
    *,
    before: str | None = None,
    used: Iterable[str] | None = None,
    allow_new: bool = False,
) -> SchemaChanged | None:
    """What an epoch changes of a schema, or how it does not fit the planned one; None for nothing.

    Names and types must be those of the plan. What files call a column, and whether one is new, is compared with the
    epoch ``before`` (the plan, if that is unknown): somebody may have let the build go on after another change.
    """
    names = list(_columns(planned)) if used is None else list(used)
    found = difference(planned, after, used=names, allow_new=True, in_files=False) or difference(
        _readable(before) or planned, after, used=names, allow_new=allow_new
    )
    if found is None:
        return None
    what, data = found
    return SchemaChanged(f"epoch {version} {what}", epoch=version, **data)


def difference(
    before: str,
    after: str,
    *,
    used: Iterable[str] | None = None,
    allow_new: bool = False,
    in_files: bool = True,
) -> tuple[str, dict[str, Any]] | None:
    """The first difference of two schemas that affects rows, as a verb with its object, and the column; None if there
    is none.

    Names, types and physical names matter. NOT NULL (each row is read as it is), comments, defaults and the high-water
    marks of identity columns do not, and neither does column mapping that is switched on: it names each column's files
    as they are. With ``used``, only these columns of ``before`` matter; without ``in_files``, no physical
    names.
    """
    known = _columns(before)
    old = known if used is None else {name: shape for name, shape in known.items() if name in set(used)}
    try:
        new = _columns(after)
    except _UNREADABLE:
        return f"has an unreadable schema ({after[:100]!r}): its commit is damaged; restore the file", {}
    for name, shape in old.items():
        if name not in new:
            return f"drops or renames column {name!r}", {"column": name}
        if _in_files(new[name], mapped=in_files) != _in_files(shape, mapped=in_files):
            both = shape, new[name]
            kinds = both if shape["type"] == new[name]["type"] else [kind["type"] for kind in both]
            was, now = (json.dumps(kind, sort_keys=True)[:200] for kind in kinds)
            shapes = {"before": json.dumps(shape)[:500], "after": json.dumps(new[name])[:500]}
            return f"changes column {name!r} from {was} to {now}", {"column": name, **shapes}
    there = {_physical(shape) for shape in known.values()}
    added = [name for name, shape in new.items() if name not in known and _physical(shape) not in there]
    return (f"adds column {added[0]!r}", {"column": added[0]}) if added and not allow_new else None


def _readable(schema_json: str | None) -> str | None:
    """The schema, unless it is unreadable: the epoch that has it has stopped the build."""
    if schema_json is None:
        return None
    try:
        _columns(schema_json)
    except _UNREADABLE:
        return None
    return schema_json


def _columns(schema_json: str) -> dict[str, Any]:
    return {field["name"]: _shape(field) for field in json.loads(schema_json)["fields"]}


def _physical(shape: Any) -> Any:
    """The name of a column in files."""
    return shape.get("mapping", {}).get(PHYSICAL_NAME, shape["name"])


def _in_files(shape: Any, *, mapped: bool) -> Any:
    """The shape without column mapping where files have the same name as the table; everywhere unless ``mapped``."""
    if isinstance(shape, dict):
        kept = mapped and "mapping" in shape and _physical(shape) != shape.get("name")
        return {name: _in_files(part, mapped=mapped) for name, part in shape.items() if name != "mapping" or kept}
    return [_in_files(item, mapped=mapped) for item in shape] if isinstance(shape, list) else shape


def _shape(part: Any) -> Any:
    if isinstance(part, dict):
        kept = {name: _shape(value) for name, value in part.items() if name not in _SKIPPED}
        mapping = {name: part["metadata"][name] for name in _MAPPING if name in part.get("metadata", {})}
        return {**kept, **({"mapping": mapping} if mapping else {})}
    if isinstance(part, list):
        return [_shape(item) for item in part]
    return part
