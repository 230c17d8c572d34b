"""A store on a Spark driver, for every scheme that Hadoop and Delta are configured for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader
from typing import Any, BinaryIO

from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.values.jars import connector
from airflow_backfill.ledger.java_class import java_class
from airflow_backfill.ledger.java_error import incomplete, innermost, text_of
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.store import CHUNK_BYTES, HIDDEN, NotFound, RangesFile, checked, expired

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
S3_LOG_STORE = "airflow_backfill.S3LogStore"
"""The log store for S3A that every application makes known to its Java."""
_PATH = "org.apache.hadoop.fs.Path"
_MISSING = "java.io.FileNotFoundException"
_EXISTS = ("java.nio.file.FileAlreadyExistsException", "org.apache.hadoop.fs.FileAlreadyExistsException")


_COUNTERS = ("store_io_request", "connections_made")
"""Names under which Hadoop's file systems count their requests: that of S3A, and that of ABFS."""
_counters: dict[str, Any] = {}
"""By location, those of the file systems that were opened. Hadoop gives the same ones to Spark and to Delta."""


def driver_requests() -> int:
    """Requests that this driver's Java has made to the stores that were opened here. A file system that counts none,
    such as HDFS, adds none.
    """
    return sum(counters.getOrDefault(name, 0) for counters in list(_counters.values()) for name in _COUNTERS)


class HadoopStore:
    """Files under a Hadoop path: UTF-8 texts that end with a newline, as Delta writes them.

    Delta's ``LogStore`` of this location writes the files, so ``create`` has the guarantees of commits: put-if-absent
    across writers where the log store has it, else only within one driver. On S3A it is a conditional put in any case:
    the log store may be one that knows only commits.
    """

    def __init__(self, spark: Any, location: Location) -> None:
        jvm = spark._jvm
        self._location = location
        self._jvm = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._root = java_class(jvm, _PATH)(location.url)
        with self._trouble(""):
            self._files = self._root.getFileSystem(self._conf)
            support = java_class(jvm, "org.apache.hadoop.fs.statistics.IOStatisticsSupport")
            if (statistics := support.retrieveIOStatistics(self._files)) is not None:
                _counters[str(self._files.getUri())] = statistics.counters()
        status = java_class(jvm, "java.lang.Class").forName("org.apache.hadoop.fs.FileStatus")
        self._status = java_class(jvm, "scala.reflect.ClassTag").apply(status)
        delta = java_class(jvm, "org.apache.spark.sql.delta.storage.LogStore$")
        self._commits = getattr(delta, "MODULE$").apply(spark._jsparkSession)

    @property
    def url(self) -> str:
        return self._location.url

    def list(self, folder: str, after: str = "") -> Sequence[str]:
        path = self._path(folder) if folder else self._root
        try:
            with self._trouble(folder):
                # The log store knows whether the file system can begin in the middle.
                first = java_class(self._jvm, _PATH)(path, after or "!")
                # py4j takes an array of S3A's own class for no array of FileStatus.
                found = self._commits.listFrom(first, self._conf).toArray(self._status)
                # One string for all names: one call per name would take a second per thousand.
                paths = java_class(self._jvm, "org.apache.hadoop.fs.FileUtil").stat2Paths(found)
                lines = java_class(self._jvm, "scala.Predef").genericWrapArray(paths).mkString("\n")
        except NotFound:
            return ()
        names = (line.rpartition("/")[2] for line in lines.split("\n"))
        return sorted(name for name in names if name > after and not name.startswith(HIDDEN))

    def folders(self, folder: str) -> Sequence[str]:
        path = self._path(folder) if folder else self._root
        try:
            with self._trouble(folder):
                found = [entry.getPath().getName() for entry in self._files.listStatus(path) if entry.isDirectory()]
        except NotFound:
            return ()
        return sorted(name for name in found if not name.startswith(HIDDEN))

    def read(self, name: str, limit: int) -> bytes:
        with self._trouble(name):
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readNBytes(limit))
            finally:
                stream.close()

    def chunks(self, name: str) -> Iterator[bytes]:
        with self.open(name) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def open(self, name: str) -> BinaryIO:
        with self._trouble(name):
            path = self._path(name)
            stream, size = self._files.open(path), self._files.getFileStatus(path).getLen()

        def read_range(start: int, stop: int) -> bytes:
            with self._trouble(name):
                stream.seek(start)
                return bytes(stream.readNBytes(stop - start))

        return BufferedReader(RangesFile(size, read_range, stream.close), CHUNK_BYTES)

    def create(self, name: str, data: bytes) -> bool:
        with self._trouble(name):
            return self._write(self._creating, name, data, replace=False)

    def put(self, name: str, data: bytes) -> None:
        with self._trouble(name):
            self._write(self._commits, name, data, replace=True)

    def delete(self, name: str) -> None:
        with self._trouble(name):
            self._files.delete(self._path(name), False)

    @cached_property
    def _creating(self) -> Any:
        """The log store that creates files which are no commits."""
        if self._files.getClass().getName() != S3A:
            return self._commits
        self._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(S3_LOG_STORE)  # or it is named
        own = self._jvm.airflow_backfill.S3LogStore(self._conf)
        return self._jvm.org.apache.spark.sql.delta.storage.LogStoreAdaptor(own)

    def _write(self, log_store: Any, name: str, data: bytes, *, replace: bool) -> bool:
        path = self._path(name)
        # One call: each call into the JVM takes as long as writing a thousand lines.
        text = java_class(self._jvm, "java.io.StringReader")(data.decode())
        lines = java_class(self._jvm, "java.io.BufferedReader")(text).lines()
        actions = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters").asScala(lines.iterator())
        self._files.mkdirs(path.getParent())
        try:
            log_store.write(path, actions, replace, self._conf)
        except Exception as error:
            if _java_class(error) in _EXISTS:
                return False
            raise
        return True

    def _path(self, name: str) -> Any:
        return java_class(self._jvm, _PATH)(self._root, checked(name))

    def _connector(self) -> str | None:
        version: str = java_class(self._jvm, "org.apache.hadoop.util.VersionInfo").getVersion()
        return connector(self._location.scheme, version)

    @contextmanager
    def _trouble(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            kind = _java_class(error)
            if kind is None:
                raise
            if kind == _MISSING:
                raise NotFound(self.url, name) from error
            raise (
                incomplete(error, self._connector)
                or expired(self.url, text_of(error))
                or SourceUnavailable(f"{self.url}/{name}: {innermost(error)}", file=name)
            ) from error


def _java_class(error: BaseException) -> str | None:
    """The class of the Java exception in a py4j error, else None; py4j is never imported."""
    java = getattr(error, "java_exception", None)
    return None if java is None else str(java.getClass().getName())
