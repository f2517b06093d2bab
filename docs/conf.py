"""How Sphinx builds the documentation: ``make docs``, or ``make test``, which fails on any warning."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(Path(__file__).parent / "extensions")]

from gradviz._version import __version__  # noqa: E402

project = "gradviz"
author = "the authors of gradviz"
copyright = "the authors of gradviz, MIT licence"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # docs/extensions
    "shown_commands",
    "shown_scripts",
    "cited_tests",
    "reference_pages",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["built", "extensions", "scripts"]
suppress_warnings = ["myst.header"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nitpicky = False

html_theme = "furo"
html_title = f"gradviz {version}"
html_static_path = ["static"]
html_css_files = ["gradviz.css"]
# Pages that commands wrote, which other pages show in a frame. The folder must be there before they run.
html_extra_path = ["built/pages"]
(Path(__file__).parent / "built" / "pages").mkdir(parents=True, exist_ok=True)
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# What `man gradviz` shows is the reference of the commands.
man_pages = [("reference/commands", "gradviz", "show and check the autograd graph of a PyTorch script", [author], 1)]
