"""Run the checks of the CI workflows on this machine. ``nox`` skips sessions whose interpreter is not installed.

    nox -s lint docs            # ruff, mypy; the documentation site
    nox -s torchless-3.13       # tests that need no PyTorch, on one Python
    nox -s tests-3.11           # all tests
    nox -s oldest newest        # core tests with the oldest supported and the newest PyTorch and NumPy
    nox -s environments         # functions of six toolkits with their pinned requirements, on the stand-ins
    nox -s aarch64              # the stored commands of Kaldi on AArch64, emulated
    nox -s slow                 # the tests that are marked as slow: more than an hour
    nox -s wheels               # all wheels by a cross compiler, and the source distribution

``NOX_TORCH_INDEX=https://download.pytorch.org/whl/cpu`` installs CPU builds of PyTorch.
"""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "torchless"]

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"]
TESTED_WITHOUT_TORCH = ["pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "kaldiio>=2.18", "kaldi_native_io>=1.22",
                        "kaldi-native-fbank>=1.20", "setuptools>=77"]  # fmt: skip
# Test folders that run without PyTorch. Modules that need PyTorch are skipped.
TORCHLESS = ["tests/io_ark", "tests/kaldi_compat/exact", "tests/kaldi_compat/native", "tests/kaldi_compat/options",
             "tests/kaldi_compat/cli", "tests/kaldi_compat/programs/test_reference.py"]  # fmt: skip
# Tests that show whether a version of PyTorch or NumPy works: features, functions, streams, data sets and tables.
CORE = ["tests/kaldi_compat/torch/features", "tests/kaldi_compat/functional", "tests/kaldi_compat/torch/streaming",
        "tests/kaldi_compat/torch/data", "tests/kaldi_compat/options", "tests/io_ark"]  # fmt: skip
# Maps programs that the session aarch64 runs to the Debian packages that contain them.
CROSS_TOOLS = {"qemu-aarch64-static": "qemu-user-static", "debootstrap": "debootstrap", "fakeroot": "fakeroot",
               "dpkg": "dpkg", "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"}  # fmt: skip
# Debian packages of an AArch64 Python. Shell and tools are missing, because Python starts programs of this machine.
SYSROOT = ("python3", "libpython3", "libc6_", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libbz2",
           "liblzma5", "libssl3", "libsqlite3", "libuuid1", "libtinfo6", "libreadline8")  # fmt: skip
DEBOOTSTRAP = ["fakeroot", "debootstrap", "--arch=arm64", "--variant=minbase", "--download-only", "--include=python3",
               "trixie"]  # fmt: skip


# Maps platforms of wheels to zig's names of the platforms.
CROSS = {"manylinux_2_28-x86_64": "x86_64-linux-gnu.2.28", "manylinux_2_28-aarch64": "aarch64-linux-gnu.2.28",
         "musllinux_1_2-x86_64": "x86_64-linux-musl", "musllinux_1_2-aarch64": "aarch64-linux-musl",
         "macosx-11.0-arm64": "aarch64-macos.11.0", "macosx-11.0-x86_64": "x86_64-macos.11.0",
         "win-amd64": "x86_64-windows-gnu"}  # fmt: skip


ENVIRONMENTS = Path("packages/standins/environments")
ORIGINALS = ["kaldiio", "kaldi-native-fbank"]  # Libraries that the stand-ins are compared with, in any version.
PINNED = ["--constraint", "constraints.txt"]
# Additional packages of this checkout, which need the same version of kaldi-compat.
PACKAGES = [f"--editable=packages/{name}" for name in ("explain", "standins")]


def _torch(session: nox.Session, *arguments: str) -> None:
    index = os.environ.get("NOX_TORCH_INDEX")
    session.install(*arguments, *(["--index-url", index] if index else []))


