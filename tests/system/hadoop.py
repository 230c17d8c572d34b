"""YARN and HDFS on this machine: Hadoop's own mini cluster, in a Java of its own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway

from environment import jars, quick

LOCK = Path(__file__).with_name("hadoop.lock")
ADDRESSES = (
    "fs.defaultFS",
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.webapp.address",
)
NEEDED = (
    *("hadoop-client-", "slf4j-api", "log4j-", "jcl-over", "jackson", "commons-", "javax", "jakarta", "guava"),
    *("leveldb", "netty", "snappy"),
)
"""What the cluster needs of Spark's jars, by the beginning of their names."""
YARN = {
    "yarn.nodemanager.hostname": "localhost",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
}


class Hadoop:
    """A running cluster. ``folder`` holds the configuration of its clients."""

    def __init__(self, java: Any, files: Any, conf: Any, folder: Path) -> None:
        self._java, self._files, self.folder = java, files, folder
        settings = {name: conf.get(name) for name in ADDRESSES}
        self.hdfs, self.resource_manager = settings[ADDRESSES[0]], settings[ADDRESSES[-1]]
        folder.mkdir()
        named = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in settings.items())
        for name in ("core-site.xml", "yarn-site.xml"):
            (folder / name).write_text(f"<configuration>{named}</configuration>")

    def put(self, local: Path, path: str) -> None:
        """Copy a folder of this machine into HDFS."""
        path_of = self._java.org.apache.hadoop.fs.Path
        self._files.copyFromLocalFile(path_of(str(local)), path_of(path))

    def confs(self) -> dict[str, str]:
        """Settings of an application: Spark's jars and the locked ones lie on this machine already."""
        paths = ":".join(quick.jars())
        return {
            "spark.yarn.jars": f"local:{_spark()}/*",
            "spark.driver.extraClassPath": paths,
            "spark.executor.extraClassPath": paths,
            "spark.executor.memory": "600m",
            "spark.executor.instances": "1",
            "spark.yarn.am.memory": "512m",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
            "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        }


def _spark() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    return Path(pyspark.origin).parent / "jars"


@contextmanager
def hadoop(folder: Path) -> Iterator[Hadoop]:
    """A cluster with one node while the block runs. Its jars are fetched at first."""
    place, locked = Path(sys.prefix, "hadoop"), jars.read_lock(LOCK)
    if not place.is_dir():
        jars.install(place, locked)
    jars.check(place, locked)
    options = ["-Xmx900m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={folder}/data"]
    with open(folder / "log", "wb") as log:
        gateway = JavaGateway.launch_gateway(
            classpath=":".join([f"{place}/*", *(str(jar) for name in NEEDED for jar in _spark().glob(f"{name}*.jar"))]),
            javaopts=options,
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(folder),
        )
        try:
            java = gateway.jvm
            conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
            conf.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
            files = getattr(java.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf).numDataNodes(1).build()
            for name, value in (YARN | {"fs.defaultFS": files.getURI().toString()}).items():
                conf.set(name, value)
            yarn = java.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
            yarn.init(conf)
            yarn.start()
            yield Hadoop(java, files.getFileSystem(), yarn.getConfig(), folder / "conf")
        finally:
            gateway.shutdown()
            gateway.java_process.kill()
            gateway.java_process.wait()
