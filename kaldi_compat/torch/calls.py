"""Mixins that declare the calls of modules and streams for type checkers and editors.

``calls.pyi``, written by ``make generate``, declares the overloaded ``__call__`` of each mixin. At run time the mixins
are empty, and ``torch.nn.Module`` or the stream defines ``__call__``.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

Warp = float | Sequence[float] | Tensor


def __getattr__(name: str) -> type:
    """Create the empty mixin class ``name`` on first use. Raise AttributeError unless the name ends in "Call"."""
    if not name.endswith("Call"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mixin = type(name, (), {"__module__": __name__, "__doc__": "Call for type checkers; empty at run time."})
    return globals().setdefault(name, mixin)
