"""A profile in AWS's own files opens a bucket, if nothing nearer does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.ledger import aws_profile
from airflow_backfill.ledger.aws_profile import Profile
from airflow_backfill.ledger.open_store import open_store
from tests.ledger.moto_s3 import SECRET, moto_s3

Write = Callable[[str], None]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_s3("lake") as found:
        yield found["aws_endpoint"]


@pytest.fixture
def credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Writes the file of the credentials; the environment names the service and no key."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return lambda text: Path(tmp_path / "credentials").write_text(text) and None


def keys(name: str, key: str = "AKIAPROFILE") -> str:
    return f"[{name}]\naws_access_key_id={key}\naws_secret_access_key={SECRET}\n"


def test_the_default_profile_opens_a_bucket(credentials: Write) -> None:
    credentials(keys("default"))
    store = open_store("s3a://lake/default")
    store.put("x", b"y")
    assert store.list("") == ["x"]


def test_the_environment_names_another(credentials: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    credentials(keys("default", "AKIADEFAULT") + keys("lake"))
    (tmp_path / "config").write_text("[profile lake]\nregion=eu-west-1\n")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert open_store("s3a://lake/named").list("") == []
    found = Profile.given(())
    assert found is not None and found()["access_key_id"] == "AKIAPROFILE" and found.config == {"region": "eu-west-1"}
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    given = Profile.given(())
    assert given is not None and given.config == {}


def test_keys_that_are_replaced_in_the_file_are_used(credentials: Write) -> None:
    credentials(keys("default", "AKIABEFORE"))
    found = Profile.given(())
    assert found is not None and found()["access_key_id"] == "AKIABEFORE"
    credentials(keys("default", "AKIAAFTER"))
    assert found()["access_key_id"] == "AKIAAFTER"


@pytest.mark.parametrize(
    "nearer",
    ["AWS_ACCESS_KEY_ID", "aws_access_key_id", "AWS_SKIP_SIGNATURE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"],
)
def test_what_obstore_finds_by_itself_is_nearer(
    credentials: Write, monkeypatch: pytest.MonkeyPatch, nearer: str
) -> None:
    credentials(keys("default"))
    assert Profile.given(()) is not None and Profile.given((nearer,)) is None
    monkeypatch.setenv(nearer, "x")
    assert Profile.given(()) is None


def test_files_without_credentials_leave_them_to_obstore(credentials: Write, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion=eu-west-1\n")
    assert Profile.given(()) is None


def test_a_profile_of_no_use_is_refused_at_once(
    credentials: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    credentials(keys("default"))
    monkeypatch.setenv("AWS_PROFILE", "lkae")
    with pytest.raises(InvalidSpec, match=r"AWS_PROFILE=lkae: The config profile \(lkae\) could not be found"):
        open_store("s3a://lake/unknown")
    monkeypatch.setenv("AWS_PROFILE", "empty")
    (tmp_path / "config").write_text("[profile empty]\nregion=eu-west-1\n")
    with pytest.raises(InvalidSpec, match="AWS_PROFILE=empty: this profile has no credentials"):
        open_store("s3a://lake/empty")


def test_a_profile_without_boto3_is_refused_if_it_is_named(credentials: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials(keys("default"))
    monkeypatch.setattr(aws_profile, "find_spec", lambda _: None)
    assert Profile.given(()) is None
    monkeypatch.setenv("AWS_PROFILE", "default")
    with pytest.raises(InvalidSpec, match="install the package boto3"):
        Profile.given(())


def test_a_role_that_is_not_given_says_why(credentials: Write, endpoint: str, tmp_path: Path) -> None:
    """As an ``aws sso login`` that is too old does: boto3's words, at the first request."""
    credentials(keys("base"))
    role = "arn:aws:iam::123456789012:role/nobody"
    (tmp_path / "config").write_text(
        f"[default]\nregion=us-east-1\nrole_arn={role}\nsource_profile=base\nservices=local\n"
        "[services local]\nsts =\n  endpoint_url = http://127.0.0.1:9\n"
    )
    with pytest.raises(SourceUnavailable, match=r"Could not connect to the endpoint URL"):
        open_store("s3a://lake/role").list("")
