from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import boto3
import pytest

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.ledger import object_store
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.journal import Journal
from airflow_backfill.ledger.object_store import ObjectStore
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.requests import REQUESTS
from airflow_backfill.ledger.store import Store
from tests.ledger.contract import CHECKS
from tests.ledger.moto_s3 import SECRET, moto_s3
from tests.system.s3 import CONFLICT, DENIED, S3, SLOW_DOWN, Gate, Refusal, gate


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """Settings for an S3 service on this machine, with one bucket."""
    with moto_s3("bucket") as found:
        yield found


@pytest.fixture
def store(options: dict[str, str], request: pytest.FixtureRequest) -> Store:
    return open_store(f"s3a://bucket/some/{request.node.name}", options=options)


@pytest.fixture
def service(options: dict[str, str]) -> Any:
    """A plain client of that service."""
    return boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        region_name=options["aws_region"],
    )


@pytest.fixture
def way(options: dict[str, str]) -> Iterator[Gate]:
    """A way to that service on which things go wrong."""
    with gate(S3(options["aws_endpoint"])) as one:
        yield one


@pytest.fixture
def far(options: dict[str, str], way: Gate, request: pytest.FixtureRequest) -> Store:
    """A store on that way."""
    return open_store(f"s3a://bucket/far/{request.node.name}", options={**options, "aws_endpoint": way.endpoint})


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_a_store(check: Callable[[Store], None], store: Store) -> None:
    assert isinstance(store, ObjectStore)
    check(store)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_request_is_counted(
    check: Callable[[Store], None], store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "werkzeug")  # the service writes a line for each
    before = REQUESTS.made
    check(store)
    assert REQUESTS.made - before == len([one for one in caplog.records if one.name == "werkzeug"])


@pytest.mark.parametrize("setting", [{"aws_allow_http": "True"}, {"aws_timeout": "30s"}, {"aws_http2_only": "no"}])
def test_a_setting_of_the_client_is_one_of_the_store(options: dict[str, str], setting: dict[str, str]) -> None:
    """The library panics, past every ``except``, if it finds one among those of the bucket."""
    store = open_store("s3a://bucket/client", options={**options, **setting})
    store.put("x", b"y")
    assert store.list("") == ["x"]


@pytest.mark.parametrize(
    "setting",
    [{"aws_timeout": "soon"}, {"aws_allow_http": "maybe"}, {"aws_nonsense": "1"}, {"aws_credential_provider": "mine"}],
)
def test_a_setting_of_no_use_is_refused(setting: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec, match="s3a://bucket/t: "):
        open_store("s3a://bucket/t", options=setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"aws_endpoint": "localhost:9000"},
        {"aws_endpoint": "http://localhost:99999"},
        {"aws_endpoint": str({"url": "http://localhost"})},
        {"aws_access_key_id": "canary\n"},
    ],
)
def test_a_setting_that_fits_into_no_request_is_refused(options: dict[str, str], setting: dict[str, str]) -> None:
    """The library panics when it makes one."""
    store = open_store("s3a://bucket/t", options={**options, **setting})
    for request in (lambda: store.list("x"), lambda: store.read("x", 1), lambda: store.create("x", b"")):
        with pytest.raises(InvalidSpec, match=r"s3a://bucket/t: obstore can send no request: .*ledger_conn_id") as said:
            request()
        assert "canary" not in str(said.value)


@pytest.mark.slow
def test_a_listing_of_many_pages_is_whole(store: Store) -> None:
    names = [f"{number:05}" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(f"f/{name}", b""), names))
    before = REQUESTS.made
    assert store.list("f") == names and store.list("f", after="00049") == names[50:]
    assert REQUESTS.made - before == 4


