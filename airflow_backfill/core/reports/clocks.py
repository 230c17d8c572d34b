"""Where the times that a build tells show that two clocks differ: a doubt that is named is better than a wrong number.

Only what is certain is told: nothing is written in the future, and no application starts before its task. Nobody
decides by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.core.reports.attempt_status import APART_MS, AttemptStatus
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.values.duration import lasting


def doubts(statuses: Sequence[AttemptStatus], source: Ahead | None, now: int) -> list[str]:
    """One sentence for each clock that differs from another one, by the newest attempt that shows it. ``now``: by the
    clock of whoever looks, milliseconds since 1970.
    """
    found = {}
    if source is not None and source.latest - now > APART_MS:
        found["source"] = (
            f"the clock of the source's writers is at least {_apart(source.latest - now)} ahead of this machine's: how "
            "long epochs have been pending is not known"
        )
    for one in statuses:
        name = f"attempt {one.generation} ({one.task or 'of an unknown task'})"
        if one.behind:
            found["behind"] = f"the clock of the driver of {name} is at least {_apart(one.behind)} behind its worker's"
        ahead = max((at - now for at in (one.started, one.seen, one.ended) if at is not None), default=0)
        drawn = 0 if one.drawn is None else one.drawn - now
        if drawn > APART_MS:
            found["worker"] = f"the clock of the worker of {name} is at least {_apart(drawn)} ahead of this machine's"
        elif ahead > APART_MS:
            found["ahead"] = f"the clock of the driver of {name} is at least {_apart(ahead)} ahead of this machine's"
    return list(found.values())


def _apart(milliseconds: int) -> str:
    return lasting(milliseconds / 1000)
