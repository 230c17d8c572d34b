"""Runs an attempt: a generator that yields requests for I/O (effects) and gets their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_backfill.core.state.effect import Asks, Effect

_Result = TypeVar("_Result")


def drive(generator: Asks[_Result], answer: Callable[[Effect[Any]], Any]) -> _Result:
    """Run a generator of effects to its end and return its result. Errors of ``answer`` are raised inside it."""
    try:
        effect = next(generator)
        while True:
            try:
                reply = answer(effect)
            except Exception as error:
                effect = generator.throw(error)
            else:
                effect = generator.send(reply)
    except StopIteration as stop:
        result: _Result = stop.value
        return result
