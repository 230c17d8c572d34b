"""Checks a table backfill's certificate without this project's code, without Spark and without Airflow.

    pip install deltalake pyarrow
    python check.py /path/or/uri/of/the/target

Reads the newest certificate from the target's Delta log, and every row of the two versions that it names: the target's
version, and the source's version with the plan's select and where. Compares them as multisets of rows, in two passes
with little memory: first a sum of hashes for each of 4,096 buckets, then the rows of the buckets that differ.

Prints `equal`, or the rows that differ. Exit status: 0 equal, 1 different, 2 not checked.

The expressions run in DataFusion, not in Spark. If they mean something else there, give the same ones in DataFusion's
SQL with --select (once for each) and --where. docs/proof.md describes the certificate.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
from deltalake import DeltaTable, QueryBuilder

BUCKETS = 4096
SHOWN = 20
Place = tuple[pa.RecordBatch, int]
"""A row: its batch, and which one of it."""


class NotChecked(Exception):
    """The certificate cannot be checked, and why."""


def certificate_of(target: str, options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The newest certificate in the target's log, and the plan of its build."""
    for commit in DeltaTable(target, storage_options=options).history():
        record = read_record(target, commit.get("userMetadata"))
        if certificate := record.get("certificate"):
            if isinstance(certificate, list):  # of version 0.1
                certificate = dict(zip(("epoch", "target_version", "rows"), certificate, strict=False))
            return certificate, json.loads(read_beside(target, f"plans/{record['build']}.json"))
    raise NotChecked("no commit in the target's log has a certificate")


def read_record(target: str, text: str | None) -> dict[str, Any]:
    """The record of a commit; a large one is a file beside the target, named by its SHA-256."""
    try:
        record = json.loads(text or "{}")
    except ValueError:
        return {}
    if isinstance(record, dict) and "airflow_backfill_record" in record:
        record = json.loads(read_beside(target, f"records/{record['airflow_backfill_record']}"))
    return record if isinstance(record, dict) else {}


def read_beside(target: str, name: str) -> bytes:
    files, folder = fs.FileSystem.from_uri(f"{target}.backfill" if "://" in target else f"file://{target}.backfill")
    with files.open_input_stream(f"{folder}/{name}") as stream:
        return stream.read()


def rows_of(table: str, version: int, options: dict[str, str], query: str) -> Iterator[tuple[bytes, Place]]:
    """Each row of a version, with a hash of its values."""
    opened = DeltaTable(table, version=version, storage_options=options)
    for batch in QueryBuilder().register("t", opened).execute(query):
        yield from hashed(pa.record_batch(batch))


def hashed(batch: pa.RecordBatch) -> Iterator[tuple[bytes, Place]]:
    """Each row of a batch, with a hash of its values. Dates and timestamps are numbers: Python knows few years."""
    micros = with_times(batch, {pa.types.is_timestamp: pa.timestamp("us")})  # engines have units of their own
    numbers = with_times(micros, {pa.types.is_date32: pa.int32(), pa.types.is_timestamp: pa.int64()})
    kinds = [field.type for field in numbers.schema]
    for index, row in enumerate(numbers.to_pylist()):
        values = [plain(value, kind) for value, kind in zip(row.values(), kinds, strict=True)]
        yield hashlib.blake2b(repr(values).encode(), digest_size=16).digest(), (batch, index)


def readable(row: pa.RecordBatch) -> dict[str, Any]:
    """A row as people read it."""
    return dict(with_times(row, {pa.types.is_temporal: pa.string()}).to_pylist()[0])


