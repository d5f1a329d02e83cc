"""The pictures of the documentation, computed from the audio and the files of the repository."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.patches import FancyBboxPatch

import io_ark
from benchmarks import figures
from kaldi_compat import PitchOptions, plot, track_pitch
from kaldi_compat.exact.tables import make_window
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.numpy import Fbank, Mfcc, Spectrogram
from kaldi_compat.options.spectral import WINDOW_TYPES, FbankOptions

__all__ = [
    "architecture",
    "cmvn",
    "compressed_matrix",
    "dithering",
    "engine_differences",
    "float_matrix",
    "latency",
    "mel_filters",
    "pitch_track",
    "speed",
    "windows",
]

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ROOT / "reference_data" / "inputs"
MARKERS = "os^Dv*"


def _speech() -> np.ndarray[Any, Any]:
    samples: np.ndarray[Any, Any] = io_ark.load(str(INPUTS / "wav" / "speech16k.wav")).samples[0]
    return samples


def dithering() -> Any:
    """Log-mel features without and with dithering."""
    figure, axes = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    for drawn, dither in zip(axes, (0.0, 1.0), strict=True):
        fbank = Fbank(num_mel_bins=80, dither=dither)
        title = "dither=0: digital silence lies on the floor, -15.9" if not dither else "dither=1, Kaldi's default"
        plot.show_features(fbank(_speech()), fbank, axes=drawn, title=title, limits=(-16, 25))
    axes[0].set_xlabel("")
    return figure


def windows() -> Any:
    """Kaldi's window functions."""
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    for number, name in enumerate(WINDOW_TYPES):
        axes.plot(
            make_window(name, 400, 0.42),
            label=name,
            marker=MARKERS[number],
            markevery=(10 * number, 80),
            markersize=5,
        )
    axes.set_xlabel("sample of a frame (25 ms at 16 kHz)")
    axes.set_ylabel("weight")
    axes.legend(loc="lower center", ncols=3)
    return figure


def mel_filters() -> Any:
    """The mel filter bank, with VTLN."""
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    plot.show_mel_banks(FbankOptions(num_mel_bins=15), vtln_warp=[1.0, 0.85], axes=axes)
    axes.set_ylim(0, 1.35)
    return figure


def pitch_track() -> Any:
    """A track of pitch over the spectrogram."""
    figure, axes = pyplot.subplots(figsize=(8, 3.8), layout="constrained")
    # Long frames close together: harmonics are sharp lines.
    spectrogram = Spectrogram(frame_length=64.0, frame_shift=2.5)
    options = PitchOptions()
    plot.show_pitch(
        track_pitch(_speech(), options),
        options,
        spectrogram=spectrogram(_speech(), generator=np.random.default_rng(0)),
        spectrogram_options=spectrogram,
        axes=axes,
    )
    return figure


def cmvn() -> Any:
    """Cepstra before and after normalization."""
    mfcc = Mfcc(num_ceps=13)
    before = mfcc(_speech(), generator=np.random.default_rng(0))
    after = sliding_cmvn(before, cmn_window=100, center=True, norm_vars=True)
    figure, axes = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    plot.show_features(before, mfcc, axes=axes[0], title="MFCC")
    plot.show_features(
        after, mfcc, axes=axes[1], title="after mean and variance normalization over 1 s", limits=(-3, 3)
    )
    axes[0].set_xlabel("")
    return figure


def latency() -> Any:
    """Frames that a stream has returned over the audio that it has received."""
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    samples = _speech()[:8000]
    for number, milliseconds in enumerate((10, 40, 160)):
        chunk = milliseconds * 16
        stream = Fbank(dither=0.0).stream()
        times, counts = [0.0], [0]
        for start in range(0, len(samples), chunk):
            part = samples[start : start + chunk]
            times.append((start + len(part)) / 16)
            counts.append(counts[-1] + len(stream(part)))
        axes.step(times, counts, where="post", label=f"chunks of {milliseconds} ms", linestyle=("-", "--", ":")[number])
    frames = np.arange(48)
    axes.plot(frames * 10 + 25, frames + 1, color="gray", linewidth=0.8, label="end of each frame in the audio")
    axes.set_xlabel("audio received, in ms")
    axes.set_ylabel("frames returned")
    axes.legend()
    return figure


