"""Every option as a keyword argument, for type checkers and editors: of the modules and of the functions.

``class Fbank(FbankConstructor, MelFeature)`` has the constructor in ``constructors.pyi`` (written by ``make generate``)
for a type checker. When it runs, ``FbankConstructor`` is an empty mixin, and the constructor is that of
:class:`~kaldi_compat.torch.features.module.ConfiguredModule`, which takes the same arguments. A function has the
parameter ``**changes: Unpack[DeltaKeywords]``, an annotation that nothing reads when it runs.
"""

from __future__ import annotations


def __getattr__(name: str) -> type:
    if not name.endswith(("Constructor", "Keywords", "Unpack")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = type(name, (), {"__module__": __name__, "__doc__": "For type checkers; empty at run time."})
    return globals().setdefault(name, made)
