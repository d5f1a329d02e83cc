"""Find and load the optional C libraries.

A library is one shared object, ``_native.so``, in the directory of its package. It has no Python API and is called with
:mod:`ctypes`. A function with SIMD instructions exists once per instruction set, whose name is its suffix:
``_sse2``, ``_avx2``, ``_avx512``, or ``_plain`` on processors other than x86-64.

Environment variables:
    KALDI_COMPAT_NATIVE: 0 switches the libraries off.
    KALDI_COMPAT_SIMD: the instruction set to use, for tests and measurements (default: the fastest one available).
"""

from __future__ import annotations

import ctypes
import functools
import os
import zlib
from contextlib import suppress
from typing import Any

from io_ark.logs import logger

# Maps instruction sets, slowest first, to their bits in the result of simd_levels() in C.
_LEVELS = {"plain": 1, "sse2": 2, "avx2": 4, "avx512": 8}


class Library:
    """A C library, or the reason why there is none.

    Attributes:
        handle: the loaded library, or None if it is missing or switched off.
        levels: the instruction sets that both the library and the processor have, slowest first.
        level: the instruction set in use, or "" without a library.
        reason: one line that tells why the library is in use or not.
        advice: how to build a missing library; otherwise "".
    """

    def __init__(
        self, handle: ctypes.CDLL | None, levels: tuple[str, ...], level: str, reason: str, advice: str = ""
    ) -> None:
        self.handle, self.levels, self.level, self.reason, self.advice = handle, levels, level, reason, advice

    def __bool__(self) -> bool:
        return self.handle is not None

    def get_function(self, name: str, *arguments: Any, result: Any = ctypes.c_int, level: str | None = None) -> Any:
        """Return a new ctypes object for a function of the library.

        ``arguments`` and ``result`` are ctypes types. ``level`` is an instruction set (default: the set in use).
        """
        handle: Any = self.handle
        try:
            function = handle[f"{name}_{level or self.level}"]
        except AttributeError:  # The function has no variants for instruction sets.
            function = handle[name]
        function.argtypes, function.restype = arguments, result
        return function


def digest_interface(text: str) -> int:
    """Return a digest of the text of ``signatures.txt``. setup.py computes the same digest."""
    return zlib.crc32(text.encode()) >> 1  # 31 bits fit the type int, which C returns.


@functools.cache
def load_library(directory: str, interface: int) -> Library:
    """Load the library of a package.

    Args:
        directory: the package's directory, which contains ``_native.so``.
        interface: digest of the functions and structures that Python calls. A library with a different digest is not
            used.

    Returns:
        The library. If it cannot be used, its truth value is False, and ``reason`` says why. An unusable file causes a
        warning.
    """
    if os.environ.get("KALDI_COMPAT_NATIVE", "1") == "0":
        return _describe_missing_library("switched off by KALDI_COMPAT_NATIVE=0")
    name = "_native" + (".dll" if os.name == "nt" else ".so")
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        reason = "the package was installed without C"
        with suppress(OSError), open(os.path.join(directory, "_native.txt"), encoding="utf-8") as file:
            reason = file.read()  # setup.py wrote the reason into this file.
        advice = "install a wheel for this platform, or install a C compiler and then the package again"
        return Library(None, (), "", f"{path} was not built: {reason}", advice)
    try:
        handle = ctypes.CDLL(path)
        has_interface, available = handle.native_interface() == interface, handle.simd_levels()
    except (OSError, AttributeError) as error:
        return _report_unusable(path, f"cannot be loaded: {error}")
    if not has_interface:
        return _report_unusable(path, "was built from the C files of another version")
    levels = tuple(level for level, bit in _LEVELS.items() if available & bit)
    if not levels:
        return _report_unusable(path, "was built for other processors")
    level = os.environ.get("KALDI_COMPAT_SIMD") or levels[-1]
    if level not in levels:
        choices = ", ".join(levels)
        logger.warning(
            "KALDI_COMPAT_SIMD=%s is not available, so %s is used: choose one of %s", level, levels[-1], choices
        )
        level = levels[-1]
    return Library(handle, levels, level, f"{name} with {level} instructions")


def _report_unusable(path: str, problem: str) -> Library:
    """Log a warning about a library file that cannot be used, and return a library whose truth value is False."""
    reason = f"{path} {problem}: install again (in a checkout: pip install -e .)"
    logger.warning("%s. Until then, NumPy computes the same numbers more slowly.", reason)
    return _describe_missing_library(reason)


def _describe_missing_library(reason: str) -> Library:
    return Library(None, (), "", reason)
