"""A script in the place of spark-submit."""

from __future__ import annotations

import sys

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.ledger.process import TASK
from tests.airflow.runs import ROOT

SCRIPT = f"""#!{sys.executable}
import json, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
Path(os.environ["SUBMITTED"]).write_text(json.dumps(sys.argv[1:]))
Path(os.environ["SUBMITTED"]).with_name("inherited").write_text(
    str({{name: os.environ.get(name) for name in ({VARIABLE!r}, "AWS_SECRET_ACCESS_KEY")}})
)
Path(os.environ["SUBMITTED"]).with_name("task").write_text(os.environ.get({TASK!r}, ""))
if "--files" in sys.argv:
    brought = sys.argv[sys.argv.index("--files") + 1].split("#")
    mode = oct(os.stat(brought[0]).st_mode & 0o777)
    document = {{"as": brought[1], "mode": mode, "text": Path(brought[0]).read_text(), "path": brought[0]}}
    Path(os.environ["SUBMITTED"]).with_name("brought").write_text(json.dumps(document))
print("Submitted application application_1700000000000_0001", flush=True)
if os.environ.get("HANGS"):
    time.sleep(0.5)  # Airflow's handler of SIGALRM writes to its log: it waits for ever if the worker does so just then
    os.kill(os.getppid(), signal.Signals[os.environ["HANGS"]])
    signal.pause()
if os.environ.get("SAYS"):
    sys.exit(os.environ["SAYS"])
if os.environ.get("DIES"):
    print(*100 * ["row: canary " + 99 * "."], sep="\\n", file=sys.stderr)
    print("java.lang.OutOfMemoryError: Java heap space", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if os.environ["DIES"] == "killed" else sys.exit(1)
from airflow_backfill.testing.applications import main
entry = next(n for n, word in enumerate(sys.argv) if word.endswith(".py"))
outcome = main(Path(sys.argv[entry]).stem, sys.argv[entry + 1:])
if os.environ.get("DIES_BEHIND"):
    max(Path(sys.argv[sys.argv.index("--target") + 1] + ".backfill").rglob("*outcome*")).unlink()
    of = signal.Signals[os.environ["DIES_BEHIND"]]
    os.kill(os.getppid() if of is signal.SIGALRM else os.getpid(), of)
    signal.pause()
sys.exit(0 if outcome["code"] == "OK" else 1)
"""
"""It writes its arguments down, and runs the application that needs no Spark."""
