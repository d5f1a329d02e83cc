"""Compile the optional C libraries ``io_ark/native`` and ``kaldi_compat/native``; everything else is in pyproject.toml.

Each library is the C files of its directory. A file whose name ends in ``_simd.c`` is compiled once per instruction
set, with ``SIMD_LEVEL`` as the suffix of its functions' names (see ``io_ark/native/simd.h``). Python calls a library by
the file ``signatures.txt`` beside it. The libraries do not use Python's API, so one serves every version of Python, and
they need GCC or Clang: on Windows, that of MinGW-w64 or LLVM.

A library is compiled only if its sources, this file, or a variable named below has changed. One that cannot be built is
left out, and an older one removed; ``_native.txt`` then says why, and is quoted when the library is first needed. In a
git checkout a compile error stops the installation. With ``KALDI_COMPAT_NATIVE=require`` in the environment (for wheels
that are published) a missing compiler does so, too; 0 leaves the libraries out. A wheel without them is tagged for any
platform. ``CC``, ``CFLAGS`` and ``LDFLAGS`` are used if set.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

sys.path.insert(0, str(Path(__file__).parent))  # where pip does not look
from tools.generate.native import signatures

NATIVE = os.environ.get("KALDI_COMPAT_NATIVE", "1")
PACKAGES = ("io_ark.native", "kaldi_compat.native")
COMMON = Path("io_ark/native")  # headers, and the file that tells which instruction sets the processor has
COMMON_SOURCE = COMMON / "simd_levels.c"
# Contracted or reordered operations would change the last bits of features, so these flags follow those of CFLAGS:
# -fno-fast-math turns all flags off that allow them. Nobody looks at floating-point exceptions, for which the compiler
# would not vectorise loops with conditions.
FLAGS = ["-std=c99", "-O3", "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fvisibility=hidden", "-Wall"]  # fmt: skip
# With one of these, a linker adds code that flushes denormal numbers to zero in the whole process.
FLUSHING = {"-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-mdaz-ftz"}
TARGET = sysconfig.get_platform().replace("universal2", platform.machine())  # built for one architecture only
WINDOWS = TARGET.startswith(("win", "mingw"))
POSITION_INDEPENDENT = [] if WINDOWS else ["-fPIC"]
LEVELS = (
    {
        "sse2": ["-msse2"],
        "avx2": ["-mavx2", "-mfma"],
        "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"],
    }
    if "x86_64" in TARGET or "amd64" in TARGET
    else {"plain": []}
)


class NoCompilerError(CompileError):
    """There is no C compiler."""


def sources_of(package: str) -> list[Path]:
    """Return the C files of a package, sorted, and the common one, which is compiled last: it describes the others."""
    return [*sorted({*Path(*package.split(".")).glob("*.c")} - {COMMON_SOURCE}), COMMON_SOURCE]


def compiler() -> list[str]:
    """Return the command of the C compiler: ``CC``, or the one that Python was built with, or the first one on PATH."""
    chosen = os.environ.get("CC")
    candidates = [chosen] if chosen else [sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    commands = [shlex.split(candidate) for candidate in candidates if candidate]
    found = next((command for command in commands if shutil.which(command[0])), None)
    if found is None:
        raise NoCompilerError(f"there was no C compiler (not on PATH: {', '.join(each[0] for each in commands)})")
    return found


def run(command: list[str]) -> None:
    """Run a compiler.

    Raises:
        CompileError: the compiler failed; the message quotes it, its first error in the first line.
    """
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        said = result.stderr.strip()
        first = next((line for line in said.splitlines() if "error" in line), f"status {result.returncode}")
        raise CompileError(f"the C compiler failed: {first}\n{shlex.join(command)}\n{said}")
    if result.stderr:
        print(result.stderr.strip())


def digest_of(package: str) -> str:
    """Return a digest of all that a library is made from."""
    folder = Path(*package.split("."))
    digest = hashlib.sha256(repr([LEVELS, *map(os.environ.get, ("CC", "CFLAGS", "LDFLAGS"))]).encode())
    headers = sorted({*COMMON.glob("*.h"), *folder.glob("*.h")})
    for path in (Path(__file__), Path("tools/generate/native.py"), *sources_of(package), *headers):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def identity(package: str) -> list[str]:
    """Return macros for ``simd_levels.c``: digests of the functions and structures of a library, and of its sources."""
    interface = zlib.crc32(signatures(Path(*package.split("."))).encode()) >> 1
    return [f"-DINTERFACE={interface}", f'-DMADE_FROM="{digest_of(package)}"']


def compile_source(package: str, source: Path, level: str, folder: Path) -> str:
    """Compile one C file for one instruction set, and return the object's name."""
    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder / f"{source.stem}.o")
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    flags = LEVELS.get(level, []) if source.name.endswith("_simd.c") else []
    macros = [f"-DSIMD_LEVEL={level}", *(f"-DHAVE_{name.upper()}=1" for name in LEVELS)]
    macros += identity(package) if source == COMMON_SOURCE else []
    includes = [f"-I{COMMON}", f"-I{Path(*package.split('.'))}"]
    options = [*extra, *FLAGS, *POSITION_INDEPENDENT, *flags, *macros, *includes]
    run([*compiler(), *options, "-c", str(source), "-o", target])
    return target


