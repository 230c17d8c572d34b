"""``table-backfill plan``: a plan, or what a plan would do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_backfill.cli import submit
from airflow_backfill.cli.answer import Answer
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.forecast import described
from airflow_backfill.core.reports.way_out import WAYS_OUT
from airflow_backfill.core.values.options import invalid, parsed


def plan(options: argparse.Namespace) -> Answer:
    """Plan the build."""
    found = submit.plan(options, _spec(options))
    return Answer(found, "\n".join([f"build {found['build']} is planned", *described(found["report"])]))


def dry_run(options: argparse.Namespace) -> Answer:
    """Every precondition, the cost, and a rehearsal. Not good if a precondition fails."""
    found = submit.dry_run(options, _spec(options))
    return Answer(found, as_text(found), found["good"])


def as_text(found: Mapping[str, Any]) -> str:
    """The dry run as lines."""
    lines = [f"{found['target']}: {'can be planned' if found['good'] else 'cannot be planned'}; nothing was created"]
    for check in found["checks"]:
        detail = "" if check["detail"] is None else f": {check['detail']}"
        lines.append(f"  {check['result']:<11} {check['name']}{detail}")
        if check["error"] is not None:
            lines.append(f"              [{check['error']['code']}] {WAYS_OUT.get(check['error']['code'], '')}")
    report = [] if found["report"] is None else described(found["report"])
    return "\n".join([*lines, *(f"  {line}" for line in report)])


def _spec(options: argparse.Namespace) -> str:
    """The spec as JSON, checked as far as that needs no table. Notes the target that it names."""
    text: str = options.spec
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text("utf-8-sig")
        except (OSError, ValueError) as error:
            raise invalid(
                "spec", options.spec, f"is neither a JSON object nor a file that can be read ({error})"
            ) from None
    options.target = BackfillSpec.parse(parsed(text)).target
    return json.dumps(parsed(text))
