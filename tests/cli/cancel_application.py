"""Stands where ``spark-submit`` does: runs an application, such as cancel, without Spark.

What it was given is left in ``$RECEIVED``. With ``$FAILS`` it leaves an outcome of that code, or, if that is
empty, nothing at all.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from airflow_backfill.core.errors import TargetBusy
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.run.phases import parser
from airflow_backfill.testing.applications import main

given = sys.argv[1:]
Path(os.environ["RECEIVED"]).write_text(json.dumps({"argv": given, "path": os.environ["PYTHONPATH"]}))
at = next(n for n, part in enumerate(given) if part.endswith(".py"))
assert Path(given[at]).is_file()
application = Path(given[at]).stem
fails = os.environ.get("FAILS")
if fails is None:
    main(application, given[at + 1 :])
else:
    print("Exception in thread main: no memory", file=sys.stderr)
    options = parser(application).parse_args(given[at + 1 :])
    if fails:
        me = Attempt(options.generation, options.attempt)
        ControlFolder.beside(options.target).store_outcome(me, TargetBusy("another writer holds the lock").to_json())
    sys.exit(1)
