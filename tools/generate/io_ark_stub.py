"""The types of io_ark's functions and classes by the kind of object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import io_ark

Types = Sequence[tuple[str, str]]

# Kinds of models and of text files, and the types of their values. They are always single files, so readers and writers
# of tables have no overloads for them.
MODELS = {
    "plda": "Plda",
    "diag-gmm": "DiagGmm",
    "full-gmm": "FullGmm",
    "ivector-extractor": "IvectorExtractor",
    "acoustic-model": "AcousticModel",
    "transition-model": "TransitionModel",
    "topology": "HmmTopology",
    "tree": "ContextDependency",
    "config": "dict[str, str]",
    "symbol-table": "dict[str, int]",
    "lines": "list[list[str]]",
}
FST = 'Literal["fst"]', "Fst"
# Kinds, and the type of the values that are read.
READ: Types = (
    ("Float32Kind", "Float32"),
    ("Float64Kind", "Float64"),
    ("Int32Kind", "Int32"),
    ('Literal["int"]', "int"),
    ("FloatKind", "float"),
    ('Literal["token"]', "str"),
    ('Literal["token-vector"]', "list[str]"),
    ('Literal["compressed-matrix"]', "CompressedMatrix"),
    ('Literal["posterior"]', "Posterior"),
    ('Literal["wave"]', "Wave"),
    ('Literal["wave-info"]', "WaveInfo"),
    FST,
    ("Kind", "Any"),
)
# Kinds, and the type of the values that are written.
WRITTEN: Types = (
    ("ArrayKind", "npt.ArrayLike"),
    ('Literal["int"]', "int"),
    ("FloatKind", "float"),
    ('Literal["token"]', "str"),
    ('Literal["token-vector"]', "Iterable[str]"),
    ('Literal["posterior"]', "Sequence[Sequence[tuple[int, float]]]"),
    ('Literal["wave"]', "Wave"),
    FST,
)
# Without a kind, the type of the value depends on the file, so it is Any.
DETECTED = ("None", "Any")
OF_CODEC = ("Codec[Value]", "Value")
OF_FILES: Types = tuple((f'Literal["{kind}"]', value) for kind, value in MODELS.items())

# Maps functions to the types of their values, and to a template of their return type.
FUNCTIONS: dict[str, tuple[Types, str]] = {
    "load": ((*OF_FILES, *READ, OF_CODEC, DETECTED), "{}"),
    "load_scp": ((*READ, DETECTED), "Mapping[str, {}]"),
    "read": ((*READ, DETECTED), "Iterator[tuple[str, {}]]"),
    "save": ((*OF_FILES, *WRITTEN, ("OtherWrittenKind", "Any"), OF_CODEC, DETECTED), "None"),
    "writer": ((*WRITTEN, ("Kind", "Any"), DETECTED), "Writer[{}]"),
}
CLASSES: dict[str, Types] = {
    "SequentialReader": (*READ, OF_CODEC),
    "RandomAccessReader": (*READ, OF_CODEC),
    "Writer": (*WRITTEN, ("Kind", "Any"), OF_CODEC),
}

HEAD = """\
# Written by `make generate`: do not edit.
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeVar, overload

import numpy.typing as npt

from io_ark.blocks.posterior import Posterior
from io_ark.codecs import Codec
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.kinds import (
    ArrayKind, Float32, Float32Kind, Float64, Float64Kind, FloatKind, Int32, Int32Kind, Kind, OtherWrittenKind
)
from io_ark.codecs.fst import Fst
from io_ark.models import (
    AcousticModel, ContextDependency, DiagGmm, FullGmm, HmmTopology, IvectorExtractor, Plda, TransitionModel
)
from io_ark.specifier import Rspecifier, Wspecifier
from io_ark.tables import random_access, readers, writers
from io_ark.tables.loader import RelativeTo
"""


def source() -> str:
    """Return the text of ``io_ark/__init__.pyi``."""
    parts = [HEAD]
    others = [name for name in io_ark.__all__ if name not in (*FUNCTIONS, *CLASSES, "Kind", "__version__")]
    parts += [f"from {getattr(io_ark, name).__module__} import {name} as {name}\n" for name in others]
    parts.append('\nValue = TypeVar("Value")\n\n__version__: str\n')
    parts.append("__all__ = [" + ", ".join(f'"{name}"' for name in io_ark.__all__) + "]\n")
    for name, types in CLASSES.items():
        module = {"Writer": "writers", "RandomAccessReader": "random_access"}.get(name, "readers")
        parts.append(f"\nclass {name}({module}.{name}[Value]):\n    def __enter__(self) -> {name}[Value]: ...\n")
        init = getattr(io_ark, name).__init__
        parts += [_format_overload(init, kind, value, "None", f"{name}[{value}]") for kind, value in types]
    for name, (types, returned) in FUNCTIONS.items():
        parts.append("\n")
        parts += [_format_overload(getattr(io_ark, name), kind, value, returned.format(value)) for kind, value in types]
    return "".join(parts)


def _format_overload(function: Callable[..., Any], kind: str, value: str, returned: str, instance: str = "") -> str:
    """Return the overload of a function, or of a method of ``instance``, for some kinds of objects."""
    words: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        annotation = {"kind": kind, "value": value, "self": instance}.get(parameter.name, parameter.annotation)
        # In an overload for a kind, the parameter has no default.
        optional = parameter.default is not parameter.empty and (parameter.name != "kind" or kind == "None")
        if parameter.kind == parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        stars = "**" if parameter.kind == parameter.VAR_KEYWORD else ""
        words.append(f"{stars}{parameter.name}: {annotation}{' = ...' if optional else ''}")
    indent = "    " if instance else ""
    return f"{indent}@overload\n{indent}def {function.__name__}({', '.join(words)}) -> {returned}: ...\n"
