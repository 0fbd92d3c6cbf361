"""The site: `make docs` builds it from this folder, and fails on a warning such as a dead link."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Headrace"
copyright = "the authors of Headrace"
extensions = [
    "myst_nb",  # Markdown, and the notebook with the pictures that are kept in it
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "from_code",
]
exclude_patterns = ["_extensions", "Thumbs.db", ".DS_Store"]

html_theme = "furo"
html_title = "Headrace"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
templates_path: list[str] = []

# Every heading can be linked to, as on the repository's own pages.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# A test runs the notebook; the site shows what it left.
nb_execution_mode = "off"
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_use_rtype = False
# Docstrings are written with single backticks.
default_role = "code"
# Two hyphens begin an option.
smartquotes = False
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
