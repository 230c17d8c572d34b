"""The processes of a demo. Each has its own log, and is ended together with the processes that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 60.0
"""How long a process may take to end after SIGTERM, by default."""
Check = Callable[[], None]
"""Exits the program if something has failed."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Held = TypeVar("_Held")


def end_in_order() -> None:
    """From now on Ctrl-C and SIGTERM exit the program through its ``with`` blocks, which end their processes."""

    def leave(number: int, _: object) -> None:
        # A second signal must not interrupt the clean-up of the first one.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in _SIGNALS:
        signal.signal(each, leave)


@contextmanager
def held(start: Callable[[], _Held], end: Callable[[_Held], object]) -> Iterator[_Held]:
    """Call ``start`` before the block and ``end`` after it. Signals wait until each of the two calls has returned."""
    with ExitStack() as stack:
        with _undisturbed():
            thing = start()
            stack.callback(_undisturbed()(end), thing)
        yield thing


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process while the block runs. Then it has ``patience_seconds`` to end before it is killed."""
    with log.open("w") as file:

        def start() -> subprocess.Popen[bytes]:
            how: dict[str, Any] = {"env": environment, "cwd": directory, "stdout": file, "stderr": subprocess.STDOUT}
            # Its own process group includes the Java of a spark-submit.
            return subprocess.Popen(command, **how, start_new_session=True)

        with held(start, lambda process: _end(process, patience_seconds)) as process:
            yield process


@contextmanager
def beside(command: Sequence[str], log: Path, **how: Any) -> Iterator[None]:
    """Run a command while the block runs, and wait for it after the block. Exits the program if it fails."""
    with running(command, log, **how) as process:
        yield
        if process.wait() != 0:
            fail(log)


@contextmanager
def throughout(command: Sequence[str], log: Path, **how: Any) -> Iterator[Check]:
    """Run a command while the block runs. Exits the program if it has ended by itself, at each check and at the end."""
    with running(command, log, **how) as process:

        def check() -> None:
            if process.poll() is not None:
                fail(log)

        yield check
        check()


def fail(log: Path) -> NoReturn:
    """Exit the program with the end of a process's log."""
    sys.exit(f"{log.stem} failed; the end of its log:\n{log.read_text(errors='replace')[-4000:]}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Deliver signals that arrive in the block after it."""
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _end(process: subprocess.Popen[bytes], patience_seconds: float) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        deadline = time.monotonic() + patience_seconds
        while process.poll() is None or _alive(process.pid):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def _alive(group: int) -> bool:
    """Whether a process of the group is running. Zombie processes do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False
