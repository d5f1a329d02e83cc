"""The generated files, and the functions that return their text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import figures
from generate import calls, constructors, io_ark_stub, kaldi_names, named_options, native, preset_names, public_names

ROOT = Path(__file__).parents[1]

# To add a file: write a module with a function that returns the text, and a line here.
TARGETS: Mapping[str, Callable[[], str]] = {
    "io_ark/__init__.pyi": io_ark_stub.source,
    "io_ark/interop/kaldi.pyi": kaldi_names.kaldi_source,
    "io_ark/interop/kaldi_native_io/table_types.pyi": kaldi_names.kaldi_native_io_source,
    "io_ark/native/signatures.txt": lambda: native.signatures(ROOT / "io_ark" / "native"),
    "kaldi_compat/__init__.pyi": public_names.source,
    "kaldi_compat/features/calls.pyi": calls.source,
    "kaldi_compat/native/signatures.txt": lambda: native.signatures(ROOT / "kaldi_compat" / "native"),
    "kaldi_compat/frontends/names.pyi": preset_names.source,
    "kaldi_compat/interop/kaldi_native_fbank/options.pyi": named_options.kaldi_native_fbank_source,
    "kaldi_compat/interop/kaldifeat/options.pyi": named_options.kaldifeat_source,
    "kaldi_compat/interop/lhotse_config/options.pyi": named_options.lhotse_source,
    "kaldi_compat/options/constructors.pyi": constructors.source,
    **{path.relative_to(ROOT).as_posix(): functools.partial(figures.page, path) for path in figures.pages(ROOT)},
}


def write() -> None:
    """Write every file whose text has changed."""
    for name, source in TARGETS.items():
        path, text = ROOT / name, source()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
