"""Settings of a store on the command line: from a connection, or from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.ledger.open_store import open_store
from tests.ledger.json_target import JsonBuild
from tests.ledger.moto_s3 import SECRET, moto_s3


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with moto_s3("lake") as found:
        yield found


def put(folder: Path, settings: dict[str, str]) -> None:
    """Copy a folder into the bucket."""
    store = open_store("s3a://lake", options=settings)
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            store.put(str(file.relative_to(folder)), file.read_bytes())


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow_backfill.cli.main", *argv]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_connection_opens_the_store_without_airflows_database(tmp_path: Path, settings: dict[str, str]) -> None:
    build = JsonBuild(tmp_path / "marts")
    build.plan()
    put(tmp_path, settings)
    connection = json.dumps({"conn_type": "table_backfill", "extra": settings})
    home = tmp_path / "airflow"
    given = {"AIRFLOW_CONN_LAKE": connection, "AIRFLOW_HOME": str(home)}
    done = run("status", "s3a://lake/marts/target", "--conn-id", "lake", "--json", **given)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["phase"] == "snapshot" and not list(home.rglob("*.db"))
    done = run("list", "s3a://lake", "--conn-id", "lake", "--json", **given)
    assert [one["target"] for one in json.loads(done.stdout)["builds"]] == ["s3a://lake/marts/target"], done.stderr
    by_environment = {name.upper(): value for name, value in settings.items()} | {"AWS_ALLOW_HTTP": "true"}
    done = run("pause", "s3a://lake/marts/target", "--json", **by_environment)
    assert done.returncode == 0 and SECRET not in done.stdout + done.stderr, done.stderr
    done = run("status", "s3a://lake/marts/target", "--conn-id", "other", **given)
    assert done.returncode == 1 and "AIRFLOW_CONN_OTHER" in done.stderr and SECRET not in done.stderr


def test_a_connection_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", str(tmp_path), "--conn-id", "no such"]) == 1
    assert "[SPEC_INVALID] --conn-id" in capsys.readouterr().err


@pytest.mark.slow
def test_a_shell_completes_commands_and_options() -> None:
    for line, expected in (("table-backfill st", "status "), ("table-backfill status --w", "--watch")):
        given = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
        script = 'exec "$0" -m airflow_backfill.cli.main 8>&1 9>/dev/null >/dev/null'
        shell = ["sh", "-c", script, sys.executable]
        done = subprocess.run(shell, env={**os.environ, **given}, capture_output=True, text=True, check=False)
        assert expected in done.stdout, (line, done.stdout, done.stderr)
