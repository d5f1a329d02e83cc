"""The names of ``kaldi_compat``, which are imported when they are first used, for type checkers and editors."""

from __future__ import annotations

import kaldi_compat

HEADER = "# Written by `make generate`: do not edit.\n"


def source() -> str:
    """Return the text of ``kaldi_compat/__init__.pyi``."""
    imports = [
        f"from kaldi_compat.{module} import {name} as {name}\n"
        for module, names in sorted(kaldi_compat.NAMES.items())
        for name in names.split()
    ]
    declarations = "\nNAMES: dict[str, str]\n_MODULE_OF: dict[str, str]\n__version__: str\n__all__: list[str]\n"
    return HEADER + "".join(imports) + declarations
