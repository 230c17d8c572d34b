"""Named points at which a test can kill an application. Without the environment variable they do nothing.

``TABLE_BACKFILL_CRASH=point:nth:whom`` sends SIGKILL at the nth passage of the point to ``python`` (its JVM lives on
for seconds and may still commit), ``jvm``, ``group`` (both), or the ``executors`` on this machine. The points are
``before_commit``, ``before_apply``, ``after_commit``, ``before_verify``, ``after_part`` (of a verification) and
``before_phase`` (of one that follows another in the same application).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "TABLE_BACKFILL_CRASH"

_passed: dict[str, int] = {}


def crash_point(point: str) -> None:
    """Kill this application here, if the environment variable says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    name, nth, whom = wanted.split(":")
    if name != point:
        return
    _passed[point] = _passed.get(point, 0) + 1
    if _passed[point] != int(nth):
        return
    if whom == "executors":
        for pid in _executors():
            os.kill(pid, signal.SIGKILL)
    if whom in ("jvm", "group"):
        os.kill(_jvm(), signal.SIGKILL)
    if whom in ("python", "group"):
        os.kill(os.getpid(), signal.SIGKILL)


def _executors() -> list[int]:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    marks = ("CoarseGrainedExecutorBackend", context.applicationId)
    commands = {path.parent.name: path.read_text(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [int(pid) for pid, command in commands.items() if all(mark in command for mark in marks)]


def _jvm() -> int:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
