"""The examples of the documentation: in docstrings, on pages, and the tables of other libraries' defaults."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import io_ark
import kaldi_compat

DOCS = Path(__file__).parents[2] / "docs"
OPTIONAL = {
    "kaldi_compat.interop.lhotse": "lhotse",
    **dict.fromkeys((f"kaldi_compat.kernels.{name}" for name in ("bands", "launch", "spectrum")), "triton"),
}


def modules() -> list[str]:
    """Every module of both packages."""
    return [
        name
        for package in (io_ark, kaldi_compat)
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not name.endswith(("__main__", "._native"))  # the C libraries are no extension modules
    ]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    test = doctest.DocTestParser().get_doctest(re.sub(r"^```.*$", "", text, flags=re.M), {}, page.stem, str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def documented_defaults() -> dict[str, dict[str, str]]:
    """Library -> option -> default, as the page on wrong numbers has them."""
    lines = [line for line in (DOCS / "wrong_numbers.md").read_text().splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {library: {row[0]: row[i] for row in rows} for i, library in enumerate(header) if i}


def actual_defaults(library: str) -> dict[str, Any]:
    """Option -> default, by our names."""
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
