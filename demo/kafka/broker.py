"""A Kafka broker (KRaft, with its own controller) as a process on loopback, for small topics that change quickly.

It needs the jars of ``environment/broker.lock`` and Java. One directory has all its files: data, certificate, and
``broker.log``.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from environment import quick

PATIENCE_SECONDS = 180.0
"""How long a broker may take to start or to stop."""

_JAVA = [
    *quick.OPTIONS.split(),
    *("-Xmx512m", "-XX:-UsePerfData", "-Djava.awt.headless=true"),
    *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"),
]

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "listener.security.protocol.map": (
        "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "auto.create.topics.enable": "false",
    # The broker's internal topics have one replica.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill, a new broker waits for this long. A broker that is paused for longer is fenced.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "200",
    # Compact topics at once.
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "log.cleaner.delete.retention.ms": "0",
    # Records may have any timestamp: only a topic's own settings delete them.
    "log.retention.ms": "-1",
}


@dataclass(frozen=True, slots=True)
class Login:
    """Name and password for the SASL listeners."""

    user: str
    password: str


class BrokerError(Exception):
    """The broker did not start or stop. The message has the end of its log."""


class Broker:
    """A broker with its data in ``directory``. As a context manager, it runs while the block runs.

    ``servers`` needs no login. With a ``login`` there are three more listeners: ``sasl_servers`` needs it (SASL/PLAIN),
    ``tls_servers`` uses TLS with the certificate in the file ``certificate``, ``sasl_tls_servers`` does both. There
    ``guests`` may log in, too, and do what ``demo.kafka.rights`` allows them; everybody else may do everything. Ports
    stay the same for the lifetime of the object, so that clients find a restarted broker. With ``apart`` it is in its
    own session, so that Ctrl-C does not stop it before its clients.
    """

    def __init__(
        self, directory: Path, login: Login | None = None, *, guests: Sequence[Login] = (), apart: bool = False
    ) -> None:
        self.directory = directory
        self.log = directory / "broker.log"
        self.certificate = directory / "certificate.pem"
        self._login, self._guests = login, guests
        self._apart = apart
        self._plain, self._controller, self._sasl, self._tls, self._both = free_ports(5)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return _address(self._plain)

    @property
    def sasl_servers(self) -> str:
        return _address(self._sasl)

    @property
    def tls_servers(self) -> str:
        return _address(self._tls)

    @property
    def sasl_tls_servers(self) -> str:
        return _address(self._both)

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, and return once it answers. BrokerError if it ends, or does not answer in time."""
        settings = self.directory / "server.properties"
        if not settings.exists():
            self._prepare(settings)
        with self.log.open("ab") as log:
            command = java_command("kafka.Kafka", settings)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=self._apart)
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker with SIGTERM; kill it if that takes too long."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Pause the broker: it keeps its connections, but does not answer. After more than five seconds it is fenced,
        and has no leader for a moment after ``resume``.
        """
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)
        self._wait()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError("the broker is not running; call start() first")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused process does not see SIGTERM
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._answers():
            if self._running.poll() is not None or time.monotonic() > deadline:
                raise BrokerError(f"the broker does not answer; the end of its log:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            # Try the port first: the client below logs every refused connection, and retries slowly.
            socket.create_connection(("127.0.0.1", self._plain), 1).close()
            return bool(AdminClient({"bootstrap.servers": self.servers}).list_topics(timeout=5).brokers)
        except (OSError, KafkaException):
            return False

    def _prepare(self, settings: Path) -> None:
        """Create settings, certificate and an empty store."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._login is not None:
            self._make_certificate()
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # As one argument, because an id may begin with a dash.
        _run(java_command("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", settings))

    def _settings(self) -> dict[str, Any]:
        listeners = {"PLAIN": self._plain, "CONTROLLER": self._controller}
        more: dict[str, Any] = {}
        if self._login is not None:
            listeners |= {"SASL": self._sasl, "TLS": self._tls, "BOTH": self._both}
            users = " ".join(f'user_{one.user}="{one.password}"' for one in (self._login, *self._guests))
            login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            if self._guests:
                masters = f"User:ANONYMOUS;User:{self._login.user}"
                more = {"authorizer.class.name": _AUTHORIZER, "super.users": masters}
            more |= {
                **{f"listener.name.{name}.plain.sasl.jaas.config": login for name in ("sasl", "both")},
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": self._keystore,
                "ssl.keystore.password": _STORE_PASSWORD,
            }
        return {
            **_SETTINGS,
            **more,
            "log.dirs": self.directory / "data",
            "listeners": ",".join(f"{name}://{_address(port)}" for name, port in listeners.items()),
            "controller.quorum.voters": f"1@{_address(self._controller)}",
        }

    @property
    def _keystore(self) -> Path:
        return self.directory / "keystore.p12"

    def _make_certificate(self) -> None:
        """Create a key with a self-signed certificate."""
        store = ["-alias", "broker", "-keystore", self._keystore, "-storepass", _STORE_PASSWORD]
        subject = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc:c=ca:true"]
        keytool = _tool("keytool")
        _run([keytool, "-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-validity", "3650", *store, *subject])
        _run([keytool, "-exportcert", "-rfc", "-file", self.certificate, *store])


_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_STORE_PASSWORD = "only-in-this-directory"


def java_command(*command: str | Path) -> list[str | Path]:
    """The command line of a Kafka class, such as ``kafka.Kafka``, with its arguments."""
    jars = Path(sys.prefix) / "broker" / "*"
    return [_tool("java"), *_JAVA, "-cp", jars, *command]


def _tool(name: str) -> str | Path:
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", name) if home else name


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BrokerError(f"{command[0]} failed:\n{done.stdout[-4000:]}")


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"


def free_ports(count: int) -> list[int]:
    """Free ports below the range for outgoing connections, so that no connection takes the port of a restarting
    broker.
    """
    found: list[int] = []
    for port in random.sample(range(20_000, 30_000), 1_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise BrokerError(f"fewer than {count} ports from 20000 to 29999 are free; end other processes that listen there")
