"""Damage to JSON documents, as tests do it: cut off, retyped, with fields added, dropped or exchanged."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 1.5, 2**70, float("nan"), "", "x", "\x00", "../x", [], [[]], [0], {}, {"x": 1},
    [None], "snapshot", [[1, 0]], [[10**9, 0]], [1, 2, 3],
)  # fmt: skip


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*before, name)
        yield from paths(inner, (*before, name))


def _opened(document: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:
    """A copy of the document, and what holds the value at the path in it."""
    found = holder = copy.deepcopy(document)
    for name in path[:-1]:
        holder = holder[name]
    return found, holder


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with another value in one place."""
    found, holder = _opened(document, path)
    holder[path[-1]] = value
    return found


def dropped(document: Any, path: tuple[Any, ...]) -> Any:
    """A copy of the document without one value."""
    found, holder = _opened(document, path)
    del holder[path[-1]]
    return found


def added(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with one value more, beside the one at the path."""
    found, holder = _opened(document, path)
    if isinstance(holder, dict):
        holder["extra"] = value
    else:
        holder.insert(path[-1], value)
    return found


def damaged(document: Any) -> Iterator[Any]:
    """Every document that differs in one place, for each of the odd values."""
    for path in list(paths(document)):
        yield dropped(document, path)
        for value in ODD:
            yield replaced(document, path, value)
        for value in (None, 7, "x"):
            yield added(document, path, value)


def mangled(text: str, rng: random.Random) -> str:
    """The text with a few characters lost, doubled or exchanged."""
    characters = list(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(characters))
        match rng.randrange(3):
            case 0:
                characters[at] = ""
            case 1:
                characters[at] = chr(rng.choice((0, 9, 34, 44, 48, 57, 91, 93, 123, 125, 0xD800, 0x1F600)))
            case 2:
                characters[at] *= 2
    return "".join(characters)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types all through: True is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
