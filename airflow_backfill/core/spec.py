"""The spec: what the user asks for, checked as far as no table has to be opened.

The spec holds data only (what is built from what). How a task goes about it (lanes, round sizes, lag) is the
task's own and may differ between attempts; the spec may not: its fingerprint is the build's identity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_backfill.core.document import encode, fingerprint
from airflow_backfill.core.errors import InvalidSpec

STRATEGIES = ("snapshot", "arrangement", "chain", "auto")
KEYLESS = ("chain", "auto")
"""The strategies for which a key may be missing."""
NEW_COLUMNS = ("stop", "ignore")
MAX_BYTES = 65536

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


@dataclass(frozen=True, slots=True)
class BackfillSpec:
    """One target built from one source.

    ``source`` and ``target`` are absolute paths or URIs of Delta tables. ``key`` names the columns of the
    source that identify a row; a chain may be without. ``select`` is a list of SQL expressions (None: every column
    of the planned schema), ``where`` a SQL condition. ``new_columns`` says what happens when the source gets a
    column: "stop", or "ignore" it.
    """

    name: str
    source: str
    target: str
    key: tuple[str, ...]
    select: tuple[str, ...] | None = None
    where: str | None = None
    strategy: str = "snapshot"
    new_columns: str = "stop"

    @staticmethod
    def parse(options: Mapping[str, Any]) -> BackfillSpec:
        """The spec that ``options`` say, or InvalidSpec with field, value and fix. Touches nothing."""
        if not isinstance(options, Mapping):
            raise InvalidSpec(f"a spec is a mapping of options, not {type(options).__name__}")
        known = [f.name for f in fields(BackfillSpec)]
        for option in options:
            if option not in known:
                near = get_close_matches(str(option), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise _invalid(str(option)[:100], None, f"unknown option{hint} (known: {', '.join(known)})")
        _check_size(options)
        spec = BackfillSpec(
            name=_text(options, "name"),
            source=_location(options, "source"),
            target=_location(options, "target"),
            key=() if _keyless(options) else _texts(options, "key"),
            select=_texts(options, "select") if options.get("select") is not None else None,
            where=_text(options, "where") if options.get("where") is not None else None,
            strategy=_choice(options, "strategy", STRATEGIES),
            new_columns=_choice(options, "new_columns", NEW_COLUMNS),
        )
        spec._check()
        return spec

    def _check(self) -> None:
        if not _NAME.match(self.name):
            raise _invalid("name", self.name, "use 1 to 100 letters, digits, '_', '.' or '-'")
        if len(set(self.key)) != len(self.key):
            raise _invalid("key", list(self.key), "a column is named twice")
        source, target = _normal(self.source), _normal(self.target)
        if source == target:
            raise _invalid("target", self.target, "source and target are the same table")
        for inner, outer, what in (
            (target, source, "target lies inside source"),
            (source, target, "source lies inside target"),
        ):
            if inner.startswith(outer + "/"):
                raise _invalid("target", self.target, what)

    def to_json(self) -> dict[str, Any]:
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.to_json())


def difference(planned: BackfillSpec, asked: BackfillSpec) -> dict[str, list[Any]]:
    """Every option that differs: its planned and its asked value."""
    one, other = planned.to_json(), asked.to_json()
    return {name: [one[name], other[name]] for name in one if one[name] != other[name]}


def masked(text: str) -> str:
    """``text`` with the user information and the query of every URI in it hidden: both may hold keys."""
    return re.sub(r"\?[^\s'\"]+", "?***", re.sub(r"(://)\S*@", r"\1***@", text))


def _invalid(field: str, value: Any, fix: str) -> InvalidSpec:
    shown = masked(repr(value))[:200]
    return InvalidSpec(f"{field}: {fix}" + (f" (got {shown})" if value is not None else ""), field=field, value=shown)


def _check_size(options: Mapping[str, Any]) -> None:
    try:
        size = len(encode(dict(options)).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"the spec is not plain JSON data: {str(error)[:200]}") from None
    if size > MAX_BYTES:
        raise InvalidSpec(f"the spec has {size} bytes, at most {MAX_BYTES} are taken", size=size)


def _text(options: Mapping[str, Any], field: str) -> str:
    return _checked(field, options.get(field))


def _texts(options: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = options.get(field)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise _invalid(field, value, "a list of at least one text is required")
    return tuple(_checked(field, item) for item in value)


def _keyless(options: Mapping[str, Any]) -> bool:
    """Whether no key is named where none is needed."""
    return options.get("strategy") in KEYLESS and options.get("key") in (None, (), [])


def _choice(options: Mapping[str, Any], field: str, choices: Sequence[str]) -> str:
    if field not in options:
        return choices[0]
    value = _text(options, field)
    if value not in choices:
        near = get_close_matches(value, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise _invalid(field, value, f"must be one of {', '.join(choices)}{hint}")
    return value


def _checked(field: str, value: Any) -> str:
    if value is None:
        raise _invalid(field, None, "a value is required")
    if not isinstance(value, str):
        raise _invalid(field, value, "must be a text")
    if not value.strip() or value.strip() in ("None", "null", "undefined"):
        raise _invalid(field, value, "must not be empty")
    if _TEMPLATE.search(value):
        raise _invalid(field, value, "holds an unrendered template")
    if any(ord(c) < 32 and c not in "\t\n" for c in value) or not _encodes(value):
        raise _invalid(field, value, "holds control characters or is not valid Unicode")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _location(options: Mapping[str, Any], field: str) -> str:
    value = _checked(field, options.get(field))
    if any(c in value for c in "\t\n`;'\"\\"):
        raise _invalid(field, value, "a location holds no quotes, semicolons, backslashes or line breaks")
    try:
        parts = urlsplit(value) if _SCHEME.match(value) else None
    except ValueError:
        raise _invalid(field, value, "is neither a path nor a URI") from None
    if parts is not None and _credentials(parts.scheme.lower(), parts.netloc, parts.path):
        raise _invalid(field, value, "credentials do not belong into a location; use a connection")
    if parts is not None and (parts.query or parts.fragment):
        raise _invalid(field, value, "a location has neither query nor fragment")
    path = parts.path if parts is not None else value
    if parts is None and not value.startswith("/"):
        raise _invalid(field, value, "must be an absolute path or a URI")
    if ".." in unquote(path).split("/"):
        raise _invalid(field, value, "must not contain '..'")
    if parts is not None and not parts.netloc and parts.scheme.lower() != "file":
        raise _invalid(field, value, "the URI names no bucket or host")
    if path.strip("/") == "":
        raise _invalid(field, value, "is the root, not a table")
    return value.rstrip("/")


def _credentials(scheme: str, authority: str, path: str) -> bool:
    """Whether a URI names a user: not Azure's ``container@account``, but a key whose slash ends the authority."""
    user, at, _ = authority.rpartition("@")
    named = at and (scheme not in ("abfs", "abfss", "wasb", "wasbs") or ":" in user)
    return bool(named or (":" in authority and "@" in path))


def _normal(location: str) -> str:
    """One spelling for one place, so that a table is recognised under two names."""
    if not _SCHEME.match(location):
        location = "file://" + location
    parts = urlsplit(location)
    scheme = {"s3a": "s3", "s3n": "s3"}.get(parts.scheme.lower(), parts.scheme.lower())
    segments = [s for s in unquote(parts.path).split("/") if s not in ("", ".")]
    return f"{scheme}://{parts.netloc.lower()}/{'/'.join(segments)}"
