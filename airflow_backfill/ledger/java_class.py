"""Classes of the driver's Java."""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """A class by its full name. A chain of attributes would search every jar for a class at each dot."""
    return getattr(jvm, name)