def _pytest(session: nox.Session, *where: str) -> None:
    jobs = os.environ.get("NOX_JOBS", "auto")
    session.run("python", "-m", "pytest", "-n", jobs, "--dist", "loadgroup", *(session.posargs or where))


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Run ruff and mypy with the pinned versions."""
    _torch(session, *PINNED, "torch")
    session.install(*PINNED, "ruff", "mypy", "numpy")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the documentation. A warning is an error."""
    _torch(session, *PINNED, "torch")
    session.install(*PINNED, "--editable", ".[docs]", *PACKAGES)
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session(python=PYTHONS)
def torchless(session: nox.Session) -> None:
    """Run the tests that need only NumPy."""
    session.install(*TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *TORCHLESS)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests."""
    _torch(session, "torch")
    session.install("--editable", ".[test-all]", *PACKAGES)
    _torch(session, "--no-deps", "torchaudio")
    for library in Path(session.virtualenv.location).rglob("torchaudio/lib/*.so"):
        library.unlink()  # Built for another PyTorch. The tests need only the Python files.
    _pytest(session)


@nox.session(python="3.10")
def oldest(session: nox.Session) -> None:
    """Run the core tests with the oldest supported PyTorch and NumPy."""
    _torch(session, "torch==2.1.2")
    session.install("numpy==1.22.4", *TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *CORE)


@nox.session(python="3.10")
@nox.parametrize("toolkit", [nox.param(path.stem, id=path.stem) for path in sorted(ENVIRONMENTS.glob("*.txt"))])
def environments(session: nox.Session, toolkit: str) -> None:
    """Install a toolkit's pinned requirements, and run its functions on the stand-ins. ``-- DIR`` has the checkouts."""
    pins = str(ENVIRONMENTS / f"{toolkit}.txt")
    _torch(session, *(line for line in Path(pins).read_text().splitlines() if line.startswith("torch")))
    # Toolkits pin older releases of libraries, so only tests that support these releases run.
    session.install("-r", pins, "pytest>=8", "hypothesis>=6.100", "soundfile", *ORIGINALS)
    session.install("--constraint", pins, "--editable", ".[torch,audio]", *PACKAGES)
    session.run("python", "-m", "pip", "check")
    session.run("python", "-m", "pytest", "packages/standins/tests/test_torchaudio_package.py")
    owners = runpy.run_path("packages/standins/tests/toolkits/repositories.py")["REPOSITORIES"]
    if toolkit not in owners:
        return
    sources = Path(session.posargs[0] if session.posargs else session.create_tmp()).resolve()
    owners["kaldi-io-for-python"] = ("vesis84", "HEAD")
    for name in (toolkit, "kaldi-io-for-python"):
        if not (sources / name).exists():
            (owner, commit), checkout = owners[name], str(sources / name)
            options = ["--quiet", "--filter=blob:none", "--no-checkout"]  # git cannot fetch an abbreviated commit.
            session.run("git", "clone", *options, f"https://github.com/{owner}/{name}", checkout, external=True)
            session.run("git", "-C", checkout, "checkout", "--quiet", commit, external=True)
    module = "packages.standins.tests.toolkits.run"
    session.run("python", "-m", module, "--sources", str(sources), f"^{toolkit}/")


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Run the core tests with the newest PyTorch and NumPy, including pre-releases."""
    _torch(session, "torch")
    session.install("--pre", "--upgrade", "numpy", *TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *CORE)


@nox.session(python="3.11")
def slow(session: nox.Session) -> None:
    """Run the tests that are marked as slow."""
    _torch(session, *PINNED, "torch")
    session.install(*PINNED, "--editable", ".[test-all]", *PACKAGES)
    _pytest(session, "-m", "slow")


@nox.session(python="3.11")
def wheels(session: nox.Session) -> None:
    """Build all wheels with zig's C compiler, build the source distributions, and check the contents."""
    session.install("build", "ziglang", "twine", "check-wheel-contents", "setuptools>=77")
    dist = Path(session.create_tmp()).resolve() / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    build = ["python", "-m", "build", "--no-isolation", "--outdir", str(dist)]
    for platform, target in CROSS.items():
        compiler = {"_PYTHON_HOST_PLATFORM": platform, "CC": f"python-zig cc -target {target}", "LDFLAGS": "-s"}
        shutil.rmtree("build", ignore_errors=True)
        session.run(*build, "--wheel", env={**compiler, "KALDI_COMPAT_NATIVE": "require"}, silent=True)
    shutil.rmtree("build")
    session.run(*build, "--wheel", env={"KALDI_COMPAT_NATIVE": "0"}, silent=True)
    session.run(*build, "--sdist", silent=True)
    for package in ("explain", "standins"):
        session.run(*build, "--sdist", "--wheel", f"packages/{package}", silent=True)
    made = sorted(map(str, dist.iterdir()))
    session.run("twine", "check", "--strict", *made)
    session.run("check-wheel-contents", *(name for name in made if name.endswith(".whl")))
    session.install("--no-index", "--find-links", str(dist), "--no-deps", "kaldi-compat", "kaldi-explain",
                    "kaldi-standins")  # fmt: skip
    session.install("numpy", "pytest", "hypothesis")
    session.chdir(dist)  # Outside of the sources, Python imports the wheel.
    session.run("python", "-c", "from kaldi_compat import native; assert native.library(), native.library().reason")
    session.run("kaldi-compat", "info")
    session.run("kaldi-compat", "explain", "--help", silent=True)
    session.run("python", "-c", "import kaldi_explain, kaldi_standins.kaldiio")


