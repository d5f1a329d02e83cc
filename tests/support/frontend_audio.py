"""Audio and statistics that the front ends of published models are compared on.

``reference_data/frontends/make.py`` runs the models' own code on these, and the tests run ours on them.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from io_ark import load
from kaldi_compat.exact.resample import resample_waveform

Shorts = npt.NDArray[np.int16]
WAV = Path(__file__).parents[2] / "reference_data" / "inputs" / "wav"
ROWS = 7  # stored of each clip, at most


@functools.cache
def clips() -> dict[str, Shorts]:
    """Return clips at 16 kHz, 20 ms to 30 s: speech, silence, DC, clipping, and audio that was recorded at 8 kHz."""
    speech = _wav("speech16k")
    wide = speech.astype(np.float64)
    gains = np.linspace(0.05, 1.0, 480000)
    narrow = resample_waveform(_wav("speech8k").astype(np.float32), 8000, 16000)
    return {
        "speech": speech,
        "silence": np.zeros(4800, np.int16),
        "dc": _shorts(wide * 0.5 + 9000),
        "clipped": _shorts(wide * 20),
        "quiet": _shorts(wide / 64),
        "noise": _wav("noise16k"),
        "8khz": _shorts(narrow),
        "20ms": speech[6000:6320],
        "one-frame": speech[6000:6400],
        "30s": _shorts(np.resize(wide, 480000) * gains),
    }


def _wav(name: str) -> Shorts:
    _, samples = load(str(WAV / f"{name}.wav"))
    return np.asarray(samples[0]).astype(np.int16)


def _shorts(samples: npt.NDArray[np.floating]) -> Shorts:
    return np.clip(np.rint(samples), -32768, 32767).astype(np.int16)


def kept_rows(frames: int) -> npt.NDArray[np.intp]:
    """Return the indices of the frames of a clip that are stored, from the first to the last, at growing distances."""
    return np.unique(np.rint(np.geomspace(1, frames, ROWS)).astype(np.intp)) - 1


def mean_and_deviation(dim: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return means and standard deviations of ``dim`` columns, with values that are typical of a corpus."""
    column = np.arange(dim)
    return 12 + 3 * np.sin(column / 7), 3 + np.cos(column / 5)


def am_mvn(dim: int) -> str:
    """Return statistics in the format of FunASR's am.mvn."""
    mean, std = mean_and_deviation(dim)
    shift, scale = (" ".join(f"{value:.9g}" for value in values) for values in (-mean, 1 / std))
    return (
        f"<Nnet> \n<Splice> {dim} {dim}\n[ 0 ]\n<AddShift> {dim} {dim}\n<LearnRateCoef> 0 [ {shift} ]\n"
        f"<Rescale> {dim} {dim}\n<LearnRateCoef> 0 [ {scale} ]\n</Nnet> \n"
    )


def kaldi_stats(dim: int) -> npt.NDArray[np.float64]:
    """Return statistics of 1000 frames in Kaldi's format, (2, dim + 1)."""
    mean, std = mean_and_deviation(dim)
    return np.stack((np.append(1000 * mean, 1000.0), np.append(1000 * (std * std + mean * mean), 0.0)))


def wenet_json(dim: int) -> str:
    """Return statistics in the format of WeNet's global_cmvn."""
    sums, squares = kaldi_stats(dim)
    return json.dumps({"mean_stat": sums[:-1].tolist(), "var_stat": squares[:-1].tolist(), "frame_num": 1000})
