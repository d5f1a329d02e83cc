"""Names of the presets, which editors complete."""

from __future__ import annotations

from kaldi_compat.frontends.preset import list_presets


def source() -> str:
    """Return the text of ``kaldi_compat/frontends/names.pyi``."""
    names = "".join(f'    "{name}",\n' for name in list_presets())
    return f"""\
# Written by `make generate`: do not edit.
from typing import Literal, TypeAlias

PresetName: TypeAlias = Literal[
{names}]
"""
