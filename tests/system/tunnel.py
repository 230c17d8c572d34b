"""A way by which a Java finds a service of this machine under the name of a public one, by TLS: a proxy."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from tests.loopback import answering

PASSWORD = "changeit"


@contextmanager
def tunnel(folder: Path, name: str, endpoint: str) -> Iterator[str]:
    """Java's options by which ``https://name`` is the service at ``endpoint``. ``folder`` gets key and certificate."""
    key, certificate, trusted = folder / "key.pem", folder / "certificate.pem", folder / "trusted.p12"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    made += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(certificate)]
    kept = ["keytool", "-importcert", "-noprompt", "-alias", name, "-file", str(certificate)]
    kept += ["-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", PASSWORD]
    for command in (made, kept):
        subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    behind = urlsplit(endpoint)

    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            with context.wrap_socket(self.connection, server_side=True) as near:
                with socket.create_connection((str(behind.hostname), behind.port or 80)) as far:
                    back = Thread(target=_pass, args=(far, near), daemon=True)
                    back.start()
                    _pass(near, far)
                    back.join()

    with answering(Proxy) as address:
        proxy = urlsplit(address)
        options = {
            "https.proxyHost": proxy.hostname,
            "https.proxyPort": proxy.port,
            "javax.net.ssl.trustStore": trusted,
            "javax.net.ssl.trustStorePassword": PASSWORD,
        }
        yield " ".join(f"-D{name}={value}" for name, value in options.items())


def _pass(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
