"""The builds below a folder: each is found by its control folder (``<target>.backfill``), and many are read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from airflow_backfill.core.errors import BackfillError, SourceUnavailable
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.log_listing import LOG
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.store import Store

DEPTH = 4
"""Folders below the given one in which builds are looked for."""
AT_ONCE = 16
"""Builds that are read at the same time."""
PATIENCE_SECONDS = 30.0
"""How long to wait for the next answer of any build before those that are left count as unreachable."""


def targets_below(folder: str, options: StoreOptions) -> list[str]:
    """The targets below ``folder``, in order. SourceUnavailable if it cannot be listed."""
    root = folder.rstrip("/") or "/"
    return [f"{root.rstrip('/')}/{name}" for name in _names(open_store(root, options=options), "", DEPTH)]


def _names(store: Store, folder: str, depth: int) -> Iterator[str]:
    """The names of targets below ``folder``, in order. Tables are not searched."""
    below = store.folders(folder)
    targets = {name.removesuffix(SUFFIX) for name in below if name.endswith(SUFFIX)}
    for name in sorted(targets.union(below)):
        path = f"{folder}/{name}" if folder else name
        if name in targets:
            yield path
        elif depth and not name.endswith(SUFFIX) and not store.list(f"{path}/{LOG}"):
            yield from _names(store, path, depth - 1)


def read_all(
    targets: Sequence[str], read: Callable[[str], dict[str, Any]], patience: float = PATIENCE_SECONDS
) -> list[tuple[str, dict[str, Any] | BackfillError]]:
    """What was read of each target, or why it was not, in order. A store that does not answer holds up nobody: it ends
    soon after ``patience`` seconds without any answer.
    """
    waiting: SimpleQueue[str] = SimpleQueue()
    answers: SimpleQueue[tuple[str, dict[str, Any] | BackfillError]] = SimpleQueue()
    for target in targets:
        waiting.put(target)

    def work() -> None:
        while not waiting.empty():
            try:
                target = waiting.get_nowait()
            except Empty:
                return
            answers.put((target, _answer(target, read)))

    # Daemons: a read that hangs must not keep the process alive.
    for _ in range(min(AT_ONCE, len(targets))):
        Thread(target=work, daemon=True).start()
    found: dict[str, dict[str, Any] | BackfillError] = {}
    while len(found) < len(targets):
        try:
            target, answer = answers.get(timeout=patience)
        except Empty:
            break
        found[target] = answer
    silent = SourceUnavailable(f"the store has not answered for {patience:g} s")
    return [(target, found.get(target, silent)) for target in targets]


def _answer(target: str, read: Callable[[str], dict[str, Any]]) -> dict[str, Any] | BackfillError:
    try:
        return read(target)
    except BackfillError as error:
        return error
    except Exception as error:  # one damaged build must not hide the others
        return SourceUnavailable(f"{type(error).__name__}: {str(error)[:200]}")
