"""An S3 service on this machine, with one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

SECRET = "wJalrXUtnSECRET"


@contextmanager
def moto_s3(bucket: str) -> Iterator[dict[str, str]]:
    """The settings with which obstore reaches the service while the block runs."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()
    yield {
        "aws_endpoint": endpoint,
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
    }
    server.stop()
