"""A fleet's document: what all tables share, what a table has of its own, and what cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.fleet.document import read


def written(tmp_path, text):
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    return file


def test_a_table_has_its_own_options_and_the_shared_ones(tmp_path):
    name, tables = read(
        written(
            tmp_path,
            """
            name: shop
            defaults: {source: "/lake/{table}", where: a > 1, task_args: {plan: {name: "{table}"}}}
            tables:
              cart:
              order: {where: null, select: ["'{table}' AS origin"]}
            """,
        )
    )
    assert name == "shop"
    assert tables == {
        "cart": {"source": "/lake/cart", "where": "a > 1", "task_args": {"plan": {"name": "cart"}}},
        "order": {
            "source": "/lake/order",
            "where": None,
            "task_args": {"plan": {"name": "order"}},
            "select": ["'order' AS origin"],
        },
    }


def test_the_file_is_utf_8_whatever_the_locale(tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text("name: shop\ntables: {cart: {where: land = 'Österreich'}}", "utf-8")
    code = "import sys; from airflow_backfill.fleet.document import read; print(ascii(read(sys.argv[1])))"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert r"\xd6sterreich" in done.stdout, done.stderr


def test_an_anchor_may_be_merged(tmp_path):
    text = "name: shop\ndefaults: &all {key: [id]}\ntables: {cart: {<<: *all, key: [cart_id]}}"
    assert read(written(tmp_path, text))[1] == {"cart": {"key": ["cart_id"]}}


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("name: shop\ntables: {cart: }\nname: shop", "fleet", "'name' is given twice"),
        ("name: shop\ntables:\n  cart: {}\n  cart: {}", "fleet", "line 4"),
        ("name: shop\ntables: {cart: {follow: */15 * * * *}}", "fleet", "cannot be read"),
        ("- shop", "fleet", "must have name, defaults and tables"),
        ("", "fleet", "must have name, defaults and tables"),
        ("name: shop\ntable: {}", "table", "did you mean 'tables'"),
        ("name: shop\ntables: {}", "tables", "one table at least"),
        ("name: shop\ntables: [cart]", "tables", "must be a mapping"),
        ("name: shop\ntables: {no: }", "tables", "quote it in YAML (got False)"),
        ("name: shop\ntables: {a.b: }", "tables", "got 'a.b'"),
        ("name: a/b\ntables: {cart: }", "name", "got 'a/b'"),
        ("name: shop\ndefaults: 3\ntables: {cart: }", "defaults", "got 3"),
    ],
)
def test_what_cannot_be_read_names_the_field(tmp_path, text, field, said):
    with pytest.raises(InvalidSpec) as caught:
        read(written(tmp_path, text))
    assert caught.value.data["field"] == field
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["a: &a [*a]", "name: 2026-13-01", "[" * 3000], ids=["circle", "no date", "deep"])
def test_what_yaml_cannot_read_is_an_error_of_the_file(tmp_path, text):
    with pytest.raises(InvalidSpec, match=r"fleet\.yaml cannot be read"):
        read(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidSpec, match=r"fleet\.yaml cannot be read"):
        read(tmp_path / "fleet.yaml")
