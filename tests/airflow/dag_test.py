"""Runs DAGs with ``dag.test()``, each request in a process of its own.

Airflow takes seconds to import. So this process imports it once, and forks for every request that it reads from its
standard input, a line of JSON each. The fork has the request's environment and database, and leads a process group,
so that it can be killed with everything that it started. It says its pid, and when it is over, its status.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Airflow prints what it likes
    _import_airflow()
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_answer(request))
        print(pid, file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _answer(request: dict[str, Any]) -> int:
    os.setsid()
    home = Path(request["home"])
    log = os.open(home / "run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(request["environment"])
    try:
        states = list(_run(Path(request["file"]), request["dags"], request["conf"], request["without_spark"]))
        (home / "states.json").write_text(json.dumps(states))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _run(file: Path, dags: list[str], conf: dict[str, Any], without_spark: bool) -> Iterator[str]:
    """The states in which runs of the DAGs end, one after the other."""
    from airflow import settings
    from airflow.dag_processing.dagbag import BundleDagBag

    from airflow_backfill.testing import launcher

    settings.dispose_orm()
    settings.configure_vars()
    settings.configure_orm()
    bag = BundleDagBag(dag_folder=str(file), bundle_path=file.parent, bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    for name in dags:
        dag = launcher.without_spark(bag.dags[name]) if without_spark else bag.dags[name]
        yield str(dag.test(run_conf=conf).state)


def _import_airflow() -> None:
    import airflow.dag_processing.dagbag
    import airflow.models.dagbag
    import airflow.sdk.execution_time.task_runner  # noqa: F401
    from airflow.sdk.execution_time.supervisor import in_process_api_server

    # Made on first use otherwise, which takes seconds. Starts no thread.
    in_process_api_server().app._cadwyn_initialize()


if __name__ == "__main__":
    serve()
