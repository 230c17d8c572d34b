"""Where links lead."""

from __future__ import annotations

import pytest

from airflow_backfill.links.spark_ui import SparkUiLink
from airflow_backfill.links.target import TargetLink, page_of
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor


@pytest.mark.parametrize(
    ("target", "page"),
    [
        ("", ""),
        ("{{ params.target }}", ""),
        ("/lake/my orders", "file:///lake/my%20orders"),
        ("file:///lake/orders", "file:///lake/orders"),
        ("s3a://lake/marts/orders", "https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=marts/orders/"),
        ("gs://lake/marts/a b", "https://console.cloud.google.com/storage/browser/lake/marts/a%20b"),
        ("hdfs://name:8020/lake/orders", "hdfs://name:8020/lake/orders"),
        ("abfss://box@account.dfs.core.windows.net/o", "abfss://box@account.dfs.core.windows.net/o"),
    ],
)
def test_the_targets_page(target, page):
    assert page_of(target) == page


def test_links_of_tasks():
    operator = VerifyOperator(task_id="verify", target="/lake/orders")
    assert [type(link) for link in operator.operator_extra_links] == [SparkUiLink, TargetLink]
    assert SparkUiLink().get_link(operator, ti_key=None) == ""
    operator.spark_ui = "http://driver:4040"
    assert SparkUiLink().get_link(operator, ti_key=None) == "http://driver:4040"
    sensor = AwaitFinishSensor(task_id="door", target="/lake/orders")
    assert TargetLink().get_link(sensor, ti_key=None) == "file:///lake/orders"
