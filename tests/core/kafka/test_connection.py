"""Only listed options reach Java's client, in its words, and no error tells a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import KafkaOption
from airflow_backfill.core.kafka.connection import client_options

SECRET = "hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SERVERS = {"bootstrap.servers": "one:9092,two:9092"}
SASL = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def options(**given: Any) -> dict[str, str]:
    return client_options(json.dumps(given))


def test_servers_are_enough() -> None:
    assert options(**SERVERS) == SERVERS


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_the_words_of_librdkafka_become_those_of_java(mechanism: str, module: str) -> None:
    given = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanisms": mechanism}
    login = {"sasl.username": "reader", "sasl.password": SECRET}
    assert options(**given, **login, **{"ssl.ca.pem": "-----BEGIN"}) == {
        **SERVERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="reader" password="{SECRET}";',
        "ssl.truststore.certificates": "-----BEGIN",
        "ssl.truststore.type": "PEM",
    }


def test_the_words_of_java_stay() -> None:
    given = {
        **SASL,
        "sasl.jaas.config": f'{PLAIN} required username="reader" password="{SECRET}";',
        "ssl.truststore.location": "/trusted.p12",
        "ssl.truststore.password": SECRET,
        "ssl.keystore.key": "-----BEGIN",
        "ssl.keystore.certificate.chain": "-----BEGIN",
    }
    assert options(**given) == given


@pytest.mark.slow
@given(st.text(min_size=1).filter(str.strip))
def test_no_password_ends_its_quotes(password: str) -> None:
    made = options(**SASL, **{"sasl.username": "reader", "sasl.password": password})["sasl.jaas.config"]
    before, after = f'{PLAIN} required username="reader" password=', ";"
    assert made.startswith(before) and made.endswith(after)
    assert json.loads(made[len(before) : -len(after)]) == password


USER = 'username="reader"'
MODULE_OF_ANOTHER = "com.sun.security.auth.module.JndiLoginModule"
LOGINS = (
    f'{MODULE_OF_ANOTHER} required password="{SECRET}";',
    f'{SCRAM} required username="a" password="{SECRET}";',
    f'{PLAIN} required password="{SECRET}";',
    f'{PLAIN} required serviceName="{SECRET}";',
    f'{PLAIN} required {USER} password="{SECRET}"; {MODULE_OF_ANOTHER} required a="b";',
    f'{PLAIN} required {USER} password="a";b" {MODULE_OF_ANOTHER} required a="b";',
)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({**SERVERS, "sasl.login.class": SECRET}, "sasl.login.class"),
        ({**SERVERS, "isolation.level": "read_uncommitted"}, "isolation.level"),
        ({**SERVERS, "group.id": "mine"}, "group.id"),
        ({**SERVERS, "ssl.engine.factory.class": SECRET}, "ssl.engine.factory.class"),
        ({**SERVERS, "ssl.truststore.provider": SECRET}, "ssl.truststore.provider"),
        ({**SERVERS, "ssl.truststore.password": 7}, "ssl.truststore.password"),
        ({"bootstrap.servers": " "}, "bootstrap.servers"),
        ({}, "bootstrap.servers"),
        ({**SERVERS, "security.protocol": SECRET}, "security.protocol"),
        ({**SERVERS, "security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism"),
        (SASL, "sasl.jaas.config"),
        ({**SASL, "sasl.username": "reader"}, "sasl.password"),
        ({**SERVERS, "sasl.username": "reader", "sasl.password": SECRET}, "sasl.mechanism"),
        ({**SASL, "sasl.mechanisms": "PLAIN"}, "sasl.mechanism"),
        ({**SERVERS, "ssl.ca.pem": "a", "ssl.truststore.type": "JKS"}, "ssl.truststore.type"),
        ({**SERVERS, "ssl.ca.pem": "a", "ssl.ca.location": "b"}, "ssl.truststore.type"),
        *(({**SASL, "sasl.jaas.config": login}, "sasl.jaas.config") for login in LOGINS),
    ],
)
def test_all_else_is_refused_by_name(given: dict[str, Any], option: str) -> None:
    with pytest.raises(KafkaOption) as refused:
        options(**given)
    assert refused.value.data == {"option": option} and SECRET not in str(refused.value)


@pytest.mark.parametrize("text", ["", f"{{'{SECRET}'", "[]", '"servers"', "null"])
def test_what_is_no_json_object_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(KafkaOption, match=r"not (a )?JSON") as refused:
        client_options(text)
    assert SECRET not in str(refused.value) and refused.value.__cause__ is None
