"""The JSON of Delta actions, checked for the shape that decisions rely on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_backfill.core.commit import Protocol, TableMetadata

MAX_LINE_BYTES = 32 << 20


class Malformed(ValueError):
    """A text is not what it has to be; says what is wrong with it."""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file in chunks, without blank ones; ``Malformed`` if one has no end in sight."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from filter(bytes.strip, whole)
        if len(rest) > MAX_LINE_BYTES:
            raise Malformed(f"a line is longer than {MAX_LINE_BYTES} bytes")
    if rest.strip():
        yield rest


def decode(text: bytes | str) -> dict[str, Any]:
    """The JSON object in ``text``, or ``Malformed``."""
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def mapping(value: object) -> dict[str, Any]:
    """``value``, which has to be a JSON object."""
    if not isinstance(value, dict):
        raise Malformed(f"expected an object, found {type(value).__name__}")
    return value


def integer(value: object) -> int:
    """``value``, which has to be a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(f"expected a whole number, found {type(value).__name__}")
    return value


def text(value: object) -> str:
    """``value``, which has to be a string."""
    if not isinstance(value, str):
        raise Malformed(f"expected a string, found {type(value).__name__}")
    return value


def texts(value: object) -> tuple[str, ...]:
    """``value``, which has to be a list of strings; an absent one is empty."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Malformed(f"expected a list, found {type(value).__name__}")
    return tuple(text(item) for item in value)


def metadata(action: object) -> TableMetadata:
    """The ``metaData`` action."""
    fields = mapping(action)
    settings: Mapping[str, Any] = mapping(fields.get("configuration") or {})
    return TableMetadata(
        table_id=text(fields.get("id")),
        schema_json=text(fields.get("schemaString")),
        partition_columns=texts(fields.get("partitionColumns")),
        configuration={key: text(value) for key, value in settings.items()},
    )


def protocol(action: object) -> Protocol:
    """The ``protocol`` action."""
    fields = mapping(action)
    return Protocol(
        reader_version=integer(fields.get("minReaderVersion")),
        writer_version=integer(fields.get("minWriterVersion")),
        reader_features=frozenset(texts(fields.get("readerFeatures"))),
        writer_features=frozenset(texts(fields.get("writerFeatures"))),
    )
