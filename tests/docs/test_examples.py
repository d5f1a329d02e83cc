"""Examples in docstrings and on pages run, and the documented defaults of other libraries are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
import kaldi_compat
from tools.generate.packages import PACKAGES, module_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("generated", "_build")
PAGES = [
    ROOT / "README.md",
    *(path for path in [ROOT / "CONTRIBUTING.md"] if path.exists()),
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED),
]
# Libraries without which some modules cannot be imported, and some pages do not run.
OPTIONAL = ("lhotse", "matplotlib", "onnxruntime", "transformers", "triton")


def skip_without_libraries(subject: str, text: str) -> None:
    """Skip the examples of a text that is about a library, or imports one, that is not installed."""
    for package in ("kaldi_explain", "kaldi_standins"):
        if package in text:
            pytest.importorskip(package)
    for library in OPTIONAL:
        if library == subject or f">>> import {library}\n" in text:
            pytest.importorskip(library)


@pytest.mark.parametrize("name", module_names(PACKAGES))
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    assert module.__file__
    skip_without_libraries(name, Path(module.__file__).read_text())
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0


def python_blocks(text: str) -> str:
    """Return the lines within ```python fences of a page, the other lines left blank to keep line numbers."""
    lines, language = [], None
    for line in text.splitlines():
        if line.startswith("```"):
            language, line = (line[3:].strip() if language is None else None), ""
        lines.append(line if language == "python" else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = python_blocks(page.read_text())
    skip_without_libraries(page.stem, examples)
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(examples, {}, page.stem, str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_are_fenced_with_their_language(page: Path) -> None:
    text = page.read_text()
    assert text.count(">>> ") == python_blocks(text).count(">>> "), "an example outside of a ```python fence"
    opening = re.findall(r"^```(.*)$", text, flags=re.M)[::2]
    assert set(opening) <= {"c", "js", "python", "sh", "text"}
    for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S):
        assert block.startswith(">>> "), "an example that does not run"


def test_example_program_of_the_contributing_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("the distribution of the product lacks the page")
    (source,) = re.findall(r"^```text\n(import numpy.*?)^```$", page.read_text(), flags=re.M | re.S)
    names: dict[str, Any] = {"__name__": "example"}
    exec(source, names)
    monkeypatch.chdir(tmp_path)
    with io_ark.writer("ark:feats.ark") as writer:
        writer["utt1"] = np.float32([[1], [2], [3]])
        writer["utt2"] = np.float32([[4], [5]])
    assert names["main"](["--print-args=false", "ark:feats.ark", "ark:reversed.ark"]) == 0
    reversed_rows = {key: matrix.ravel().tolist() for key, matrix in io_ark.read("ark:reversed.ark")}
    assert reversed_rows == {"utt1": [3, 2, 1], "utt2": [5, 4]}


def documented_defaults() -> dict[str, dict[str, str]]:
    """Return library -> option -> default from docs/wrong_numbers.md."""
    section = (DOCS / "wrong_numbers.md").read_text().partition("\n## Defaults\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {library: {row[0]: row[i] for row in rows} for i, library in enumerate(header) if i}


def actual_defaults(library: str) -> dict[str, Any]:
    """Return option -> default, by our names."""
    if library == "torchaudio":
        torchaudio = pytest.importorskip("torchaudio.compliance.kaldi", exc_type=(ImportError, OSError))  # type: ignore[arg-type]
        return {name: parameter.default for name, parameter in inspect.signature(torchaudio.fbank).parameters.items()}
    if library == "lhotse":
        config = pytest.importorskip("lhotse.features.kaldi.extractors").FbankConfig()
        return {**vars(config), "num_mel_bins": config.num_filters, "preemphasis_coefficient": config.preemph_coeff}
    if library == "kaldi-native-fbank":
        options = pytest.importorskip("kaldi_native_fbank").FbankOptions().as_dict()
        values = {**options["frame_opts"], **options["mel_opts"], **options}
        return {**values, "num_mel_bins": values["num_bins"], "preemphasis_coefficient": values["preemph_coeff"]}
    return vars(kaldi_compat.FbankOptions())


@pytest.mark.parametrize("library", list(documented_defaults()))
def test_documented_defaults_are_those_of_each_library(library: str) -> None:
    actual = actual_defaults(library)
    for name, shown in documented_defaults()[library].items():
        value = actual[name]
        expected = str(value) if isinstance(value, (str, bool)) else pytest.approx(value, rel=1e-6)
        assert (shown if isinstance(value, (str, bool)) else float(shown)) == expected, name
