"""What an ordered build has deleted, and at which place: kept until the finish.

Partitions are read one beside the other, so an older value of a key may come rounds after its deletion. Each place is
in this table before the commit that deletes by it: it says what the topic holds, whether that commit lands or not. Of
a table that is lost the verification knows nothing, and finds the rows that came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from airflow_backfill.spark.net_change import DELETE, OP, NetChanges
from airflow_backfill.spark.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_of(side: str, columns: Sequence[str]) -> Column:
    """Where in the topic a row of one side of a join comes from: what is greater is later."""
    return F.struct(*(F.col(f"{side}.{quoted(name)}").alias(f"at_{n}") for n, name in enumerate(columns)))


@dataclass(frozen=True)
class Tombstones:
    """The table at ``location``: ``key`` and ``place`` are columns of the target."""

    spark: SparkSession
    location: str
    key: Sequence[str]
    place: Sequence[str]

    def sifted(self, net: NetChanges) -> NetChanges:
        """``net`` without what was deleted later; its own deletes are kept first."""
        if net.deletes:
            self._keep(net)
        if not DeltaTable.isDeltaTable(self.spark, self.location):
            return net
        version = DeltaTable.forPath(self.spark, self.location).history(1).collect()[0]["version"]
        # The version is named: a table that is read twice must not say two things.
        kept = self.spark.read.format("delta").option("versionAsOf", version).load(self.location)
        later = self._same_key & (place_of("t", self.place) > place_of("s", self.place))
        return replace(net, frame=net.frame.alias("s").join(kept.alias("t"), later, "left_anti"))

    def _keep(self, net: NetChanges) -> None:
        columns = [F.col(quoted(name)) for name in (*self.key, *self.place)]
        gone = net.frame.where(F.col(OP) == DELETE).select(*columns)
        table = DeltaTable.createIfNotExists(self.spark).location(self.location).addColumns(gone.schema).execute()
        newer = place_of("s", self.place) > place_of("t", self.place)
        merged = table.alias("t").merge(gone.alias("s"), self._same_key)
        merged.whenMatchedUpdateAll(newer).whenNotMatchedInsertAll().execute()

    @property
    def _same_key(self) -> Column:
        same = F.lit(True)
        for name in self.key:
            same = same & (F.col(f"t.{quoted(name)}") == F.col(f"s.{quoted(name)}"))
        return same
