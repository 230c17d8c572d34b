"""Notifiers that write down what they are told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier

TOLD = "TOLD"
"""The variable with the file in which each line is one message."""


class WritesDown(BaseNotifier):
    """Appends its text to a file, as another one would post it to a channel."""

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        with Path(os.environ[TOLD]).open("a") as file:
            file.write(f"{self.text}\n")


failures = WritesDown("{{ ti.task_id }} {{ failure.code }}: {{ failure.way_out }}")
warnings = WritesDown("{{ ti.task_id }} {{ warning.kind }} of {{ warning.name }}: {{ warning.message }}")
