"""What Spark's own event log says of an application: its settings, and how many rows its scans put out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Node = dict[str, Any]
"""An operator of a query's plan."""


def confs(folder: Path) -> dict[str, str]:
    """Settings with which applications write event logs to a folder, which is made."""
    folder.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
    }


def logs(folder: Path, application: str) -> list[Path]:
    """Those of all applications of this name, oldest first."""
    return [
        path for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime) if _name(path) == application
    ]


def settings(path: Path) -> dict[str, str]:
    """What the application's session was started with."""
    found = next(event for event in _events(path) if event["Event"] == "SparkListenerEnvironmentUpdate")
    return dict(found["Spark Properties"])


def session_settings(path: Path) -> dict[str, str]:
    """What was set in the session by the time of the application's last query."""
    return [dict(event["modifiedConfigs"]) for event in _events(path) if "modifiedConfigs" in event][-1]


def rows(path: Path, scan: Callable[[Node], bool]) -> int:
    """How many rows the operators for which ``scan`` holds put out."""
    events, counters = _events(path), set[int]()
    for node in nodes(path):
        if scan(node):
            counters |= {m["accumulatorId"] for m in node["metrics"] if m["name"] == "number of output rows"}
    tasks = (event["Task Info"] for event in events if event["Event"] == "SparkListenerTaskEnd")
    counts = (count for task in tasks for count in task.get("Accumulables", ()) if count["ID"] in counters)
    return sum(int(count.get("Update") or 0) for count in counts)


def nodes(path: Path) -> Iterator[Node]:
    """The operators of all queries."""
    for event in _events(path):
        if "sparkPlanInfo" in event:
            yield from _below(event["sparkPlanInfo"])


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in node["children"]:
        yield from _below(child)


def _name(path: Path) -> str:
    names = (event["App Name"] for event in _events(path) if event["Event"] == "SparkListenerApplicationStart")
    return str(next(names, ""))


def _events(path: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted(path.rglob("events_*")) for line in file.read_text().splitlines()]
    # A killed application may have cut its last line.
    return [json.loads(line) for line in lines if line.endswith("}")]
