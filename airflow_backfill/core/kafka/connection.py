"""How a Kafka is reached: what a connection may say of it, as options of Java's client.

A connection is the JSON that Airflow keeps in the extra of a connection of type ``kafka``, in the words of librdkafka
or in those of Java's client. Only what is listed here passes: other options load classes, run login modules or change
what is read. No error repeats a value, which may be a secret.
"""

from __future__ import annotations

import json
import re

from airflow_backfill.core.errors import KafkaOption

VARIABLE = "AIRFLOW_BACKFILL_KAFKA"
"""The environment variable in which an application finds its connection."""

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
    """The options of Java's client for a connection; KafkaOption, naming the option, unless all of it may be said."""
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
            raise _refused(name, "may not be set; leave it out")
        if not isinstance(value, str) or not value.strip():
            raise _refused(name, "must be a non-empty string")
    options = _in_java(given)
    _check(options)
    return options


def _in_java(given: dict[str, str]) -> dict[str, str]:
    """The options with those of librdkafka put into Java's words."""
    options = {name: value for name, value in given.items() if name in _JAVA}

    def put(name: str, value: str) -> None:
        if name in options:
            raise _refused(name, "is set twice (librdkafka's name and Java's); leave one of them out")
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
    """As Java reads a quoted text: the same escapes as in JSON."""
    return json.dumps(text, ensure_ascii=False)


def _refused(name: str, why: str) -> KafkaOption:
    return KafkaOption(f"the option {name} {why}", option=name)
