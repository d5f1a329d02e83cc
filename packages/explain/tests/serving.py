"""Ports of a front end that serve models with other options than those of training, and the page about them."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.functional.stacking import low_frame_rate
from kaldi_explain.explanation import Explanation, explain
from packages.explain.tests.port import port

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "howto" / "serving.md"
BEGIN, END = "<!-- cases: begin -->\n", "<!-- cases: end -->\n"


@dataclass(frozen=True)
class Case:
    """A port, by its options.

    Attributes:
        title: language and use.
        sources: where the port and training were read, with commit and date.
        serves: what the port computes otherwise, in words.
        training: what training has there, in words.
        options: of :func:`packages.explain.tests.port.port`, for samples on Kaldi's scale.
        preset: front end of training.
        after: what the port does with the features.
        silence: the recording ends in digital silence.
        words: words of the explanation; one of several, separated by "|".
    """

    title: str
    sources: str
    serves: str
    training: str
    options: dict[str, Any]
    preset: str
    after: str
    words: tuple[str, ...]
    silence: bool = False


WESPEAKER = (
    "WeSpeaker dfa7419 (2026-07-08), `wespeaker/dataset/processor.py:524` and [issue "
    "421](https://github.com/wenet-e2e/wespeaker/issues/421)"
)
CASES = (
    Case(
        "JavaScript, speaker models of WeSpeaker in a browser", WESPEAKER,
        "frames of 32 ms, centered, a periodic Hann window, no preemphasis, no removal of the DC offset, mel filters "
        "of equal area from 0 Hz, audio in -1 to 1, a floor of 1e-10 under the logarithm, the mean of each column "
        "subtracted, and a division by its standard deviation",
        "frames of 25 ms that lie within the audio, a Hamming window, preemphasis, removal of the DC offset, "
        "mel filters of equal height from 20 Hz, 16-bit samples, the mean of each column subtracted",
        {"window": "hann-periodic", "preemphasis": 0.0, "remove_dc": False, "edges": "reflect", "filter_kind": "area",
         "floor": 1e-10, "scale": 1 / 32768, "low": 0.0, "length": 32.0},
        "wespeaker", "normalize",
        ("window_type='hanning'", "periodic window", "frames centered by padding (reflect)",
         "preemphasis_coefficient=0.0", "remove_dc_offset=False", "divided by the standard deviation")),
    Case(
        "C++, speaker models of WeSpeaker in sherpa-onnx",
        "sherpa-onnx 634265c (2026-08-08), `csrc/speaker-embedding-extractor-general-impl.h:32`, "
        f"`csrc/features.h:38-62`, `scripts/wespeaker/test.py:77-83`; {WESPEAKER}",
        "Povey's window, `snip_edges=false`, mel filters up to 7,600 Hz",
        "a Hamming window, `snip_edges=true`, mel filters up to 8,000 Hz",
        {"edges": "kaldi", "high": 7600.0}, "wespeaker", "center",
        ("snip_edges=False", "high_freq=-400.0", "minus the mean of each column")),
    Case(
        "Rust and NumPy (two ports), speaker models of WeSpeaker", f"{WESPEAKER}, `wespeaker/bin/infer_onnx.py:47`",
        "Povey's window", "a Hamming window", {}, "wespeaker", "center",
        ("preset campplus|fbank(num_mel_bins=80); minus the",)),
    Case(
        "Rust, streaming Paraformer", "FunASR 3c58cb5 (2026-08-21), `funasr/frontends/wav_frontend.py:98,271`",
        "Povey's window", "a Hamming window", {}, "paraformer", "stack",
        ("fbank(num_mel_bins=80)", "7 frames stacked, every 6")),
    Case(
        "Swift, FireRedVAD", "FireRedVAD c30ec49 (2026-05-06), `fireredvad/core/audio_feat.py:54-97`",
        "a Povey window with the period of a frame, mel filters that are triangles over Hz",
        "a Povey window whose period is one sample shorter, mel filters that are triangles over mel",
        {"window": "povey-periodic", "filter_kind": "hertz"}, "fireredvad", "", ("periodic window", "triangles in Hz")),
    Case(
        "Swift MLX, speaker embeddings", "3D-Speaker 09e7806 (2025-10-30), `speakerlab/process/processor.py:153`",
        "audio in -1 to 1, mel filters that are triangles over Hz, a floor of 1.2e-38 under the logarithm, so that "
        "digital silence is -87.3",
        "audio in -1 to 1, mel filters that are triangles over mel, a floor of 1.2e-7, so that digital silence is "
        "-15.9",
        {"filter_kind": "hertz", "floor": 1.1754944e-38, "scale": 1 / 32768}, "campplus", "",
        ("triangles in Hz", "a floor of 1.17549e-38"), silence=True),
)  # fmt: skip


@functools.lru_cache(maxsize=1)
def recording() -> Array:
    """Return a recording of speech, 16-bit, 16 kHz."""
    samples: Array = io_ark.load(ROOT / "reference_data/inputs/wav/speech16k_b.wav").samples[0]
    return samples


def samples_of(case: Case) -> Array:
    """Return the audio of a case."""
    return np.concatenate([recording(), np.zeros(4000, np.int16)]) if case.silence else recording()


def served(case: Case) -> Array:
    """Return what the port computes."""
    features: Array = port(samples_of(case).astype(np.float64), **case.options)
    if case.after == "stack":
        return np.asarray(low_frame_rate(features))
    features = features - features.mean(0) if case.after else features
    return features / features.std(0) if case.after == "normalize" else features


def trained(case: Case) -> Array:
    """Return what training computes: the preset without statistics, and without the mean where the port has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frontend = Frontend.from_preset(case.preset)
        samples = samples_of(case)
        return np.asarray(frontend(samples) if case.after else frontend.feature(samples / 32768))


