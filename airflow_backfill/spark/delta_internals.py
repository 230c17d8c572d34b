"""The only module that calls Delta's internals.

Delta's public reader offers a version or a range of versions. It does not offer "these files at that version" or "the
changes that these actions make", and its writer offers no commit without files. All three exist inside Delta and
honour deletion vectors, column mapping and partition values. Each is one function here, so an upgrade of Delta touches
one module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import QueryRefused
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.ledger.java_class import java_class

_DELTA = "org.apache.spark.sql.delta"


def _java(spark: SparkSession, name: str) -> Any:
    return java_class(spark.sparkContext._jvm, name)


def _delta_log(spark: SparkSession, path: str) -> Any:
    return _java(spark, f"{_DELTA}.DeltaLog").forTable(spark._jsparkSession, path)


def _none(spark: SparkSession) -> Any:
    return _java(spark, "scala.Option").empty()


def _converters(spark: SparkSession) -> Any:
    return _java(spark, "scala.jdk.javaapi.CollectionConverters")


def _each(found: Any) -> Iterator[Any]:
    """The elements of a Java list. Py4J's own loop ends with an error of Java, which costs as much as ten elements."""
    return (found.get(place) for place in range(found.size()))


def _activate(spark: SparkSession) -> None:
    """Make the session that of this thread. Delta asks the thread for it while it waits for a checkpoint's schema.

    On a local disk Delta hardly ever waits, so without this only slow stores fail (DELTA_SPARK_SESSION_NOT_SET).
    """
    SparkSession._get_j_spark_session_class(spark.sparkContext._jvm).setActiveSession(spark._jsparkSession)


def commit_nothing(spark: SparkSession, path: str, app_id: str, version: int, user_metadata: str) -> None:
    """Commit a transaction id and metadata to the table, without a file.

    Like every write with a transaction id, it does nothing if the table already has that version of the id. It raises
    ConcurrentTransactionException if another commit writes the id at the same time. An append of no rows takes four
    times as long and leaves an empty file.
    """
    Draft(spark, path).commit(app_id, version, user_metadata)


class Draft:
    """An append in two steps: ``add`` writes files, ``commit`` makes them part of the table.

    The caller reads the rows once and counts them before it decides to commit. Without a commit no version names the
    files, and VACUUM removes them. Unlike Delta's own append with a transaction id, it does not rebuild the table's
    state (see ``_version_of``).
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path
        _activate(spark)
        self._none = _none(spark)
        self._transaction = _delta_log(spark, path).startTransaction(self._none, self._none)
        self._actions = _java(spark, "java.util.ArrayList")()
        self._versions: dict[str, int] = {}  # of application ids, when the transaction started

    def add(self, rows: DataFrame) -> None:
        """Write these rows to files. QueryRefused unless the table has their columns: ``writeFiles`` checks no type."""
        there = {field.name.lower(): field.dataType.simpleString() for field in self._schema.fields}
        for name, kind in ((field.name, field.dataType.simpleString()) for field in rows.schema.fields):
            if there.get(name.lower()) != kind:
                found = f"type {there[name.lower()]}" if name.lower() in there else "no such column"
                raise QueryRefused(
                    f"column {name!r} of {self._path} must have type {kind}, but there is {found}: the table was "
                    "changed since the plan, and the rows do not fit; change it back and clear the task, or plan again "
                    "with on_existing='restart'",
                    column=name,
                )
        written = self._transaction.writeFiles(rows._jdf)
        self._actions.addAll(_converters(self._spark).asJava(written))

    @cached_property
    def _schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._transaction.metadata().schema().json()))

    @property
    def rows(self) -> int:
        """The number of rows written so far."""
        return sum(int(one.numLogicalRecords().get()) for one in _each(self._actions))

    def is_new(self, app_id: str, version: int) -> bool:
        """Whether the table has no commit of the transaction id yet."""
        if app_id not in self._versions:
            self._versions[app_id] = _version_of(self._spark, self._transaction, app_id)
        return self._versions[app_id] < version

    def commit(self, app_id: str, version: int, user_metadata: str) -> None:
        """Commit the files. Transaction id and conflicts work as in ``commit_nothing``."""
        if not self.is_new(app_id, version):
            return
        spark, some, none = self._spark, _java(self._spark, "scala.Option").apply, self._none
        now = _java(spark, "java.lang.System").currentTimeMillis()
        self._actions.add(_java(spark, f"{_DELTA}.actions.SetTransaction")(app_id, version, some(now)))
        append = _java(spark, "org.apache.spark.sql.SaveMode").Append
        operation = _java(spark, f"{_DELTA}.DeltaOperations$Write")(
            append, none, none, some(user_metadata), none, none, none, none, none
        )
        actions = _converters(spark).asScala(self._actions).toSeq()
        self._transaction.commit(actions, operation)


def _version_of(spark: SparkSession, transaction: Any, app_id: str) -> int:
    """The greatest committed version of the application id. The transaction conflicts with a commit that changes it.

    Read from the checksum of the version at which the transaction starts: after a commit by Delta itself, the checksum
    lists all ids. Delta's ``txnVersion`` rebuilds the table's state instead: three jobs over all its files.
    """
    checksum = transaction.snapshot().checksumOpt()
    listed = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not listed.isDefined():
        return int(transaction.txnVersion(app_id))
    transaction.readTxn().addOne(app_id)
    found = _converters(spark).asJava(listed.get())
    return max((one.version() for one in _each(found) if one.appId() == app_id), default=-1)


def transactions(spark: SparkSession, path: str) -> tuple[str, dict[str, int]]:
    """The table's id, and the greatest version of each application id, including commits that the log no longer has."""
    _activate(spark)
    none = _none(spark)
    snapshot = _delta_log(spark, path).update(False, none, none)
    found = _converters(spark).asJava(snapshot.setTransactions())
    return snapshot.metadata().id(), {one.appId(): one.version() for one in _each(found)}


