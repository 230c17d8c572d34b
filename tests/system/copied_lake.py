"""A source that a writer changes on this machine, and that is copied into a bucket meanwhile, file by file: for stores
whose service does not keep objects as files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from obstore.store import from_url
from pyspark.sql import SparkSession

from environment import quick
from tests.system.applications import Applications
from tests.system.lake import Lake
from tests.system.s3 import S3, Gate

COPY_SECONDS = 0.3


class CopiedLake(Lake):
    """A source in a bucket at ``root``. obstore and Spark take the settings of ``environment`` and ``confs``."""

    root: str

    def __init__(
        self, spark: SparkSession, folder: Path, way: Gate, jars: Path, more: Mapping[str, str] | None = None
    ) -> None:
        self.jars = jars
        super().__init__(spark, folder, way, more)
        self._client: Any = from_url(self.root, client_options={"allow_http": True})
        self._copied = set[Path]()

    @staticmethod
    def environment(way: S3) -> dict[str, str]:
        """The variables by which obstore finds the service, and who asks."""
        raise NotImplementedError

    def confs(self, service: S3) -> dict[str, str]:
        """Settings of a Spark on this machine that uses the service."""
        jars = os.pathsep.join([*quick.jars(), *sorted(map(str, self.jars.glob("*.jar")))])
        return {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars, **self.more}

    def spec(self, target: str, **more: str) -> str:
        return super().spec(target, **{"source": f"{self.root}/tables/orders", **more})

    def applications(self, name: str, service: S3 | None = None) -> Applications:
        return Applications(f"{self.root}/{name}", self.confs(service or self.way), timeout=900)

    @contextmanager
    def writer(self, rate: float = 0.3) -> Iterator[None]:
        """The writer at work, and each of its commits in the bucket soon afterwards."""
        over = Event()

        def copy() -> None:
            while not over.wait(COPY_SECONDS):
                self.copy()

        with super().writer(rate), ThreadPoolExecutor() as pool:
            self.copy()
            work = pool.submit(copy)
            try:
                yield
            finally:
                over.set()
                work.result()

    def copy(self) -> None:
        """Put what is new of the source into the bucket: the files of a commit before the commit."""
        source = Path(self.source)
        log = [
            file for pattern in ("*.json", "*.checkpoint*") for file in sorted((source / "_delta_log").glob(pattern))
        ]
        data = [file for file in source.rglob("*") if file.is_file() and "_delta_log" not in file.parts]
        for file in (*data, *log):
            if file not in self._copied:
                self._client.put(str(file.relative_to(self.folder)), file)
                self._copied.add(file)

    def here(self, target: str) -> Path:
        """A copy of the target's files of now."""
        folder = self.folder / "here" / target.rpartition("/")[2]
        for page in self._client.list(target.removeprefix(f"{self.root}/")):
            for found in filter(lambda found: found["size"], page):  # Hadoop marks folders by empty objects
                file = folder / found["path"].partition("/")[2]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(bytes(self._client.get(found["path"]).bytes()))
        return folder
