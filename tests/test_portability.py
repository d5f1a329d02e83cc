"""Without the modules, functions and signals that Windows or macOS lack, everything imports, and files can be used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import python
from tools.generate.packages import PRODUCT, module_names, sources

ROOT = Path(__file__).resolve().parents[1]
# https://docs.python.org/3/library/unix.html, and what is in os and signal on POSIX systems only.
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
WINDOWS = f"""
import os, signal, sys
for name in {sorted(POSIX_MODULES - {"posix"})}:
    sys.modules[name] = None
missing = ("pread", "preadv", "fork", "O_CLOEXEC", "sched_getaffinity", "killpg", "setsid")
for name in dir(os):
    if name in missing or "posix_spawn" in name.lower():
        delattr(os, name)
for name in ("SIGPIPE", "SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask"):
    delattr(signal, name)
"""
MACOS = """
import os
for name in ("sched_getaffinity", "posix_fadvise", "preadv", "pipe2"):
    if hasattr(os, name):
        delattr(os, name)
"""
IMPORT_ALL = f"""
import importlib
optional = ("triton", "torch", "lhotse", "ray")
for name in {module_names(PRODUCT)}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in optional, (name, error)
print("all imported")
"""
USE = """
import numpy as np, threading
import io_ark
from io_ark.cli.ark import main
from kaldi_compat.numpy import Fbank
feats = Fbank(dither=0.0)(np.arange(16000).astype(np.int16))
with io_ark.writer("ark,scp:f.ark,f.scp") as writer:
    for i in range(20):
        writer[f"utt{i}"] = feats + i
table = io_ark.load_scp("f.scp")
wrong = []
def read():
    wrong.extend(key for i, key in enumerate(table) if not np.array_equal(table[key], feats + i))
threads = [threading.Thread(target=read) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert not wrong, wrong
assert main(["check", "f.scp", "f.ark"]) == 0
from kaldi_compat.programs import copy_feats
assert copy_feats.main(["--print-args=false", "scp:f.scp", "ark,t:f.txt"]) == 0
print("used")
"""


def run(tmp_path: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    script = "\n".join((f"import sys; sys.path = {sys.path!r}", *parts))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("system", [WINDOWS, MACOS], ids=["windows", "macos"])
def test_every_module_imports(system: str, tmp_path: Path) -> None:
    # Python's own modules are imported before: only ours are tested.
    ours = "import multiprocessing, subprocess, tempfile, importlib.metadata, numpy"
    done = run(tmp_path, ours, system, IMPORT_ALL)
    assert done.stdout.endswith("all imported\n"), done.stderr[-2000:]


@pytest.mark.parametrize("system", [WINDOWS, MACOS], ids=["windows", "macos"])
def test_archives_and_features_work(system: str, tmp_path: Path) -> None:
    done = run(tmp_path, "import multiprocessing, subprocess, tempfile, numpy", system, USE)
    assert done.stdout.endswith("used\n"), done.stderr[-2000:]


def test_commands_and_the_dump_say_that_they_need_posix(tmp_path: Path) -> None:
    parts = """
import io_ark
try:
    list(io_ark.read("ark:cat f.ark |"))
except io_ark.ArkError as error:
    print(error)
from kaldi_compat.dump.cli import main
print(main(["dump", "fbank", "data"]))
"""
    done = run(tmp_path, "import multiprocessing, subprocess, tempfile, numpy", WINDOWS, parts)
    assert "commands need a POSIX system" in done.stdout and done.stdout.endswith("255\n"), done
    assert done.stderr == (
        "kaldi-compat: kaldi-compat dump needs file locks, which Windows lacks: use Linux, macOS or WSL\n"
    )


def test_posix_modules_are_imported_where_they_may_be_missing_only() -> None:
    wrong = []
    for path in sources():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                wrong += [f"{path}: {name}" for name in names if name.partition(".")[0] in POSIX_MODULES]
    assert wrong == []


def test_big_endian_processors_are_refused() -> None:
    code = "import sys; sys.byteorder = 'big'; import io_ark"
    done = python(code)
    assert done.returncode != 0
    assert "ImportError: io_ark supports little-endian processors only" in done.stderr
