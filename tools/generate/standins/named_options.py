"""Stubs of the stand-ins' options, whose classes are created when their modules are imported."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

HEADER = "# Written by `make generate`: do not edit.\nfrom dataclasses import dataclass\n"
KALDIFEAT = """
import torch

from kaldi_standins.kaldifeat.base import FeatureOptions as FeatureOptions, Options, WhisperOptions
"""
LHOTSE = """
from kaldi_standins.lhotse_config.base import Config, EnergyConfig, PowerConfig, WhisperConfig
"""
KALDI_NATIVE_FBANK = """
from kaldi_standins.kaldi_native_fbank.base import (
    ListedOptions,
    Options,
    PitchExtractionBase,
    ProcessPitchBase,
    StftBase,
)

EPSILON: float
"""


def kaldifeat_source() -> str:
    """Return the text of ``packages/standins/kaldi_standins/kaldifeat/options.pyi``."""
    return _make_source("kaldifeat", KALDIFEAT)


def kaldi_native_fbank_source() -> str:
    """Return the text of ``packages/standins/kaldi_standins/kaldi_native_fbank/options.pyi``."""
    return _make_source("kaldi_native_fbank", KALDI_NATIVE_FBANK)


def lhotse_source() -> str:
    """Return the text of ``packages/standins/kaldi_standins/lhotse_config/options.pyi``."""
    return _make_source("lhotse_config", LHOTSE)


def _make_source(library: str, imports: str) -> str:
    module = importlib.import_module(f"kaldi_standins.{library}.options")
    kinds = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return HEADER + imports + "".join(_format_class(value) for value in kinds if dataclasses.is_dataclass(value))


def _format_class(kind: Any) -> str:
    fields = "".join(
        f"    {field.name}: {_format_type(field.type)}{_format_default(field)}\n" for field in dataclasses.fields(kind)
    )
    doc = "\n".join(f"    {line}" if line else "" for line in str(kind.__doc__).splitlines()).strip()
    is_compared = "" if kind.__eq__ is not object.__eq__ else "(eq=False)"
    header = f"\n@dataclass{is_compared}\nclass {kind.__name__}({kind.__bases__[0].__name__}):\n"
    return f'{header}    """{doc}\n    """\n{fields}'


def _format_default(field: dataclasses.Field[Any]) -> str:
    return "" if field.default is field.default_factory is dataclasses.MISSING else " = ..."


def _format_type(kind: Any) -> str:
    if kind is list:
        return "list[float]"
    return "torch.device" if kind.__module__ == "torch" else str(getattr(kind, "__name__", kind))
