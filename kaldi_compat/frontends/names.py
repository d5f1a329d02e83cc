"""Type of the presets' names. Type checkers and editors read ``names.pyi``, which lists them (``make generate``)."""

from typing import TypeAlias

PresetName: TypeAlias = str
