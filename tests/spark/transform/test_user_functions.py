"""Functions of the user's own in ``select`` and ``where``: installed where Spark runs, named with their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import FunctionInvalid, InvalidExpression, InvalidSpec, SpecChanged
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.spark.transform import user_functions
from airflow_backfill.spark.transform.transform import parse
from airflow_backfill.spark.transform.user_functions import JavaFunction, PythonFunction, register
from tests.spark.build import Build
from tests.spark.history import Source
from tests.spark.kafka.decoder_files import java_decoder

pytestmark = pytest.mark.spark

SCHEMA = StructType().add("id", "long").add("n", "integer").add("raw", "binary")


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(user_functions.FUNCTIONS, "_known", {})
    yield


def thirds() -> PythonFunction:
    """Made here, so that it travels to Spark's workers with all it needs."""
    return PythonFunction("INT", "1", lambda n: None if n is None else n // 3)


@pytest.mark.soak
def test_a_build_applies_it_in_every_phase_and_proves_it(source: Source, tmp_path: Path) -> None:
    register("thirds", thirds())
    given = {"select": ["id", "thirds(n) AS third"], "where": "thirds(n) <> 7", "functions": {"thirds": "1"}}
    build = Build(source, tmp_path / "target", **given)
    build.plan()
    source.sql("UPDATE $table SET $n = $n + 9 WHERE $id % 5 = 1")
    build.hand_off()
    source.sql("UPDATE $table SET $n = 21 WHERE $id % 5 = 2")
    build.upstream()
    expected = source.at(source.head).selectExpr("id", "int(floor(n / 3)) AS third").where("third <> 7")
    assert expected.exceptAll(build.rows()).collect() == build.rows().exceptAll(expected).collect() == []

    other = Build(source, tmp_path / "target", **{**given, "functions": {"thirds": "2"}})
    with pytest.raises(SpecChanged) as raised:
        other.plan()
    assert raised.value.data["difference"]["functions"] == [{"thirds": "1"}, {"thirds": "2"}]


def test_the_one_of_the_documentation_is_installed_as_that_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tomllib = pytest.importorskip("tomllib")
    page = (Path(__file__).parents[3] / "docs" / "functions.md").read_text()
    code, project = (
        re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0] for kind in ("py", "toml")
    )
    ((group, entries),) = tomllib.loads(project)["project"]["entry-points"].items()
    (tmp_path / "pricing.py").write_text(code)
    installed = tmp_path / "pricing-1.0.dist-info"
    installed.mkdir()
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    spark.sparkContext.addPyFile(str(tmp_path / "pricing.py"))
    schema = StructType().add("amount", "double").add("currency", "string")
    transform = parse(spark, schema, ["to_euros(amount, currency) AS euros"], functions={"to_euros": "1"})
    rows = spark.sql("SELECT * FROM VALUES (100D, 'USD'), (null, 'EUR') AS rows(amount, currency)")
    assert [row.euros for row in transform.apply(rows).collect()] == [92.0, None]


def test_one_in_java(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"ADD JAR '{java_decoder(tmp_path)}'")
    register("size_of", JavaFunction("BIGINT", "1", "Length"))
    transform = parse(spark, SCHEMA, ["size_of(raw) AS size"], functions={"size_of": "1"})
    rows = spark.sql("SELECT 1L AS id, 2 AS n, X'616263' AS raw")
    assert [tuple(row) for row in transform.apply(rows).collect()] == [(3,)]


def test_what_is_not_named_cannot_be_called(spark: SparkSession) -> None:
    register("thirds", thirds())
    with pytest.raises(InvalidExpression, match="thirds"):
        parse(spark, SCHEMA, ["thirds(n) AS third"])


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"third": "1"}, r"function 'third' is not installed .* did you mean 'thirds'\?"),
        (
            {"thirds": "2"},
            "has version 1 where Spark runs, but the spec names 2.* name '1' in functions and plan",
        ),
        ({"upper": "1"}, "'upper' is the name of a Spark function"),
    ],
)
def test_what_is_not_there_is_refused_by_name(spark: SparkSession, wanted: dict[str, str], why: str) -> None:
    register("thirds", thirds())
    with pytest.raises(FunctionInvalid, match=why):
        parse(spark, SCHEMA, functions=wanted)


@pytest.mark.parametrize("functions", [{}, [], "thirds", {"a b": "1"}, {"f": 1}, {"f": ""}, {"": "1"}], ids=repr)
def test_a_spec_names_functions_with_their_versions(functions: object) -> None:
    with pytest.raises(InvalidSpec, match="functions"):
        BackfillSpec.parse({"name": "b", "source": "/s", "target": "/t", "key": ["k"], "functions": functions})


def test_a_spec_without_functions_keeps_its_fingerprint() -> None:
    spec = BackfillSpec.parse({"name": "b", "source": "/s", "target": "/t", "key": ["k"]})
    assert "functions" not in spec.to_json()
