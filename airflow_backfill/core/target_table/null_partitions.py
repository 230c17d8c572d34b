"""The texts that a table cannot hold in a column that partitions it."""

from __future__ import annotations

BECOME_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
"""Delta stores these as null there: Spark names the folder of null by the second one."""
NULL_PARTITION = f"a column that partitions the target has one of the texts {BECOME_NULL}, which Delta stores as null"


def or_null(column: str) -> str:
    """An SQL expression that selects null where Delta would store null."""
    return f"CASE WHEN {column} NOT IN {BECOME_NULL} THEN {column} END AS {column}"
