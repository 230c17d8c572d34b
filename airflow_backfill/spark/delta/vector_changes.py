"""The changed rows of a commit's file actions. Also works where a deletion vector is too large for Delta's change feed.

For a file whose deletion vector is replaced, Delta puts the difference of both into the file's description, as a text
of at most 64 KiB. A commit that deletes some 26,000 scattered rows of a file that has a vector already makes it longer,
and the query fails (UTFDataFormatException), in Delta's own change feed, too. Such files are read twice, with each
vector, and their rows are compared by their numbers. Of few changes only numbers are shuffled, of which 64 are one
word.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.changes import CHANGE_TYPE, DELETE, EPOCH, INSERT
from airflow_backfill.spark.source.words import bit_of, word_of
from airflow_backfill.spark.transform.transform import OWN, quoted

MANY_ROWS = 16_000
"""Rows of two vectors, together, whose difference Delta can surely describe: it takes two bytes for each."""
FEW_ROWS = 200_000
"""Rows of all vectors, together, whose difference is broadcast: about 32 MiB at most, one word with a path for each."""
_VECTOR = "deletionVector"
_PATH, _WORD, _BIT, _BITS = (OWN + name for name in ("path", "word", "bit", "bits"))


@dataclass(frozen=True, slots=True)
class Actions:
    """What an epoch did to files: lines of its log, without statistics."""

    epoch: int
    added: Sequence[str] = ()
    removed: Sequence[str] = ()

    def without(self, pairs: Sequence[_Pair]) -> Actions:
        """All other files."""
        added, removed = {new for new, _ in pairs}, {old for _, old in pairs}
        rest = ([file for file in self.added if file not in added], [f for f in self.removed if f not in removed])
        return Actions(self.epoch, *rest)


_Pair = tuple[str, str]
"""A file as added and as removed."""


def changes_of_each(version: DeltaVersion, epochs: Sequence[Actions]) -> DataFrame:
    """The changes of each epoch (at least one, in order), with its number. A file that an epoch removes and adds got
    another deletion vector: only the rows that it hides or reveals are changes.
    """
    whole = _read(version, epochs)
    large = {one.epoch: _large(one) for one in epochs}
    if not any(large.values()) or version.can_read(whole):
        return whole
    others = [one.without(large[one.epoch]) for one in epochs]
    parts = [_by_number(version, epoch, pairs) for epoch, pairs in large.items() if pairs]
    columns = [quoted(name) for name in parts[0].columns]
    return reduce(DataFrame.unionByName, [_read(version, others).select(*columns), *parts])


def _read(version: DeltaVersion, epochs: Sequence[Actions]) -> DataFrame:
    return version.changes_of_each([(one.epoch, one.added, one.removed) for one in epochs])


def _large(one: Actions) -> list[_Pair]:
    """Files whose vector is replaced by one that may differ too much."""
    added, removed = _masked(one.added), _masked(one.removed)
    pairs = ((added[path], removed[path]) for path in added if path in removed)
    return [(new, old) for (new, hidden), (old, before) in pairs if hidden + before > MANY_ROWS]


def _masked(lines: Sequence[str]) -> dict[str, tuple[str, int]]:
    """By path: the line of a file with a vector, and how many rows that hides."""
    found = ((line, json.loads(line)) for line in lines if _VECTOR in line)
    return {one["path"]: (line, one[_VECTOR]["cardinality"]) for line, one in found if one.get(_VECTOR)}


def _by_number(version: DeltaVersion, epoch: int, pairs: Sequence[_Pair]) -> DataFrame:
    """The rows of files that have one of the vectors and not the other."""
    news = [json.loads(new) for new, _ in pairs]
    olds = [{**new, _VECTOR: json.loads(old)[_VECTOR]} for new, (_, old) in zip(news, pairs, strict=True)]
    after, before = (_numbered(version, files) for files in (news, olds))
    words = _words(before, "old").join(_words(after, "new"), [_PATH, _WORD], "full_outer").fillna(0, ["old", "new"])
    old, new = F.col("old"), F.col("new")
    few = sum(file[_VECTOR]["cardinality"] for file in (*news, *olds)) <= FEW_ROWS
    gone = _chosen(before, words, old.bitwiseAND(F.bitwise_not(new)), DELETE, few)
    come = _chosen(after, words, new.bitwiseAND(F.bitwise_not(old)), INSERT, few)
    return gone.unionByName(come).withColumn(EPOCH, F.lit(epoch).cast("long"))


def _numbered(version: DeltaVersion, files: Sequence[dict[str, Any]]) -> DataFrame:
    """The live rows of these files, each with its file, and its number there as a bit of a word."""
    rows = version.read_lines([json.dumps(file) for file in files])
    number = F.col("_metadata.row_index")
    return rows.select(
        *(F.col(quoted(name)) for name in rows.columns),
        F.col("_metadata.file_path").alias(_PATH),
        word_of(number).alias(_WORD),
        bit_of(number).alias(_BIT),
    )


def _words(rows: DataFrame, name: str) -> DataFrame:
    """Which rows are live, without a column of them."""
    return rows.groupBy(_PATH, _WORD).agg(F.bit_or(_BIT).alias(name))


def _chosen(rows: DataFrame, words: DataFrame, bits: Column, kind: str, few: bool) -> DataFrame:
    found = words.select(_PATH, _WORD, bits.alias(_BITS)).where(F.col(_BITS) != 0)
    if few:
        found = F.broadcast(found)
    chosen = rows.join(found, [_PATH, _WORD]).where(F.col(_BIT).bitwiseAND(F.col(_BITS)) != 0)
    return chosen.drop(_PATH, _WORD, _BIT, _BITS).withColumn(CHANGE_TYPE, F.lit(kind))
