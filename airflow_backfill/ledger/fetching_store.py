"""A store for readers that show a build and decide nothing: each file is read once, the newest files of a folder are
fetched side by side as soon as the folder is listed, and a file that a listing lacks is not asked for. So a status
takes as many round trips as it has steps, not as it has files.

What it returns is at most as old as the store itself, which lives for one answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import BinaryIO

from airflow_backfill.ledger.store import CHUNK_BYTES, HIDDEN, NotFound, Store

DOCUMENT, CHECKSUM = ".json", ".crc"


class FetchingStore:
    """Reads of ``store``. ``most``: of how many numbers in each folder all documents are fetched, in ``threads``."""

    def __init__(self, store: Store, threads: ThreadPoolExecutor, most: Mapping[str, int]) -> None:
        self._store, self._threads, self._most = store, threads, most
        self._lists: dict[str, tuple[str, Sequence[str]]] = {}
        """By folder: after which name it was listed, and what was found."""
        self._heads: dict[str, Future[bytes | None]] = {}
        self._lock = Lock()

    @property
    def url(self) -> str:
        return self._store.url

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        start, known = self._lists.get(folder, (None, ()))
        if start is None or after < start:
            known = self._store.list(folder, after)
            self._lists[folder] = after, known
            if most := self._most.get(folder):
                # The first is left to whoever listed: it is wanted at once, and a thread would only be in between.
                for name in islice(self._worth_fetching(known, most), 1, None):
                    path = f"{folder}/{name}" if folder else name
                    with self._lock:
                        if path not in self._heads:
                            self._heads[path] = self._threads.submit(self._fetched, path)
        return known if after == start else [name for name in known if name > after]

    def read(self, name: str, limit: int) -> bytes:
        head = self._head(name)
        return head[:limit] if len(head) <= CHUNK_BYTES or limit <= len(head) else self._store.read(name, limit)

    def chunks(self, name: str) -> Iterator[bytes]:
        head = self._head(name)
        if len(head) > CHUNK_BYTES:
            yield from self._store.chunks(name)  # nobody keeps a large file in memory
        elif head:
            yield head

    def folders(self, folder: str) -> Sequence[str]:
        return self._store.folders(folder)

    def open(self, name: str) -> BinaryIO:
        return self._store.open(name)

    def create(self, name: str, data: bytes) -> bool:
        return self._store.create(name, data)

    def put(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def _worth_fetching(self, names: Sequence[str], most: int) -> Iterator[str]:
        """The documents of the newest numbers, and the newest checksum of a log: it tells what older commits said."""
        numbers: set[str] = set()
        checksum = False
        for name in reversed(names):
            number = name.partition(".")[0]
            if name.endswith(DOCUMENT) and (number in numbers or len(numbers) < most):
                numbers.add(number)
                yield name
            elif name.endswith(CHECKSUM) and not checksum:
                checksum = True
                yield name
            elif len(numbers) >= most and (checksum or not name.endswith(DOCUMENT)):
                return

    def _lacks(self, name: str) -> bool:
        """Whether the listing of the file's folder shows that there is no such file."""
        folder, _, file = name.rpartition("/")
        start, known = self._lists.get(folder, (None, ()))
        if start is None or file <= start or file.startswith(HIDDEN):
            return False
        place = bisect_left(known, file)
        return place == len(known) or known[place] != file

    def _head(self, name: str) -> bytes:
        """What ``_fetched`` returns of a file; NotFound if there is none."""
        with self._lock:
            known = self._heads.get(name)
            if known is None and self._lacks(name):
                raise NotFound(self._store.url, name)
            mine = known or self._heads.setdefault(name, Future())
        if known is None:
            try:
                mine.set_result(self._fetched(name))
            except BaseException as error:
                mine.set_exception(error)
        found = mine.result()
        if found is None:
            raise NotFound(self._store.url, name)
        return found

    def _fetched(self, name: str) -> bytes | None:
        """The first chunk of a file, and a byte more if there is more; None if there is no such file. Not an error: by
        its traceback, one that is kept here would keep all that was read until garbage is collected.
        """
        try:
            return self._store.read(name, CHUNK_BYTES + 1)
        except NotFound as missing:
            # From Python 3.12 on, an error that a context manager replaces keeps itself by the same traceback.
            error: BaseException | None = missing
            while error is not None:
                error = error.with_traceback(None).__context__
            return None
