"""Azure's blob service on this machine, Azurite, as a process, and the settings of Hadoop's ABFS for it.

Azurite comes from npm (``npm install azurite``). The variable ``AZURITE`` names its program ``azurite-blob``. It serves
an account without a hierarchical namespace, so ABFS uses the Blob endpoint, as it does for such an account of Azure.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.request import Request, urlopen

from environment.jars import Jar, fetch
from tests.system.copied_lake import CopiedLake
from tests.system.s3 import S3, listening

PROGRAM = os.environ.get("AZURITE", "")
CONTAINER, ACCOUNT = "lake", "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every Azurite has for its account; it protects nothing."""
JARS = (
    "org.apache.hadoop:hadoop-azure:3.5.0",
    "org.apache.hadoop.thirdparty:hadoop-shaded-guava:1.5.0",
    "org.apache.httpcomponents:httpclient:4.5.13",
    "org.apache.httpcomponents:httpcore:4.4.13",
    "commons-codec:commons-codec:1.15",
    "commons-logging:commons-logging:1.3.0",
    "org.wildfly.openssl:wildfly-openssl:2.2.5.Final",
)
"""What ABFS needs beside the jars of Spark 4.2."""


def download_jars(into: Path) -> None:
    """ABFS of Spark's Hadoop."""
    fetch([Jar("", "", coordinates) for coordinates in JARS], into)


@contextmanager
def azurite(folder: Path) -> Iterator[S3]:
    """The service with its objects in ``folder``, while the block runs."""
    command = [PROGRAM, "--location", str(folder), "--blobHost", "127.0.0.1", "--blobPort", "0"]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with listening(command, "successfully listens on") as line:
        yield S3(line.rpartition(" ")[2])


def make_container(endpoint: str) -> None:
    """The container of these tests; obstore makes none."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = f"PUT{12 * chr(10)}{named}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    signature = b64encode(hmac.digest(b64decode(KEY), signed.encode(), "sha256")).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    urlopen(Request(f"{endpoint}/{ACCOUNT}/{CONTAINER}?restype=container", method="PUT", headers=headers)).close()


class AzureLake(CopiedLake):
    """A source in a container."""

    root = f"abfs://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"

    @staticmethod
    def environment(way: S3) -> dict[str, str]:
        return {
            "AZURE_ENDPOINT": f"{way.endpoint}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_ALLOW_HTTP": "true",
        }

    def confs(self, service: S3) -> dict[str, str]:
        abfs = {
            "abfs.endpoint": service.endpoint.removeprefix("http://"),
            "account.hns.enabled": "false",
            "fns.account.service.type": "BLOB",
            "account.auth.type": "SharedKey",
            f"account.key.{ACCOUNT}.dfs.core.windows.net": KEY,
            "always.use.https": "false",
            # By default ABFS takes Apache's client, which wants certificates.
            "networking.library": "JDK_HTTP_URL_CONNECTION",
            "createRemoteFileSystemDuringInitialization": "true",
        }
        return super().confs(service) | {f"spark.hadoop.fs.azure.{name}": value for name, value in abfs.items()}
