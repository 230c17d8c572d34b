"""The least rights that the documentation names suffice on S3: moto enforces them as policies of users, and the
policies are made of the documented table. Applications run without Spark. moto looks at no condition, so a right to
list is one for the whole bucket here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.core.authorization import enable_iam_authentication

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.builds.status import status
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.gates.gate import Ready
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.watching.gate_watch import GateWatch
from tests.airflow.runs import ROOT
from tests.airflow.without_spark import built, commit_to, make_source
from tests.ledger.moto_s3 import moto_s3

LAKE, PLACES = "s3a://lake", ("source", "target", "target.backfill")
SPARK, WORKER, PAGE, TRIGGERER = "Spark", "workers that run the tasks", "the API server", "the triggerer; sensors"
ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}


def documented(who: str) -> list[tuple[str, str]]:
    """Each right of this row of the table, and the folder that it is for."""
    (row,) = re.findall(rf"^\| {who}.*", (ROOT / "docs" / "rights.md").read_text(), re.MULTILINE)
    found = []
    for place, cell in zip(PLACES, row.strip("| ").split("|")[1:], strict=True):
        for part in cell.split(";"):
            named = re.search(r"`(\w+)/`", part)
            below = f"/{named[1]}" if named else "/_delta_log" if "the log only" in part else ""
            found += [(right, place + below) for right in ACTIONS if re.search(rf"\b{right}\b", part)]
    return found


def policy(who: str) -> str:
    """These rights as IAM says them."""
    objects = [
        {"Effect": "Allow", "Action": ACTIONS[right], "Resource": f"arn:aws:s3:::lake/{folder}/*"}
        for right, folder in documented(who)
        if right != "list"
    ]
    lists = {"Effect": "Allow", "Action": ACTIONS["list"], "Resource": "arn:aws:s3:::lake"}
    return json.dumps({"Version": "2012-10-17", "Statement": [*objects, lists]})


class Lake:
    """A bucket, and users of it with the documented rights."""

    def __init__(self, options: dict[str, str], patch: pytest.MonkeyPatch) -> None:
        self._patch, self._keys = patch, dict[str, dict[str, str]]()
        self.root = {name.upper(): value for name, value in options.items() if name != "aws_endpoint"}
        patch.setenv("AWS_ENDPOINT_URL", options["aws_endpoint"])
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_DEFAULT_REGION", options["aws_region"])
        for name, value in self.root.items():
            patch.setenv(name, value)
        iam = boto3.client("iam")
        for number, who in enumerate((SPARK, WORKER, PAGE, TRIGGERER)):
            name = f"user-{number}"
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="documented", PolicyDocument=policy(who))
            key = iam.create_access_key(UserName=name)["AccessKey"]
            self._keys[who] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    @contextmanager
    def acting(self, who: str) -> Iterator[None]:
        """Whatever the block does is done by this user."""
        with self._patch.context() as patch, enable_iam_authentication():
            for name, value in self._keys[who].items():
                patch.setenv(name, value)
            yield


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with moto_s3("lake") as options, pytest.MonkeyPatch.context() as patch:
        one = Lake(options, patch)
        source, store = make_source(tmp_path_factory.mktemp("source")), open_store(f"{LAKE}/source")
        for file in source.rglob("*"):
            if file.is_file():
                store.put(str(file.relative_to(source)), file.read_bytes())
        yield one


def test_a_build_needs_no_more_rights_than_documented(lake: Lake) -> None:
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


def test_what_is_not_documented_is_refused(lake: Lake) -> None:
    """Else the test above would show nothing."""
    for who in (SPARK, WORKER, PAGE, TRIGGERER):
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
