"""Whether the store keeps two writers of one commit apart: tried, not believed.

Two drivers create the same new file beside the target, through the log store that commits go through. The second driver
is a log store of the same class in a class loader of its own, so a lock inside of one Java does not help it. On S3A the
files beside the target are created through a log store of ours; it is tried, too, if commits go through another one.

First one of them stands still between its look for the file and its write, while the other one writes the whole file.
The result depends on the log store and on Hadoop, so every application tries this. Then both write at the same moment,
again and again. This depends on the service, and the plan tries it. It finds a service that looks first and writes
later; it cannot prove that a service never does.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from airflow_backfill.core.errors import BackfillError, SourceUnavailable, UnsafeCommitStore
from airflow_backfill.ledger.control_folder import location_beside
from airflow_backfill.ledger.hadoop_store import S3_LOG_STORE, S3A
from airflow_backfill.ledger.java_error import incomplete, innermost, text_of, troubles
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.store import expired

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RACES = 20
"""By the plan. A service that looks and then writes lets both writers win about one race in three."""
PATIENCE_SECONDS = 30.0
"""How long one writer waits for the other, which may wait for it: some log stores lock."""
_UNABLE = (
    "AWSUnsupportedFeatureException",
    "UnsupportedOperationException",
)

_tried: set[tuple[str, str, str]] = set()
"""Scheme, bucket and log store that this process has tried."""


def commit_guarantee(spark: SparkSession, target: str) -> str:
    """How two writers of the target are kept apart, in words; UnsafeCommitStore if they are not."""
    location = Location.parse(target)
    if location.local:
        return "a lock file; one writer at a time"
    trials = _trials(spark, target)
    for trial in trials:
        trial.run(RACES)
    return f"one of two writers won each of {RACES + 1} races of {trials[0].name}"


def check_commits(spark: SparkSession, target: str) -> None:
    """UnsafeCommitStore if this application would overwrite another one's commit. Tried once for each bucket."""
    location = Location.parse(target)
    if location.local:
        return
    for trial in _trials(spark, target):
        key = (location.scheme, location.authority, trial.name)
        if key not in _tried:
            trial.run()
            _tried.add(key)


def _trials(spark: SparkSession, target: str) -> list[Trial]:
    """Of the log store that commits go through, and of the one for files beside the target, if that is another one."""
    commits = Trial(spark, target)
    alone = not commits.on_s3a or commits.name == S3_LOG_STORE
    return [commits] if alone else [commits, Trial(spark, target, beside=True)]


