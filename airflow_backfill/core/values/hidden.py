"""What stands for a value of a row that must not be shown."""

from __future__ import annotations

from typing import Final

HIDDEN: Final = "***"
