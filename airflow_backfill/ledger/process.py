"""A process of this machine, so named that no later one has the name."""

from __future__ import annotations

import os
from pathlib import Path

TASK = "AIRFLOW_BACKFILL_TASK"
"""The environment variable in which an application finds the process that waits for it, if both share a machine."""


def named(pid: int) -> str | None:
    """The name of a living process; None if it has ended, or if the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{pid}:{fields[19]}"


def own_name() -> str:
    """The name of this process; without its start where the system does not tell."""
    return named(os.getpid()) or str(os.getpid())


def lives(name: str) -> bool:
    """Whether the process of this name still runs on this machine."""
    pid, _, _ = name.partition(":")
    return pid.isdigit() and named(int(pid)) == name
