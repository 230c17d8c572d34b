"""Google's Cloud Storage on this machine, as a process, and two connectors of Spark for it.

The service is Google's own test server, from github.com/googleapis/storage-testbench. The variable ``TESTBENCH`` names
the Python that has it: ``git clone`` it, then ``pip install ./storage-testbench setuptools`` into an environment of its
own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

from environment import quick
from tests.system.applications import ROOT
from tests.system.copied_lake import CopiedLake
from tests.system.s3 import S3, listening
from tests.system.tunnel import tunnel

PYTHON = os.environ.get("TESTBENCH", "")
NAME, BUCKET = "storage.googleapis.com", "lake"


@contextmanager
def testbench() -> Iterator[S3]:
    """The service while the block runs."""
    with listening([PYTHON, str(ROOT / "tests" / "system" / "cloud_storage_server.py")], "listens on") as line:
        yield S3(line.rpartition(" ")[2])


def make_bucket(endpoint: str) -> None:
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"name": BUCKET}).encode()
    urlopen(Request(f"{endpoint}/storage/v1/b?project=test", body, headers, method="POST")).close()


Settings = Mapping[str, str]


@contextmanager
def hadoops(folder: Path, endpoint: str) -> Iterator[Settings]:
    """Settings of the connector of Hadoop 3.5, which Spark 4.2 takes by default. It knows the service by its public
    name only, and cannot do without an account.
    """
    with tunnel(folder, NAME, endpoint) as options:
        account = {
            "type": "service_account",
            "project_id": "test",
            "private_key_id": "1",
            "private_key": (folder / "key.pem").read_text(),
            "client_email": "builds@test.example",
            "client_id": "1",
            "token_uri": f"{endpoint}/token",
        }
        (folder / "account.json").write_text(json.dumps(account))
        yield {
            "spark.driver.extraJavaOptions": f"{quick.confs()['spark.driver.extraJavaOptions']} {options}",
            "spark.hadoop.fs.gs.project.id": "test",
            "spark.hadoop.fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "spark.hadoop.fs.gs.auth.service.account.json.keyfile": str(folder / "account.json"),
        }


@contextmanager
def googles(folder: Path, endpoint: str) -> Iterator[Settings]:
    """Settings of Google's own connector. It was built with an older Hadoop: it cannot read the defaults that Hadoop
    3.5 has for its own connector, such as 64m, and its vectored reads are others.
    """
    connector = {
        "impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "project.id": "test",
        "auth.type": "UNAUTHENTICATED",
        "storage.root.url": f"{endpoint}/",
        "block.size": str(64 << 20),
        "rewrite.max.chunk.size": str(512 << 20),
        "outputstream.buffer.size": str(8 << 20),
        "inputstream.inplace.seek.limit": str(8 << 20),
        "inputstream.min.range.request.size": str(2 << 20),
    }
    yield {
        **{f"spark.hadoop.fs.gs.{name}": value for name, value in connector.items()},
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    }


CONNECTORS: Mapping[str, tuple[str, Callable[[Path, str], AbstractContextManager[Settings]]]] = {
    "hadoop": ("org.apache.hadoop:hadoop-gcp:3.5.0", hadoops),
    "google": ("com.google.cloud.bigdataoss:gcs-connector:3.1.9:shaded", googles),
}


class GcsLake(CopiedLake):
    """A source in a bucket of Cloud Storage. ``more`` are the settings of a connector."""

    root = f"gs://{BUCKET}"

    def written(self, method: str, path: str) -> str:
        """Connectors write in two steps; the second one has the address that was the answer to the first."""
        return super().written(method, path) and parse_qs(urlsplit(path).query).get("name", [""])[0]

    @staticmethod
    def environment(way: S3) -> dict[str, str]:
        return {"GOOGLE_BASE_URL": way.endpoint, "GOOGLE_BEARER_TOKEN": "none", "GOOGLE_ALLOW_HTTP": "true"}
