"""S3 through S3A: what a session finds there, and a small snapshot."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_backfill.ledger.hadoop_store import S3A
from tests.system.applications import ROOT, Applications, submitted
from tests.system.s3 import BUCKET, CONFLICT, NO_UPLOAD, Refusal, gate, s3

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_what_a_session_finds(tmp_path: Path) -> None:
    with ExitStack() as open_services:
        service = open_services.enter_context(s3(tmp_path, asks_who=False))
        for bucket in ("deaf", "losing", "old", "counted", "meeting", "breaking"):
            (tmp_path / "objects" / bucket).mkdir()
        deaf, losing, counted, meeting, breaking = (open_services.enter_context(gate(service)) for _ in range(5))
        deaf.takes_condition = True
        losing.loses_answer = lambda method, path: (
            method == "PUT" and path.endswith("1.json") and path not in losing.lost
        )

        def meets(method: str, path: str) -> Refusal | None:
            again = path.endswith("twice") and meeting.asked.count((method, path)) > 1
            return CONFLICT if method == "PUT" and (again or path.endswith(("never", "1.json"))) else None

        meeting.refuses = meets
        parts = set[tuple[str, str]]()

        def is_new(method: str, path: str, part: str) -> bool:
            known = (path, part) in parts
            parts.add((path, part))
            return method == "GET" and not known

        breaking.cuts = is_new
        breaking.refuses = lambda method, path: NO_UPLOAD if method == "POST" and "uploadId=" in path else None
        confs = Applications("", service.confs).confs() | {
            "spark.hadoop.fs.s3a.bucket.deaf.endpoint": deaf.endpoint,
            "spark.hadoop.fs.s3a.bucket.losing.endpoint": losing.endpoint,
            "spark.hadoop.fs.s3a.bucket.counted.endpoint": counted.endpoint,
            "spark.hadoop.fs.s3a.bucket.meeting.endpoint": meeting.endpoint,
            "spark.hadoop.fs.s3a.bucket.breaking.endpoint": breaking.endpoint,
            "spark.hadoop.fs.s3a.bucket.old.create.conditional.enabled": "false",
            "spark.hadoop.fs.s3a.multipart.size": "5M",
            "spark.hadoop.fs.s3.impl": S3A,
            "spark.hadoop.fs.s3n.impl": S3A,
            "spark.delta.logStore.s3n.impl": "only_commits.LogStore",
        }
        program, spark = ROOT / "tests" / "system" / "s3_session.py", ["--master", "local[2]", "--driver-memory", "1g"]
        with submitted(program, (), spark, confs, service.environment) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output[-5000:]
        assert len(losing.lost) == 1
        assert f"requests: {len(counted.asked)}\n" in output and counted.asked


def test_a_spark_without_s3a_says_so_in_its_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3(tmp_path, asks_who=False) as service:
        for name, value in service.environment.items():
            monkeypatch.setenv(name, value)
        outcome = Applications(f"s3a://{BUCKET}/target").run("plan", "--spec", "{}")
    assert outcome is not None and outcome["code"] == "SPARK_INCOMPLETE"
    assert "add org.apache.hadoop:hadoop-aws:3.5.0, beside Delta's coordinates" in outcome["message"]