@nox.session(python=False)
def aarch64(session: nox.Session) -> None:
    """Run the stored commands of Kaldi with the C libraries for AArch64 in an emulated Python. Takes half an hour."""
    missing = [package for tool, package in CROSS_TOOLS.items() if not shutil.which(tool)]
    if missing:
        session.error(f"install {' '.join(missing)}")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    root, archives, venv = folder / "root", folder / "debian", folder / "venv"
    session.run(*DEBOOTSTRAP, str(archives), "http://deb.debian.org/debian", external=True, silent=True)
    for package in sorted((archives / "var/cache/apt/archives").glob("*.deb")):
        if package.name.startswith(SYSROOT):
            session.run("dpkg", "-x", str(package), str(root), external=True, silent=True)
    (root / "lib").symlink_to("usr/lib")
    # Python derives its executable from $0, so child processes use the same script.
    emulated = root / "python3"
    emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64-static -L {root} -0 "$0" {root}/usr/bin/python3 "$@"\n')
    emulated.chmod(0o755)
    session.run(str(emulated), "-m", "venv", "--without-pip", str(venv), external=True)
    library = next((venv / "lib").glob("python3.*"))
    version, target = library.name.removeprefix("python"), library / "site-packages"
    wheels = ["--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64", "--only-binary=:all:"]
    wheels += [f"--python-version={version}", f"--target={target}"]
    needed = ["numpy", "pytest", "pytest-xdist", "hypothesis", "setuptools", "pip"]
    session.run("python", "-m", "pip", "install", "--quiet", *wheels, *needed, external=True)
    source = folder / "source"  # A copy, because the libraries are built in place.
    shutil.copytree(".", source, ignore=shutil.ignore_patterns(".*", "_native.*", "build", "_build"))
    session.chdir(source)
    python, cross = str(venv / "bin/python3"), {"CC": "aarch64-linux-gnu-gcc", "KALDI_COMPAT_NATIVE": "require"}
    local = ["--no-deps", "--no-index", "--no-build-isolation"]
    session.run(python, "-m", "pip", "install", "--quiet", *local, "--editable", ".", env=cross, external=True)
    where = session.posargs or ["tests/kaldi_compat/programs/test_reference.py"]
    # Without bytecode files, every program compiles its imports, which takes 17 s instead of 4 s.
    jobs = ["-n", os.environ.get("NOX_JOBS", "auto")]
    session.run(python, "-m", "pytest", *jobs, *where, env={"PYTHONDONTWRITEBYTECODE": None}, external=True)
