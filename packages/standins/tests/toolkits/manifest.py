"""What a call site is, the recordings that it is given, and how its file is imported.

A checkout of each repository lies in a folder of its name. Nothing of a project's code is changed: what its files
import beside the library in question is replaced by empty modules where it is not installed.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

Result = Any


@dataclass(frozen=True)
class Recording:
    """A recording, as files and functions take it.

    Attributes:
        name: of the recording.
        rate: in Hz.
        pcm: int16 (channels, T).
        path: a WAV file.
    """

    name: str
    rate: int
    pcm: Any
    path: str

    @property
    def wave(self) -> Tensor:
        """Samples (channels, T) in -1 to 1."""
        return torch.from_numpy(self.pcm.astype(np.float32) / 32768)

    @property
    def mono(self) -> Tensor:
        """The first channel (1, T) in -1 to 1."""
        return self.wave[:1]

    @property
    def unit(self) -> Any:
        """The first channel (T,) in -1 to 1, an array."""
        return self.wave[0].numpy()

    @property
    def sample(self) -> dict[str, Any]:
        """What the data pipelines of WeNet and its relatives pass on."""
        return {"key": "a", "label": "a", "domain": "a", "wav": self.wave, "sample_rate": self.rate}

    @property
    def matrix(self) -> Any:
        """The samples as a matrix (T / 20, 20), float32, for those that read and write archives."""
        return self.pcm[0, : self.pcm.shape[1] // 20 * 20].reshape(-1, 20).astype(np.float32)


@dataclass(frozen=True)
class Call:
    """A call site.

    Attributes:
        file: repository and path.
        function: name of the function, for the table.
        library: the library that it imports.
        make: from the file's module, what computes the result for a recording.
        any_rate: False for functions of 16 kHz audio.
        unlike: recordings whose values differ, and why.
        tolerance: largest difference that rounding makes, relative to values above 1.
        root: folder of the checkout where the file finds modules of its own; without it, these are empty.
    """

    file: str
    function: str
    library: str
    make: Callable[[Any], Callable[[Recording], Result]]
    any_rate: bool = True
    unlike: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-3
    root: str | None = None

    @property
    def name(self) -> str:
        """Repository, path and function."""
        return f"{self.file}:{self.function}"


def imported(file: Path, checkout: Path) -> Any:
    """Import a file of a checkout, as a module of packages that are its folders, so that relative imports work."""
    package, folder = f"project_{abs(hash(file))}", checkout
    for part in ("", *file.relative_to(checkout).parts[:-1]):
        package, folder = (f"{package}.{part.replace('.', '_')}", folder / part) if part else (package, folder)
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(folder)]
    whole = file.stem == "__init__"
    name = package if whole else f"{package}.{file.stem}"
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(file.parent)] if whole else None
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(call: Call, sources: Path) -> Callable[[Recording], Result]:
    """Import a call's file, and return what computes its result."""
    sys.argv = [call.file]
    repository = sources / call.file.partition("/")[0]
    known = set(sys.modules)
    if call.root is not None:
        sys.path.insert(0, str(repository / call.root))
    try:
        return call.make(imported(sources / call.file, repository))
    finally:
        if call.root is not None:
            sys.path.pop(0)
        for name in sys.modules.keys() - known:  # The next project must not import these.
            if str(getattr(sys.modules[name], "__file__", None)).startswith(f"{sources}/"):
                del sys.modules[name]
