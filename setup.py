"""Compile the optional C libraries ``io_ark/native`` and ``kaldi_compat/native``; everything else is in pyproject.toml.

Each library is the C files of its directory. A file whose name ends in ``_simd.c`` is compiled once per instruction
set, with ``SIMD_LEVEL`` as the suffix of its functions' names (see ``io_ark/native/simd.h``). The libraries do not use
Python's API, so one serves every version of Python. They are left out, with a notice, if there is no C compiler or if
the environment variable ``KALDI_COMPAT_NATIVE`` is 0.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

PACKAGES = ("io_ark.native", "kaldi_compat.native")
COMMON = Path("io_ark/native")  # headers, and the file that tells which instruction sets the processor has
COMMON_SOURCE = COMMON / "simd_levels.c"
# Contracted or reordered operations would change the last bits of features. Nobody looks at floating-point exceptions,
# for which the compiler would not vectorise loops with conditions.
FLAGS = ["-std=c99", "-O3", "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fvisibility=hidden", "-Wall"]  # fmt: skip
LEVELS = (
    {
        "sse2": ["-msse2"],
        "avx2": ["-mavx2", "-mfma"],
        "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"],
    }
    if platform.machine().lower() in ("x86_64", "amd64")
    else {"plain": []}
)


def sources_of(package: str) -> list[Path]:
    """Return the C files of a package, the common one included, sorted."""
    return sorted({COMMON_SOURCE, *Path(*package.split(".")).glob("*.c")})


class BuildLibraries(build_ext):
    """Build plain shared libraries in place of extension modules."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without the version of Python: ``io_ark/native/_native.so``."""
        return str(Path(*fullname.split("."))) + (".dll" if os.name == "nt" else ".so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return no symbols: there is no ``PyInit`` function to export."""
        return []

    def build_extension(self, ext: Extension) -> None:
        """Build a library, or say that it is left out if that fails."""
        try:
            self.build_library(ext)
        except CCompilerError as error:
            self.warn(f"{ext.name} is left out, its work is done by NumPy, more slowly. No working C compiler: {error}")

    def build_library(self, ext: Extension) -> None:
        """Compile the sources of a library, some of them once per instruction set, and link them."""
        package = ext.name.rpartition(".")[0]
        objects = []
        for source in sources_of(package):
            levels = LEVELS if source.name.endswith("_simd.c") else {"plain": []}
            for level, flags in levels.items():
                objects += self.compiler.compile(
                    [str(source)],
                    output_dir=str(Path(self.build_temp, package, level)),
                    macros=[("SIMD_LEVEL", level), *((f"HAVE_{name.upper()}", "1") for name in LEVELS)],
                    include_dirs=[str(COMMON), str(Path(*package.split(".")))],
                    extra_postargs=[*FLAGS, *flags],
                )
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, str(target), libraries=["m"])


class PlatformWheel(bdist_wheel):
    """Tag the wheel for any Python 3 on this platform, or for any platform if it holds no library."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of the wheel's name."""
        _, _, system = super().get_tag()
        return "py3", "none", system


def extensions() -> list[Extension]:
    """Return the libraries to build: none if the user has switched them off."""
    if os.environ.get("KALDI_COMPAT_NATIVE", "1") == "0":
        return []
    # optional: a missing or failing compiler is reported as a warning, and the packages are installed without
    return [
        Extension(f"{package}._native", [str(path) for path in sources_of(package)], optional=True)
        for package in PACKAGES
    ]


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildLibraries, "bdist_wheel": PlatformWheel})