class Trial:
    """Two drivers, and a folder beside the target in which they race. ``beside``: for files that are no commits."""

    def __init__(self, spark: SparkSession, target: str, *, beside: bool = False) -> None:
        self._spark, self._target = spark, target
        self._jvm: Any = spark.sparkContext._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._folder = self._jvm.org.apache.hadoop.fs.Path(f"{location_beside(target)}/two-writers-{uuid.uuid4().hex}")
        try:
            self._files = self._folder.getFileSystem(self._conf)
            self.on_s3a = self._files.getClass().getName() == S3A
            self._first = self._jvm.airflow_backfill.S3LogStore(self._conf) if beside else self._log_store()
            self.name: str = self._first.getClass().getName()
            self._second = self._another_driver()
        except Py4JError as error:
            raise self._failed(error) from error

    def run(self, races: int = 0) -> None:
        """One race in which one writer stands still, and so many in which none does."""
        with ThreadPoolExecutor(2) as pool:
            try:
                self._judge(*self._overtaken(pool))
                for _ in range(races):
                    self._judge(*self._at_once(pool))
            finally:
                self._files.delete(self._folder, True)

    # --- races ---

    def _overtaken(self, pool: ThreadPoolExecutor) -> tuple[Any, list[Future[None]]]:
        """The first writer has looked, and waits for its data while the second one writes."""
        path = self._new_path()
        out = self._jvm.java.io.PipedOutputStream()
        pipe = self._jvm.java.io.PipedInputStream(out, 1)

        def write() -> None:
            try:
                self._write(self._first, path, pipe)
            finally:
                pipe.close()  # a first writer that refuses at once does not hold up what feeds it

        first = pool.submit(write)
        try:
            # The pipe holds one byte: it takes another one once the first writer has begun to read.
            out.write(bytearray(b"fir"))
        except Exception as error:
            log.debug("the first writer took nothing: %s", error)
        second = pool.submit(self._write, self._second, path, self._text(b"second\n"))
        wait([second], PATIENCE_SECONDS)
        try:
            out.write(bytearray(b"st\n"))
            out.close()
        except Exception as error:
            log.debug("the first writer has ended: %s", error)
        return path, [first, second]

    def _at_once(self, pool: ThreadPoolExecutor) -> tuple[Any, list[Future[None]]]:
        path, start = self._new_path(), Barrier(2)

        def write(store: Any, text: bytes) -> None:
            data = self._text(text)
            start.wait(PATIENCE_SECONDS)
            self._write(store, path, data)

        return path, [pool.submit(write, self._first, b"first\n"), pool.submit(write, self._second, b"second\n")]

    def _judge(self, path: Any, writers: list[Future[None]]) -> None:
        errors = [writer.exception() for writer in writers]
        won = [name for name, error in zip(("first", "second"), errors, strict=True) if error is None]
        log.debug("%s: won by %s; %s", path, won, errors)
        there = self._content(path)
        if not won and there is None:
            raise self._none(errors[0] or errors[1] or AssertionError(path))
        # A writer that was told of an error may have won: its commit is unknown, and is read back.
        if len(won) > 1 or (won and there != won[0]):
            raise self._unsafe(
                self.name, f"of two writers of one file, {' and '.join(won)} succeeded, and the file has {there}"
            )

    # --- their means ---

    def _log_store(self) -> Any:
        """Delta's public interface of the log store that commits of this session go through."""
        delta = getattr(self._jvm.org.apache.spark.sql.delta.storage, "LogStore$")
        store = getattr(delta, "MODULE$").apply(self._spark._jsparkSession)
        if store.getClass().getSimpleName() == "DelegatingLogStore":
            store = store.getDelegate(self._folder)
        kind = store.getClass()
        if kind.getSimpleName() != "LogStoreAdaptor":
            raise self._unsafe(kind.getName(), "it is no io.delta.storage.LogStore, so it cannot be tried")
        return store.logStoreImpl()

    def _another_driver(self) -> Any:
        """A log store of the same class that shares nothing in this Java with the first."""
        kind = self._first.getClass()
        urls = self._array(self._jvm.java.net.URL, kind.getProtectionDomain().getCodeSource().getLocation())
        loader = self._jvm.org.apache.spark.util.ChildFirstURLClassLoader(urls, kind.getClassLoader())
        takes = self._array(self._jvm.java.lang.Class, loader.loadClass("org.apache.hadoop.conf.Configuration"))
        return loader.loadClass(self.name).getConstructor(takes).newInstance(self._array(self._jvm.Object, self._conf))

    def _array(self, kind: Any, *values: Any) -> Any:
        array = self._spark.sparkContext._gateway.new_array(kind, len(values))
        for n, value in enumerate(values):
            array[n] = value
        return array

    def _new_path(self) -> Any:
        # Like the first commit of a table: some log stores look for the commit before.
        path = self._jvm.org.apache.hadoop.fs.Path
        log_folder = path(path(self._folder, uuid.uuid4().hex), "_delta_log")
        self._files.mkdirs(log_folder)
        return path(log_folder, f"{0:020}.json")

    def _text(self, data: bytes) -> Any:
        return self._jvm.java.io.ByteArrayInputStream(bytearray(data))

    def _write(self, store: Any, path: Any, data: Any) -> None:
        lines = self._jvm.java.io.BufferedReader(self._jvm.java.io.InputStreamReader(data)).lines()
        names = "org.apache.hadoop.fs.Path", "java.util.Iterator", "java.lang.Boolean", self._conf.getClass().getName()
        load = self._conf.getClassLoader().loadClass
        write = store.getClass().getMethod("write", self._array(self._jvm.java.lang.Class, *map(load, names)))
        # Not a plain call: py4j remembers methods by the name of the class, and both log stores have the same.
        write.invoke(store, self._array(self._jvm.Object, path, lines.iterator(), False, self._conf))

    def _content(self, path: Any) -> str | None:
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(stream.readNBytes(100)).decode().strip()
        finally:
            stream.close()

    # --- errors ---

    def _unsafe(self, store: str, why: str) -> UnsafeCommitStore:
        scheme = Location.parse(self._target).scheme
        way_out = (
            "the service has to honour the condition of a write (If-None-Match), which files beside the target need "
            "with any log store; use another service"
            if store == S3_LOG_STORE
            else f"leave spark.delta.logStore.{scheme}.impl out, set it to a log store that is safe for several "
            "drivers, or use another store"
        )
        return UnsafeCommitStore(
            f"two writers of {self._target} could overwrite each other's files. {store} was tried beside it: {why}; "
            f"{way_out}",
            scheme=scheme,
            log_store=store,
        )

    def _none(self, error: BaseException) -> BackfillError:
        """Why no writer wrote: the log store is unable to, or something went wrong."""
        if any(trouble.kind in _UNABLE for trouble in troubles(error)):
            return self._unsafe(self.name, f"it cannot create a file only if it is absent: {innermost(error)}")
        return self._failed(error)

    def _failed(self, error: BaseException) -> BackfillError:
        return (
            incomplete(error)
            or expired(self._target, text_of(error))
            or SourceUnavailable(f"two writers could not be tried beside {self._target}: {innermost(error)}")
        )
