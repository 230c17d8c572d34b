"""Code that asks for answers by calling a function, as a generator that stops at each question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.state.effect import Asks, Effect

Answer = Callable[[Effect[Any]], Any]


def suspended(work: Callable[[Answer], Any]) -> Asks[Any]:
    """What ``work`` returns; it gets the function that answers its effects."""
    outside = getcurrent()
    inside = greenlet(lambda: work(outside.switch))
    asked = inside.switch()
    try:
        while not inside.dead:
            try:
                answer = yield asked
            except BackfillError as error:
                asked = inside.throw(error)
            else:
                asked = inside.switch(answer)
    finally:
        if not inside.dead:
            inside.throw(GreenletExit)
    return asked
