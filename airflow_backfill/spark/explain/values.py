"""Values of rows as an explanation shows them: as JSON, or hidden."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.values.hidden import HIDDEN
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.transform.transform import OWN, Transform, quoted

MAX_CHANGES = 1_000
"""Changes, records or rows in an explanation."""
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""A value as text, without losing a part of it."""
_ROW = OWN + "row"

Values = dict[str, Any]


def image_of(transform: Transform) -> Column:
    """A row of the source, as JSON."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in transform.source_schema.fieldNames())), _JSON)


def made_of(transform: Transform) -> Column:
    """The target's row for a row of the source, as JSON; null if ``where`` leaves it out."""
    outputs = F.struct(*(F.expr(o.sql).alias(o.name) for o in transform.outputs))
    return F.when(transform.passes(), F.to_json(outputs, _JSON))


def parsed(text: str | None) -> Values | None:
    """The values in such a JSON text."""
    return None if text is None else json.loads(text)


def target_rows(rows: DataFrame, transform: Transform) -> list[Values]:
    """Rows of the target, at most ``MAX_CHANGES``. Errors as in ``naming_errors``."""
    columns = [F.col(quoted(name)) for name in transform.schema.fieldNames()]
    with naming_errors():
        found = rows.select(F.to_json(F.struct(*columns), _JSON).alias(_ROW)).limit(MAX_CHANGES).collect()
    return [json.loads(row[_ROW]) for row in found]


@contextmanager
def naming_errors() -> Iterator[None]:
    """Raise every error of the block as a coded one."""
    try:
        yield
    except Exception as error:
        raise coded(error) from error


def hidden(row: Values | None, shown: Collection[str]) -> Values | None:
    """The row without its values, except those of the columns ``shown``."""
    return row and {n: v if v is None or n in shown else HIDDEN for n, v in row.items()}


def hidden_images(rows: Sequence[Mapping[str, Any]], shown: Collection[str]) -> list[dict[str, Any]]:
    """Changes or records without the values of ``image`` and ``made``, except those of the columns ``shown``."""
    return [{**row, "image": hidden(row["image"], shown), "made": hidden(row["made"], shown)} for row in rows]
