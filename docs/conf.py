"""Configuration of the documentation site: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from site_builder import docstrings, generate, links  # noqa: E402  the folder of this file must be on the path first

import kaldi_compat  # noqa: E402

project = "kaldi-compat"
author = "The kaldi-compat authors"
project_copyright = "The kaldi-compat authors"
version = release = kaldi_compat.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "site_builder.pictures",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = (
    False  # True would read defaults from the source, which does not have options taken by name.
)
autoclass_content = "class"
napoleon_use_ivar = True
napoleon_use_rtype = False
autosummary_generate = False

# Copies the lines behind prompts only, without the prompts and without results.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "kaldi-compat"
WASM = DOCS.parent / "packages" / "c" / "wasm"  # for the page howto/browser
html_static_path = ["_static", *map(str, [*WASM.glob("*.wasm"), *WASM.glob("kaldi_features*.js")])]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"get_started": []}  # a page without neighbors
smartquotes_action = "q"  # no dashes: -- begins an option
html_theme_options: dict[str, Any] = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app: Any) -> None:
    """Generate the reference before the pages are read, and lead links out of docs/ to pages of the site."""
    app.connect("builder-inited", lambda _: generate.write(DOCS / "generated"))
    app.connect("source-read", links.to_pages)
    app.connect("source-read", links.without_empty_globs)
    app.connect("html-page-context", links.from_sources)
    app.connect("autodoc-process-docstring", docstrings.with_option_table, priority=400)  # before napoleon
    app.connect("missing-reference", docstrings.public_reference)
