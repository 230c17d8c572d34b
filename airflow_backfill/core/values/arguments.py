"""Command lines that are refused with a coded error, which repeats no secret of a location."""

from __future__ import annotations

import argparse
from typing import NoReturn

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.options import masked


class Arguments(argparse.ArgumentParser):
    """Raises InvalidSpec where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise InvalidSpec(f"{self.prog}: {masked(message)[:500]}; --help says what is taken", field=self.prog)
