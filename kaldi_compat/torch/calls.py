"""Calls of modules and of streams, for type checkers and editors: see ``calls.pyi``, written by ``make generate``.

``class SpectralFeature(SpectralCall, ...)`` has the overloaded call there for a type checker. When it runs,
``SpectralCall`` is an empty mixin, and ``torch.nn.Module`` or the stream has the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

Warp = float | Sequence[float] | Tensor


def __getattr__(name: str) -> type:
    if not name.endswith("Call"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mixin = type(name, (), {"__module__": __name__, "__doc__": "Call for type checkers; empty at run time."})
    return globals().setdefault(name, mixin)
