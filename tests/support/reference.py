"""Stored Kaldi commands, their audio and their outputs, for the tests of the spectral features."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np

ROOT = Path(__file__).parents[2] / "reference_data"
CASES: list[dict[str, Any]] = json.loads((ROOT / "cases.json").read_text())


def cases_of(*groups: str) -> list[dict[str, Any]]:
    """The cases of these groups."""
    return [case for case in CASES if case["group"] in groups]


def name_of(case: dict[str, Any]) -> str:
    return f"{case['group']}-{case['id']}"


def flags_of(case: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The flags and the arguments of a command that is one program."""
    words = shlex.split(case["cmd"])[1:]
    flags = dict([*word[2:].split("=", 1), "true"][:2] for word in words if word.startswith("--"))
    return flags, [word for word in words if not word.startswith("--")]


def options_of(options_class: type[Any], flags: dict[str, str]) -> Any:
    """The flags that are options of a feature, as an object of its class."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(options_class):
        if (text := flags.get(field.name.replace("_", "-"))) is not None:
            values[field.name] = text == "true" if isinstance(field.default, bool) else type(field.default)(text)
    return options_class(**values)


def audio(script: str) -> Iterator[tuple[str, int, np.ndarray[Any, Any]]]:
    """Key, sampling rate and samples (channels, T) of each file of a script of WAV files among the inputs."""
    for line in (ROOT / "inputs" / script.removeprefix("scp:")).read_text().splitlines():
        key, path = line.split()
        rate, samples = kaldiio.load_mat(str(ROOT / "inputs" / path))
        yield key, rate, samples.reshape(len(samples), -1).T


def expected(case: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The features that Kaldi wrote for a case, by key."""
    path = ROOT / "expected" / case["group"] / case["id"] / "feats.ark"
    return dict(kaldiio.load_ark(str(path)))


def errors(ours: np.ndarray[Any, Any], kaldis: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``|ours - Kaldi's| / max(1, |Kaldi's|)`` of finite values, which must be finite in the same places."""
    assert ours.shape == kaldis.shape
    finite = np.isfinite(kaldis)
    np.testing.assert_array_equal(np.isfinite(ours), finite)
    ours, kaldis = ours[finite].astype(np.float64), kaldis[finite].astype(np.float64)
    return np.abs(ours - kaldis) / np.maximum(1, np.abs(kaldis))
