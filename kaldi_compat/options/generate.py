"""Write ``constructors.py`` from the declarations of the options: ``python -m kaldi_compat.options.generate``.

A static type checker, and an editor that completes arguments, cannot run the code that derives a module's keyword
arguments from its options dataclass. They read the constructors written here. A test fails when the file is stale.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from pathlib import Path
from typing import Any

from kaldi_compat.options.base import BaseOptions

__all__ = ["TARGET", "constructors_source", "main"]

MODULES = ("frontend", "pitch", "postprocessing", "spectral")
# Parameters that modules have besides their options, by the options or a base class of theirs; and names used in them.
POSITIONAL = {"CmvnOptions": ["stats: Any = None"], "GlobalCmvnOptions": ["statistics: Any = None"]}
KEYWORD_ONLY = {
    "CmvnOptions": ["skip_dims: Sequence[int] = ()"],
    "FrameOptions": ['engine: Engine = "auto"', 'dft: Dft = "fft"'],
}
NAMES = {"spectral": ["Dft", "Engine"]}
TARGET = Path(__file__).with_name("constructors.py")

HEADER = '''\
"""Constructors of the modules, for type checkers and editors: every option as a keyword argument with its default.

Written by ``python -m kaldi_compat.options.generate``: do not edit. Each class is a mixin that is empty at run time:
``class Fbank(FbankConstructor, MelFeature)`` has the constructor below for a type checker, and when it runs that of
:class:`~kaldi_compat.features.module.ConfiguredModule`, which takes the same arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

'''

CLASS = '''

class {name}Constructor:
    """Constructor of a module configured by {name}Options."""

    if TYPE_CHECKING:

        def __init__(
            self,
{before}            options: {name}Options | None = None,
            *,
{parameters}
        ) -> None: ...
'''


def constructors_source() -> str:
    """Return the text of ``constructors.py``: a class for each options dataclass that no other one derives from."""
    defined = {name: _options_in(name) for name in MODULES}
    bases = {base for kinds in defined.values() for kind in kinds for base in kind.__mro__[1:]}
    found = {name: [kind for kind in kinds if kind not in bases] for name, kinds in defined.items()}
    kinds = sorted((each for kinds in found.values() for each in kinds), key=lambda kind: kind.__name__)
    names = [f'    "{_stem(kind)}Constructor",\n' for kind in kinds]
    exported = f"\n__all__ = [\n{''.join(names)}]\n"
    return HEADER + "".join(map(_import, found, found.values())) + exported + "".join(map(_class, kinds))


def _options_in(module: str) -> list[type[Any]]:
    path = f"kaldi_compat.options.{module}"
    defined = [each for each in vars(import_module(path)).values() if isinstance(each, type)]
    return [each for each in defined if issubclass(each, BaseOptions) and each.__module__ == path]


def _stem(kind: type[Any]) -> str:
    return kind.__name__.removesuffix("Options")


def _import(module: str, kinds: list[type[Any]]) -> str:
    wanted = [*NAMES.get(module, []), *(kind.__name__ for kind in kinds)]
    names = "".join(f"        {name},\n" for name in sorted(wanted))
    return f"    from kaldi_compat.options.{module} import (\n{names}    )\n"


def _class(kind: type[Any]) -> str:
    options = [
        f"{field.name}: {type(field.default).__name__} = {_literal(field.default)}"
        for field in dataclasses.fields(kind)
    ]
    keywords = [*_of_class(KEYWORD_ONLY, kind), *options]
    return CLASS.format(
        name=_stem(kind),
        before="".join(f"            {each},\n" for each in _of_class(POSITIONAL, kind)),
        parameters="\n".join(f"            {each}," for each in keywords),
    )


def _of_class(parameters: dict[str, list[str]], kind: type[Any]) -> list[str]:
    return [each for base in kind.__mro__ for each in parameters.get(base.__name__, [])]


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def main() -> None:
    """Write the file."""
    TARGET.write_text(constructors_source(), encoding="utf-8")


if __name__ == "__main__":
    main()
