"""kaldifeat's options, which are made when the module is imported."""

from __future__ import annotations

import dataclasses
from typing import Any

from kaldi_compat.interop.kaldifeat import options

NAMES = ("FrameExtractionOptions", "MelBanksOptions", "FbankOptions", "MfccOptions", "PlpOptions", "SpectrogramOptions",
         "WhisperFbankOptions")  # fmt: skip
HEADER = """\
# Written by `make generate`: do not edit.
from dataclasses import dataclass

import torch

from kaldi_compat.interop.kaldifeat.base import FeatureOptions as FeatureOptions, Options, WhisperOptions
"""


def source() -> str:
    """Return the text of ``kaldi_compat/interop/kaldifeat/options.pyi``."""
    return HEADER + "".join(_class(getattr(options, name)) for name in NAMES)


def _class(kind: type[Any]) -> str:
    fields = "".join(f"    {each.name}: {_name(each.type)} = ...\n" for each in dataclasses.fields(kind))
    doc = "\n".join(f"    {line}" if line else "" for line in str(kind.__doc__).splitlines()).strip()
    return f'\n@dataclass\nclass {kind.__name__}({kind.__bases__[0].__name__}):\n    """{doc}\n    """\n{fields}'


def _name(kind: Any) -> str:
    return "torch.device" if kind.__module__ == "torch" else str(kind.__name__)
