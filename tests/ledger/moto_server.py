"""AWS on this machine (moto). It answers one request at a time: moto looks at a condition and then writes, and AWS does
both at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any
from unittest.mock import patch

from moto.backends import list_of_moto_modules
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


@contextmanager
def moto_server(*, encrypted: bool = False) -> Iterator[str]:
    """The address while the block runs; ``encrypted`` with a certificate that nobody knows."""
    logging.getLogger("werkzeug").setLevel("WARNING")  # at INFO it writes a line for each request
    certificate = "adhoc" if encrypted else None
    server = make_server("127.0.0.1", 0, _OneAtATime(), threaded=True, ssl_context=certificate)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    # For each request moto looks for its modules on the disk, which takes a third of the time.
    with patch("moto.backends.list_of_moto_modules", return_value=[*list_of_moto_modules()]):
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _OneAtATime:
    def __init__(self) -> None:
        self._services, self._lock = DomainDispatcherApplication(create_backend_app), Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return [b"".join(self._services(environ, start_response))]
