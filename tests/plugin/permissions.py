"""An auth manager for tests: who may do what with which DAG, by name."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

LOOKS, EDITS = frozenset({"GET"}), frozenset({"GET", "PUT", "POST", "DELETE"})
MAY: dict[str, dict[str, frozenset[str]]] = {
    "viewer": {"orders_dag": LOOKS},
    "other": {"other_dag": EDITS},
    "editor": {"orders_dag": EDITS, "param_dag": EDITS},
    "no_tasks": {"orders_dag": EDITS},
}
"""By user and DAG."""
NO_TASKS = "no_tasks"
"""A user who may do this with DAGs and nothing with their task instances."""
ALL = "all"
"""A user who may do everything."""


class ByDag(SimpleAuthManager):
    """Permissions of ``MAY``."""

    def is_authorized_dag(
        self, *, method: Any, user: SimpleAuthManagerUser, access_entity: Any = None, details: Any = None
    ) -> bool:
        mine = MAY.get(user.username, {})
        if user.username == NO_TASKS and access_entity is not None:
            return False
        if details is None or details.id is None:  # whether the user may list any
            return user.username == ALL or any(method in may for may in mine.values())
        return user.username == ALL or method in mine.get(details.id, ())


def user(name: str) -> SimpleAuthManagerUser:
    return SimpleAuthManagerUser(username=name, role="USER")
