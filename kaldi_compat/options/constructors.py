"""Constructors and keyword arguments with all options, for type checkers and editors.

For a type checker, ``class Fbank(FbankConstructor, MelFeature)`` has the constructor in ``constructors.pyi``, which
``make generate`` writes. At run time, ``FbankConstructor`` is an empty mixin, and
:class:`~kaldi_compat.torch.features.module.ConfiguredModule` has a constructor with the same arguments. Functions have
the parameter ``**changes: Unpack[DeltaKeywords]``, an annotation that is not evaluated at run time.
"""

from __future__ import annotations


def __getattr__(name: str) -> type:
    """Return an empty class for a name that ends with Constructor, Keywords or Unpack (see ``constructors.pyi``)."""
    if not name.endswith(("Constructor", "Keywords", "Unpack")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mixin = type(name, (), {"__module__": __name__, "__doc__": "For type checkers; empty at run time."})
    return globals().setdefault(name, mixin)
