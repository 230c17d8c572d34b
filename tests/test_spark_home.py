"""Which jars spark-submit is told to download: those for the Spark that it starts, unless somebody has seen to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.spark_home import default_jars


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark 4.1.1."""
    for name in ("jars/spark-core_2.13-4.1.1.jar", "bin/spark-submit"):
        path = tmp_path / "spark" / name
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return tmp_path / "spark"


def packages(home: Path, conf: dict[str, str] | None = None, **more: object) -> str | None:
    found = default_jars(conf or {}, binary=str(home / "bin" / "spark-submit"), **more)  # type: ignore[arg-type]
    return found.get("spark.jars.packages")


def test_the_jars_for_the_spark_that_is_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages(home, {"spark.a": "b"}) == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert (packages(home, kafka=True) or "").endswith(",org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1")
    another = home.with_name("another")
    (another / "jars").mkdir(parents=True)
    (another / "jars" / "spark-core_2.13-4.0.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(another))
    assert packages(home) == "io.delta:delta-spark_4.0_2.13:4.4.0"


def test_pyspark_is_the_spark_of_a_script_without_a_home(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "venv" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    (tmp_path / "venv" / "jars").mkdir()  # of somebody else
    assert packages(script.parents[1]) == "io.delta:delta-spark_4.2_2.13:4.4.0"


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
def test_what_the_user_names_is_enough(home: Path, tmp_path: Path, name: str) -> None:
    assert packages(home, {name: "/my.jar"}) is None
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_bytes(f"# für Delta\n{name}   /my.jar\n".encode("latin-1"))
    assert packages(home) is None
    mine = tmp_path / "mine.conf"
    mine.write_text("spark.a=b\n")
    assert packages(home, defaults=str(mine)) is not None


def test_jars_that_are_baked_in_are_enough(home: Path) -> None:
    (home / "jars" / "delta-spark_4.1_2.13-4.4.0.jar").touch()
    assert packages(home) is None


def test_without_spark_nothing_is_named(tmp_path: Path) -> None:
    assert packages(tmp_path) is None
