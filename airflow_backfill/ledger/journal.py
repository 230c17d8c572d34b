"""Numbered JSON documents in a folder. Many processes may append at once; a document never changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from airflow_backfill.core.errors import DocumentDamaged, RecordInvalid
from airflow_backfill.ledger import actions
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.store import NotFound, Store

MAX_DOCUMENT_BYTES = 1 << 23
READERS = 16
"""Documents that are read side by side."""
_LAST_NUMBER = 10**9 - 1
NONE: Mapping[int, dict[str, Any]] = {}
Same = Callable[[Mapping[str, Any]], bool]
"""Whether another document stands for one that is to be stored."""
_NAME = re.compile(r"(?P<number>[0-9]{9})(?P<companion>\.[a-z][a-z0-9_-]*)?\.json")


class Journal:
    """Documents ``000000001.json``, ``000000002.json`` ... in one folder of a store.

    The store's put-if-absent gives each number to one writer. A document may get companions later:
    ``000000007.outcome.json``. Other or truncated files raise ``DocumentDamaged``, with the name.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder

    def append(self, document: Mapping[str, Any], floor: int = 0) -> int:
        """Store the document under the next number, without a gap, and return the number.

        The number is greater than ``floor``, so that a deleted journal does not use a number twice. Only greater
        numbers are listed. If the call fails, the document may be stored all the same.
        """
        return self._append(document, max(self.numbers(floor), default=floor) + 1)

    def append_once(
        self, document: Mapping[str, Any], same: Same, floor: int = 0, known: Mapping[int, dict[str, Any]] = NONE
    ) -> int:
        """``append``, unless a document after ``floor`` is the ``same``: then that one's number, also if both are
        stored at the same time. The ``known`` ones are not read again.
        """
        there = self.after(floor, known)
        if (found := next((number for number, other in there if same(other)), None)) is not None:
            return found
        return self._append(document, max((number for number, _ in there), default=floor) + 1, same)

    def _append(self, document: Mapping[str, Any], number: int, same: Same | None = None) -> int:
        data = _encoded(document)
        while not (self._store.create(self._path(number), data) or self._has(number, data, same)):
            number += 1
        return number

    def _has(self, number: int, data: bytes, same: Same | None) -> bool:
        """Whether the document under a number is this one, because the store's answer was lost when it was created; or
        the ``same``.
        """
        with suppress(NotFound):
            if self._store.read(self._path(number), len(data) + 1) == data:
                return True
            return same is not None and same(self.read(number))
        return False

    def after(self, number: int, known: Mapping[int, dict[str, Any]] = NONE) -> list[tuple[int, dict[str, Any]]]:
        """The documents with greater numbers, ascending. The ``known`` ones are listed, and not read again."""
        numbers = self.numbers(number)
        read = {**known, **self._documents([found for found in numbers if found not in known])}
        return [(found, read[found]) for found in numbers if found in read]

    def last(self, count: int, after: int = 0) -> list[tuple[int, dict[str, Any]]]:
        """The ``count`` newest of the documents with greater numbers, ascending. Reads only these."""
        return list(self._documents(self.numbers(after)[-count:]).items())

    def read(self, number: int) -> dict[str, Any]:
        """The document under a number; NotFound if there is none."""
        return self._document(self._path(number))

    def following(self, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents under the next numbers, up to the first number that has none. Lists nothing."""
        with suppress(NotFound):
            while True:
                number += 1
                yield number, self._document(self._path(number))

    def put_beside(self, number: int, suffix: str, document: Mapping[str, Any]) -> None:
        """Store a companion of a document; replaces the one with the same suffix."""
        self._store.put(self._path(number, suffix), _encoded(document))

    def read_beside(self, number: int, suffix: str) -> dict[str, Any] | None:
        """The companion with this suffix; None if there is none."""
        try:
            return self._document(self._path(number, suffix))
        except NotFound:
            return None

    def delete(self, number: int, suffixes: Iterable[str] = ()) -> None:
        """Delete a document and its companions with these suffixes, if they exist. The newest one must stay, or its
        number would be given again.
        """
        for suffix in (*suffixes, ""):
            self._store.delete(self._path(number, suffix))

    def numbers(self, after: int = 0) -> list[int]:
        """The numbers of the documents with greater ones, ascending. Lists the folder, and reads nothing."""
        return [number for number, suffix in self.files(after) if not suffix and number > after]

    def files(self, after: int = 0) -> Iterator[tuple[int, str]]:
        """Number and suffix of the files with numbers from ``after`` on; the suffix of a document is empty. Lists the
        folder, and reads nothing.
        """
        for name in self._store.list(self._folder, after=f"{after:09}"):
            match = _NAME.fullmatch(name)
            if match is None:
                raise DocumentDamaged(
                    f"{self._store.url}: {self._folder}/{name} is not a file of a build; move it away", file=name
                )
            yield int(match["number"]), (match["companion"] or "").removeprefix(".")

    def _documents(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The documents under these numbers, in order, without those that were deleted since they were listed. Several
        are read side by side.
        """
        if len(numbers) < 2:
            read = [*map(self._listed, numbers)]
        else:
            with ThreadPoolExecutor(READERS, "documents") as pool:
                read = [*pool.map(self._listed, numbers)]
        return {number: found for number, found in zip(numbers, read, strict=True) if found is not None}

    def _listed(self, number: int) -> dict[str, Any] | None:
        with suppress(NotFound):
            return self.read(number)
        return None

    def _document(self, path: str) -> dict[str, Any]:
        data = self._store.read(path, MAX_DOCUMENT_BYTES + 1)
        try:
            if len(data) > MAX_DOCUMENT_BYTES:
                raise Malformed(f"longer than {MAX_DOCUMENT_BYTES} bytes")
            return actions.decode(data)
        except Malformed as error:
            raise DocumentDamaged(f"{self._store.url}: {path}: {error}", file=path) from error

    def damaged(self, number: int, suffix: str, what: str) -> DocumentDamaged:
        """The error of a document, or of a companion of it, whose fields are not what its reader needs."""
        path = self._path(number, suffix)
        return DocumentDamaged(f"{self._store.url}: {path}: {what}", file=path)

    def _path(self, number: int, suffix: str = "") -> str:
        name = f"{number:09}.{suffix}.json" if suffix else f"{number:09}.json"
        if _NAME.fullmatch(name) is None or not 0 < number <= _LAST_NUMBER:
            raise RecordInvalid(f"{self._store.url}: {self._folder}/{name} is not a valid name in a journal", file=name)
        return f"{self._folder}/{name}"


def _encoded(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    data = text.encode()
    if len(data) > MAX_DOCUMENT_BYTES:
        raise RecordInvalid(
            f"a document of {len(data)} bytes is longer than {MAX_DOCUMENT_BYTES}, the most that a journal allows",
            bytes=len(data),
        )
    return data
