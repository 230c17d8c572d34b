"""What the command line prints is what ``docs/schema`` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def check(name: str, document: Any) -> None:
    """Raise ValidationError unless the schema allows the document."""
    Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text())).validate(document)
