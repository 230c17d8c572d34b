"""The processes of a demo: each has its log, and is ended together with all that it has started itself."""

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
PATIENCE = 60.0
"""Seconds that a process has to end in order, if nothing is said."""
Check = Callable[[], None]
"""Leaves the program if something has gone wrong."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Held = TypeVar("_Held")


def end_in_order() -> None:
    """From now on Ctrl-C and SIGTERM leave the blocks that the program is in, and what these hold is ended."""

    def leave(number: int, _: object) -> None:
        # A second one must not cut off what the first one began.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in _SIGNALS:
        signal.signal(each, leave)


@contextmanager
def held(start: Callable[[], _Held], end: Callable[[_Held], object]) -> Iterator[_Held]:
    """What ``start`` returns, until the block ends; no signal comes between, or cuts off, the two."""
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
    patience: float = PATIENCE,
) -> Iterator[subprocess.Popen[bytes]]:
    """The process while the block runs; then it has ``patience`` seconds to end."""
    with log.open("w") as file:

        def start() -> subprocess.Popen[bytes]:
            how: dict[str, Any] = {"env": environment, "cwd": directory, "stdout": file, "stderr": subprocess.STDOUT}
            # A group of its own, which reaches the Java of a spark-submit, too.
            return subprocess.Popen(command, **how, start_new_session=True)

        with held(start, lambda process: _end(process, patience)) as process:
            yield process


@contextmanager
def beside(command: Sequence[str], log: Path, **how: Any) -> Iterator[None]:
    """A command that has an end, beside the block; after it the command has succeeded."""
    with running(command, log, **how) as process:
        yield
        if process.wait() != 0:
            fail(log)


@contextmanager
def throughout(command: Sequence[str], log: Path, **how: Any) -> Iterator[Check]:
    """A command without an end, which is still at work when the block ends; the block may check it before."""
    with running(command, log, **how) as process:

        def check() -> None:
            if process.poll() is not None:
                fail(log)

        yield check
        check()


def fail(log: Path) -> NoReturn:
    """Leave the program, with the end of what a process said."""
    sys.exit(f"{log.stem} failed; the end of its log:\n{log.read_text(errors='replace')[-4000:]}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that come during the block have come at its end."""
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        deadline = time.monotonic() + patience
        while process.poll() is None or _alive(process.pid):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def _alive(group: int) -> bool:
    """Whether a process of the group does anything: one that nobody waits for keeps its entry for ever."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False
