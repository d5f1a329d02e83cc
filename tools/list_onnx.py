"""Write the tables of docs/frontends/onnx.md: the types of nodes of exported presets, and the accuracy of a file.

``python tools/list_onnx.py`` exports every preset, which takes some minutes, and rewrites the tables between the marks.
The tests check the tables.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnxruntime
import torch

from kaldi_compat import Frontend, list_presets
from kaldi_compat.frontends import Preset
from kaldi_compat.torch.export import export_frontend
from tests.support.frontend_audio import clips

PAGE = Path(__file__).parents[1] / "docs" / "frontends" / "onnx.md"
NODES, ACCURACY, END = (f"<!-- {text} by tools/list_onnx.py -->\n" for text in ("nodes", "accuracy", "end"))
COMMON, LENGTHS = "all", "with `lengths`, all"
RATE = 16000
EXPORTED = [name for name in list_presets() if not Preset.of(name).why_no_graph]

Graph = tuple[str, bool]  # Name of a preset, and True if the graph takes lengths.
Nodes = Mapping[Graph, frozenset[str]]


def export_nodes() -> Nodes:
    """Export every preset, with and without lengths, and return the types of nodes."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            (name, lengths): frozenset(export_frontend(name, f"{folder}/graph.onnx", lengths=lengths).nodes)
            for name in EXPORTED
            for lengths in (False, True)
        }


def format_nodes(nodes: Nodes) -> str:
    """Return a table of the nodes that all graphs have, and of the additional nodes of some graphs."""
    rows = {}
    for lengths, title in ((False, COMMON), (True, LENGTHS)):
        graphs = {name: types for (name, takes), types in nodes.items() if takes == lengths}
        common = frozenset.intersection(*graphs.values())
        rows[title] = common
        more: dict[frozenset[str], list[str]] = {}
        for name, types in graphs.items():
            if types != common:
                more.setdefault(types - common, []).append(f"`{name}`")
        prefix = "with `lengths`, " * lengths
        for added, names in sorted(more.items(), key=lambda item: (len(item[0]), item[1])):
            rows[prefix + ", ".join(names)] = added
    lines = ["| presets | types of nodes |", "| --- | --- |"]
    for title, types in rows.items():
        also = "" if title in (COMMON, LENGTHS) else "also "
        lines.append(f"| {title} | {also}{', '.join(sorted(types))} |")
    return "\n".join(lines) + "\n"


def parse_nodes(page: str) -> Nodes:
    """Return the types of nodes that the table on the page states."""
    table = page.partition(NODES)[2].partition(END)[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| (?:also )?([A-Z][\w, ]+) \|$", table, re.M))
    types = {title: frozenset(text.split(", ")) for title, text in rows.items()}
    stated = {}
    for lengths, common in ((False, COMMON), (True, LENGTHS)):
        for name in EXPORTED:
            added = [
                value
                for title, value in types.items()
                if f"`{name}`" in title and title.startswith("with `lengths`") == lengths
            ]
            stated[name, lengths] = types[common].union(*added)
    return stated


def make_signals() -> dict[str, Any]:
    """Return audio in -1 to 1, in float32: speech, and audio with 90 dB of dynamic range."""
    random = np.random.default_rng(0)
    time = np.arange(2 * RATE) / RATE
    noise = random.standard_normal(len(time))
    quiet = noise * 0.6 / np.sqrt(2) * 10 ** (-90 / 20)
    audio = {
        "speech": clips()["speech"] / 32768,
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
    """Rewrite the tables."""
    warnings.simplefilter("ignore")
    text = PAGE.read_text()
    for mark, table in ((NODES, format_nodes(export_nodes())), (ACCURACY, format_accuracy(measure_accuracy()))):
        before, _, following = text.partition(mark)
        text = before + mark + table + END + following.partition(END)[2]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
