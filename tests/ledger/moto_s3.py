"""An S3 service on this machine, with one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from tests.ledger.moto_server import moto_server

SECRET = "wJalrXUtnSECRET"


@contextmanager
def moto_s3(bucket: str) -> Iterator[dict[str, str]]:
    """The settings with which obstore reaches the service while the block runs."""
    with moto_server() as address:
        endpoint = f"http://{address}"
        urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()
        try:
            yield {
                "aws_endpoint": endpoint,
                "aws_access_key_id": "AKIAEXAMPLE",
                "aws_secret_access_key": SECRET,
                "aws_region": "us-east-1",
            }
        finally:
            # moto keeps buckets and users in this process.
            urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
