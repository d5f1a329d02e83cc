"""Ports that serve models with other options than those of training: explain names what each of them computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat.explain.explanation import explain
from kaldi_compat.functional.stacking import low_frame_rate
from tests.support.port import port

SAMPLES = io_ark.load(Path(__file__).parents[3] / "reference_data/inputs/wav/speech16k_b.wav").samples[0]
WITH_SILENCE = np.concatenate([SAMPLES, np.zeros(4000, np.int16)])
UNIT = 1 / 32768


def normalized(features: Any) -> Any:
    return (features - features.mean(0)) / features.std(0)


def centred(features: Any) -> Any:
    return features - features.mean(0)


def of(**options: Any) -> Callable[[Any], Any]:
    return lambda samples: port(samples.astype(np.float64), **options)


# The port, its audio, and words of the explanation: what differs from training.
PORTS: dict[str, tuple[Callable[[Any], Any], Any, tuple[str, ...]]] = {
    "JavaScript, WeSpeaker and 3D-Speaker in a browser": (
        lambda samples: normalized(of(window="hann-periodic", preemphasis=0.0, remove_dc=False, edges="reflect",
                                      filter_kind="area", floor=1e-10, scale=UNIT, low=0.0, length=32.0)(samples)),
        SAMPLES,
        ("window_type='hanning'", "periodic window", "frames centred by padding (reflect)",
         "preemphasis_coefficient=0.0", "remove_dc_offset=False", "divided by the standard deviation")),
    "sherpa-onnx, WeSpeaker and 3D-Speaker": (
        lambda samples: centred(of(edges="kaldi", high=7600.0)(samples)), SAMPLES,
        ("snip_edges=False", "high_freq=-400.0", "minus the mean of each column")),
    "Rust, WeSpeaker": (lambda samples: centred(of()(samples)), SAMPLES,
                        ("preset campplus|fbank(num_mel_bins=80); minus the",)),
    "NumPy, WeSpeaker": (lambda samples: centred(of(scale=32768 * UNIT)(samples)), SAMPLES,
                         ("preset campplus|fbank(num_mel_bins=80); minus the",)),
    "Rust, Paraformer streaming": (
        lambda samples: low_frame_rate(of()(samples)), SAMPLES,
        ("fbank(num_mel_bins=80)", "7 frames stacked, every 6")),
    "Swift, FireRedVAD": (of(window="hamming-periodic", filter_kind="hertz"), SAMPLES,
                          ("window_type='hamming'", "periodic window", "triangles in Hz")),
    "Swift MLX, speaker embeddings": (of(filter_kind="hertz", floor=1.1754944e-38), WITH_SILENCE,
                                      ("triangles in Hz", "a floor of 1.17549e-38")),
}  # fmt: skip


@pytest.mark.parametrize("name", PORTS)
def test_what_a_port_computes_is_named(name: str) -> None:
    make, samples, words = PORTS[name]
    found = explain(make(samples), samples, 16000)
    assert found.is_exact, str(found)
    assert all(any(each in str(found) for each in word.split("|")) for word in words), str(found)
    assert "hamming" in str(found) or "FireRedVAD" not in name
