"""Types of calls of modules and streams for type checkers and editors, because torch declares them without types."""

from __future__ import annotations

# The name of the input, the keyword arguments of the module's ``forward``, and the class of its stream.
CALLS = {
    "SpectralCall": ("samples", ["vtln_warp: Warp = 1.0", "generator: Generator = None"], "FeatureStream"),
    "PitchCall": ("samples", [], ""),  # PitchCall defines its own method.
    "ProcessPitchCall": ("features", ["generator: PitchGenerator | None = None"], "ProcessPitchStream"),
    "PostProcessingCall": ("features", [], "Stream[Any]"),
}
FINAL = "final: bool | Tensor | Sequence[bool] = False"
# Base classes, and the keyword arguments of a call.
STREAM_CALLS = {
    "StreamCall": [FINAL],
    "FeatureStreamCall(StreamCall)": [FINAL, "vtln_warp: Warp = 1.0", "generator: Generator = None"],
    "ProcessPitchStreamCall(StreamCall)": [FINAL, "generator: PitchGenerator | None = None"],
    "ChainCall": [FINAL, "**parameters: Any"],
}
# Types of the samples, the lengths and the result of a call: for a tensor, a padded batch, and a list.
FORMS = [
    ("Tensor", "None = None", "Tensor"),
    ("Tensor", "Tensor | Sequence[int]", "tuple[Tensor, Tensor]"),
    ("Sequence[Tensor]", "None = None", "list[Tensor]"),
]

HEADER = """\
# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import Any, overload

from torch import Tensor

from kaldi_compat.pitch.process import Generator as PitchGenerator
from kaldi_compat.torch.streaming.base import Stream
from kaldi_compat.torch.streaming.features import FeatureStream
from kaldi_compat.torch.streaming.pitch import ProcessPitchStream
from kaldi_compat.torch.tensors.dither import Generator

Warp = float | Sequence[float] | Tensor
"""


def source() -> str:
    """Return the text of ``kaldi_compat/torch/calls.pyi``. A chunk without lengths belongs to a single stream."""
    modules = [
        _format_class(name, samples, keywords, FORMS)
        + f"    def stream(self, slots: int = 1) -> {stream}: ...\n" * bool(stream)
        for name, (samples, keywords, stream) in CALLS.items()
    ]
    streams = [_format_class(name, "chunk", keywords, FORMS[:2]) for name, keywords in STREAM_CALLS.items()]
    return "".join([HEADER, *modules, *streams])


def _format_class(name: str, samples: str, keywords: list[str], forms: list[tuple[str, str, str]]) -> str:
    keyword_parameters = "".join(f", {keyword}" for keyword in ["*", *keywords]) if keywords else ""
    calls = (
        f"    @overload\n    def __call__(self, {samples}: {inputs}, lengths: {lengths}{keyword_parameters})"
        f" -> {result}: ...\n"
        for inputs, lengths, result in forms
    )
    return f"\nclass {name}:\n{''.join(calls)}"
