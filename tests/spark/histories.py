"""Tables that have lived through everything, as archives: made once, because to make one takes longer than any test.

After a change of ``history.live_through``, or with a newer Delta:

    python -m tests.spark.histories
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from tests.golden.archive import pack, unpack
from tests.spark.history import ODD, PLAIN, Source, create, live_through

ARCHIVES = Path(__file__).parent / "archives"
ARCHIVED = ("vectors", "odd names")


def source(spark: SparkSession, kind: str, place: Path) -> Source:
    """The table of this kind in this place, whether it is there yet or not."""
    return Source(spark, str(place / "table"), ODD if kind == "odd names" else PLAIN)


def make(spark: SparkSession, kind: str, place: Path) -> None:
    """Commit by commit: with deletion vectors, without ("no vectors"), or oddly named and partitioned."""
    table = source(spark, kind, place)
    create(table, vectors=kind != "no vectors", partitioned=kind == "odd names")
    live_through(table)


def lay_out(spark: SparkSession, kind: str, place: Path) -> None:
    """From its archive, if it has one."""
    if kind in ARCHIVED:
        unpack(_archive(kind), place)
    else:
        make(spark, kind, place)


def _archive(kind: str) -> Path:
    return ARCHIVES / f"{kind.replace(' ', '_')}.tar.gz"


if __name__ == "__main__":
    from bench.session import session

    spark_session = session()
    with tempfile.TemporaryDirectory() as folder:
        for name in ARCHIVED:
            make(spark_session, name, Path(folder, name))
            pack(Path(folder, name, "table"), _archive(name))
