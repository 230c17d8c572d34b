"""What a build's page says, from the API's answers. Runs in Node, where there is one, with little in place of React."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.plugin.api import PAGE
from tests.airflow.without_spark import WHOLE, built
from tests.plugin.conftest import Client, key_of
from tests.plugin.database import worked

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")

REACT = """
    const made = (type, given) => (typeof type === "function" ? type(given) : given.children);
    globalThis.React = {
      createElement: (type, given, ...more) => made(type, { ...given, ...(more.length > 0 && { children: more }) }),
      useState: (first) => [first?.answer === null ? { ...first, answer: FOUND, at: Date.now() } : first, () => {}],
      useEffect: () => {},
      useRef: (current) => ({ current }),
    };
    globalThis.ReactRouterDOM = { Link: "a" };
    globalThis.ChakraUI = new Proxy({}, { get: (_, name) => name });
    globalThis.localStorage = { getItem: () => null };
"""


def shown(found: dict[str, Any], behind_ms: int = 0) -> str:
    """The texts of the page, in a browser whose clock is behind the API server's by so much."""
    script = f"""
        const FOUND = {json.dumps(found)};
        const now = FOUND.seen - {behind_ms};
        Date.now = () => now;
        {REACT}
        const {{ Build }} = await import({json.dumps((PAGE / "build.js").as_uri())});
        const texts = [Build({{ dag: "d", build: "b", whole: true }})].flat(Infinity);
        console.log(texts.filter((one) => typeof one === "string" || typeof one === "number").join("\\n"));
    """
    done = subprocess.run([str(NODE), "--input-type=module", "-e", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("hours", [-30, 0, 30])
def test_the_browsers_clock_changes_no_time(hours: int, source: Path, tmp_path: Path, client: Client) -> None:
    target = str(tmp_path / "orders")
    built(source, Path(target), *WHOLE)
    worked("orders_dag", "orders.finish", target, task="finish")
    found = client("editor").get(f"dags/orders_dag/builds/{key_of(client)}").json()
    found["certificate"]["at"] = found["seen"] - 90_000
    text = shown(found, hours * 3_600_000)
    assert "7 rows at epoch 3, full, 1 min 30 s ago" in text, text


def test_a_build_in_each_state_has_a_page(source: Path, tmp_path: Path, client: Client) -> None:
    target = str(tmp_path / "orders")
    me = worked("orders_dag", "orders.plan", target, task="plan")
    ask = f"dags/orders_dag/builds/{key_of(client)}"
    assert "waits for Spark to start" in shown(client("editor").get(ask).json())
    ControlFolder.beside(target).store_outcome(me, {"code": "OK"})
    for application in WHOLE:
        built(source, Path(target), application)
        text = shown(client("editor").get(ask).json())
        assert "DAG d" in text and "undefined" not in text and "NaN" not in text, text
    for file in (Path(target) / "_delta_log").iterdir():
        file.unlink()
    assert "NOT_PLANNED" in shown(client("editor").get(ask).json())


def test_a_page_says_how_old_the_words_of_the_gate_are_and_who_asked_for_an_application(
    source: Path, tmp_path: Path, client: Client
) -> None:
    target = str(tmp_path / "orders")
    built(source, Path(target), "plan", "snapshot", "consume_log")
    worked("orders_dag", "orders.consume_log", target, task="consume_log")
    found = client("editor").get(f"dags/orders_dag/builds/{key_of(client)}").json()
    found["attempts"][-1] |= {"by": "ada", "why": "a key differs"}
    told = []
    for minutes in (1, 180):
        found["run"] = {**found["run"], "gate": ["20 epochs are pending"], "gate_at": found["seen"] - minutes * 60_000}
        told.append(shown(found))
    now, later = told
    assert "the gate: 20 epochs are pending" in now and "by ada: a key differs" in "".join(now.split("\n"))
    assert "the gate, as its task saw it 3 h 0 min ago: 20 epochs are pending" in later
