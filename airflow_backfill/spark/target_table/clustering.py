"""A target that is clustered by its key: its columns, and how much of it an OPTIMIZE clusters.

Rounds write loose files. An OPTIMIZE sorts them by the key into files that belong together, a cube. By default Delta
sorts a cube again with every OPTIMIZE until it has 100 GiB, which could be the whole target between two rounds. Here it
is sorted again only once smaller cubes and loose files have as many bytes. So each byte is rewritten about as often as
the target doubles, and a key is in one file per cube.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, NumericType, StringType, StructType, TimestampNTZType, TimestampType

from airflow_backfill.core.errors import InvalidSpec

MOST_COLUMNS = 4
"""Delta's limit."""
WITH_STATISTICS = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
"""Types whose least and greatest values Delta keeps for each file, and by which it can cluster."""
_CUBE = "ZCUBE_ID"


def clustering_columns(key: Sequence[str], schema: StructType) -> list[str]:
    """The columns of the key by which Delta can cluster; InvalidSpec if there are none."""
    able = [name for name in key if isinstance(schema[name].dataType, WITH_STATISTICS)]
    if not able:
        kinds = ", ".join(f"{name} {schema[name].dataType.simpleString()}" for name in key)
        raise InvalidSpec(
            f"clustering: Delta cannot cluster by the key ({kinds}); it needs numbers, strings, dates or timestamps; "
            "name another key, or remove the option",
            field="clustering",
        )
    return able[:MOST_COLUMNS]


def cubes_up_to(files: DataFrame, least_files: int, least_bytes: int) -> int | None:
    """The size below which cubes are sorted again, together with the loose ``files``. None if these are too few:
    fewer than ``least_files``, and less than ``least_bytes`` or than the bytes of all cubes.
    """
    grouped = files.groupBy(F.col("tags")[_CUBE].alias("cube")).agg(F.count(F.lit(1)), F.sum("size")).collect()
    count, loose = next(((count, size) for cube, count, size in grouped if cube is None), (0, 0))
    cubes = sorted(size for cube, _, size in grouped if cube is not None)
    if not count or (count < least_files and loose < max(least_bytes, sum(cubes))):
        return None
    for size in cubes:
        if size > loose:
            return int(size)
        loose += size
    return int(loose) + 1
