"""Airflow's own connections to AWS open a bucket, for readers without Spark and for Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
import pytest
from moto.core.authorization import enable_iam_authentication

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.hooks.ledger import LedgerHook, store_environment
from tests.ledger.moto_s3 import moto_s3

BUCKET = "s3a://lake/orders"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}],
}
READER = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
ROLE = "arn:aws:iam::123456789012:role/reader"


@pytest.fixture(scope="module")
def service():
    with moto_s3("lake") as found:
        yield found


@pytest.fixture
def endpoint(service, monkeypatch, tmp_path):
    """The service; nothing on this machine has credentials for it."""
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return service["aws_endpoint"]


@pytest.fixture
def user(endpoint, service, monkeypatch):
    """An access key that may do nothing but take the role of a reader."""
    root = {name: service[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
    iam = boto3.client("iam", endpoint_url=endpoint, region_name="us-east-1", **root)
    iam.create_role(RoleName="reader", AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.put_role_policy(RoleName="reader", PolicyName="all", PolicyDocument=json.dumps(READER))
    iam.create_user(UserName="worker")
    may = json.dumps({**READER, "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]})
    iam.put_user_policy(UserName="worker", PolicyName="assume", PolicyDocument=may)
    key = iam.create_access_key(UserName="worker")["AccessKey"]
    yield key["AccessKeyId"], key["SecretAccessKey"]
    iam.delete_access_key(UserName="worker", AccessKeyId=key["AccessKeyId"])
    iam.delete_user_policy(UserName="worker", PolicyName="assume")
    iam.delete_user(UserName="worker")
    iam.delete_role_policy(RoleName="reader", PolicyName="all")
    iam.delete_role(RoleName="reader")


def given(monkeypatch, endpoint, login=None, password=None, **extra):
    settings = {"endpoint_url": endpoint, "region_name": "eu-west-1", **extra}
    connection = {"conn_type": "aws", "login": login, "password": password, "extra": settings}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))
    return "aws_default"


def test_keys_open_a_bucket(endpoint, service, monkeypatch):
    conn = given(monkeypatch, endpoint, service["aws_access_key_id"], service["aws_secret_access_key"])
    store = LedgerHook(conn).delta_log(BUCKET)._store
    store.put("x", b"y")
    assert store.list("") == ["x"]
    assert store_environment(conn) == {
        "AWS_ACCESS_KEY_ID": service["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": service["aws_secret_access_key"],
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
    }


def test_a_role_is_assumed_and_what_it_gives_is_used(endpoint, user, monkeypatch):
    conn = given(monkeypatch, endpoint, *user, role_arn=ROLE, service_config={"sts": {"endpoint_url": endpoint}})
    with enable_iam_authentication():
        store = LedgerHook(conn).delta_log(BUCKET)._store
        store.put("by a role", b"y")
        assert "by a role" in store.list("")
        found = store_environment(conn)
        assert found["AWS_SESSION_TOKEN"] and found["AWS_ACCESS_KEY_ID"] != user[0]
        with pytest.raises(SourceUnavailable):
            LedgerHook(given(monkeypatch, endpoint, *user)).delta_log(BUCKET)._store.list("")


def test_readers_of_a_process_share_a_session_until_the_connection_changes(endpoint, service, monkeypatch):
    first = given(monkeypatch, endpoint, service["aws_access_key_id"], "one")
    assert LedgerHook(first).options == LedgerHook(first).options
    before = LedgerHook(first).options
    assert LedgerHook(given(monkeypatch, endpoint, service["aws_access_key_id"], "two")).options != before


def test_what_aws_refuses_is_said_without_secrets(endpoint, monkeypatch):
    where = {"service_config": {"sts": {"endpoint_url": endpoint}}}
    conn = given(monkeypatch, endpoint, "AKIANOBODY", "canary", role_arn=ROLE, **where)
    with enable_iam_authentication():
        for look in (lambda: LedgerHook(conn).options, lambda: store_environment(conn)):
            with pytest.raises(SourceUnavailable, match="'aws_default' gets no credentials from AWS: ") as refused:
                look()
            assert "canary" not in str(refused.value)


def test_a_connection_without_credentials_is_refused(endpoint, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidSpec, match="'aws_default' has no credentials, and this machine has none"):
        store_environment(given(monkeypatch, endpoint))


def test_a_profile_of_the_machine_opens_a_bucket(endpoint, service, monkeypatch, tmp_path):
    keys = f"aws_access_key_id={service['aws_access_key_id']}\naws_secret_access_key=x\n"
    Path(tmp_path / "AWS_SHARED_CREDENTIALS_FILE").write_text(f"[lake]\n{keys}")
    conn = given(monkeypatch, endpoint, profile_name="lake")
    assert LedgerHook(conn).delta_log(BUCKET)._store.list("never") == []
    assert store_environment(conn)["AWS_ACCESS_KEY_ID"] == service["aws_access_key_id"]


def test_without_the_provider_for_amazon_it_says_what_to_install(endpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.providers.amazon.aws.hooks.base_aws", None)
    with pytest.raises(InvalidSpec, match="install apache-airflow-providers-amazon, or use a connection of the type"):
        store_environment(given(monkeypatch, endpoint, "AKIANOPROVIDER", "x"))
