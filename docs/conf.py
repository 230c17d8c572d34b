"""Sphinx: ``python -m sphinx -W docs <output>`` from the root of the repository; needs the extra ``docs``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

project = "airflow-backfill"
myst_enable_extensions = ["deflist"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid", "generate"]
myst_fence_as_directive = ["mermaid"]
highlight_language = "text"
mermaid_fullscreen = False
html_theme = "alabaster"
html_theme_options = {
    # A line of code has room for 100 characters.
    "page_width": "1200px",
    "body_max_width": "none",
    "font_size": "16px",
    "code_font_size": "0.8em",
    "fixed_sidebar": True,
    "show_relbar_bottom": True,
}

myst_heading_anchors = 3
myst_heading_slug_func = "docutils.nodes.make_id"

# The pages need no Airflow and no Spark.
autodoc_mock_imports = ["airflow", "delta", "deltalake", "obstore", "pendulum", "py4j", "pyspark"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
