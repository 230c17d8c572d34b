"""Who holds the lock of a target on ``file:``."""

from __future__ import annotations

import fcntl


def free(target: str) -> bool:
    """Whether another process than Java could hold the lock."""
    with open(f"{target}.backfill/lock", "r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
