"""The document of a fleet: a name, options that all tables share, and the tables.

What is wrong with the document as a whole stops the DAG file. What is wrong with one table is kept with that table, so
that the others go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.options import check_known, invalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
"""What Airflow takes in the id of a task group."""


def read(fleet: Path | str | Mapping[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The fleet's name, and each table's options: its own, else those in ``defaults``.

    ``{table}`` in a text stands for the table's name. InvalidSpec, with the field, if the document cannot be read.
    """
    document = fleet if isinstance(fleet, Mapping) else _parsed(Path(fleet))
    check_known(document, ("name", "defaults", "tables"))
    name = _named("name", document.get("name"))
    defaults, tables = document.get("defaults") or {}, document.get("tables")
    if not isinstance(defaults, Mapping):
        raise invalid("defaults", defaults, "must be a mapping of options")
    if not isinstance(tables, Mapping) or not tables:
        raise invalid("tables", tables, "must be a mapping of names and options, with one table at least")
    return name, {_named("tables", table): _options(defaults, table, own) for table, own in tables.items()}


def _options(defaults: Mapping[str, Any], table: str, own: Any) -> dict[str, Any]:
    more = own if isinstance(own, Mapping) else {} if own is None else {"options": own}
    return {str(name): _filled(value, table) for name, value in {**defaults, **more}.items()}


def _filled(value: Any, table: str) -> Any:
    match value:
        case str():
            return value.replace("{table}", table)
        case Mapping():
            return {key: _filled(part, table) for key, part in value.items()}
        case list() | tuple():
            return [_filled(part, table) for part in value]
        case _:
            return value


def _named(field: str, name: Any) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        fix = "a name has 1 to 100 letters, digits, '_' or '-', and begins with a letter or digit; quote it in YAML"
        raise invalid(field, name, fix)
    return name


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        found = yaml.load(file.read_text("utf-8-sig"), _Loader)
        json.dumps(found, default=str, skipkeys=True)  # refuses an anchor that contains itself
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidSpec(f"the fleet's file {file} cannot be read: {error}; correct it", field="fleet") from None
    if not isinstance(found, Mapping):
        raise InvalidSpec(f"the fleet's file {file} must have name, defaults and tables", field="fleet")
    return found


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without a key that is given twice: the first table of two with one name would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is given twice; keep one of them", key.start_mark
                    )
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found