@pytest.mark.parametrize("after", ["", "00", "folder"])
def test_a_listing_skips_large_subfolders(store: Store, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of a log, where a table may have thousands of ``_sidecars``."""
    monkeypatch.setattr(object_store, "PAGE", 4)
    files = ["00", "01", "folder-", "folder0", "z"]
    for name in (*files, *(f"_sidecars/{n}" for n in range(40)), *(f"folder/{n}" for n in range(40))):
        store.put(f"f/{name}", b"")
    before = REQUESTS.made
    assert store.list("f", after) == [name for name in files if name > after]
    assert REQUESTS.made - before <= 4


def test_a_folder_that_a_tool_has_made_is_no_file(store: Store, service: Any) -> None:
    store.put("f/a", b"")
    for key in ("f/", ""):
        service.put_object(Bucket="bucket", Key=f"{store.url.partition('bucket/')[2]}/{key}")
    assert store.list("f") == ["a"] and store.folders("") == ["f"] and not store.folders("f")


def test_a_slash_or_a_dot_more_is_no_other_place(options: dict[str, str], service: Any) -> None:
    open_store("s3a://bucket/more//./t/", options=options).put("f/a", b"x")
    assert service.get_object(Bucket="bucket", Key="more/t/f/a")["Body"].read() == b"x"


def test_an_object_that_cannot_be_listed_is_named(store: Store, service: Any) -> None:
    service.put_object(Bucket="bucket", Key=f"{store.url.partition('bucket/')[2]}/f//x")
    for call in (store.list, store.folders):
        with pytest.raises(InvalidSpec, match=r"f//.* empty path segment.*move it away"):
            call("f")


def test_a_log_and_a_journal_in_a_bucket(store: Store) -> None:
    first = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
    store.put("_delta_log/00000000000000000000.json", first + b'{"metaData":{"id":"t","schemaString":"{}"}}\n')
    store.put("_delta_log/00000000000000000001.json", b'{"txn":{"appId":"a","version":5}}')
    store.put("_delta_log/_staged_commits/00000000000000000002.x.json", b"{}")
    log = DeltaLog(store)
    assert log.head() == 1 and log.read(1).txns == {"a": 5}
    assert log.protocol_and_metadata()[1].table_id == "t"
    journal = Journal(store, "_control")
    # One after the other: moto looks and then writes. tests/system/test_s3_server.py has races.
    assert [journal.append({"i": i}) for i in range(12)] == list(range(1, 13))
    assert {document["i"] for _, document in journal.after(0)} == set(range(12))


@pytest.mark.parametrize(
    ("url", "extra"),
    [("hdfs://name/t", {}), ("s3:///t", {}), ("s3://bucket/t", {"aws_nonsense": "1"}),
     ("s3://bucket/t", {"allow_http": "true"}), ("gs://bucket/t", {"aws_region": "x"})],
)  # fmt: skip
def test_what_cannot_be_opened_is_refused(url: str, extra: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec):
        open_store(url, options=extra)


@pytest.mark.parametrize("url", ["gs://bucket/t", "abfss://container@account.dfs.core.windows.net/t"])
def test_other_clouds_can_be_opened(url: str) -> None:
    assert open_store(url).url == url


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A request is repeated at once, and for a second at most."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=1)}
    retries = {**object_store.RETRIES, "retry_timeout": timedelta(seconds=1), "backoff": backoff}
    monkeypatch.setattr(object_store, "RETRIES", retries)
    object_store._client.cache_clear()
    yield
    object_store._client.cache_clear()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "change", [{"aws_endpoint": "http://127.0.0.1:1"}, {"bucket": "missing"}], ids=["no service", "no bucket"]
)
def test_trouble_is_coded_and_keeps_secrets(change: dict[str, Any], options: dict[str, str]) -> None:
    bucket = change.pop("bucket", "bucket")
    store = open_store(f"s3://{bucket}/t", options=options | change)
    for call in (
        lambda: store.put("x", b"x"),
        lambda: store.list("f"),
        lambda: store.read("x", 1),
        lambda: list(store.chunks("x")),
    ):
        with pytest.raises(SourceUnavailable) as raised:
            call()
        assert raised.value.retry and "\n" not in str(raised.value)
        assert SECRET not in f"{raised.value} {raised.value.data} {raised.value.__cause__}"


def test_stores_of_a_bucket_share_a_client_unless_their_settings_differ(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(url: str, **more: str) -> Any:
        return open_store(url, options=options | more)._bucket  # type: ignore[attr-defined]

    one = client("s3a://bucket/a/b")
    assert client("s3a://bucket/c") is one and client("s3://bucket/") is one
    assert client("s3a://bucket/a/b", aws_secret_access_key="another") is not one
    assert client("s3a://other/a/b") is not one
    monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
    assert client("s3a://bucket/a/b") is not one


def test_an_empty_object_is_read_as_such(store: Store) -> None:
    store.put("empty", b"")
    assert store.read("empty", 10) == b"" and b"".join(store.chunks("empty")) == b""


@pytest.mark.usefixtures("soon")
def test_a_service_that_is_too_busy_for_a_while_is_asked_again(far: Store, way: Gate) -> None:
    """S3 refuses more than a few requests in a row while it makes room for a prefix."""
    far.put("x", b"here")

    def refuses(method: str, path: str) -> Refusal | None:
        return SLOW_DOWN if way.asked.count((method, path)) <= 20 else None

    way.refuses = refuses
    way.asked.clear()
    assert far.read("x", 10) == b"here" and far.list("") == ["x"] and far.create("y", b"")
    way.busy = True
    way.asked.clear()
    with pytest.raises(SourceUnavailable, match=r"x: .*SlowDown: Please reduce"):
        far.read("x", 10)
    assert {method for method, _ in way.asked} == {"GET"}  # whether the object is empty is asked only if that matters


def test_a_creation_that_meets_another_request_is_repeated(far: Store, way: Gate) -> None:
    """obstore takes S3's 409 for a file that exists: a journal had a gap, and the request to a service was not made."""
    first = set[str]()

    def refuses(method: str, path: str) -> Refusal | None:
        if method != "PUT" or path in first:
            return None
        first.add(path)
        return CONFLICT

    way.refuses = refuses
    assert far.create("x", b"mine") is True and far.read("x", 10) == b"mine"
    assert [Journal(far, "j").append({"n": n}) for n in range(2)] == [1, 2] and len(first) == 3
    assert far.create("x", b"late") is False
    way.refuses = lambda method, path: CONFLICT if method == "PUT" else None
    with pytest.raises(SourceUnavailable, match=r"y: .*ConditionalRequestConflict"):
        far.create("y", b"mine")


def test_a_journal_whose_answers_are_lost_has_each_document_once(far: Store, way: Gate) -> None:
    journal = Journal(far, "j")
    way.loses_answer = lambda method, path: method == "PUT" and path not in way.lost and len(way.lost) < 3
    assert [journal.append({"n": n}) for n in range(3)] == [1, 2, 3]
    assert journal.after(0) == [(n + 1, {"n": n}) for n in range(3)]


def test_what_the_service_says_is_told(far: Store, way: Gate) -> None:
    way.refuses = lambda method, path: DENIED
    for call in (lambda: far.read("x", 1), lambda: far.list("f"), lambda: far.create("x", b"")):
        with pytest.raises(SourceUnavailable, match="AccessDenied: User: a is not authorized to perform") as raised:
            call()
        assert "secret" not in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.usefixtures("soon")
def test_a_file_whose_end_is_missing_is_no_file(far: Store, way: Gate) -> None:
    far.put("x", bytes(100_000))
    file = far.open("x")
    way.cuts = lambda method, path, part: method == "GET"
    for call in (file.read, lambda: far.read("x", 100_000), lambda: list(far.chunks("x"))):
        with pytest.raises(SourceUnavailable, match="x: "):
            call()
