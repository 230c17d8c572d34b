"""Users of each kind in the database of the FAB auth manager. Run as a module, in the environment of an Airflow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

GLANCES = [("can_read", "DAG Runs"), ("can_read", "Task Instances"), ("can_read", "Plugins"), ("can_read", "Website")]
EDITS = [*GLANCES, ("can_edit", "DAG Runs"), ("can_edit", "Task Instances")]


def of_dag(dag: str, *actions: str) -> list[tuple[str, str]]:
    return [(action, f"DAG:{dag}") for action in actions]


ROLES = {
    "Orders": [*EDITS, *of_dag("shop_orders", "can_read", "can_edit")],
    "Parcels": [*EDITS, *of_dag("shop_parcels", "can_read", "can_edit")],
    "Looks": [*GLANCES, *of_dag("shop_orders", "can_read")],
    "No runs": [*GLANCES, ("can_edit", "Task Instances"), *of_dag("shop_orders", "can_read", "can_edit")],
    "No tasks": [("can_read", "Website"), *of_dag("shop_orders", "can_read", "can_edit")],
}
"""By role: what it may do with what."""
USERS = {
    "viewer": "Viewer",
    "user": "User",
    "op": "Op",
    "editor": "Orders",
    "other": "Parcels",
    "looker": "Looks",
    "without_runs": "No runs",
    "without_tasks": "No tasks",
    "public": "Public",
}
"""By user: the role. Passwords are the names."""


def main() -> None:
    utils: Any = import_module("airflow.providers.fab.auth_manager.cli_commands.utils")
    with utils.get_application_builder() as builder:
        security = builder.sm
        security.sync_roles()
        for name, permissions in ROLES.items():
            role = security.add_role(name)
            for action, resource in permissions:
                security.add_permission_to_role(role, security.create_permission(action, resource))
        for user, role in USERS.items():
            found = security.find_role(role)
            assert security.add_user(user, user, user, f"{user}@shop.test", found, password=user), user


if __name__ == "__main__":
    main()