def forget(spark: SparkSession, path: str) -> None:
    """Forget what this process has read of the table. Delta takes a version that it has in memory for the one that is
    asked for, although the table may have been replaced since by another with as many versions.
    """
    place = _java(spark, "org.apache.hadoop.fs.Path")(path)
    _java(spark, f"{_DELTA}.DeltaLog").invalidateCache(spark._jsparkSession, place)


def partition_columns(spark: SparkSession, path: str) -> list[str]:
    """The columns that partition the table, as this process read it last."""
    _activate(spark)
    found = _delta_log(spark, path).unsafeVolatileSnapshot().metadata().partitionColumns()
    return list(_each(_converters(spark).asJava(found)))


@contextmanager
def rebuilding(spark: SparkSession, path: str) -> Iterator[None]:
    """Rebuild the table's state in a thread while the block runs. Delta needs it for the next MERGE.

    Otherwise the MERGE waits for it: half a second on a small table, longer on one with many files. An error here is
    ignored: the MERGE hits it again and reports it.
    """

    def rebuild() -> None:
        with suppress(Py4JError):
            transactions(spark, path)

    thread = InheritableThread(target=rebuild, name="rebuilding")
    thread.start()
    try:
        yield
    finally:
        thread.join()


class DeltaVersion:
    """One version of one Delta table. Files are read with its schema, protocol and properties."""

    def __init__(self, spark: SparkSession, path: str, version: int) -> None:
        _activate(spark)
        self.spark = spark
        self._none = _none(spark)
        self._log = _delta_log(spark, path)
        self._snapshot = self._log.getSnapshotAt(version, self._none, self._none, False)
        self.path = path
        self.version = version

    @property
    def transactions(self) -> dict[str, int]:
        """The greatest version of each application id up to this version of the table."""
        found = _converters(self.spark).asJava(self._snapshot.setTransactions())
        return {one.appId(): one.version() for one in _each(found)}

    @property
    def schema(self) -> StructType:
        """The table's columns, with their names in files as metadata."""
        return StructType.fromJson(json.loads(self._snapshot.schema().json()))

    @property
    def partition_columns(self) -> list[str]:
        return list(_each(_converters(self.spark).asJava(self._snapshot.metadata().partitionColumns())))

    @property
    def clustered(self) -> bool:
        """Whether an OPTIMIZE clusters the table by some columns."""
        info = _java(self.spark, f"{_DELTA}.skipping.clustering.ClusteringColumnInfo")
        return not info.extractLogicalNames(self._snapshot).isEmpty()

    @property
    def files(self) -> DataFrame:
        """One row for each data file, in the log's schema. Statistics are JSON strings."""
        _activate(self.spark)  # perhaps another thread than the one that opened it
        return DataFrame(self._snapshot.allFiles().toDF(), self.spark)

    def collect_files(self, dataset: Any) -> Any:
        """Rows of ``files`` (a Java dataset, filtered or sorted) as a Java list of Delta's file actions."""
        return getattr(dataset, "as")(self._file_encoder).collectAsList()

    def frame_of(self, files: Any) -> DataFrame:
        """These file actions (a Java list), in the shape of ``files``. Runs no job."""
        return DataFrame(self.spark._jsparkSession.createDataset(files, self._file_encoder).toDF(), self.spark)

    @property
    def _file_encoder(self) -> Any:
        return _java(self.spark, f"{_DELTA}.actions.SingleAction").addFileEncoder()

    def read(self, files: Any) -> DataFrame:
        """The live rows of exactly these files (a Java list of file actions) at exactly this version."""
        _activate(self.spark)  # in a thread without a session Delta refuses tables with column mapping by id
        frame = self._log.createDataFrame(self._snapshot, self._sequence(files), False, self._none)
        return DataFrame(frame, self.spark)

    def read_lines(self, added: Sequence[str]) -> DataFrame:
        """The live rows of these files (lines of a log, as added) at exactly this version."""
        return self.read(self._parse("add", added))

    def can_read(self, changes: DataFrame) -> bool:
        """Whether Delta can list the files of these changes, each with its deletion vector. Reads none of them."""
        try:
            changes._jdf.queryExecution().toRdd()
        except Py4JJavaError as error:
            if "UTFDataFormatException" in str(error):
                return False
            raise
        return True

    def feed(self, epochs: EpochRange, *, from_files: bool = False) -> DataFrame:
        """The complete change feed of these epochs, with this version's schema.

        A missing commit file is an error; the public reader skips it. With ``from_files`` changes are computed from
        added and removed files only, which also works without a change feed.
        """
        commits = self._log.getChanges(epochs.start, epochs.last, self._none, True)
        return self._changes(epochs.start, epochs.last, commits, from_files)

    def changes_of_each(self, epochs: Sequence[tuple[int, Sequence[str], Sequence[str]]]) -> DataFrame:
        """The changes of the file actions of several epochs, each with its added and removed files, in order."""
        array_list = _java(self.spark, "java.util.ArrayList")
        commits = [array_list() for _ in epochs]
        for kind, files in (("add", [added for _, added, _ in epochs]), ("remove", [gone for _, _, gone in epochs])):
            lines = [line for some in files for line in some]
            parsed, start = self._parse(kind, lines) if lines else None, 0
            for some, actions in zip(files, commits, strict=True):
                if parsed is not None and some:
                    actions.addAll(parsed.subList(start, start + len(some)))
                start += len(some)
        numbers = self.spark.sparkContext._gateway.new_array(_java(self.spark, "long"), len(epochs))
        sequences = array_list()
        for place, (one, actions) in enumerate(zip(epochs, commits, strict=True)):
            numbers[place] = one[0]
            sequences.add(self._sequence(actions))
        boxed = _java(self.spark, "java.util.stream.LongStream").of(numbers).boxed().toList()
        changes = self._scala(boxed).iterator().zip(self._scala(sequences))
        return self._changes(epochs[0][0], epochs[-1][0], changes, True)

    def _changes(self, first: int, last: int, commits: Any, from_files: bool) -> DataFrame:
        reader = _java(self.spark, f"{_DELTA}.commands.cdc.CDCReader")
        here = _java(self.spark, "scala.Option").apply(self._snapshot)
        session = self.spark._jsparkSession
        info = reader.changesToDF(self._snapshot, first, last, commits, session, self._none, False, from_files, here)
        return DataFrame(info.fileChangeDf(), self.spark)

    def _parse(self, kind: str, lines: Sequence[str]) -> Any:
        """Lines of a log as Delta's own objects. One JVM job: with a call for each line, 10,000 lines take seconds."""
        schema = StructType.fromJson(json.loads(_java(self.spark, f"{_DELTA}.actions.Action").logSchema().json()))
        texts = _java(self.spark, "java.util.regex.Pattern").compile("\n").splitAsStream("\n".join(lines)).toList()
        strings = _java(self.spark, "org.apache.spark.sql.Encoders").STRING()
        text = DataFrame(self.spark._jsparkSession.createDataset(texts, strings).toDF(), self.spark)
        shape = schema[kind].dataType
        assert isinstance(shape, StructType)
        rows = text.select(F.from_json("value", shape, {"mode": "FAILFAST"}).alias("it")).select("it.*")
        encoders = _java(self.spark, f"{_DELTA}.implicits.package$").__getattr__("MODULE$")
        encoder = encoders.addFileEncoder() if kind == "add" else encoders.removeFileEncoder()
        return getattr(rows._jdf, "as")(encoder).collectAsList()

    def _scala(self, values: Any) -> Any:
        return _converters(self.spark).asScala(values)

    def _sequence(self, values: Any) -> Any:
        return self._scala(values).toSeq()
