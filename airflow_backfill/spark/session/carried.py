"""The settings of an application that another one of the same build needs as well: where its jars are, how it reaches
the store, and where it runs. They are stored with the attempt, so that the command line can start repairs and proofs
like the build's own tasks. Never a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_CARRIED = (
    *("spark.master", "spark.jars", "spark.hadoop.", "spark.delta.", "spark.databricks.", "spark.sql."),
    *("spark.driver.memory", "spark.driver.extraClassPath", "spark.executor.", "spark.dynamicAllocation."),
    *("spark.kubernetes.", "spark.yarn.", "spark.table_backfill."),
)
_OF_ONE_START = ("spark.executor.id", "spark.sql.warehouse.dir", "spark.kubernetes.driver.", "spark.yarn.app.")
_SECRET = re.compile(
    r"secret|password|passwd|token|credential|private|sas\b|(access|account)[._]?key|://[^/\s]*@", re.IGNORECASE
)
"""In a name or a value. Spark hides the same words in its UI, and some more are added."""
MAX_CHARACTERS = 16_384
"""Of all names and values. Longer settings are left out, the longest first."""


def carried(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings to use again, without secrets."""
    found = {
        name: value
        for name, value in conf.items()
        if name.startswith(_CARRIED) and not name.startswith(_OF_ONE_START) and not _SECRET.search(f"{name}={value}")
    }
    while sum(len(name) + len(value) for name, value in found.items()) > MAX_CHARACTERS:
        del found[max(found, key=lambda name: len(found[name]))]
    return found
