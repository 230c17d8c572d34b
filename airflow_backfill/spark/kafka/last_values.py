"""The last value of every key among the records of a round: what keyed mode merges into the target.

The last record of a key is the one of the greatest offset, which is an order within one partition only. A key that is
in several, because partitions were added or a producer chose them, needs a column that orders them: then the last
record is the one that is greatest by (order, partition, offset), within a partition too, so that parts of a history,
reduced one by one and then together, come to the same as the whole. For that the target keeps these three columns:
what is older than a row of the target does not touch it.

A tombstone has no value and still must say which row goes. So in keyed mode the columns of the key come from the
record's key, and the order from what a tombstone has, too: its key or ``timestamp``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from airflow_backfill.core.errors import InvalidSpec, KeyInvalid, KeyNull, OrderUnknown
from airflow_backfill.spark.kafka.decoding import RECORD, TOMBSTONE, Records
from airflow_backfill.spark.session.staged import release, stage
from airflow_backfill.spark.target_table.net_change import DELETE, OP, UPSERT, NetChanges
from airflow_backfill.spark.transform.literal import ORDERED, literal, ordinal
from airflow_backfill.spark.transform.transform import OWN, Transform, any_missing, quoted

_PLACE = ("partition", "offset")
_AT = OWN + "at"
_LAST = OWN + "last"
_TORN = OWN + "torn"
_SAMPLE = 5


def check_keyed(records: Records, key: Sequence[str], order: str | None) -> None:
    """Raise KeyInvalid or InvalidSpec if ``key`` or ``order`` names what not every record has: at plan time."""
    of_key = {field.name.lower(): field for field in records.key.fields}
    of_value = {field.name.lower() for field in records.value.fields}
    of_place = {field.name for field in RECORD.fields}
    for column in key:
        if column.lower() in of_value | of_place:
            whence = "value" if column.lower() in of_value else "place in the topic"
            raise KeyInvalid(
                f"key column {column!r} comes from the record's {whence}: a record without a value says which row goes "
                f"by its key, which has: {', '.join(of_key)}",
                column=column,
            )
    if order is None:
        return
    orders = {**of_key, "timestamp": records.schema["timestamp"]}
    if order.lower() not in orders or not isinstance(orders[order.lower()].dataType, ORDERED):
        fit = [name for name, field in orders.items() if isinstance(field.dataType, ORDERED)]
        raise InvalidSpec(
            f"order: {order!r} does not order records with and without a value (columns that do: {', '.join(fit)})",
            field="order",
        )


def place_columns(transform: Transform, order: str) -> tuple[str, ...]:
    """The columns of the target that say which value of a key is the last; InvalidSpec if ``select`` loses one."""
    found = []
    for name in (order, *_PLACE):
        output = _holding(transform, name)
        if output is None:
            raise InvalidSpec(
                f"topic.order: the target has to keep {order!r}, 'partition' and 'offset', which tell a later record "
                f"from an earlier one: add {name!r} to select, unchanged",
                field="topic.order",
                column=name,
            )
        found.append(output)
    return tuple(found)


def _holding(transform: Transform, source: str) -> str | None:
    """The column of the target that repeats a column of the records unchanged."""
    same = (o.name for o in transform.outputs if o.source is not None and o.source.lower() == source.lower())
    return next(same, None)


def last_per_key(rows: DataFrame, transform: Transform, key: Sequence[str], order: str | None = None) -> NetChanges:
    """The last value per key of decoded ``rows``, none of them dead, for the target, whose key columns are ``key``.

    Raises KeyNull if a record has no key, OrderUnknown if one has no order or, without an order, a key is in more than
    one partition. Nothing has been written then. Rows are never to be appended: their keys may be in the target.
    """
    staged = stage(_placed(rows, transform, key, order))
    try:
        return _net(staged, transform, key)
    except BaseException:
        release(staged)
        raise


def _placed(rows: DataFrame, transform: Transform, key: Sequence[str], order: str | None) -> DataFrame:
    """Every record as a row of the target, with its place in the topic and whether it is the last of its key."""
    # Of a tombstone only the key counts, and of a row outside the filter: an expression may be undefined for it.
    whole = ~F.col(TOMBSTONE) & transform.passes()
    # And the place, by which a deletion is told from what is older.
    always = {*key, *(_holding(transform, name) for name in (_PLACE if order is None else (order, *_PLACE)))}
    values = [
        F.expr(o.sql).alias(o.name) if o.name in always else F.when(whole, F.expr(o.sql)).alias(o.name)
        for o in transform.outputs
    ]
    by = [] if order is None else [F.col(quoted(order)).alias("order")]
    at = F.struct(*by, F.col("partition").alias("partition"), F.col("offset").alias("offset"))
    made = rows.select(*values, F.when(whole, UPSERT).otherwise(DELETE).alias(OP), at.alias(_AT))
    of_key = Window.partitionBy(*(F.col(quoted(k)) for k in key))
    partition = F.col(_AT)["partition"]
    several = F.min(partition).over(of_key) != F.max(partition).over(of_key)
    torn = several if order is None else F.col(_AT)["order"].isNull()
    last = F.row_number().over(of_key.orderBy(F.col(_AT).desc())) == 1
    return made.withColumns({_LAST: last, _TORN: torn})


def _net(staged: DataFrame, transform: Transform, key: Sequence[str]) -> NetChanges:
    last, columns = F.col(_LAST), [F.col(quoted(k)) for k in key]
    bounds = [
        extreme(ordinal(F.col(quoted(k)), transform.schema[k].dataType)).alias(f"{name}_{i}")
        for i, k in enumerate(key)
        for name, extreme in (("low", F.min), ("high", F.max))
    ]
    (seen,) = staged.agg(
        F.count(F.lit(1)).alias("records"),
        F.count_if(last & (F.col(OP) == UPSERT)).alias("upserts"),
        F.count_if(last & (F.col(OP) == DELETE)).alias("deletes"),
        F.count_if(any_missing(columns)).alias("nameless"),
        F.count_if(F.col(_TORN)).alias("torn"),
        *bounds,
    ).collect()
    if seen["nameless"]:
        sample = _places(staged.where(any_missing(columns)))
        raise KeyNull(
            f"{seen['nameless']} records have no key, for example {sample[0]}", count=seen["nameless"], sample=sample
        )
    if seen["torn"]:
        sample = _places(staged.where(_TORN))
        raise OrderUnknown(
            f"of {seen['torn']} records nothing says whether they are the last of their key: its partition is not the "
            f"only one, or the column that orders them is null; for example {sample[0]}; build the table again with "
            "topic.order, a column that every record has",
            count=seen["torn"],
            sample=sample,
        )
    return NetChanges(
        frame=staged.where(last).select(*(F.col(quoted(o.name)) for o in transform.outputs), OP),
        upserts=seen["upserts"],
        deletes=seen["deletes"],
        changes=seen["records"],
        only_inserts=False,
        bounds=_bounds(seen, transform, key),
        staged=staged,
    )


def _bounds(seen: Row, transform: Transform, key: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Least and greatest value of each key column, of those whose type has literals for them."""
    bounds = {}
    for i, column in enumerate(key):
        low, high = seen[f"low_{i}"], seen[f"high_{i}"]
        if low is None:
            continue
        kind = transform.schema[column].dataType
        least, greatest = literal(low, kind), literal(high, kind)
        if least is not None and greatest is not None:
            bounds[column] = (least, greatest)
    return bounds


def last_places(net: NetChanges, key: Sequence[str]) -> DataFrame:
    """Of each key of such a round: its columns, and partition and offset of its last record."""
    at = F.col(_AT)
    columns = [F.col(quoted(name)) for name in key]
    return net.staged.where(_LAST).select(*columns, at["partition"].alias("partition"), at["offset"].alias("offset"))


def _places(rows: DataFrame) -> list[dict[str, int]]:
    at = F.col(_AT)
    found = rows.select(at["partition"].alias("partition"), at["offset"].alias("offset"))
    return [row.asDict() for row in found.orderBy("partition", "offset").limit(_SAMPLE).collect()]
