"""Calls of modules, for type checkers and editors: torch declares them as functions of anything to anything."""

from __future__ import annotations

# The name of the input, and the keyword arguments of the module's ``forward``.
CALLS = {
    "SpectralCall": ("samples", ["vtln_warp: Warp = 1.0", "generator: Generator = None"]),
    "PitchCall": ("samples", []),
    "ProcessPitchCall": ("features", ["generator: PitchGenerator | None = None"]),
    "PostProcessingCall": ("features", []),
}
# What goes in, and what comes out: a tensor, a padded batch with its lengths, or a list.
FORMS = [
    ("Tensor", "None = None", "Tensor"),
    ("Tensor", "Tensor | Sequence[int]", "tuple[Tensor, Tensor]"),
    ("Sequence[Tensor]", "None = None", "list[Tensor]"),
]

HEADER = """\
# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import overload

from torch import Tensor

from kaldi_compat.pitch.process import Generator as PitchGenerator
from kaldi_compat.torch.tensors.dither import Generator

Warp = float | Sequence[float] | Tensor
"""


def source() -> str:
    """Return the text of ``kaldi_compat/torch/features/calls.pyi``."""
    return HEADER + "".join(_class(name, *call) for name, call in CALLS.items())


def _class(name: str, samples: str, keywords: list[str]) -> str:
    rest = "".join(f", {each}" for each in ["*", *keywords]) if keywords else ""
    forms = (
        f"    @overload\n    def __call__(self, {samples}: {given}, lengths: {lengths}{rest}) -> {result}: ...\n"
        for given, lengths, result in FORMS
    )
    return f"\nclass {name}:\n{''.join(forms)}"
