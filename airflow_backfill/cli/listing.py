"""All builds below a folder: each is found by its control folder (``<target>.backfill``) and read at the same time.

A store that does not answer holds up nobody: its builds are shown as unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from airflow_backfill.builds.status import status
from airflow_backfill.cli.answer import Answer
from airflow_backfill.core.errors import BackfillError, NotPlanned, SourceUnavailable
from airflow_backfill.core.reports.health import in_words
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.log_listing import LOG
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.store import Store

DEPTH = 4
"""Folders below the given one in which builds are looked for."""
AT_ONCE = 16
"""Builds that are read at the same time."""
PATIENCE_SECONDS = 30.0
"""How long to wait for the next answer of any build before those that are left count as unreachable."""
FIGURES = ("name", "strategy", "percent", "rows_per_second", "seconds_left", "health")


def listing(folder: str, options: StoreOptions) -> Answer:
    """Every build below ``folder``; an unreachable one makes the answer not good. SourceUnavailable if the folder
    itself cannot be listed.
    """
    root = folder.rstrip("/") or "/"
    targets = [f"{root.rstrip('/')}/{name}" for name in targets_below(open_store(root, options=options))]
    builds = read_all(targets, lambda target: status(BuildReader(target, options=options)))
    good = all(build["error"] is None or build["state"] == "not planned" for build in builds)
    return Answer({"folder": folder, "builds": builds}, as_text(builds), good)


def targets_below(store: Store, folder: str = "", depth: int = DEPTH) -> Iterator[str]:
    """The names of targets below ``folder``, in order. Tables are not searched."""
    below = store.folders(folder)
    targets = {name.removesuffix(SUFFIX) for name in below if name.endswith(SUFFIX)}
    for name in sorted(targets.union(below)):
        path = f"{folder}/{name}" if folder else name
        if name in targets:
            yield path
        elif depth and not name.endswith(SUFFIX) and not store.list(f"{path}/{LOG}"):
            yield from targets_below(store, path, depth - 1)


def read_all(
    targets: Sequence[str], read: Callable[[str], dict[str, Any]], patience: float = PATIENCE_SECONDS
) -> list[dict[str, Any]]:
    """One line of each target, in order. Ends soon after ``patience`` seconds without any answer."""
    waiting: SimpleQueue[str] = SimpleQueue()
    answers: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
    for target in targets:
        waiting.put(target)

    def work() -> None:
        while not waiting.empty():
            try:
                target = waiting.get_nowait()
            except Empty:
                return
            answers.put((target, _line(target, read)))

    # Daemons: a read that hangs must not keep the process alive.
    for _ in range(min(AT_ONCE, len(targets))):
        Thread(target=work, daemon=True).start()
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(targets):
        try:
            target, line = answers.get(timeout=patience)
        except Empty:
            break
        found[target] = line
    silent = SourceUnavailable(f"the store has not answered for {patience:g} s")
    return [found.get(target) or _failed(target, silent) for target in targets]


def _line(target: str, read: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    try:
        found = read(target)
    except BackfillError as error:
        return _failed(target, error)
    except Exception as error:  # one damaged build must not hide the others
        return _failed(target, SourceUnavailable(f"{type(error).__name__}: {str(error)[:200]}"))
    # A build that is being planned has none of them.
    figures = {name: found.get(name) for name in FIGURES}
    pending = (found.get("lag") or {}).get("epochs")
    waits = found["waits_for"]
    return {"target": target, "state": found["phase"], **figures, "pending": pending, "waits_for": waits, "error": None}


def _failed(target: str, error: BackfillError) -> dict[str, Any]:
    unreachable = "unreachable" if error.retry else "unreadable"
    state = "not planned" if isinstance(error, NotPlanned) else unreachable
    nothing = dict.fromkeys((*FIGURES, "pending"))
    return {"target": target, "state": state, **nothing, "waits_for": [], "error": error.to_json()}


def as_text(builds: Sequence[Mapping[str, Any]]) -> str:
    """One line for each build."""
    if not builds:
        return f"no builds, down to {DEPTH} folders below"
    rows = [("STATE", "CONDITION", "%", "PENDING", "TARGET", ""), *(_cells(build) for build in builds)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(_row(row, widths) for row in rows)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    state, condition, percent, pending, target, said = row
    words = (state.ljust(widths[0]), condition.ljust(widths[1]))
    return "  ".join((*words, percent.rjust(widths[2]), pending.rjust(widths[3]), target, said)).rstrip()


def _cells(build: Mapping[str, Any]) -> tuple[str, ...]:
    percent = "" if build["percent"] is None else f"{build['percent']:.1f}"
    pending = "" if build["pending"] is None else f"{build['pending']:,}"
    error, health = build["error"], build["health"]
    said = f"[{error['code']}] {error['message']}" if error else health["why"] if health else ""
    return build["state"], in_words(health) if health else "", percent, pending, build["target"], said[:160]
