"""Stands where ``spark-submit`` does: runs the cancel application's own attempt over real logs, without Spark.

What it was given is left in ``$RECEIVED``. With ``$FAILS`` it leaves an outcome of that code, or, if that is
empty, nothing at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from airflow_backfill.core.attempts.goals import CancelGoal
from airflow_backfill.core.errors import TargetBusy
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.spark.run.application import ended
from airflow_backfill.spark.run.phases import parser
from tests.ledger.json_target import JsonBuild

given = sys.argv[1:]
Path(os.environ["RECEIVED"]).write_text(json.dumps({"argv": given, "path": os.environ["PYTHONPATH"]}))
at = next(n for n, part in enumerate(given) if part.endswith("cancel.py"))
assert Path(given[at]).is_file()
options = parser("cancel").parse_args(given[at + 1 :])
me = Attempt(options.generation, options.attempt)
build = JsonBuild.found(Path(options.target).parent)
fails = os.environ.get("FAILS")
if fails is not None:
    print("Exception in thread main: no memory", file=sys.stderr)
    if fails:
        build.reader.control.store_outcome(me, TargetBusy("another writer holds the lock").to_json())
    sys.exit(1)
if options.drop:
    result = ended(lambda: build.run(CancelGoal(), me))
    shutil.rmtree(options.target)
    build.reader.control.store_outcome(me, {"code": "OK", "result": {**result, "dropped": [options.target]}})
else:
    build.run(CancelGoal(), me)
