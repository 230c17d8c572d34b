"""Command lines: a wrong one is a coded error that shows no secret."""

from __future__ import annotations

import argparse
from typing import NoReturn

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.options import masked


class Arguments(argparse.ArgumentParser):
    """Raises InvalidSpec where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise InvalidSpec(f"{self.prog}: {masked(message)[:500]}; see --help", field=self.prog)
