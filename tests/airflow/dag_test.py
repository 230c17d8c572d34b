"""Runs DAGs of a file one after the other with ``dag.test()``; a process of its own, because Airflow is one."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("file", type=Path)
    arguments.add_argument("dags", nargs="+")
    options = arguments.parse_args()
    sys.path.insert(0, str(options.file.parent))
    spec = importlib.util.spec_from_file_location(options.file.stem, options.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[options.file.stem] = module
    spec.loader.exec_module(module)
    found = {dag.dag_id: dag for dag in vars(module).values() if type(dag).__name__ == "DAG"}
    for name in options.dags:
        run = found[name].test()
        print(f"RUN {run.dag_id} {run.run_id} {run.state}", flush=True)


if __name__ == "__main__":
    main()
