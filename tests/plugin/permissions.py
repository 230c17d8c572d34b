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
}
"""By user and DAG."""
ALL = "all"
"""A user who may do everything."""


class ByDag(SimpleAuthManager):
    """Permissions of ``MAY``."""

    def is_authorized_dag(
        self, *, method: Any, user: SimpleAuthManagerUser, access_entity: Any = None, details: Any = None
    ) -> bool:
        dag = None if details is None else details.id
        return user.username == ALL or method in MAY.get(user.username, {}).get(dag, ())


def user(name: str) -> SimpleAuthManagerUser:
    return SimpleAuthManagerUser(username=name, role="USER")
