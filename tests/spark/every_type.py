"""A table with a column of every type, whose values are those that Spark's settings treat differently."""

from __future__ import annotations

from tests.spark.history import Source

COLUMNS = (
    "id BIGINT, part INT, name STRING, n INT, s STRUCT<a: INT, b: ARRAY<STRING>, m: MAP<STRING, DOUBLE>>, b BINARY, "
    "d DECIMAL(38,18), tn TIMESTAMP_NTZ, ts TIMESTAMP, f FLOAT, dt DATE, v VARIANT, c CHAR(9), vc VARCHAR(40)"
)
VARIANT = "v VARIANT, "
FEED = "delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true"
VARIANTS = "parse_json(concat('{\"a\": [', id, ', 1.50, \"z\"]}')) AS v, "
# Of the years before 1900 Spark has three calendars, by setting.
ROWS = (
    "SELECT id, cast(id % 3 AS int) AS part, concat('näme', id) AS name, cast(if(id % 5 = 0, null, id) AS int) AS n, "
    "named_struct('a', cast(id % 5 AS int), 'b', array('x', null), "
    "'m', map('k', if(id % 2 = 0, double('NaN'), -0.0D), 'l', id / 3D)) AS s, "
    "cast(cast(id AS string) AS binary) AS b, cast(id / 7 AS decimal(38, 18)) AS d, "
    "timestampadd(SECOND, id % 900 * 7919 * 4000, timestamp_ntz'1000-01-02 00:00:00.000001') AS tn, "
    "timestampadd(SECOND, id % 900 * 7919 * 4000, timestamp'1000-01-02 00:00:00.000001 UTC') AS ts, "
    "cast(if(id % 3 = 0, -0.0, id / 3) AS float) AS f, date_add(date'1500-01-01', cast(id % 900 * 997 AS int)) AS dt, "
    f"{VARIANTS}'c' AS c, concat('v', id, ' ') AS vc "
)
SELECT = (
    *("id", "name", "s", "b", "d", "tn", "ts", "f", "dt", "v", "c", "vc"),
    *("upper(name) AS label", "n / 3 AS third", "d * 1.5 AS more", "cast(ts AS string) AS said", "to_json(s) AS j"),
    *("date_format(tn, 'yyyy-MM-dd HH') AS hour", "cast(s.m['l'] AS string) AS l", "cast(f AS string) AS g"),
    *("cast(ts AS date) AS day", "hour(ts) AS h", "size(s.b) AS many", "c = 'c' AS padded", "cast(s AS string) AS t"),
)
WHERE = "part <> 2 OR name LIKE '%1'"


def create(source: Source, rows: int = 240, files: int = 4, variant: bool = True) -> None:
    """A new table with so many rows and files. Spark 4.0 reads no ``variant`` that a newer Spark has written."""
    columns = COLUMNS if variant else COLUMNS.replace(VARIANT, "")
    source.sql(f"CREATE TABLE $table ({columns}) USING delta TBLPROPERTIES ({FEED})")
    for start in range(0, rows, rows // files):
        add(source, start, rows // files, variant)


def add(source: Source, start: int, rows: int = 20, variant: bool = True) -> None:
    """New rows with the ids from ``start`` on, in one commit."""
    values = ROWS if variant else ROWS.replace(VARIANTS, "")
    source.sql(f"INSERT INTO $table {values} FROM range({start}, {start + rows}, 1, 1)")
