"""What guests may do in a broker: nothing, until it is allowed."""

from __future__ import annotations

import time

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

PATIENCE_SECONDS = 30.0
"""How long a right may take to be in force."""


class Rights:
    """The rights of a broker's guests, given by its administrator."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers})

    def allow(self, user: str, topic: str, *operations: str) -> None:
        """Allow operations such as "READ" on a topic, and nothing else there. Returns once that is in force."""
        theirs = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ANY,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        [future.result() for future in self._admin.delete_acls([theirs]).values()]
        wanted = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation[name],
                AclPermissionType.ALLOW,
            )
            for name in operations
        ]  # fmt: skip
        [future.result() for future in (self._admin.create_acls(wanted) if wanted else {}).values()]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while {acl.operation.name for acl in self._admin.describe_acls(theirs).result()} != set(operations):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the rights of {user} on {topic} are not in force; see broker.log")
            time.sleep(0.05)