def difference(case: Case) -> tuple[int, int, float, float, float]:
    """Return both numbers of frames, and mean and largest difference and cosine of the frames that both have.

    Frames of the digital silence after the speech are not counted.
    """
    speech = dataclasses.replace(case, silence=False)
    ours, theirs = trained(speech).astype(np.float64), served(speech)
    count = min(len(ours), len(theirs))
    apart = np.abs(ours[:count] - theirs[:count])
    cosine = (ours[:count] * theirs[:count]).sum() / np.linalg.norm(ours[:count]) / np.linalg.norm(theirs[:count])
    return len(theirs), len(ours), float(apart.mean()), float(apart.max()), float(cosine)


def difference_in_silence(case: Case) -> float:
    """Return the mean difference in the last frame, which is digital silence."""
    return float(np.abs(trained(case)[-1] - served(case)[-1]).mean())


def explained(case: Case) -> Explanation:
    """Return what `explain` says of what the port computes."""
    return explain(served(case), samples_of(case), 16000)


def section(number: int, case: Case, explanation: Explanation | str) -> str:
    """Return a case's part of the page."""
    port_frames, frames, mean, largest, cosine = difference(case)
    apart = f"{mean:.2g} on average, {largest:.2g} at most; cosine similarity {cosine:.3f}"
    number_of_frames = f"both have {frames} frames" if port_frames == frames else f"{port_frames} frames, not {frames}"
    silence = ""
    if case.silence:
        silence = f"\n| absolute difference in digital silence | {difference_in_silence(case):.2g} on average |"
    return f"""## {number}. {case.title}

| item | value |
|---|---|
| the port computes | {case.serves} |
| training computes | {case.training} (preset `{case.preset}`) |
| absolute difference on speech | {apart}; {number_of_frames} |{silence}
| sources | {case.sources} |

```text
{explanation}
```

"""


if __name__ == "__main__":
    sections = [section(number, case, explained(case)) for number, case in enumerate(CASES, 1)]
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + "".join(sections) + END + after.partition(END)[2], encoding="utf-8")
