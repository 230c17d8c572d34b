"""Sphinx: ``python -m sphinx -W docs <output>`` from the root of the repository; needs the extra ``docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

project = "airflow-backfill"
myst_enable_extensions = ["deflist"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "generate"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "fixed_sidebar": True, "show_relbar_bottom": True}

myst_heading_anchors = 3
myst_heading_slug_func = "docutils.nodes.make_id"

# The pages need no Airflow and no Spark.
autodoc_mock_imports = ["airflow", "delta", "deltalake", "obstore", "pendulum", "py4j", "pyspark"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"


def setup(app: Any) -> None:
    # GitHub draws these diagrams; here they stay text.
    app.add_lexer("mermaid", TextLexer)