def engine_differences() -> Any:
    """Distribution of the differences between the engines."""
    import torch

    import kaldi_compat

    options = FbankOptions(num_mel_bins=80, dither=0.0)
    audio = np.concatenate(
        [wave.samples[0] for _, wave in io_ark.SequentialReader(f"scp:{_main_script()}", kind="wave")]
    )
    exact = Fbank(options)(audio)
    module = kaldi_compat.Fbank(options, engine="torch")
    single = module(torch.from_numpy(audio)).numpy()
    double = module(torch.from_numpy(audio).double()).numpy()
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    pairs = {
        "torch engine, float32 - Kaldi's bits": single - exact,
        "torch engine, float64 - Kaldi's bits": double - exact,
    }
    bins = np.logspace(-8, -1, 60)
    for (label, difference), style in zip(pairs.items(), ("-", "--"), strict=True):
        axes.hist(
            np.abs(difference).ravel().clip(1e-8), bins, histtype="step", label=label, linestyle=style, linewidth=1.5
        )
    axes.set_xscale("log")
    axes.set_xlabel("absolute difference of log-mel values")
    axes.set_ylabel("values")
    axes.legend()
    return figure


def _main_script() -> str:
    """Return a script file of the repository's audio with full paths."""
    script = Path(tempfile.gettempdir()) / "kaldi_compat_docs.scp"
    lines = (INPUTS / "main.scp").read_text().splitlines()
    script.write_text("".join(f"{key} {INPUTS / name}\n" for key, name in map(str.split, lines)))
    return str(script)


def speed() -> Any:
    """Speed of the programs, from benchmarks/figures.json."""
    table = figures.load()["programs"]
    [seconds_of_audio] = [float(over) for head, over, _ in table.ratios if head == "times real time"]
    peers = {
        "ours": "ours",
        "Kaldi": "Kaldi's program",
        "kaldi-native-fbank": "kaldi-native-fbank",
        "torchaudio": "torchaudio",
    }
    rows = [
        (f"{who}, {row['feature']}", seconds_of_audio / float(row[f"{column}: s"]))
        for row in reversed(table.cells())
        for column, who in reversed(peers.items())
        if row[f"{column}: s"]
    ]
    figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(rows) + 1), layout="constrained")
    ours = [name.startswith("ours") for name, _ in rows]
    bars = axes.barh(
        [name for name, _ in rows],
        [value for _, value in rows],
        color=["C0" if own else "C7" for own in ours],
        hatch=["" if own else "//" for own in ours],
    )
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.margins(x=0.15)
    axes.set_xlabel("times real time, one core")
    return figure


