from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.ledger.location import Location, first_line


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/data/t", ("file", "", "/data/t")),
        ("/data/100%20#?@:t", ("file", "", "/data/100%20#?@:t")),
        ("file:/data/t", ("file", "", "/data/t")),
        ("file:///data/a%20b", ("file", "", "/data/a%20b")),
        ("S3A://bucket/a/b", ("s3a", "bucket", "/a/b")),
        ("gs://bucket", ("gs", "bucket", "")),
        ("hdfs://name:8020/t", ("hdfs", "name:8020", "/t")),
        ("hdfs:///t", ("hdfs", "", "/t")),
        ("s3://bucket/user@host/t", ("s3", "bucket", "/user@host/t")),
        ("abfss://container@account.dfs.core.windows.net/t", ("abfss", "container@account.dfs.core.windows.net", "/t")),
    ],
)
def test_a_location_is_taken_apart(url: str, expected: tuple[str, str, str]) -> None:
    location = Location.parse(url)
    assert (location.scheme, location.authority, location.path) == expected
    assert location.local is (expected[0] == "file") and Location.parse(location.url) == location


@pytest.mark.parametrize(
    "url",
    ["s3a://AKIAEXAMPLE:SECRETKEY@bucket/t", "s3a://AKIAEXAMPLE:SECRET/KEY@bucket/t",
     "s3a://AKIAEXAMPLE:SECRET+KEY=@bucket/t", "s3a://AKIAEXAMPLE:SECRETKEY", "s3a://SECRETKEY@bucket/t",
     "s3a://AKIAEXAMPLE:12/SECRETKEY@bucket/t", "s3a://AKIAEXAMPLE%3ASECRETKEY%40bucket/t",
     "abfss://container:SECRETKEY@account/t", "abfss://container:12@account/SECRETKEY@",
     "abfss://container@account/t?sv=1&sig=SECRETKEY", "https://host/t?X-Amz-Signature=SECRETKEY@x",
     "AKIAEXAMPLE:SECRETKEY@bucket/t", "file://AKIAEXAMPLE:SECRETKEY@host/t",
     "s3a://AKIAEXAMPLE:SECRETKEY@bucket/t\n"],
)  # fmt: skip
def test_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        Location.parse(url)
    shown = f"{raised.value} {raised.value.data} {raised.value.__cause__}"
    assert not [part for part in ("SECRET", "KEY@", "KEY=") if part in shown]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data/t",
        "./t",
        "file:",
        "file://host/t",
        "s3://b/../c",
        "/a/../b",
        "/a\0b",
        "/a\nb",
        "s3:b/t",
        "C:\\t",
        "/a ",
        " /a",
        "s3://b/t ",
    ],
)
def test_what_is_no_clean_location_is_refused(url: str) -> None:
    with pytest.raises(InvalidSpec):
        Location.parse(url)


@pytest.mark.parametrize("url", ["", "  ", "None", None], ids=repr)
def test_what_a_template_gives_for_no_value_says_which_task_to_clear(url: str | None) -> None:
    with pytest.raises(InvalidSpec, match=r"a location is empty.*clear the plan"):
        Location.parse(url)


@pytest.mark.parametrize("url", [5, True, ["/data/t"], {"/data/t": 1}, b"/data/t", Path("/data/t")])
def test_what_is_no_text_is_refused(url: object) -> None:
    """With ``render_template_as_native_obj`` a template may give any object."""
    with pytest.raises(InvalidSpec, match=f"must be a text.*{type(url).__name__}"):
        Location.parse(url)


@given(st.text())
def test_any_text_is_a_location_or_refused(text: str) -> None:
    try:
        location = Location.parse(text)
    except InvalidSpec:
        return
    assert Location.parse(location.url) == location


def test_the_query_of_a_signed_url_is_left_out_of_messages() -> None:
    error = ValueError("GET https://host/path?sig=SECRET&x=1 failed\nDebug source: SECRET")
    assert first_line(error) == "GET https://host/path?*** failed"
