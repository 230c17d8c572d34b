"""The identity of a container, as EKS gives it: session tokens that end soon, from a service of the machine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.loopback import answering
from tests.system.s3 import KEY, SECRET


class Identity:
    """Gives a new token, good for ``seconds``, to whoever asks."""

    def __init__(self, seconds: float, who: Path) -> None:
        """``who``: a file, for what a client says of itself."""
        self.seconds, self.who, self.address = seconds, who, ""
        who.write_text("me")
        self.ends: dict[str, float] = {}
        """By token: when it ends."""
        self.refused = list[str]()

    def knows(self, token: str) -> bool:
        good = time.time() < self.ends[token]
        if not good:
            self.refused.append(token)
        return good

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.address,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(self.who),
        }

    def given(self) -> dict[str, str]:
        token, end = f"token-{len(self.ends)}", time.time() + self.seconds
        self.ends[token] = end
        until = datetime.fromtimestamp(end, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": token, "Expiration": until}


@contextmanager
def identity(seconds: float, who: Path) -> Iterator[Identity]:
    one = Identity(seconds, who)

    class Gives(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            found = json.dumps(one.given()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

    with answering(Gives) as address:
        one.address = f"{address}/"
        yield one
