"""Key buckets: an epoch that is larger than a round is applied in rounds with the keys of one bucket each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.spark.transform.transform import quoted


@dataclass(frozen=True, slots=True)
class Buckets:
    """The keys whose hash modulo ``of`` is in ``start <= hash < stop``."""

    start: int
    stop: int
    of: int

    def holds(self, key: Sequence[str]) -> Column:
        """Whether the key in these columns is in one of the buckets."""
        place = self.placed(key)
        return (place >= self.start) & (place < self.stop)

    def placed(self, key: Sequence[str]) -> Column:
        """The bucket of the key in these columns."""
        return F.pmod(F.xxhash64(*(F.col(quoted(k)) for k in key)), F.lit(self.of))
