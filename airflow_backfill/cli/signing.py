"""Who orders something on the command line."""

from __future__ import annotations

import argparse
import getpass

from airflow_backfill.core.values.signature import Signature


def signature(options: argparse.Namespace) -> Signature:
    """The signature of an order: the user's name if no other is given. InvalidSpec if a text is not one line."""
    return Signature(by=options.by if options.by is not None else _user(), why=options.why, via="cli")


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return None
