"""An S3 on this machine: S3Proxy as a process, and a gate before it that loses, cuts or refuses answers, lets
credentials expire, or takes the condition off a write.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from time import sleep
from urllib.parse import urlsplit

from airflow_backfill.ledger.object_store import ObjectStore
from airflow_backfill.ledger.open_store import open_store
from environment import quick
from tests.loopback import answering

BUCKET, SOURCES = "lake", "tables"
"""The buckets of targets, and of tables that a writer changes behind the service's back, as files."""
KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnSECRETxEXAMPLE"
SLOW_DOWN = 503, "SlowDown", "Please reduce your request rate."
EXPIRED = 400, "ExpiredToken", "The provided token has expired."
CONFLICT = 409, "ConditionalRequestConflict", "A conflicting operation is in progress against this resource."
DENIED = 403, "AccessDenied", "User: a is not authorized to perform: s3:GetObject on resource: &quot;b?key=secret&quot;"
NO_UPLOAD = 404, "NoSuchUpload", "The specified upload does not exist. It may have been aborted or completed."
Refusal = tuple[int, str, str]
"""Status, code and message."""
JAVA = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class S3:
    """A service at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which S3A, obstore and Spark find the service, and who asks."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    @property
    def confs(self) -> dict[str, str]:
        """Settings of a Spark on this machine that uses the service; no secret is among them."""
        folder = Path(sys.prefix) / "s3a"
        jars = os.pathsep.join([*quick.jars(), *sorted(map(str, folder.glob("*.jar")))])
        return {
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # The service knows no ETag of files that it did not write; by default S3A needs one.
            f"spark.hadoop.fs.s3a.bucket.{SOURCES}.input.stream.type": "classic",
            f"spark.hadoop.fs.s3a.bucket.{SOURCES}.change.detection.version.required": "false",
        }

    def store(self, prefix: str) -> ObjectStore:
        """Files under a prefix of the bucket, by a client of its own."""
        options = {name.lower(): value for name, value in self.environment.items() if name != "AWS_ALLOW_HTTP"}
        options["aws_endpoint"] = options.pop("aws_endpoint_url")
        store = open_store(f"s3a://{BUCKET}/{prefix}", options=options)
        assert isinstance(store, ObjectStore)
        return store


@contextmanager
def s3(folder: Path, *, asks_who: bool = True) -> Iterator[S3]:
    """S3Proxy with its objects in ``folder``, while the block runs. ``asks_who``: requests have to be signed."""
    for bucket in (BUCKET, SOURCES):
        (folder / "objects" / bucket).mkdir(parents=True)
    settings = {
        "s3proxy.endpoint": "http://127.0.0.1:0",
        "s3proxy.authorization": "aws-v2-or-v4" if asks_who else "none",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "s3proxy.ignore-unknown-headers": "true",  # a session token is one; its signature is checked all the same
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "objects"),
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    (jar,) = (Path(sys.prefix) / "s3proxy").glob("*.jar")
    command = ["java", *JAVA, "-cp", str(jar), "org.gaul.s3proxy.Main", "--properties", str(properties)]
    with listening(command, "Started .*ServerConnector") as line:
        yield S3(f"http://{line.rpartition('{')[2].rstrip('}')}")


@contextmanager
def listening(command: Sequence[str], pattern: str) -> Iterator[str]:
    """A service while the block runs, and the first line with the ``pattern``, in which it says where it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if re.search(pattern, line):
                break
        else:
            raise AssertionError("".join(said))
        Thread(target=process.stdout.read, daemon=True).start()
        yield said[-1].strip()
    finally:
        process.kill()
        process.wait()


class Gate(S3):
    """A way to the service on which things go wrong."""

    def __init__(self, endpoint: str, behind: S3) -> None:
        super().__init__(endpoint)
        self.behind = behind
        self.expired = False
        """Whether every request is answered with ExpiredToken."""
        self.knows: Callable[[str], bool] = lambda token: True
        """Whether a session token is still good; else the answer is ExpiredToken."""
        self.busy = False
        """Whether every request is answered with SlowDown."""
        self.refuses: Callable[[str, str], Refusal | None] = lambda method, path: None
        """With what the request is refused, if it is."""
        self.cuts: Callable[[str, str, str], bool] = lambda method, path, part: False
        """Whether the body of the answer ends in its middle. ``part``: the range of the object that is asked for."""
        self.holds: Callable[[str, str], bool] = lambda method, path: False
        """Whether the request gets no answer, and is not carried out, as long as this says so."""
        self.loses_answer: Callable[[str, str], bool] = lambda method, path: False
        """Whether the request is carried out, and the answer to it lost."""
        self.takes_condition = False
        """Whether If-None-Match is taken off each request."""
        self.asked = list[tuple[str, str]]()
        """Method and path of each request."""
        self.lost = list[str]()
        """Paths whose answers were lost."""


class _Way(BaseHTTPRequestHandler):
    """One client's way through a gate."""

    protocol_version = "HTTP/1.1"
    gate: Gate

    def log_message(self, *_: object) -> None:
        pass

    def _pass(self) -> None:
        body = self._body()
        self.gate.asked.append((self.command, self.path))
        while self.gate.holds(self.command, self.path):
            sleep(0.1)
        token = self.headers.get("x-amz-security-token")
        expired = self.gate.expired or (token is not None and not self.gate.knows(token))
        busy = SLOW_DOWN if self.gate.busy else self.gate.refuses(self.command, self.path)
        if refusal := EXPIRED if expired else busy:
            status, code, said = refusal
            error = f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{said}</Message></Error>'.encode()
            self._answer(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(error)))], error)
            return
        status, headers, data = self._carried_out(body)
        if self.gate.loses_answer(self.command, self.path):
            self.gate.lost.append(self.path)
            self.close_connection = True
            return
        cut = self.gate.cuts(self.command, self.path, self.headers.get("Range", ""))
        self._answer(status, headers, data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    def _body(self) -> bytes:
        """All of it, be it sent in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        del self.headers["Transfer-Encoding"]
        self.headers["Content-Length"] = str(len(found))
        return bytes(found)

    def _carried_out(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        way = HTTPConnection(urlsplit(self.gate.behind.endpoint).netloc, timeout=60)
        try:
            way.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if not (self.gate.takes_condition and name.lower() == "if-none-match"):
                    way.putheader(name, value)
            way.endheaders(body)
            found = way.getresponse()
            data = found.read()
        finally:
            way.close()
        hops = ("transfer-encoding", "connection")
        headers = [(name, value) for name, value in found.getheaders() if name.lower() not in hops]
        if found.getheader("Transfer-Encoding"):
            headers.append(("Content-Length", str(len(data))))
        return found.status, headers, data

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def handle(self) -> None:
        with suppress(ConnectionError, HTTPException):
            super().handle()


@contextmanager
def gate(behind: S3) -> Iterator[Gate]:
    """A gate to this service while the block runs."""
    way = type("Way", (_Way,), {})
    with answering(way) as address:
        way.gate = one = Gate(address, behind)
        yield one
