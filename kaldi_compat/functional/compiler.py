"""Queries of ``torch.compiler``. Before torch 2.3 it answers none; modules then compute eagerly only."""

from __future__ import annotations

from typing import Any


def compiler_says(torch: Any, question: str) -> bool:
    """Return the answer of ``torch.compiler`` to a question such as ``is_compiling``; False if it does not know it."""
    return hasattr(torch.compiler, question) and bool(getattr(torch.compiler, question)())
