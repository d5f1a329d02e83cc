"""Recognize modules and files of the user. Python, installed packages and this project are libraries."""

from __future__ import annotations

import functools
import sys
import sysconfig
import zipimport
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_OWN_PACKAGES = ("kaldi_compat", "io_ark", "kaldi_standins", "kaldi_explain")


@functools.cache
def _list_library_folders() -> tuple[Path, ...]:
    return tuple(Path(name).resolve() for name in sysconfig.get_paths().values())


def find_module_path(name: str) -> Path | None:
    """Return the absolute path of the file of an imported module, or of the zip file from which it was imported.

    Return None if the module is not imported or has no file.
    """
    module = sys.modules.get(name)
    file = find_archive(getattr(module, "__loader__", None)) or getattr(module, "__file__", None)
    return Path(file).absolute() if isinstance(file, str) else None


def find_archive(loader: object) -> str | None:
    """Return the zip file from which a loader imports a module, or None if the loader does not read a zip file."""
    return loader.archive if isinstance(loader, zipimport.zipimporter) else None


def is_user_module(name: str | None) -> bool:
    """Return True for user modules, for None, and for modules that are not imported or lack both file and spec."""
    if not isinstance(name, str) or name == "__main__":
        return True
    if name.partition(".")[0] in _OWN_PACKAGES or name in sys.builtin_module_names:
        return False
    path = find_module_path(name)
    if path is None:
        return name not in sys.modules or type(sys.modules[name].__spec__) is type(None)
    return not is_library_file(path)


@functools.lru_cache(100_000)
def is_library_file(path: Path) -> bool:
    """Return True for a file in ``site-packages`` or ``dist-packages``, or in a folder of ``sysconfig.get_paths()``."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.resolve().is_relative_to(folder) for folder in _list_library_folders())


def find_imported_files(earlier: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files, by name, of the user's modules that were imported since the copy ``earlier`` of sys.modules."""
    new_names = [name for name in list(sys.modules) if name not in earlier and name != "__main__"]
    paths = {name: find_module_path(name) for name in new_names if is_user_module(name)}
    return {name: path for name, path in paths.items() if path}
