"""Convert links that leave ``docs/``, which work on a code host, to links to pages of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["PAGES", "from_sources", "to_pages", "without_empty_globs"]

# Files outside of docs/ -> pages of the site that include them.
PAGES = {
    "README.md": "/index.md",
    "CHANGELOG.md": "/generated/project/changelog.md",
    "CONTRIBUTING.md": "/generated/project/contributing.md",
    ".github/SECURITY.md": "/generated/project/security.md",
    "packaging/RELEASING.md": "/generated/project/releasing.md",
    ".github/CODE_OF_CONDUCT.md": "/generated/project/conduct.md",
    "packages/standins/README.md": "/generated/project/standins.md",
    "packages/explain/README.md": "/generated/project/explain.md",
    "packages/c/README.md": "/generated/project/c_header.md",
    "packages/c/wasm/README.md": "/generated/project/javascript.md",
    "benchmarks/README.md": "/generated/project/benchmarks.md",
    "reference_data/README.md": "/generated/project/reference_data.md",
    "reference_data/conformance/README.md": "/generated/project/conformance_kit.md",
}
GLOB = re.compile(r"[\w/]*\*")
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")


def to_pages(app: Any, document: str, source: list[str]) -> None:
    """Rewrite the links of a page (a handler of Sphinx's ``source-read``)."""

    def page(match: re.Match[str]) -> str:
        target = PAGES.get(match[2])
        return f"]({target}{match[3] or ''})" if target else match[0]

    source[0] = LINK.sub(page, source[0])


def without_empty_globs(app: Any, document: str, source: list[str]) -> None:
    """Remove patterns of tables of contents that match no page (a handler of ``source-read``)."""
    here = Path(app.srcdir, document).parent
    lines = source[0].split("\n")
    remaining = [line for line in lines if not GLOB.fullmatch(line) or any(_matches(Path(app.srcdir), here, line))]
    source[0] = "\n".join(remaining)


def from_sources(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Correct links from viewcode's pages of sources to the reference (a handler of ``html-page-context``).

    viewcode assumes that all names of a module are documented under the first name that it finds for the module, such
    as ``io_ark.FormatError`` for ``io_ark.errors.FormatError``. It also lists modules without a page.
    """
    sources, module = app.env._viewcode_modules, page.removeprefix("_modules/").replace("/", ".")
    if page == "_modules/index":
        for name in [name for name, entry in sources.items() if not entry]:
            context["body"] = re.sub(rf"<li><a[^>]*>{re.escape(name)}</a></li>", "", context["body"])
    elif page.startswith("_modules/") and sources.get(module):
        known, (_, _, pages, documented_as) = app.env.get_domain("py").objects, sources[module]

        def target(match: re.Match[str]) -> str:
            name = match[1].removeprefix(f"{documented_as}.")
            page_name = pages.get(name)
            same = [key for key, entry in known.items() if key.endswith(f".{name}") and entry.docname == page_name]
            return match[0] if match[1] in known or not same else f"#{same[0]}"

        context["body"] = re.sub(r"(?<=\.html)#([\w.]+)", target, context["body"])


def _matches(top: Path, here: Path, pattern: str) -> Iterator[Path]:
    folder = top if pattern.startswith("/") else here
    return (path for suffix in (".md", ".rst") for path in folder.glob(pattern.lstrip("/") + suffix))
