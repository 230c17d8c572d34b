from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_backfill.core.errors import SparkIncomplete
from airflow_backfill.core.values.jars import DELTA, SPARKS, check, connector, coordinates

ROOT = Path(__file__).parents[3]


def test_the_jars_belong_to_a_version_of_spark() -> None:
    assert coordinates("4.1.1") == ("io.delta:delta-spark_4.1_2.13:4.4.0",)
    assert coordinates("4.2.0", kafka=True)[1] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


def test_they_are_those_that_the_tests_run_with() -> None:
    locked = (ROOT / "environment" / "jars.lock").read_text()
    assert set(coordinates("4.2.0", kafka=True)) <= set(locked.split())


def test_the_page_and_the_installation_say_the_same_versions() -> None:
    page, installed = (ROOT / "docs" / "platforms.md").read_text(), (ROOT / "setup.cfg").read_text()
    assert set(SPARKS) == set(re.findall(r"^\| Spark (\d\.\d)", page, re.MULTILINE))
    assert all(coordinates(f"{minor}.0")[0] in page for minor in SPARKS)
    assert f"delta-spark>={DELTA},<4.5" in installed


def test_the_jar_of_a_store_belongs_to_the_version_of_hadoop() -> None:
    assert connector("s3a", "3.4.2") == "org.apache.hadoop:hadoop-aws:3.4.2"
    assert connector("abfss", "3.5.0") == connector("abfs", "3.5.0") == "org.apache.hadoop:hadoop-azure:3.5.0"
    assert (connector("gs", "3.4.2"), connector("gs", "3.10.0")) == (None, "org.apache.hadoop:hadoop-gcp:3.10.0")
    assert connector("hdfs", "3.5.0") is connector("zzz", "3.5.0") is None


@pytest.mark.parametrize("minor", SPARKS)
def test_what_fits_is_accepted(minor: str) -> None:
    for file in (f"delta-spark_{minor}_2.13-4.4.0.jar", f"io.delta_delta-spark_{minor}_2.13-4.4.1.jar", "all.jar"):
        check(f"{minor}.7", "4.4.0", f"/jars/{file}")


@pytest.mark.parametrize(
    ("spark", "delta", "file", "said"),
    [
        ("3.5.4", "3.3.0", "delta-spark_2.12-3.3.0.jar", "Spark 3.5.4 is not supported; use 4.0, 4.1, 4.2"),
        ("4.3.0", "4.4.0", "delta-spark_4.2_2.13-4.4.0.jar", "Spark 4.3.0 is not supported"),
        ("4.2.0", None, "", "not on the class path of Spark 4.2.0.*io.delta:delta-spark_4.2_2.13:4.4.0"),
        ("4.0.1", "4.0.0", "delta-spark_2.13-4.0.0.jar", "Delta 4.0.0 for Spark 4.0.*delta-spark_4.0_2.13:4.4.0"),
        ("4.1.1", "4.3.1", "delta-spark_4.1_2.13-4.3.1.jar", "Delta 4.3.1 for Spark 4.1, and this is Spark 4.1.1"),
        ("4.1.1", "4.4.0", "delta-spark_4.2_2.13-4.4.0.jar", "for Spark 4.2, and this is Spark 4.1.1"),
        ("4.1.1", "4.5.0", "all.jar", "needs Delta 4.4.0"),
    ],
)
def test_what_does_not_fit_is_refused(spark: str, delta: str | None, file: str, said: str) -> None:
    with pytest.raises(SparkIncomplete, match=said):
        check(spark, delta, file)
