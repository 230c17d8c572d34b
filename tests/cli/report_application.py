"""Stands where ``spark-submit`` does: prints the outcome in ``$REPORT``, as an application that writes nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

given = sys.argv[1:]
Path(os.environ["RECEIVED"]).write_text(json.dumps(given))
print("a line of Spark\n" + os.environ["REPORT"])
print("WARN something", file=sys.stderr)