def with_times(batch: pa.RecordBatch, become: Mapping[Callable[[pa.DataType], bool], pa.DataType]) -> pa.RecordBatch:
    """The batch with dates and timestamps, also inside of other values, as other types."""

    def other(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(other(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(other(kind.key_type), other(kind.item_type))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(other(kind.value_type))
        return next((new for is_one, new in become.items() if is_one(kind)), kind)

    kinds = [other(kind) for kind in batch.schema.types]
    columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def plain(value: Any, kind: pa.DataType) -> Any:
    """The value in one form: one zero, one NaN, maps in order."""
    if value is None:
        return None
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    if pa.types.is_struct(kind):
        return [plain(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        return sorted(([plain(k, kind.key_type), plain(v, kind.item_type)] for k, v in value), key=repr)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(item, kind.value_type) for item in value]
    return value


def compare(sides: list[Any]) -> tuple[int, list[tuple[str, dict[str, Any]]], int]:
    """The target's number of rows, rows that only one side has (at most SHOWN), and how many those are."""
    sums: list[Counter[int]] = []
    for side in sides:
        found: Counter[int] = Counter()
        rows = 0
        for digest, _ in side():
            # A bucket's sum counts rows, too: each adds 2^128 and its hash.
            found[bucket(digest)] += (1 << 128) + int.from_bytes(digest, "big")
            rows += 1
        sums.append(found)
    unequal = {b for b in sums[0].keys() | sums[1].keys() if sums[0][b] != sums[1][b]}
    if not unequal:
        return rows, [], 0
    balance: Counter[bytes] = Counter()
    example: dict[bytes, dict[str, Any]] = {}
    for sign, side in zip((1, -1), sides, strict=True):
        for digest, (batch, index) in side():
            if bucket(digest) in unequal:
                balance[digest] += sign
                if digest not in example:
                    example[digest] = readable(batch.slice(index, 1))  # a copy, so that its batch can go
    differing = [(digest, n) for digest, n in balance.items() if n]
    names = ("only in the target", "only in the source")
    shown = [(names[n > 0], example[digest]) for digest, n in differing[:SHOWN]]
    return rows, shown, sum(abs(n) for _, n in differing)


def bucket(digest: bytes) -> int:
    return int.from_bytes(digest[:2], "big") % BUCKETS


def transformed(plan: dict[str, Any], select: list[str] | None, where: str | None) -> str:
    """The plan's select and where over the source, as SQL."""
    spec = plan["spec"]
    columns = [field["name"] for field in json.loads(plan["source"]["schema"])["fields"]]
    expressions = select or spec["select"] or [f'"{name}"' for name in plan["source"].get("columns", columns)]
    condition = where or spec["where"]
    return f"SELECT {', '.join(expressions)} FROM t" + (f" WHERE {condition}" if condition else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="location of the target table")
    parser.add_argument("--select", action="append", help="an expression of the target, in DataFusion's SQL")
    parser.add_argument("--where", help="the condition, in DataFusion's SQL")
    parser.add_argument("--only", help="compare only rows with this condition on the target's columns")
    parser.add_argument("--storage-options", default="{}", help="options of the tables' store, as JSON")
    arguments = parser.parse_args()
    options = json.loads(arguments.storage_options)
    try:
        certificate, plan = certificate_of(arguments.target.rstrip("/"), options)
        if plan["spec"].get("topic"):
            raise NotChecked("the source is a topic; this checker reads tables")
        names = [field["name"] for field in json.loads(plan["target"]["schema"])["fields"]]
        here = "SELECT " + ", ".join(f'"{name}"' for name in names) + " FROM t"
        there = transformed(plan, arguments.select, arguments.where)
        only = f" WHERE {arguments.only}" if arguments.only else ""
        source = plan["spec"]["source"], certificate["epoch"], options, f"SELECT * FROM ({there}){only}"
        target = arguments.target.rstrip("/"), certificate["target_version"], options, f"SELECT * FROM ({here}){only}"
        rows, shown, count = compare([lambda: rows_of(*source), lambda: rows_of(*target)])
    except Exception as error:
        print(f"not checked: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    where = f"version {certificate['target_version']} of the target, and version {certificate['epoch']} of the source"
    if count:
        print(f"different: {count} rows differ between {where}")
        for side, row in shown:
            print(f"  {side}: {row}")
        return 1
    if rows != certificate["rows"] and not only and certificate.get("kind") != "sampled":
        print(f"different: the certificate says {certificate['rows']} rows, the target has {rows}")
        return 1
    print(f"equal: {rows} rows, in {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
