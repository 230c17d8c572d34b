"""The last value of every key among the records of a round, which a keyed build merges into the target.

Without ``order``, the last record of a key has the greatest offset. That works only within one partition. A key in
several partitions needs a column ``order``: then the last record is the greatest by (order, partition, offset). This
order is total, so the parts of a history can be merged in any sequence. The target keeps these three columns, and a
record that is older than the target's row changes nothing.

A tombstone has no value, but must identify the row to delete. So the columns of a key come from the record's key, and
``order`` from its key or ``timestamp``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from airflow_backfill.core.errors import InvalidSpec, KeyInvalid, OrderUnknown
from airflow_backfill.spark.kafka.decoding import RECORD, TOMBSTONE, Records
from airflow_backfill.spark.session.staged import release, stage
from airflow_backfill.spark.target_table.net_change import DELETE, OP, UPSERT, NetChanges, key_bounds
from airflow_backfill.spark.transform.literal import ORDERED, ordinal
from airflow_backfill.spark.transform.transform import OWN, Transform, quoted

_PLACE = ("partition", "offset")
_AT = OWN + "at"
_LAST = OWN + "last"
_UNORDERED = OWN + "unordered"
_SAMPLE = 5


def check_keyed(records: Records, key: Sequence[str], order: str | None) -> None:
    """Raise KeyInvalid or InvalidSpec if ``key`` or ``order`` names a column that not every record has."""
    of_key = {field.name.lower(): field for field in records.key.fields}
    of_value = {field.name.lower() for field in records.value.fields}
    of_place = {field.name for field in RECORD.fields}
    for column in key:
        if column.lower() in of_value | of_place:
            origin = "value" if column.lower() in of_value else "place in the topic"
            raise KeyInvalid(
                f"key: column {column!r} comes from the record's {origin}, but a tombstone identifies its row by the "
                f"record's key only; name columns of that: {', '.join(of_key)}",
                column=column,
            )
    if order is None:
        return
    orders = {**of_key, "timestamp": records.schema["timestamp"]}
    if order.lower() not in orders or not isinstance(orders[order.lower()].dataType, ORDERED):
        fit = [name for name, field in orders.items() if isinstance(field.dataType, ORDERED)]
        raise InvalidSpec(
            f"order: column {order!r} cannot order all records, because tombstones do not have it or its type has no "
            f"order; name another one (columns that do: {', '.join(fit)})",
            field="order",
        )


def place_columns(transform: Transform, order: str) -> tuple[str, ...]:
    """The target's columns that order the records of a key; InvalidSpec if ``select`` does not copy one."""
    found = []
    for name in (order, *_PLACE):
        output = _holding(transform, name)
        if output is None:
            raise InvalidSpec(
                f"topic.order: the target must keep {order!r}, 'partition' and 'offset', which tell later records from "
                f"earlier ones; add {name!r} to select, unchanged",
                field="topic.order",
                column=name,
            )
        found.append(output)
    return tuple(found)


def _holding(transform: Transform, source: str) -> str | None:
    """The target's column that copies a column of the records unchanged."""
    same = (o.name for o in transform.outputs if o.source is not None and o.source.lower() == source.lower())
    return next(same, None)


def last_per_key(rows: DataFrame, transform: Transform, key: Sequence[str], order: str | None = None) -> NetChanges:
    """The last value of each key among ``rows``, for the target, whose key columns are ``key``.

    ``rows`` are decodable, so all have key and order. Raises OrderUnknown if, without ``order``, a key is in several
    partitions. Writes nothing. The result must be merged, never appended: its keys may be in the target.
    """
    staged = stage(_placed(rows, transform, key, order))
    try:
        return _net(staged, transform, key)
    except BaseException:
        release(staged)
        raise


def _placed(rows: DataFrame, transform: Transform, key: Sequence[str], order: str | None) -> DataFrame:
    """Every record as a row of the target, with its place in the topic and whether it is the last of its key."""
    # Of a tombstone, and of a row outside the filter, only key and place count: an expression may fail on the rest.
    whole = ~F.col(TOMBSTONE) & transform.passes()
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
    unordered = several if order is None else F.lit(False)
    last = F.row_number().over(of_key.orderBy(F.col(_AT).desc())) == 1
    return made.withColumns({_LAST: last, _UNORDERED: unordered})


def _net(staged: DataFrame, transform: Transform, key: Sequence[str]) -> NetChanges:
    last = F.col(_LAST)
    bounds = [
        extreme(ordinal(F.col(quoted(k)), transform.schema[k].dataType)).alias(f"{name}_{i}")
        for i, k in enumerate(key)
        for name, extreme in (("low", F.min), ("high", F.max))
    ]
    (counts,) = staged.agg(
        F.count(F.lit(1)).alias("records"),
        F.count_if(last & (F.col(OP) == UPSERT)).alias("upserts"),
        F.count_if(last & (F.col(OP) == DELETE)).alias("deletes"),
        F.count_if(F.col(_UNORDERED)).alias("unordered"),
        *bounds,
    ).collect()
    if counts["unordered"]:
        sample = _places(staged.where(_UNORDERED))
        raise OrderUnknown(
            f"{counts['unordered']} records have no known order among the records of their key, for example "
            f"{sample[0]}: the key is in several partitions; set topic.order to a column that says which record is "
            "later, and plan again with on_existing='restart'",
            count=counts["unordered"],
            sample=sample,
        )
    return NetChanges(
        frame=staged.where(last).select(*(F.col(quoted(o.name)) for o in transform.outputs), OP),
        upserts=counts["upserts"],
        deletes=counts["deletes"],
        changes=counts["records"],
        only_inserts=False,
        bounds=key_bounds([counts], "", key, transform.schema),
        staged=staged,
    )


def last_places(net: NetChanges, key: Sequence[str]) -> DataFrame:
    """For each key of a round: its columns, and partition and offset of its last record."""
    at = F.col(_AT)
    columns = [F.col(quoted(name)) for name in key]
    return net.staged.where(_LAST).select(*columns, at["partition"].alias("partition"), at["offset"].alias("offset"))


def _places(rows: DataFrame) -> list[dict[str, int]]:
    at = F.col(_AT)
    found = rows.select(at["partition"].alias("partition"), at["offset"].alias("offset"))
    return [row.asDict() for row in found.orderBy("partition", "offset").limit(_SAMPLE).collect()]
