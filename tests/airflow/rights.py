"""A build and everybody who looks at it, each with no more rights than the documentation says:
``python -m tests.airflow.rights FOLDER``. Applications run without Spark.

Rights are mode bits, so the superuser has to give up the capabilities that overrule them.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_backfill.builds.cleaning import clean
from airflow_backfill.builds.folder import targets_below
from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.ordering import ordered
from airflow_backfill.builds.status import status
from airflow_backfill.core.gates.gate import Ready
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.watching.gate_watch import GateWatch
from tests.airflow.without_spark import built, commit_to, make_source

WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def only_read(*folders: Path) -> Iterator[None]:
    """Nothing below ``folders`` can be written, removed or made meanwhile."""
    below = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    modes = {path: path.stat().st_mode for path in below}
    for path, mode in modes.items():
        path.chmod(mode & ~WRITE)
    try:
        for path in below:
            assert not os.access(path, os.W_OK), f"{path} can be written"
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def main(folder: Path) -> None:
    source, target = make_source(folder / "source"), folder / "target"
    beside = folder / "target.backfill"

    with only_read(source):  # Spark's applications
        built(source, target, "plan", "snapshot")
    commit_to(source, 2)
    with only_read(source):
        built(source, target, "consume_log")

    watch = GateWatch(str(target), MaxLag(epochs=0))
    with only_read(source, target, beside):  # the triggerer, and whoever looks
        assert isinstance(watch.gate().verdict, Ready) and isinstance(watch.live().verdict, Ready)
        assert status(str(target))["phase"] == glance(str(target))["phase"] == "consume_log"
        assert targets_below(str(folder), None) == [str(target)]

    with only_read(source, target, *(path for path in beside.iterdir() if path.name != "commands")):  # whoever orders
        assert ordered(str(target), Command(Verb.HOLD)) == 1

    with only_read(source, target, *(path for path in beside.iterdir() if path.name != "attempts")):  # a task's worker
        BuildReader(str(target)).draw_attempt({"task": "catch_up"})

    ordered(str(target), Command(Verb.RELEASE))
    with only_read(source):
        built(source, target, "catch_up", "verify", "finish")
    commit_to(source)
    with only_read(source):
        state = built(source, target, "upstream")
    assert state.applied == 6

    cleaned = ("attempts", "proofs", "explanations")
    with only_read(source, target, *(path for path in beside.iterdir() if path.name not in cleaned)):
        assert clean(str(target), 1)["errors"] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
