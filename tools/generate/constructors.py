"""Keyword arguments of modules and functions, for type checkers and editors.

They cannot run the code that derives keyword arguments from an options dataclass, so they read the constructors of
modules and the dictionaries of functions' arguments that this generator writes to
``kaldi_compat/options/constructors.pyi``.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

MODULES = ("frontend", "pitch", "postprocessing", "spectral")
# Parameters that modules have besides their options. A key is the class of the options, or a base class of this class.
POSITIONAL = {"CmvnOptions": ["statistics: Any = None"], "GlobalCmvnOptions": ["statistics: Any = None"]}
POSITIONAL["OnlineCmvnOptions"] = ["statistics: Any"]
KEYWORD_ONLY = {
    "CmvnOptions": ["skip_dims: Sequence[int] = ()"],
    "OnlineCmvnOptions": ["skip_dims: Sequence[int] = ()"],
    "FrameOptions": ['engine: Engine = "auto"', 'dft: Dft = "fft"'],
}
# Names that the parameters use, by the module of the options.
NAMES = {"spectral": ["Dft", "Engine"]}
# Options that no function takes, and options that no module has.
WITHOUT_FUNCTION = {"Fbank", "GlobalCmvn", "Mfcc", "Plp", "Spectrogram"}
WITHOUT_MODULE = {"InterpolatePitch", "Reverberation", "SmoothPitch", "Vad"}

HEADER = """\
# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack as Unpack

"""

CLASS = """
class {name}Constructor:
    def __init__(self, {parameters}) -> None: ...
"""


def source() -> str:
    """Return the text of the stub, which has a class for each options dataclass without derived classes in its file."""
    defined = {name: _list_options(name) for name in MODULES}
    bases = {name: {base for kind in kinds for base in kind.__mro__[1:]} for name, kinds in defined.items()}
    added = {name: [kind for kind in kinds if kind not in bases[name]] for name, kinds in defined.items()}
    kinds = sorted((kind for kinds in added.values() for kind in kinds), key=lambda kind: kind.__name__)
    modules = [_format_class(kind) for kind in kinds if _get_stem(kind) not in WITHOUT_MODULE]
    functions = [_format_keywords(kind) for kind in kinds if _get_stem(kind) not in WITHOUT_FUNCTION]
    return "".join([HEADER, *map(_import, added, added.values()), *modules, "\n", *functions])


def _list_options(module: str) -> list[type[Any]]:
    path = f"kaldi_compat.options.{module}"
    defined = [value for value in vars(import_module(path)).values() if dataclasses.is_dataclass(value)]
    return [value for value in defined if isinstance(value, type) and value.__module__ == path]


def _get_stem(kind: type[Any]) -> str:
    return kind.__name__.removesuffix("Options")


def _import(module: str, kinds: list[type[Any]]) -> str:
    imported = [*NAMES.get(module, []), *(kind.__name__ for kind in kinds if _get_stem(kind) not in WITHOUT_MODULE)]
    return f"from kaldi_compat.options.{module} import {', '.join(sorted(imported))}\n"


def _format_class(kind: type[Any]) -> str:
    """Return the class whose constructor has the parameters of the module for a class of options."""
    options = [
        f"{field.name}: {type(field.default).__name__} = {_format_literal(field.default)}"
        for field in dataclasses.fields(kind)
    ]
    before = [*_find_parameters(POSITIONAL, kind), f"options: {kind.__name__} | None = None", "*"]
    return CLASS.format(
        name=_get_stem(kind), parameters=", ".join([*before, *_find_parameters(KEYWORD_ONLY, kind), *options])
    )


def _format_keywords(kind: type[Any]) -> str:
    types = ", ".join(f'"{field.name}": {type(field.default).__name__}' for field in dataclasses.fields(kind))
    name = f"{_get_stem(kind)}Keywords"
    return f'{name} = TypedDict("{name}", {{{types}}}, total=False)\n'


def _find_parameters(parameters: dict[str, list[str]], kind: type[Any]) -> list[str]:
    return [parameter for base in kind.__mro__ for parameter in parameters.get(base.__name__, [])]


def _format_literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
