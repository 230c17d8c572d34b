"""TPC-H orders and lineitem as parquet files, each file one range of keys in key order."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import dataset, parquet

BLOCK = 32
"""TPC-H order keys are sparse: of every 32 keys the first 8 are used, the others are for later inserts."""
USED = 8


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the workload."""

    name: str
    key: tuple[str, ...]
    rows_per_scale: int
    rows_per_file: int

    @property
    def order_key(self) -> str:
        return self.key[0]

    def files(self, scale: float) -> int:
        """Number of files: 30 for orders and 120 for lineitem at scale 1, and at least six."""
        return max(6, round(scale * self.rows_per_scale / self.rows_per_file))


ORDERS = Table("orders", ("o_orderkey",), 1_500_000, 50_000)
LINEITEM = Table("lineitem", ("l_orderkey", "l_linenumber"), 6_000_000, 50_000)
TABLES = {table.name: table for table in (ORDERS, LINEITEM)}


def make(directory: Path, scale: float) -> None:
    """Generate both tables at ``scale`` into ``directory``, unless they are there. Both appear at once."""
    made = directory / "scale"
    if made.exists():
        if float(made.read_text()) != scale:
            raise ValueError(
                f"{directory} has TPC-H at scale {made.read_text()}, not {scale}; remove it, or name another directory"
            )
        return
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for table in TABLES.values():
        command = [_generator(), "parquet", f"--scale-factor={scale}", f"--tables={table.name}"]
        command += [f"--parts={table.files(scale)}", f"--output-dir={partial}", "--field-ids=false"]
        subprocess.run(command, check=True)
    (partial / "scale").write_text(str(scale))
    partial.rename(directory)


def files(directory: Path, table: Table) -> list[Path]:
    """The parquet files of a table."""
    return sorted((directory / table.name).glob("*.parquet"))


def count(directory: Path, table: Table) -> int:
    """Number of rows of a table, from the footers of its files."""
    return sum(parquet.read_metadata(path).num_rows for path in files(directory, table))


def rows(directory: Path, table: Table, order_keys: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a table, streamed: all, or those of some orders."""
    wanted = None if order_keys is None else dataset.field(table.order_key).isin(order_keys)
    for batch in batches(files(directory, table), wanted):
        yield from batch.to_pylist()


def batches(parts: Sequence[Path], wanted: dataset.Expression | None = None) -> pyarrow.RecordBatchReader:
    """The rows of these files: all, or those that match ``wanted``."""
    whole = dataset.dataset([str(part) for part in parts], schema=_plain(parquet.read_schema(parts[0])))
    return whole.scanner(filter=wanted).to_reader()


def _plain(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema with strings instead of string views, which Arrow cannot filter."""
    view = pyarrow.string_view()
    return pyarrow.schema([field.with_type(pyarrow.string()) if field.type == view else field for field in schema])


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.exists() else "tpchgen-cli"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", type=float, default=0.01)
    arguments = parser.parse_args()
    make(arguments.directory, arguments.scale)
