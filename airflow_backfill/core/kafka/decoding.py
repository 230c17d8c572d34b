"""How the keys and values of a topic are decoded, and where undecodable records go.

Data only, and a part of the spec's fingerprint: one target must not mix rows of different decodings. A user's decoder
is a name here, never code or a place to load code from; Spark's side resolves the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.options import NAME, check_known, check_size, checked, invalid, location, near

BYTES, STRING, JSON, DECODER = "bytes", "string", "json", "decoder"
STOP, DEAD_LETTERS = "stop", "dead_letters"

_FORMATS = {
    BYTES: None,
    STRING: None,
    JSON: "a schema, as in 'json:id BIGINT, at TIMESTAMP'",
    DECODER: "the name of a registered decoder, as in 'decoder:orders'",
}
_UNDECODABLE = {STOP: None, DEAD_LETTERS: "the location of a table, as in 'dead_letters:s3a://lake/dead/orders'"}


@dataclass(frozen=True, slots=True)
class Format:
    """How a key or a value is decoded.

    ``bytes`` as they are, ``string`` as UTF-8, ``json`` as an object with a schema in Spark's DDL, ``decoder`` by the
    decoder that is registered under a name.
    """

    kind: str
    argument: str | None = None
    """The schema of ``json``, which only Spark can check; the name of a ``decoder``."""

    def __str__(self) -> str:
        return self.kind if self.argument is None else f"{self.kind}:{self.argument}"


@dataclass(frozen=True, slots=True)
class Decoding:
    """The formats of key and value, and where undecodable records go."""

    key: Format = Format(BYTES)
    """How keys are read: "bytes", "string", "json:<schema>" or "decoder:<name>"."""
    value: Format = Format(BYTES)
    """How values are read: "bytes", "string", "json:<schema>" or "decoder:<name>"."""
    dead_letters: str | None = None
    """From the option ``undecodable``: "dead_letters:<location>" names the table of undecodable records, "stop" (None)
    stops the build at the first one.
    """

    @staticmethod
    def parse(options: Mapping[str, Any]) -> Decoding:
        """The decoding in ``options``; InvalidSpec with field, value and fix. No I/O.

        ``key`` and ``value``: "bytes" (the default), "string", "json:<schema>" or "decoder:<name>". ``undecodable``:
        "stop" (the default) or "dead_letters:<location>".
        """
        if not isinstance(options, Mapping):
            raise InvalidSpec(f"topic: must be a dict of options, not {type(options).__name__}")
        check_known(options, OPTIONS)
        check_size(options)
        return Decoding(_format(options, "key"), _format(options, "value"), _dead_letters(options))

    def to_json(self) -> dict[str, Any]:
        undecodable = STOP if self.dead_letters is None else f"{DEAD_LETTERS}:{self.dead_letters}"
        return {"key": str(self.key), "value": str(self.value), "undecodable": undecodable}


OPTIONS = tuple(Decoding().to_json())


def _format(options: Mapping[str, Any], field: str) -> Format:
    kind, argument = _choice(options, field, _FORMATS)
    if kind == DECODER and not NAME.match(argument or ""):
        raise invalid(f"topic.{field}", argument, "must be a decoder's name: 1 to 100 letters, digits, '_', '.' or '-'")
    return Format(kind, argument)


def _dead_letters(options: Mapping[str, Any]) -> str | None:
    _, argument = _choice(options, "undecodable", _UNDECODABLE)
    return None if argument is None else location({"topic.undecodable": argument}, "topic.undecodable")


def _choice(options: Mapping[str, Any], field: str, choices: Mapping[str, str | None]) -> tuple[str, str | None]:
    """A word of ``choices`` and its argument after a colon, which some words need and others do not allow."""
    if field not in options:
        return next(iter(choices)), None
    value, field = checked(f"topic.{field}", options[field]), f"topic.{field}"
    word, colon, rest = (part.strip() for part in value.partition(":"))
    if word not in choices:
        raise invalid(field, value, f"must be one of {', '.join(choices)}{near(word, choices)}")
    needed = choices[word]
    if needed is None:
        if colon:
            raise invalid(field, value, f"{word} takes no argument; remove the colon and the text after it")
        return word, None
    if not rest:
        raise invalid(field, value, f"{word} needs {needed}")
    return word, rest
