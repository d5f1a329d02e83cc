"""Constructors and keyword arguments with all options, for type checkers and editors.

``class Fbank(FbankConstructor, MelFeature)`` has the constructor in ``constructors.pyi`` (written by ``make generate``)
for a type checker. When it runs, ``FbankConstructor`` is an empty mixin, and
:class:`~kaldi_compat.torch.features.module.ConfiguredModule` has the constructor, with the same arguments. A function
has the parameter ``**changes: Unpack[DeltaKeywords]``, an annotation that nothing reads when it runs.
"""

from __future__ import annotations


def __getattr__(name: str) -> type:
    if not name.endswith(("Constructor", "Keywords", "Unpack")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mixin = type(name, (), {"__module__": __name__, "__doc__": "For type checkers; empty at run time."})
    return globals().setdefault(name, mixin)
