"""A connection to Kafka, as options of the Java client.

The connection is the extra, as JSON, of an Airflow connection of type ``kafka``. Names are those of librdkafka or of
the Java client. Only the options listed here are allowed: others can load classes, run login modules or change what is
read. No error shows a value, which may be a secret.
"""

from __future__ import annotations

import json
import re

from airflow_backfill.core.errors import KafkaOption

VARIABLE = "AIRFLOW_BACKFILL_KAFKA"
"""The environment variable in which an application finds its connection."""
FILE = "airflow-backfill-kafka.json"
"""The file in the driver's working directory in which it finds the connection if the variable is not set."""

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SECURITY = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_JAVA = frozenset(
    {
        *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")),
        *(f"ssl.keystore.{name}" for name in ("type", "location", "password", "key", "certificate.chain")),
    }
)
_LOGIN = ("sasl.username", "sasl.password")
_AUTHORITY = {"ssl.ca.pem": "ssl.truststore.certificates", "ssl.ca.location": "ssl.truststore.location"}
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_USER, _PASSWORD = (rf"\s+{name}={_QUOTED}" for name in ("username", "password"))
_JAAS = re.compile(rf"\s*([\w.]+)\s+required(?:{_USER}{_PASSWORD}|{_PASSWORD}{_USER})\s*;\s*")


def client_options(connection: str) -> dict[str, str]:
    """The options of the Java client. KafkaOption, with the name, for a missing, invalid or forbidden option."""
    try:
        given = json.loads(connection)
    except ValueError:
        raise KafkaOption(
            'the connection\'s extra is not JSON; write it as {"bootstrap.servers": "host:9092"}'
        ) from None
    if not isinstance(given, dict):
        raise KafkaOption(
            'the connection\'s extra is not a JSON object; write it as {"bootstrap.servers": "host:9092"}'
        )
    for name, value in given.items():
        if name not in _JAVA and name not in _AUTHORITY and name not in (*_LOGIN, "sasl.mechanisms"):
            raise _refused(name, "is not allowed: it could load code or change what is read; remove it")
        if not isinstance(value, str) or not value.strip():
            raise _refused(name, "must be a non-empty string")
    options = _in_java(given)
    _check(options)
    return options


def _in_java(given: dict[str, str]) -> dict[str, str]:
    """The options, with librdkafka's names translated to those of the Java client."""
    options = {name: value for name, value in given.items() if name in _JAVA}

    def put(name: str, value: str) -> None:
        if name in options:
            raise _refused(name, "is set twice (librdkafka's name and Java's); remove one of them")
        options[name] = value

    if "sasl.mechanisms" in given:
        put("sasl.mechanism", given["sasl.mechanisms"])
    for name in _AUTHORITY.keys() & given.keys():
        put(_AUTHORITY[name], given[name])
        put("ssl.truststore.type", "PEM")
    if any(name in given for name in _LOGIN):
        user, password = (_needed(given, name) for name in _LOGIN)
        module = _MODULES.get(_needed(options, "sasl.mechanism"))
        put("sasl.jaas.config", f"{module} required username={_quote(user)} password={_quote(password)};")
    return options


def _check(options: dict[str, str]) -> None:
    _needed(options, "bootstrap.servers")
    protocol = options.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise _refused("security.protocol", f"must be one of {', '.join(_PROTOCOLS)}")
    if not protocol.startswith("SASL_"):
        return
    mechanism = _needed(options, "sasl.mechanism")
    if mechanism not in _MODULES:
        raise _refused("sasl.mechanism", f"must be one of {', '.join(_MODULES)}")
    jaas = _JAAS.fullmatch(_needed(options, "sasl.jaas.config"))
    if jaas is None or jaas[1] != _MODULES[mechanism]:
        raise _refused("sasl.jaas.config", f"must be {_MODULES[mechanism]} with a username and a password")


def _needed(options: dict[str, str], name: str) -> str:
    if name not in options:
        raise _refused(name, "is missing; add it to the connection's extra")
    return options[name]


def _quote(text: str) -> str:
    """A quoted string of a JAAS configuration, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _refused(name: str, why: str) -> KafkaOption:
    return KafkaOption(f"option {name} of the Kafka connection {why}", option=name)
