"""The conformance kit is what our programs give; its README and its wheel tell the truth about it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kaldi_explain.grading import vectors
from tests.support import programs

KIT = Path(__file__).parents[3] / "reference_data" / "conformance"
# pip leaves `build` and `*.egg-info` in the folder if it installs the kit from there.
FILES = [path for path in KIT.rglob("*.*") if path.is_file() and not re.search(r"/build/|\.egg-info/", path.as_posix())]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return make.py with programs that run in this process."""
    spec = importlib.util.spec_from_file_location("conformance_make", KIT / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(words: list[str], cwd: Path, **_: object) -> None:
        monkeypatch.chdir(cwd)
        programs.run_words(words)

    monkeypatch.setattr(module.subprocess, "run", run)
    return module


def test_sample_of_the_kit_is_what_the_programs_give(make: ModuleType) -> None:
    assert make.stale(KIT, every=150) == []


@pytest.mark.slow
def test_kit_is_what_the_programs_give(make: ModuleType) -> None:
    assert make.stale(KIT, every=1) == []


def test_stale_vector_is_found(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        make.asked, "cases", lambda: [make.Case(1, "compute-fbank-feats", ("short8k",), {"sample-frequency": 8000})]
    )
    make.make(tmp_path)
    assert make.stale(tmp_path, every=1) == []
    values = np.load(tmp_path / "level-1.float32.npy")
    values[5] = np.nextafter(values[5], np.float32(100))
    np.save(tmp_path / "level-1.float32.npy", values)
    assert make.stale(tmp_path, every=1) == ["1-0001"]


def test_readme_counts_the_vectors_and_the_kit_is_small() -> None:
    counts = {level: len(json.loads((KIT / f"level-{level}.json").read_text())["vectors"]) for level in range(1, 9)}
    told = {
        int(level): int(count)
        for level, count in re.findall(r"^\| (\d) \|.*\| (\d+) \|$", (KIT / "README.md").read_text(), re.M)
    }
    assert told == counts
    assert f"{sum(counts.values()):,} vectors" in (KIT / "README.md").read_text()
    assert sum(path.stat().st_size for path in FILES) < 10e6


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_reader_in_another_language_reads_every_vector() -> None:
    told = subprocess.run(["node", KIT / "reader.mjs"], capture_output=True, text=True, check=True).stdout.splitlines()
    asked = vectors()
    assert len(told) == len(asked)
    for line, vector in zip(told, asked, strict=True):
        name, program, *numbers = line.split()
        assert (name, program) == (vector.id, vector.options["program"])
        for array, count, total in zip((vector.given, vector.expected), numbers[::2], numbers[1::2], strict=True):
            assert int(count) == array.size
            assert float(total) == pytest.approx(array[np.isfinite(array)].sum(dtype=np.float64), rel=1e-9, abs=1e-6)


def test_wheel_holds_all_files() -> None:
    packaged = re.findall(r"\*(\.\w+)", (KIT / "pyproject.toml").read_text())
    assert {path.suffix for path in FILES} - {".py", ".pyc", ".toml"} == {*packaged}
    assert {path.parent.name for path in FILES if path.suffix == ".wav"} == {"audio"}
