"""Edits of the package, each of which brings back what once lost rows, or hours: mostly of what no simulation runs."""

from __future__ import annotations

from tests.mends import applications, decisions, files, topics

MENDS = (*decisions.MENDS, *files.MENDS, *applications.MENDS, *topics.MENDS)
