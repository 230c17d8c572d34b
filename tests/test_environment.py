"""What is installed is what is locked."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from importlib.metadata import distribution, entry_points, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from environment.jars import LOCKS, JarError, check, fetch, install, read_lock

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "environment" / "lock.txt"
JARS = [Path(sys.prefix, lock.stem) for lock in LOCKS]
SPARK_LOCK = ROOT / "environment" / "jars.lock"


def pinned(file: Path) -> dict[str, str]:
    """The version of each package that a file of requirements fixes for this Python."""
    lines = re.findall(r"^[a-z0-9-]+==[^\\\n]+", file.read_text(), re.MULTILINE)
    here = [line for line in map(Requirement, lines) if line.marker is None or line.marker.evaluate()]
    return {line.name: str(line.specifier).removeprefix("==") for line in here}


def locked() -> dict[str, str]:
    return pinned(LOCK)


def test_tests_leave_another_airflow_alone():
    """They delete all rows of Airflow's database."""
    say = "import os, tests.airflow.home; print(sorted(name for name in os.environ if name.startswith('AIRFLOW_')))"
    other = {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://production/airflow"}
    said = subprocess.check_output([sys.executable, "-c", say], cwd=ROOT, env=other, text=True)
    assert said == "['AIRFLOW_HOME', 'AIRFLOW__CORE__LOAD_EXAMPLES', 'AIRFLOW__CORE__UNIT_TEST_MODE']\n"


def test_every_locked_package_is_installed_at_its_version():
    assert {name: version(name) for name in locked()} == locked()


def test_every_locked_package_has_a_hash_and_comes_from_the_default_registry():
    blocks = re.split(r"^(?=[a-z0-9])", LOCK.read_text(), flags=re.MULTILINE)
    assert [block for block in blocks if block.strip() and "--hash=sha256:" not in block] == []
    assert re.findall(r"://|--find-links|--index|--extra-index", LOCK.read_text()) == []


def test_chosen_versions_are_the_locked_ones():
    chosen = pinned(ROOT / "environment" / "pins.txt")
    assert chosen.items() <= locked().items()
    assert chosen["pyspark"] == chosen["pyspark-client"], "both install the same folder"


def test_declared_requirements_admit_the_locked_versions():
    extras = distribution("airflow-backfill").metadata.get_all("Provides-Extra") or []
    for requirement in map(Requirement, requires("airflow-backfill") or []):
        marker = requirement.marker
        here = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        if here and requirement.name != "airflow-backfill":
            assert requirement.specifier.contains(version(requirement.name)), requirement


@pytest.mark.parametrize("group", ["apache_airflow_provider", "console_scripts"])
def test_entry_points_resolve(group):
    ours = [point for point in entry_points(group=group) if point.dist and point.dist.name == "airflow-backfill"]
    assert ours != []
    for point in ours:
        assert callable(point.load())


def test_there_are_jars_for_spark_a_broker_and_s3():
    assert [folder.name for folder in JARS] == ["broker", "jars", "s3a", "s3proxy"]


@pytest.mark.parametrize(("folder", "lock"), list(zip(JARS, LOCKS, strict=True)), ids=lambda path: path.name)
def test_the_jars_are_the_locked_ones(folder, lock):
    check(folder, read_lock(lock))
    assert {file.name for file in folder.iterdir()} == {jar.file for jar in read_lock(lock)}


def test_right_jars_are_left_alone_without_java():
    before = {file: file.stat().st_mtime_ns for folder in JARS for file in folder.iterdir()}
    script = [sys.executable, str(ROOT / "environment" / "jars.py")]
    subprocess.run(script, env={"PATH": "", "JAVA_HOME": "/nowhere"}, check=True)
    assert {file: file.stat().st_mtime_ns for folder in JARS for file in folder.iterdir()} == before


def test_a_changed_byte_is_refused(tmp_path):
    jars = read_lock(SPARK_LOCK)
    for jar in jars:
        shutil.copy(Path(sys.prefix, "jars", jar.file), tmp_path)
    victim = tmp_path / jars[0].file
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    with pytest.raises(JarError, match=rf"{victim.name} has sha256 [0-9a-f]{{64}}, but"):
        check(tmp_path, jars)


def test_a_missing_jar_is_named(tmp_path):
    jars = read_lock(SPARK_LOCK)
    with pytest.raises(JarError, match=re.escape(jars[0].coordinates)):
        check(tmp_path, jars)


@pytest.fixture
def refusing_proxy():
    """A proxy on loopback that hangs up; yields its port and the first lines it was sent."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:  # the server was closed: the test is over
                    return
                with client:
                    asked.append(client.recv(4096).split(b"\r\n")[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.jvm
def test_ivy_uses_the_proxy_of_the_environment_and_failure_is_loud(monkeypatch, tmp_path, refusing_proxy):
    port, asked = refusing_proxy
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    with pytest.raises(JarError, match="did not give the jars"):
        fetch(read_lock(SPARK_LOCK), tmp_path)
    assert asked and all(line.startswith(b"CONNECT ") for line in asked)


@pytest.mark.jvm
def test_a_failed_install_keeps_what_was_there(monkeypatch, tmp_path, refusing_proxy):
    port, _ = refusing_proxy
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    kept = tmp_path / "jars" / "kept.jar"
    kept.parent.mkdir()
    kept.write_bytes(b"kept")
    with pytest.raises(JarError):
        install(kept.parent, read_lock(SPARK_LOCK))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    assert kept.read_bytes() == b"kept"


def test_the_archive_of_classes_was_made():
    """Setting up goes on without it, because nothing depends on it; but then every application starts more slowly."""
    assert Path(sys.prefix, "spark.jsa.key").is_file()
