"""The rights that the documentation gives to Spark on S3 suffice for whole builds, and each of them is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from deltalake import DeltaTable

from airflow_backfill.ledger.control_folder import ControlFolder
from tests.airflow.s3_lake import LAKE, REFUSED, new_lake, target_of
from tests.airflow.without_spark import built
from tests.ledger.s3_users import SPARK, WHOLE, Right, Users, documented, upload
from tests.system.applications import Applications, all_phases
from tests.system.s3 import S3

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

SOURCE = f"{LAKE}/{WHOLE}/source"
PLAN = ("plan", "--spec", json.dumps({"name": "orders", "source": SOURCE, "target": target_of(WHOLE), "key": ["id"]}))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def lake(source: Path) -> Iterator[Users]:
    with new_lake(source, WHOLE) as users:
        yield users


@pytest.fixture(scope="module")
def apps(lake: Users) -> Applications:
    return Applications(target_of(WHOLE), S3(lake.endpoint).confs)


def test_spark_needs_no_more_rights_than_documented(lake: Users, apps: Applications, source: Path) -> None:
    with lake.acting(SPARK):
        apps.result(*PLAN)
        assert apps.result("cancel", "--drop")["dropped"] == [apps.target]
        apps.result(*PLAN)
        apps.result("snapshot")
    DeltaTable(source).delete("id % 7 = 0")
    upload(source, SOURCE)
    with lake.acting(SPARK):
        finished = apps.result("consume_log", "--max-lag-epochs", "0", *all_phases(lag_epochs=0)[2:])
        assert finished["phase"] == "finished"


@pytest.mark.parametrize("missing", documented(SPARK), ids=str)
def test_spark_misses_each_right(lake: Users, apps: Applications, missing: Right) -> None:
    """A restart drops the target and plans again: it needs them all."""
    boto3.resource("s3").Bucket("lake").objects.filter(Prefix=f"{WHOLE}/target").delete()
    built(SOURCE, apps.target, "plan")
    control = ControlFolder.beside(apps.target)
    me = control.draw_attempt({"task": "plan"}, floor=0)
    with lake.changed(SPARK, [right for right in documented(SPARK) if right != missing]), lake.acting(SPARK):
        apps.submit(*PLAN[:1], me, *PLAN[1:], "--on-existing", "restart")
    outcome = control.outcome(me)
    said = f"{outcome} {apps.log[-1]}"
    assert REFUSED.search(said) or "Status Code: 403" in said, said[-3000:]
    assert outcome is None or outcome["code"] == "SOURCE_UNAVAILABLE"
