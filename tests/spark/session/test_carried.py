from __future__ import annotations

from airflow_backfill.spark.session.carried import MAX_CHARACTERS, carried


def test_what_another_application_needs_is_carried_and_no_secret() -> None:
    kept = {
        "spark.master": "spark://host:7077",
        "spark.jars": "/opt/delta.jar",
        "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
        "spark.hadoop.fs.s3a.endpoint": "http://store:9000",
        "spark.executor.memory": "4g",
        "spark.delta.logStore.s3a.impl": "x.Y",
    }
    left = {
        "spark.hadoop.fs.s3a.secret.key": "a",
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.session.token": "a",
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net": "a",
        "spark.hadoop.fs.azure.sas.container.x": "a",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:postgresql://me:pw@host/db",
        "spark.driver.extraJavaOptions": "-Dpassword=x",
        "spark.executor.id": "driver",
        "spark.app.name": "x",
        "spark.driver.host": "me",
    }
    assert carried({**kept, **left}) == kept


def test_it_stays_small() -> None:
    found = carried({"spark.jars": "x" * MAX_CHARACTERS, "spark.master": "local"})
    assert found == {"spark.master": "local"}
