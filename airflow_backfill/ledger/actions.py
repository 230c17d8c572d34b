"""The JSON of Delta actions, with type checks for the fields that this package uses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from airflow_backfill.core.values.commit import Protocol, TableMetadata

MAX_LINE_BYTES = 32 << 20
_VECTOR = re.compile(r"(?:.*/)?deletion_vector_[0-9a-f-]{36}\.bin")
_Value = TypeVar("_Value")


class Malformed(ValueError):
    """A text does not have the required form. The message says why."""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file in chunks, without blank ones; ``Malformed`` if a line is longer than ``MAX_LINE_BYTES``."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from filter(bytes.strip, whole)
        if len(rest) > MAX_LINE_BYTES:
            raise Malformed(f"a line is longer than {MAX_LINE_BYTES} bytes")
    if rest.strip():
        yield rest


def decode(text: bytes | str) -> dict[str, Any]:
    """The JSON object in ``text``; ``Malformed`` if it has none."""
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def is_vector(path: object) -> bool:
    """Whether an action names a file of deletion vectors. DROP FEATURE removes them like data files, which they are
    not.
    """
    return isinstance(path, str) and _VECTOR.fullmatch(path) is not None


def mapping(value: object) -> dict[str, Any]:
    """``value``; ``Malformed`` if it is not a JSON object."""
    if not isinstance(value, dict):
        raise Malformed(f"expected an object, found {_shown(value)}")
    return value


def integer(value: object) -> int:
    """``value``; ``Malformed`` if it is not a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(f"expected a whole number, found {_shown(value)}")
    return value


def text(value: object) -> str:
    """``value``; ``Malformed`` if it is not a string."""
    if not isinstance(value, str):
        raise Malformed(f"expected a string, found {_shown(value)}")
    return value


def texts(value: object) -> tuple[str, ...]:
    """``value`` as a tuple, empty if it is None; ``Malformed`` if it is not a list of strings."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Malformed(f"expected a list, found {_shown(value)}")
    return tuple(text(item) for item in value)


def of(name: str, kind: Callable[[object], _Value], fields: Mapping[str, Any]) -> _Value:
    """The value of the field ``name``, checked by ``kind``; ``Malformed`` names the field."""
    try:
        return kind(fields.get(name))
    except Malformed as error:
        raise Malformed(f"{name}: {error}") from None


def _shown(value: object) -> str:
    """An unexpected value, for a message."""
    return "nothing" if value is None else f"{json.dumps(value)[:100]} ({type(value).__name__})"


def metadata(action: object) -> TableMetadata:
    """The ``metaData`` action."""
    fields = mapping(action)
    settings: Mapping[str, Any] = mapping(fields.get("configuration") or {})
    return TableMetadata(
        table_id=of("id", text, fields),
        schema_json=of("schemaString", text, fields),
        partition_columns=of("partitionColumns", texts, fields),
        configuration={key: of(key, text, settings) for key in settings},
    )


def protocol(action: object) -> Protocol:
    """The ``protocol`` action."""
    fields = mapping(action)
    return Protocol(
        reader_version=of("minReaderVersion", integer, fields),
        writer_version=of("minWriterVersion", integer, fields),
        reader_features=frozenset(of("readerFeatures", texts, fields)),
        writer_features=frozenset(of("writerFeatures", texts, fields)),
    )
