"""Options of users: plain JSON, each field checked before any table is read or written.

Every error is InvalidSpec with the field, the value (masked: it may hold a secret) and the fix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.document import encode

MAX_BYTES = 65536
MOST = 10**15
"""The maximum of a number, where an option has no other."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")

_URI = re.compile(r"[a-z][a-z0-9+.-]*://|file:/", re.IGNORECASE)
_MAX_NAME_BYTES = 255
"""The limit of file systems for one name."""
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
"""Control characters, except tab and line break."""


def check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """InvalidSpec for an unknown option, with the most similar known one."""
    for option in options:
        if option not in known:
            raise invalid(
                str(option)[:100], None, f"unknown option{near(str(option), known)} (known: {', '.join(known)})"
            )


def near(word: str, known: Collection[str]) -> str:
    found = get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def masked(text: str) -> str:
    """``text`` without the user information and the query of every URI in it: both may hold secrets."""
    return re.sub(r"\?[^\s'\"]+", "?***", re.sub(r"(://)\S*@", r"\1***@", text))


def invalid(field: str, value: Any, fix: str) -> InvalidSpec:
    shown = masked(repr(value))[:200]
    return InvalidSpec(f"{field}: {fix}" + (f" (got {shown})" if value is not None else ""), field=field, value=shown)


def parsed(text: str) -> Any:
    """The value of a JSON text. InvalidSpec if it is no JSON, names a field twice, or is nested too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise InvalidSpec(
            f"the spec is not JSON: {error}; in a shell, put it into single quotes", field="spec"
        ) from None
    except RecursionError:
        raise InvalidSpec("the spec is nested too deeply; its values are strings, lists and flat objects") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(twice[:100], None, "is given twice; keep one of them")
    return found


def check_size(options: Mapping[str, Any]) -> None:
    size = 0
    for name, value in options.items():
        try:
            size += len(encode({name: value}).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise invalid(name, None, f"is not plain JSON: {str(error)[:200]}; use strings, lists and dicts") from None
    if size > MAX_BYTES:
        raise InvalidSpec(f"the spec has {size} bytes, at most {MAX_BYTES} are allowed; shorten it", size=size)


def text(options: Mapping[str, Any], field: str) -> str:
    return checked(field, options.get(field))


def texts(options: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = options.get(field)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise invalid(field, value, "must be a non-empty list of strings")
    return tuple(checked(field, item) for item in value)


def versions(options: Mapping[str, Any], field: str) -> dict[str, str]:
    """Names with their versions."""
    value = options.get(field)
    if not isinstance(value, Mapping) or not value:
        raise invalid(field, value, "must be an object of names and versions")
    for name in value:
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise invalid(field, name, "a name of letters, digits and '_' is required")
    return {name: checked(f"{field}.{name}", version) for name, version in value.items()}


def whole(field: str, value: int, least: int, most: int = MOST) -> int:
    """``value``; InvalidSpec unless it is a whole number from ``least`` to ``most``."""
    if type(value) is not int or not least <= value <= most:
        raise invalid(field, value, f"must be a whole number from {least} to {most}")
    return value


def flag(field: str, value: bool) -> bool:
    """``value``; InvalidSpec unless it is True or False: any text would be true, that of a template and "false" too."""
    if type(value) is not bool:
        raise invalid(field, value, "must be True or False, and is no template")
    return value


def share(field: str, value: float) -> float:
    """``value``; InvalidSpec unless it is from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise invalid(field, value, "must be a share of the source, from 0 to 1")
    return value


def choice(options: Mapping[str, Any], field: str, choices: Sequence[str]) -> str:
    if field not in options:
        return choices[0]
    value = text(options, field)
    if value not in choices:
        raise invalid(field, value, f"must be one of {', '.join(choices)}{near(value, choices)}")
    return value


def checked(field: str, value: Any) -> str:
    if value is None:
        raise invalid(field, None, "a value is required")
    if not isinstance(value, str):
        raise invalid(field, value, "must be a string")
    if not value.strip() or value.strip() in ("None", "null", "undefined"):
        raise invalid(field, value, "must not be empty")
    if _TEMPLATE.search(value):
        raise invalid(field, value, "contains an unrendered template; use a templated field, or render it first")
    if _CONTROL.search(value) or not _encodes(value):
        raise invalid(field, value, "must not contain control characters or invalid Unicode")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def location(options: Mapping[str, Any], field: str, *, beside: str = "") -> str:
    """The location in ``field``, without a trailing slash. ``beside`` is the suffix of a folder beside it."""
    value = checked(field, options.get(field))
    if any(c in value for c in "\t\n`;'\"\\"):
        raise invalid(field, value, "must not contain quotes, semicolons, backslashes or line breaks")
    try:
        parts = urlsplit(value) if _URI.match(value) else None
    except ValueError:
        raise invalid(field, value, "must be an absolute path (/data/t) or a URI (s3a://bucket/t)") from None
    if parts is not None and _credentials(parts.scheme.lower(), parts.netloc, parts.path):
        raise invalid(field, value, "must not contain credentials; put them into a connection")
    if parts is not None and (parts.query or parts.fragment):
        raise invalid(field, value, "must not have a query or fragment; remove the part after '?' or '#'")
    path = parts.path if parts is not None else value
    if parts is None and not value.startswith("/"):
        raise invalid(field, value, "must be an absolute path (/data/t) or a URI (s3a://bucket/t)")
    if ".." in unquote(path).split("/"):
        raise invalid(field, value, "must not contain '..'")
    if parts is not None and not parts.netloc and parts.scheme.lower() != "file":
        raise invalid(field, value, "must name a bucket or host, as in s3a://bucket/t")
    if path.strip("/") == "":
        raise invalid(field, value, "is the root of the store; name a folder below it")
    room = _MAX_NAME_BYTES - len(beside)
    if max(len(name.encode()) for name in path.rstrip("/").split("/")) > room:
        raise invalid(field, value, f"a name in it is longer than {room} bytes, the limit of file systems; shorten it")
    return value.rstrip("/")


def _credentials(scheme: str, authority: str, path: str) -> bool:
    """Whether a URI contains a user or a key. Azure's ``container@account`` is none; a key may contain a slash."""
    user, at, _ = authority.rpartition("@")
    named = at and (scheme not in ("abfs", "abfss", "wasb", "wasbs") or ":" in user)
    return bool(named or (":" in authority and "@" in path))


def normal(location: str) -> str:
    """One spelling per location, to compare locations."""
    if not _URI.match(location):
        # In a plain path '#' and '?' are ordinary characters.
        scheme, place, path = "file", "", location
    else:
        parts = urlsplit(location)
        scheme, place, path = parts.scheme.lower(), parts.netloc.lower(), parts.path
    segments = [s for s in unquote(path).split("/") if s not in ("", ".")]
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    return f"{scheme}://{place}/{'/'.join(segments)}"
