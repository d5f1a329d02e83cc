"""The generated files, and the functions that return their text."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import figures
from tools.generate import (
    c_presets,
    calls,
    constructors,
    io_ark_stub,
    native,
    pages,
    preset_files,
    preset_names,
    promised_names,
    public_names,
)

ROOT = Path(__file__).parents[2]
# A copy of the project may lack the packages.
C: Mapping[str, Callable[[], str]] = {
    "packages/c/kaldi_features.h": lambda: c_presets.source(ROOT / "packages" / "c" / "kaldi_features.h"),
    "packages/c/wasm/kaldi_features.presets.js": c_presets.javascript,
}
STANDINS = importlib.import_module("tools.generate.standins").TARGETS if (ROOT / "packages/standins").exists() else {}

# To add a file: write a module with a function that returns the text, and a line here.
TARGETS: Mapping[str, Callable[[], str]] = {
    **(C if (ROOT / "packages/c").exists() else {}),
    "kaldi_compat/frontends/presets.json": preset_files.presets,
    "kaldi_compat/frontends/preset.schema.json": preset_files.schema,
    "io_ark/__init__.pyi": io_ark_stub.source,
    "io_ark/native/signatures.txt": lambda: native.signatures(ROOT / "io_ark" / "native"),
    "kaldi_compat/__init__.pyi": public_names.source,
    "kaldi_compat/torch/calls.pyi": calls.source,
    "kaldi_compat/native/signatures.txt": lambda: native.signatures(ROOT / "kaldi_compat" / "native"),
    "kaldi_compat/frontends/names.pyi": preset_names.source,
    "kaldi_compat/options/constructors.pyi": constructors.source,
    "docs/reference/names.md": promised_names.source,
    **STANDINS,
    **{
        path.relative_to(ROOT).as_posix(): functools.partial(pages.source, path)
        for path in pages.pages()
        if path.name != "names.md"
    },
    "benchmarks/README.md": functools.partial(figures.page, ROOT / "benchmarks" / "README.md"),
}


def write() -> None:
    """Write every file whose text has changed, once the text of all files is known.

    Raises:
        SystemExit: a text cannot be made, for example because the installation is older than the sources.
    """
    texts = {}
    for name, source in TARGETS.items():
        try:
            texts[ROOT / name] = source()
        except Exception as error:
            raise SystemExit(
                f"generate: cannot make {name} ({type(error).__name__}: {error}). Nothing was written. If the "
                "installation is older than the sources, run `pip install -e .` first"
            ) from None
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            fresh.write_text(text, encoding="utf-8")
            os.replace(fresh, path)
            print(f"wrote {path.relative_to(ROOT).as_posix()}")
