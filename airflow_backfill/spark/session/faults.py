"""Named points at which a test can kill an application. Without the environment variable they do nothing.

``TABLE_BACKFILL_CRASH=point:nth:whom`` sends SIGKILL at the nth passage of the point to ``python`` (its JVM lives on
for seconds and may still commit), ``jvm``, or ``group`` (both). The points are ``before_commit``, ``before_apply``,
``after_commit``, ``before_verify`` and ``after_part`` (of a verification).
"""

from __future__ import annotations

import os
import signal

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
    if whom in ("jvm", "group"):
        os.kill(_jvm(), signal.SIGKILL)
    if whom in ("python", "group"):
        os.kill(os.getpid(), signal.SIGKILL)


def _jvm() -> int:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
