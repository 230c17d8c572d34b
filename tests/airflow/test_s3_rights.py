"""The least rights that the documentation names suffice on S3. Applications run without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.builds.status import status
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.gates.gate import Ready
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.watching.gate_watch import GateWatch
from tests.airflow.without_spark import built, commit_to, make_source
from tests.ledger.moto_s3 import moto_s3
from tests.ledger.s3_users import ALL, LAKE, PAGE, PLACES, SPARK, TRIGGERER, WORKER, Users, documented


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with moto_s3("lake") as options, pytest.MonkeyPatch.context() as patch:
        one = Users(options, patch)
        source, store = make_source(tmp_path_factory.mktemp("source")), open_store(f"{LAKE}/source")
        for file in source.rglob("*"):
            if file.is_file():
                store.put(str(file.relative_to(source)), file.read_bytes())
        yield one


def test_a_build_needs_no_more_rights_than_documented(lake: Users) -> None:
    source, target = f"{LAKE}/source", f"{LAKE}/target"
    with lake.acting(SPARK):
        built(source, target, "plan", "snapshot")
    commit_to(source, 2)
    with lake.acting(SPARK):
        built(source, target, "consume_log")
    with lake.acting(TRIGGERER):
        watch = GateWatch(target, MaxLag(epochs=0))
        assert isinstance(watch.gate().verdict, Ready) and isinstance(watch.live().verdict, Ready)
        assert status(target)["phase"] == "consume_log"
    with lake.acting(PAGE):
        assert status(target)["phase"] == "consume_log"
        assert ordered(target, Command(Verb.HOLD)) == 1
    with lake.acting(WORKER):
        BuildReader(target).draw_attempt({"task": "catch_up"})
    with lake.acting(PAGE):
        ordered(target, Command(Verb.RELEASE))
    with lake.acting(SPARK):
        built(source, target, "catch_up", "verify", "finish")
    commit_to(source)
    with lake.acting(SPARK):
        assert built(source, target, "upstream").applied == 6


def test_what_is_not_documented_is_refused(lake: Users) -> None:
    """Else the test above would show nothing."""
    for who in ALL:
        for folder in (*PLACES, "target/_delta_log", "target.backfill/attempts", "target.backfill/commands"):
            allowed = any(right == "write" and f"{folder}/".startswith(f"{f}/") for right, f in documented(who))
            with lake.acting(who):
                assert puts(folder) == allowed, (who, folder)


def puts(folder: str) -> bool:
    """Whether a file can be put there."""
    try:
        open_store(f"{LAKE}/{folder}").put("x", b"")
    except SourceUnavailable as error:
        assert "403 Forbidden" in str(error)
        return False
    return True
