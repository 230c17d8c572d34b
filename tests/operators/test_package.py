"""What travels to Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_backfill.core.errors import NoSpace
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.hooks.kafka import file_with
from airflow_backfill.operators.package import entry_points, package_zip
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.own_folder import own_folder
from airflow_backfill.testing.launcher import run_here
from tests.airflow.without_spark import built
from tests.disk import SIZE, disk, leave

__all__ = ["disk"]


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_there_is_an_entry_point_for_every_application():
    for application in (
        "plan",
        "snapshot",
        "consume_log",
        "catch_up",
        "verify",
        "finish",
        "upstream",
        "cancel",
        "recover",
        "prove",
        "repair",
    ):
        assert Path(entry_points(), f"{application}.py").is_file()


def test_the_zip_is_all_that_an_entry_point_needs(tmp_path):
    command = [sys.executable, "-S", str(Path(entry_points(), "plan.py")), "--help"]
    done = subprocess.run(
        command, env={"PYTHONPATH": package_zip()}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--generation" in done.stdout


def test_the_same_package_gives_the_same_zip(tmp_path):
    first = Path(package_zip())
    data = first.read_bytes()
    first.unlink()
    assert package_zip() == str(first)
    assert first.read_bytes() == data
    assert all(info.date_time[0] == 1980 for info in zipfile.ZipFile(first).infolist())


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    planted = tmp_path / f"airflow-backfill-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert not Path(package_zip()).is_relative_to(planted)


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"airflow-backfill-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    package_zip()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert own_folder().name.startswith("airflow-backfill-")


def test_a_worker_without_room_for_temporary_files_says_so(context, source, target, disk, monkeypatch):
    built(source, target, "plan")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    leave(disk, 0)
    operator = SnapshotOperator(task_id="t", target=str(target), submit=run_here)
    with pytest.raises(AirflowException, match=r"NO_SPACE.*temporary files.*No space left.*TMPDIR"):
        operator.execute(context)
    with pytest.raises(NoSpace, match="temporary files"), file_with({VARIABLE: "{}"}):
        pass
    assert not list(own_folder().iterdir())
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(disk)])
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(AirflowException, match=r"NO_SPACE.*temporary files.*No usable temporary directory.*TMPDIR"):
        operator.execute(context)
    leave(disk, SIZE)
    assert operator.execute(context)["epoch"] == 3
