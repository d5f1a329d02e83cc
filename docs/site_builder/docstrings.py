"""Adapt docstrings to autodoc: options as a table, and references to the place where a name is documented."""

from __future__ import annotations

from typing import Any

import kaldi_compat
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.config import get_flags

__all__ = ["public_reference", "with_option_table"]


def with_option_table(app: Any, what: str, name: str, value: Any, settings: Any, lines: list[str]) -> None:
    """Replace the list of options at the end of a docstring (a handler of ``autodoc-process-docstring``)."""
    options = value if isinstance(value, type) and issubclass(value, BaseOptions) else getattr(value, "Options", None)
    if what != "class" or options is None or "Options:" not in lines:
        return
    del lines[lines.index("Options:") :]
    lines += [".. list-table:: Options", "   :header-rows: 1", "   :widths: 28 10 14 48", ""]
    rows = [("option", "type", "default", "meaning")]
    rows += [
        (f"``{flag.field}``", type(flag.default).__name__, f"``{flag.default!r}``", _escaped(flag.description))
        for flag in get_flags(options).values()
    ]
    for row in rows:
        lines += [f"   {'-' if i else '* -'} {cell}".replace("   - ", "     - ", 1) for i, cell in enumerate(row)]
    lines.append("")


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*`|_\\" else char for char in text)


def public_reference(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Resolve a reference to a module's name to the short name that is documented (``missing-reference``)."""
    if node.get("refdomain") != "py":
        return None
    parts = node["reftarget"].split(".")
    for end in range(len(parts), 0, -1):
        if parts[end - 1] in kaldi_compat._MODULE_OF:
            target = ".".join(["kaldi_compat", *parts[end - 1 :]])
            domain = environment.get_domain("py")
            if target != node["reftarget"] and target in domain.objects:
                return domain.resolve_xref(
                    environment, node["refdoc"], app.builder, node["reftype"], target, node, content
                )
    return None