def _layout(parts: list[tuple[str, bytes]], per_line: int = 12) -> Any:
    """Draw bytes as boxes in rows, with the meaning of each group of bytes below it."""
    cells = [(byte, label, position == 0) for label, data in parts for position, byte in enumerate(data)]
    rows = -(-len(cells) // per_line)
    figure, axes = pyplot.subplots(figsize=(8, 0.95 * rows + 0.2), layout="constrained")
    colors = {label: f"C{number % 10}" for number, (label, _) in enumerate(parts)}
    for number, (byte, label, is_first) in enumerate(cells):
        x, y = number % per_line, -(number // per_line) * 1.6
        axes.add_patch(
            FancyBboxPatch((x + 0.08, y), 0.84, 0.7, boxstyle="round,pad=0.02", alpha=0.35, color=colors[label])
        )
        shown = f"{byte:02x}" if not 33 <= byte < 127 else f"{byte:02x} {chr(byte)}"
        axes.text(x + 0.5, y + 0.35, shown, ha="center", va="center", family="monospace", fontsize=9)
        if is_first:
            axes.text(x + 0.08, y - 0.12, label, ha="left", va="top", fontsize=8.5)
        axes.text(x + 0.5, y + 0.8, str(number), ha="center", va="bottom", fontsize=6.5, alpha=0.6)
    axes.set_xlim(0, per_line)
    axes.set_ylim(-(rows - 1) * 1.6 - 0.75, 1.15)
    axes.set_axis_off()
    return figure


def float_matrix() -> Any:
    """Bytes of an archive entry with a float matrix."""
    with tempfile.TemporaryDirectory() as folder:
        with io_ark.writer(f"ark:{folder}/a.ark") as writer:
            writer["utt1"] = np.array([[1.0, 2.0], [3.0, -0.5]], np.float32)
        data = Path(folder, "a.ark").read_bytes()
    cuts = [("key, space", 5), ("binary", 2), ("type, space", 3), ("rows: 4 bytes, 2", 5), ("columns: 4 bytes, 2", 5)]
    values = [(f"row {i // 2}, column {i % 2}: {value:g}", 4) for i, value in enumerate((1.0, 2.0, 3.0, -0.5))]
    return _layout(_cut(data, [*cuts, *values]))


def compressed_matrix() -> Any:
    """Bytes of an archive entry with a compressed matrix."""
    with tempfile.TemporaryDirectory() as folder:
        with io_ark.writer(f"ark:{folder}/a.ark", compress="speech") as writer:
            writer["u"] = np.linspace(-4, 4, 9, dtype=np.float32)[:, None]
        data = Path(folder, "a.ark").read_bytes()
    low, span = struct.unpack("<ff", data[7:15])
    cuts = [
        ("key, space", 2),
        ("binary", 2),
        ("type, space", 3),
        (f"least value {low:g}", 4),
        (f"range {span:g}", 4),
        ("rows: 9", 4),
        ("columns: 1", 4),
        ("percentiles", 8),
        ("column 0: a byte per row", 9),
    ]
    return _layout(_cut(data, cuts))


def _cut(data: bytes, cuts: list[tuple[str, int]]) -> list[tuple[str, bytes]]:
    parts, start = [], 0
    for label, size in cuts:
        parts.append((label, data[start : start + size]))
        start += size
    if start != len(data):
        raise ValueError(f"{len(data)} bytes, but {start} are described")
    return parts


def architecture() -> Any:
    """The way of a sample from audio to an archive."""
    figure, axes = pyplot.subplots(figsize=(8, 4.3), layout="constrained")
    boxes = {
        "wav.scp, archives, pipes, arrays": (0.3, 3.2, 2.6),
        "io_ark.streams + codecs\nbytes -> samples": (0.3, 2.1, 2.6),
        "options\none declaration per option": (3.6, 3.2, 2.6),
        "exact engine\nC or NumPy: Kaldi's bits": (3.6, 2.1, 2.6),
        "torch engine\ngradients, export, any device": (3.6, 1.1, 2.6),
        "Triton engine\nfused kernels on CUDA": (3.6, 0.1, 2.6),
        "programs: Kaldi's tables": (6.9, 3.2, 2.6),
        "kaldi_compat.numpy, streams": (6.9, 2.1, 2.6),
        "nn.Module in a model": (6.9, 1.1, 2.6),
        "dump: archives, feats.scp": (6.9, 0.1, 2.6),
    }
    for text, (x, y, width) in boxes.items():
        axes.add_patch(FancyBboxPatch((x, y), width, 0.66, boxstyle="round,pad=0.04", alpha=0.25, color="C0"))
        axes.text(x + width / 2, y + 0.33, text, ha="center", va="center", fontsize=9)
    arrows = [((1.6, 3.16), (1.6, 2.84)), ((4.9, 3.16), (4.9, 2.84))]
    arrows += [((2.96, 2.43), (3.54, y + 0.33)) for y in (2.1, 1.1, 0.1)]
    arrows += [((6.26, 2.43), (6.84, y + 0.33)) for y in (3.2, 2.1, 0.1)]
    arrows += [((6.26, 1.43), (6.84, 1.43)), ((6.26, 0.43), (6.84, 1.3)), ((6.26, 0.43), (6.84, 0.43))]
    for start, end in arrows:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "C1", "lw": 1.2})
    axes.set_xlim(0, 9.8)
    axes.set_ylim(0, 4.0)
    axes.set_axis_off()
    return figure
