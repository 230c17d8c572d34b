"""The rights that the documentation gives to Spark on S3 suffice for whole builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill.ledger.open_store import open_store
from tests.airflow.without_spark import make_source
from tests.ledger.moto_s3 import moto_s3
from tests.ledger.s3_users import LAKE, SPARK, Users
from tests.system.applications import Applications, all_phases
from tests.system.s3 import S3

pytestmark = [pytest.mark.jvm, pytest.mark.soak]


def test_spark_needs_no_more_rights_than_documented(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    with moto_s3("lake") as options, pytest.MonkeyPatch.context() as patch:
        users = Users(options, patch)
        bucket = open_store(f"{LAKE}/source")

        def upload() -> None:
            for file in source.rglob("*"):
                if file.is_file():
                    bucket.put(str(file.relative_to(source)), file.read_bytes())

        upload()
        # moto asks for a right of the whole bucket where S3 asks for one of each object.
        confs = S3(options["aws_endpoint"]).confs | {"spark.hadoop.fs.s3a.multiobjectdelete.enable": "false"}
        apps = Applications(f"{LAKE}/target", confs)
        spec = {"name": "ids", "source": f"{LAKE}/source", "target": apps.target, "key": ["id"], "select": ["id"]}
        with users.acting(SPARK):
            apps.result("plan", "--spec", json.dumps(spec))
            apps.result("snapshot")
        DeltaTable(source).delete("id % 7 = 0")
        upload()
        with users.acting(SPARK):
            finished = apps.result("consume_log", "--max-lag-epochs", "0", *all_phases(lag_epochs=0)[2:])
            assert finished["phase"] == "finished"
