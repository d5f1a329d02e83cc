"""Compile the optional C libraries ``io_ark/native`` and ``kaldi_compat/native``; everything else is in pyproject.toml.

Each library is the C files of its directory. A file whose name ends in ``_simd.c`` is compiled once per instruction
set, with ``SIMD_LEVEL`` as the suffix of its functions' names (see ``io_ark/native/simd.h``). The libraries do not use
Python's API, so one serves every version of Python, and they need GCC or Clang: on Windows, that of MinGW-w64 or LLVM.

Without a working compiler the libraries are left out, with a notice. With ``KALDI_COMPAT_NATIVE=require`` in the
environment that is an error (for wheels that are published); 0 leaves them out. A wheel without them is tagged for any
platform. ``CC``, ``CFLAGS`` and ``LDFLAGS`` are used if set.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = os.environ.get("KALDI_COMPAT_NATIVE", "1")
PACKAGES = ("io_ark.native", "kaldi_compat.native")
COMMON = Path("io_ark/native")  # headers, and the file that tells which instruction sets the processor has
COMMON_SOURCE = COMMON / "simd_levels.c"
# Contracted or reordered operations would change the last bits of features. Nobody looks at floating-point exceptions,
# for which the compiler would not vectorise loops with conditions.
FLAGS = ["-std=c99", "-O3", "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fvisibility=hidden", "-Wall"]  # fmt: skip
POSITION_INDEPENDENT = [] if os.name == "nt" else ["-fPIC"]
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


def compiler() -> list[str]:
    """Return the command of the C compiler: ``CC``, or the one that Python was built with, or the first one on PATH."""
    chosen = os.environ.get("CC")
    candidates = [chosen] if chosen else [sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    commands = [shlex.split(candidate) for candidate in candidates if candidate]
    found = next((command for command in commands if shutil.which(command[0])), None)
    if found is None:
        raise CompileError(f"not on PATH: {', '.join(command[0] for command in commands)}")
    return found


def run(command: list[str]) -> None:
    """Run a compiler.

    Raises:
        CompileError: the compiler failed; the message has what it said.
    """
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise CompileError(f"{shlex.join(command)}: {result.stderr.strip()}")
    if result.stderr:
        print(result.stderr.strip())


def compile_source(package: str, source: Path, level: str, folder: Path) -> str:
    """Compile one C file for one instruction set, and return the object's name."""
    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder / f"{source.stem}.o")
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    flags = LEVELS.get(level, []) if source.name.endswith("_simd.c") else []
    macros = [f"-DSIMD_LEVEL={level}", *(f"-DHAVE_{name.upper()}=1" for name in LEVELS)]
    includes = [f"-I{COMMON}", f"-I{Path(*package.split('.'))}"]
    options = [*extra, *FLAGS, *POSITION_INDEPENDENT, *flags, *macros, *includes]
    run([*compiler(), *options, "-c", str(source), "-o", target])
    return target


class BuildLibraries(build_ext):
    """Build plain shared libraries in place of extension modules."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without the version of Python: ``io_ark/native/_native.so``."""
        return str(Path(*fullname.split("."))) + (".dll" if os.name == "nt" else ".so")

    def build_extension(self, ext: Extension) -> None:
        """Build a library, or say that it is left out if that fails."""
        try:
            self.build_library(ext)
        except CompileError as error:
            if NATIVE == "require":
                raise
            self.warn(f"{ext.name} is left out, its work is done by NumPy, more slowly. No working C compiler: {error}")

    def build_library(self, ext: Extension) -> None:
        """Compile the sources of a library, some of them once per instruction set, and link them."""
        package = ext.name.rpartition(".")[0]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [
                pool.submit(compile_source, package, source, level, Path(self.build_temp, package, level))
                for source in sources_of(package)
                for level in (LEVELS if source.name.endswith("_simd.c") else ["plain"])
            ]
        objects = [job.result() for job in jobs]
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        extra = shlex.split(os.environ.get("LDFLAGS", ""))
        run([*compiler(), "-shared", *extra, *objects, "-lm", "-o", str(target)])


class PlatformWheel(bdist_wheel):
    """Tag the wheel for any Python 3 on this platform, or for any platform if it holds no library."""

    def run(self) -> None:
        """Build the libraries first: whether there are any decides about the wheel's layout and name."""
        self.run_command("build")
        built = [Path(path).is_file() for path in self.get_finalized_command("build_ext").get_outputs()]
        if any(built) and not all(built):
            raise CompileError("only one of the two C libraries could be built")
        if not any(built):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of the wheel's name. A library is built for one architecture, so it is no ``universal2``."""
        system = super().get_tag()[2]
        return "py3", "none", system.replace("universal2", platform.machine())


def extensions() -> list[Extension]:
    """Return the libraries to build: none if the user has switched them off."""
    if NATIVE == "0":
        return []
    # optional: a missing or failing compiler is reported as a warning, and the packages are installed without
    return [
        Extension(f"{package}._native", [str(path) for path in sources_of(package)], optional=NATIVE != "require")
        for package in PACKAGES
    ]


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildLibraries, "bdist_wheel": PlatformWheel})
