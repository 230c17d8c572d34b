"""A Spark cluster on this machine: a master and workers, each a process that can be killed with all that it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from environment import quick

BIN = Path(sys.executable).parent
JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC"}


class Daemon:
    """A process of the cluster, in a process group of its own."""

    def __init__(self, kind: str, *arguments: str, hidden: Path | None = None, options: str = "") -> None:
        apart = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)]
        start = [str(BIN / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *arguments]
        command = [*apart, *start] if hidden else start
        # Credentials reach executors from the driver, or not at all.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | JAVA
        environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": options}
        environment |= {"SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false"}
        self.process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def says(self, pattern: str) -> str:
        """The first group of the first line that matches; then its output is thrown away."""
        said = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said.append(line)
            if match := re.search(pattern, line):
                Thread(target=self.process.stdout.read, daemon=True).start()
                return match[1]
        raise AssertionError("".join(said))

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Cluster:
    """A master and its workers, each with one core. With ``kept`` a master that starts again knows its applications."""

    def __init__(self, folder: Path, kept: bool = False, hidden: Path | None = None) -> None:
        self._kept, self._hidden = kept, hidden
        self._folder, self.workers = folder, list[Daemon]()
        self.url = self._start_master("0")

    def _start_master(self, port: str) -> str:
        options = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self._folder}/recovery"
        self.master = Daemon(
            "master.Master", "--port", port, "--webui-port", "0", options=options if self._kept else ""
        )
        return self.master.says(r"Starting Spark master at (spark://\S+)")

    def restart_master(self) -> None:
        """Kill the master, and start another one in its place."""
        self.master.kill()
        self._start_master(self.url.rpartition(":")[2])

    def add_worker(self, hidden: Path | None = None) -> None:
        """A worker. ``hidden`` is a folder in whose place it sees an empty one, as another machine would."""
        hidden = hidden or self._hidden
        folder = self._folder / f"worker-{len(self.workers)}"
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder), "--webui-port", "0")
        worker = Daemon("worker.Worker", *size, self.url, hidden=hidden)
        self.workers.append(worker)
        worker.says("(Successfully registered with master)")

    def confs(self) -> dict[str, str]:
        """Settings of an application on this cluster."""
        return {
            "spark.executor.extraClassPath": os.pathsep.join(quick.jars()),
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": JAVA["JAVA_TOOL_OPTIONS"],
            "spark.driver.host": "127.0.0.1",
        }

    def end(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


@contextmanager
def cluster(folder: Path, workers: int, kept: bool = False, hidden: Path | None = None) -> Iterator[Cluster]:
    """A cluster with so many workers while the block runs."""
    one = Cluster(folder, kept, hidden)
    try:
        for _ in range(workers):
            one.add_worker()
        yield one
    finally:
        one.end()
