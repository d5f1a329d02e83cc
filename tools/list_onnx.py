"""Write the table of docs/frontends/onnx.md: the accuracy of an exported file.

``python tools/list_onnx.py`` measures, and rewrites the table between the marks. The tests check the table.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnxruntime
import torch

from kaldi_compat import Frontend
from kaldi_compat.frontends import Preset
from kaldi_compat.torch.export import export_frontend
from tests.support.frontend_audio import clips

PAGE = Path(__file__).parents[1] / "docs" / "frontends" / "onnx.md"
ACCURACY, END = (f"<!-- {text} by tools/list_onnx.py -->\n" for text in ("accuracy", "end"))
RATE = 16000


def make_signals() -> dict[str, Any]:
    """Return audio in -1 to 1, in float32: speech, and audio with 90 dB of dynamic range."""
    random = np.random.default_rng(0)
    time = np.arange(2 * RATE) / RATE
    noise = random.standard_normal(len(time))
    quiet = noise * 0.6 / np.sqrt(2) * 10 ** (-90 / 20)
    audio = {
        "a recording of speech": clips()["speech"] / 32768,
        "a tone of 300 Hz, noise 90 dB below it": 0.6 * np.sin(2 * np.pi * 300.7 * time) + quiet,
        "a tone of 3 kHz, noise 90 dB below it": 0.6 * np.sin(2 * np.pi * 3001.7 * time) + quiet,
        "noise that fades by 90 dB": 0.2 * noise * 10 ** (-90 / 20 * time / time[-1]),
    }
    return {name: samples.astype(np.float32) for name, samples in audio.items()}


def measure_accuracy() -> dict[str, list[tuple[float, float]]]:
    """Return the mean and the largest difference from float64 of 80 log-mel values, for each row of the table."""
    preset = Preset.from_dict({"name": "accuracy", "feature": "fbank", "options": {"num_mel_bins": 80}})
    frontend = Frontend(preset)
    expected = [frontend(torch.from_numpy(samples).double()).numpy() for samples in make_signals().values()]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, dft in (("matrix product", "matmul"), ("DFT node", "fft")):
            exported = export_frontend(preset, f"{folder}/graph.onnx", dft=dft)  # type: ignore[arg-type]
            session = onnxruntime.InferenceSession(exported.path, providers=["CPUExecutionProvider"])
            rows[title] = [session.run(None, {"samples": samples[None]})[0][0] for samples in make_signals().values()]
    rows["Kaldi"] = [frontend(torch.from_numpy(samples)).numpy() for samples in make_signals().values()]
    return {
        title: [
            (float(difference.mean()), float(difference.max()))
            for difference in (np.abs(one - other) for one, other in zip(computed, expected, strict=True))
        ]
        for title, computed in rows.items()
    }


def format_accuracy(rows: Mapping[str, list[tuple[float, float]]]) -> str:
    """Return the table of the differences that :func:`measure_accuracy` returns."""
    lines = [f"| computed by | {' | '.join(make_signals())} |", "| --- |" + " --- |" * len(make_signals())]
    for title, pairs in rows.items():
        lines.append(f"| {title} | {' | '.join(f'{mean:.1e}, {largest:.1e}' for mean, largest in pairs)} |")
    return "\n".join(lines).replace("e-0", "e-") + "\n"


def parse_accuracy(page: str) -> dict[str, list[tuple[float, float]]]:
    """Return the differences that the table on the page states."""
    table = page.partition(ACCURACY)[2].partition(END)[0]
    rows = re.findall(r"^\| ([\w ]+) \| ([\d.e, |-]+) \|$", table, re.M)
    return {title: [tuple(map(float, pair.split(", "))) for pair in pairs.split(" | ")] for title, pairs in rows}  # type: ignore[misc]


def main() -> None:
    """Rewrite the table."""
    before, _, following = PAGE.read_text().partition(ACCURACY)
    PAGE.write_text(before + ACCURACY + format_accuracy(measure_accuracy()) + END + following.partition(END)[2])


if __name__ == "__main__":
    main()
