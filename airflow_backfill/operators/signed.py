"""Who gives an order in a task of Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.signature import Signature

if TYPE_CHECKING:
    from airflow.sdk import Context

NONE = (None, "", "None")
"""What a rendered template gives for no value."""


def is_true(field: str, flag: bool | str) -> bool:
    """A flag, which may be a rendered template; InvalidSpec for what is neither true nor false."""
    said = "" if flag in NONE else str(flag).strip().lower()
    if said not in ("true", "false", ""):
        raise invalid(field, flag, "must be true or false")
    return said == "true"


def number(field: str, given: int | str | None) -> int | None:
    """A number, which may be a rendered template; None for no value, InvalidSpec for what is no number."""
    if given in NONE:
        return None
    if not str(given).strip().isdecimal():
        raise invalid(field, given, "must be a whole number, 0 or more")
    return int(given)


def signature(context: Context, by: str | None, why: str | None) -> Signature:
    """The signature of an order: ``by``, or else the user who triggered the run."""
    ti, run = context["ti"], context.get("dag_run")
    user = getattr(run, "triggering_user_name", None) if by in NONE else str(by)
    via = f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}"
    return Signature(by=user, why=None if why in NONE else str(why), via=via)
