"""Options as people give them: plain JSON, each field checked before anything is touched.

Every refusal is InvalidSpec with the field, the value (masked: it may hold a key) and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_backfill.core.document import encode
from airflow_backfill.core.errors import InvalidSpec

MAX_BYTES = 65536
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


def check_known(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an option that does not exist, with the one that was probably meant."""
    for option in options:
        if option not in known:
            raise invalid(
                str(option)[:100], None, f"unknown option{near(str(option), known)} (known: {', '.join(known)})"
            )


def near(word: str, known: Collection[str]) -> str:
    found = get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def masked(text: str) -> str:
    """``text`` with the user information and the query of every URI in it hidden: both may hold keys."""
    return re.sub(r"\?[^\s'\"]+", "?***", re.sub(r"(://)\S*@", r"\1***@", text))


def invalid(field: str, value: Any, fix: str) -> InvalidSpec:
    shown = masked(repr(value))[:200]
    return InvalidSpec(f"{field}: {fix}" + (f" (got {shown})" if value is not None else ""), field=field, value=shown)


def check_size(options: Mapping[str, Any]) -> None:
    try:
        size = len(encode(dict(options)).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"the spec is not plain JSON data: {str(error)[:200]}") from None
    if size > MAX_BYTES:
        raise InvalidSpec(f"the spec has {size} bytes, at most {MAX_BYTES} are taken", size=size)


def text(options: Mapping[str, Any], field: str) -> str:
    return checked(field, options.get(field))


def texts(options: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = options.get(field)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise invalid(field, value, "a list of at least one text is required")
    return tuple(checked(field, item) for item in value)


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
        raise invalid(field, value, "must be a text")
    if not value.strip() or value.strip() in ("None", "null", "undefined"):
        raise invalid(field, value, "must not be empty")
    if _TEMPLATE.search(value):
        raise invalid(field, value, "holds an unrendered template")
    if any(ord(c) < 32 and c not in "\t\n" for c in value) or not _encodes(value):
        raise invalid(field, value, "holds control characters or is not valid Unicode")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def location(options: Mapping[str, Any], field: str) -> str:
    value = checked(field, options.get(field))
    if any(c in value for c in "\t\n`;'\"\\"):
        raise invalid(field, value, "a location holds no quotes, semicolons, backslashes or line breaks")
    try:
        parts = urlsplit(value) if _SCHEME.match(value) else None
    except ValueError:
        raise invalid(field, value, "is neither a path nor a URI") from None
    if parts is not None and _credentials(parts.scheme.lower(), parts.netloc, parts.path):
        raise invalid(field, value, "credentials do not belong into a location; use a connection")
    if parts is not None and (parts.query or parts.fragment):
        raise invalid(field, value, "a location has neither query nor fragment")
    path = parts.path if parts is not None else value
    if parts is None and not value.startswith("/"):
        raise invalid(field, value, "must be an absolute path or a URI")
    if ".." in unquote(path).split("/"):
        raise invalid(field, value, "must not contain '..'")
    if parts is not None and not parts.netloc and parts.scheme.lower() != "file":
        raise invalid(field, value, "the URI names no bucket or host")
    if path.strip("/") == "":
        raise invalid(field, value, "is the root, not a table")
    return value.rstrip("/")


def _credentials(scheme: str, authority: str, path: str) -> bool:
    """Whether a URI names a user: not Azure's ``container@account``, but a key whose slash ends the authority."""
    user, at, _ = authority.rpartition("@")
    named = at and (scheme not in ("abfs", "abfss", "wasb", "wasbs") or ":" in user)
    return bool(named or (":" in authority and "@" in path))


def normal(location: str) -> str:
    """One spelling for one place, so that a table is recognised under two names."""
    if not _SCHEME.match(location):
        location = "file://" + location
    parts = urlsplit(location)
    scheme = {"s3a": "s3", "s3n": "s3"}.get(parts.scheme.lower(), parts.scheme.lower())
    segments = [s for s in unquote(parts.path).split("/") if s not in ("", ".")]
    return f"{scheme}://{parts.netloc.lower()}/{'/'.join(segments)}"