def link_command(objects: list[str], target: Path) -> list[str]:
    """Return the command that links a library, without flags that would change arithmetic in the whole process."""
    words = [*compiler(), "-shared", *shlex.split(os.environ.get("LDFLAGS", ""))]
    return [*(word for word in words if word not in FLUSHING), *objects, "-lm", "-o", str(target)]


class BuildLibraries(build_ext):
    """Build plain shared libraries in place of extension modules."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without the version of Python: ``io_ark/native/_native.so``."""
        return str(Path(*fullname.split("."))) + (".dll" if WINDOWS else ".so")

    def run(self) -> None:
        """Build the libraries, for an editable installation in the source tree."""
        for extension in self.extensions:
            self.build_extension(extension)

    def build_extension(self, ext: Extension) -> None:
        """Build a library, unless it is up to date, and write its signatures; or record why it is left out."""
        target = Path(self.get_ext_fullpath(ext.name))
        package, reason = ext.name.rpartition(".")[0], target.with_suffix(".txt")
        try:
            if self.force or not target.is_file() or digest_of(package).encode() not in target.read_bytes():
                target.unlink(missing_ok=True)
                reason.unlink(missing_ok=True)
                self.build_library(package, target)
            text = signatures(Path(*package.split(".")))
            target.with_name("signatures.txt").write_text(text, encoding="utf-8", newline="\n")
        except CompileError as error:
            reason.parent.mkdir(parents=True, exist_ok=True)
            reason.write_text(str(error).partition("\n")[0], encoding="utf-8")
            if NATIVE == "require" or (Path(".git").exists() and not isinstance(error, NoCompilerError)):
                raise
            self.warn(f"{ext.name} is left out, its work is done by NumPy, more slowly: {error}")

    def build_library(self, package: str, target: Path) -> None:
        """Compile the sources of a library, some of them once per instruction set, and link them."""
        jobs = [
            (source, level)
            for source in sources_of(package)
            for level in (LEVELS if source.name.endswith("_simd.c") else ["plain"])
        ]

        def compiled(job: tuple[Path, str]) -> str:
            return compile_source(package, *job, Path(self.build_temp, package, job[1]))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, jobs))  # an error cancels the jobs that have not started
        target.parent.mkdir(parents=True, exist_ok=True)
        run(link_command(objects, target))


class PlatformWheel(bdist_wheel):
    """Tag the wheel for any Python 3 on this platform, or for any platform if it holds no library."""

    def run(self) -> None:
        """Build the libraries first: whether there are any decides about the wheel's layout and name."""
        self.run_command("build")
        built = [Path(path).is_file() for path in self.get_finalized_command("build_ext").get_outputs()]
        if not any(built):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of the wheel's name: any Python 3, one architecture."""
        return "py3", "none", super().get_tag()[2].replace("universal2", platform.machine())


def extensions() -> list[Extension]:
    """Return the libraries to build: none if the user has switched them off."""
    if NATIVE == "0":
        return []
    return [Extension(f"{package}._native", list(map(str, sources_of(package)))) for package in PACKAGES]


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildLibraries, "bdist_wheel": PlatformWheel})
