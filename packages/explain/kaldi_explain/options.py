"""Table of the options that a search changes, with their names and their values, the most common first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Changes = dict[str, Any]

# Machine epsilon and smallest normal number of float32, and machine epsilon of float64: usual floors of energies.
EPSILON, TINY, EPSILON_64 = (float(x) for x in (np.finfo("f4").eps, np.finfo("f4").tiny, np.finfo("f8").eps))
# Groups of feature kinds, which state the kinds that an option applies to.
FILTER_BANK, CEPSTRA, BESIDE_PLP = ("fbank", "mfcc"), ("mfcc", "plp"), ("fbank", "mfcc", "spectrogram")
# Descriptions of steps before the framing, by which an explanation names them.
DC_REMOVAL, PREEMPHASIS = "DC removal of the whole recording", "preemphasis of the whole recording"


@dataclass(frozen=True)
class Option:
    """An option of Kaldi, or an attribute of :class:`kaldi_explain.models.FeatureModel`.

    Attributes:
        name: name of the option or attribute.
        values: values that a search tries, the most common first. Empty for an option that a special search finds.
        kinds: kinds of features for which a search changes the option alone, without other options.
        max_ratio: largest ratio of the new cost to the old cost for which a search takes a new value. It is smaller
            for options that explain a little of any array.
        step: small change of the value, to measure derivatives of the features. 0 to try only ``values``.
        words: format of a description, or a description of each value. "" for Kaldi's options (``name=value``).
    """

    name: str
    values: tuple[Any, ...] = ()
    kinds: tuple[str, ...] = ("fbank", "mfcc", "plp", "spectrogram")
    max_ratio: float = 0.97
    step: float = 0.0
    words: str | Mapping[Any, str] = ""


TABLE = (
    Option("use_power", (True, False), ("fbank",)),
    Option("use_log_fbank", (True, False), ("fbank",)),
    Option("num_mel_bins", (23, 40, 80, 26, 30, 64, 20, 24, 32, 60, 128), CEPSTRA),
    Option("cepstral_lifter", (22, 0), CEPSTRA),
    Option("low_freq", (20.0, 0.0, 40.0, 64.0, 80.0, 50.0, 60.0, 90.0, 100.0, 125.0, 133.3333), ("fbank", *CEPSTRA),
           step=0.5),
    Option("high_freq", (0.0, -400.0, -200.0, -100.0, 7600.0, 7800.0, 7000.0, 6800.0, 6500.0, 4000.0, 3800.0, 3700.0,
                         8000.0, 11025.0, 10000.0, 11000.0), ("fbank", *CEPSTRA), step=-5.0),
    Option("round_to_power_of_two", (True, False)),
    Option("window_type", ("povey", "hamming", "hanning", "rectangular", "blackman", "sine")),
    Option("preemphasis_coefficient", (0.97, 0.0, 0.95, 0.98, 0.9, 0.96, 0.99, 0.94, 0.92, 0.85), step=-1e-3),
    Option("remove_dc_offset", (True, False)),
    Option("raw_energy", (True, False)),
    Option("frame_length", (25.0, 20.0, 30.0, 32.0, 16.0, 40.0, 50.0, 64.0), (), max_ratio=0.95),
    # The following entries are attributes of a model. An explanation names them in this order.
    Option("offset", (1, 2, 4, 8, 16, 32, 64), (), max_ratio=0.7),
    Option("scale", words="samples times {:g}"),
    Option("window", ("kaldi", "periodic"), BESIDE_PLP, words={"periodic": "a periodic window"}),
    Option("points", (0, 256, 400, 512, 1024, 2048), BESIDE_PLP, words="an FFT of {} points"),
    Option("mel", ("kaldi", "hertz", "snapped", "snapped-more", "symmetric", "slaney", "slaney-height", "htk-area"),
           FILTER_BANK, words={
        "kaldi": "triangles on the mel scale",
        "hertz": "triangles in Hz between mel edges",
        "snapped": "edges of mel bins rounded down to bins of the FFT",
        "snapped-more": "edges of mel bins rounded down to bins of an FFT with one more point, as in "
        "python_speech_features",
        "symmetric": "triangles in Hz as wide as their left half, as in SpeechBrain",
        "slaney": "librosa's filters on Slaney's scale, of equal area",
        "slaney-height": "librosa's filters on Slaney's scale, of equal height",
        "htk-area": "librosa's filters on HTK's scale, of equal area"}),
    Option("corner", (700.0, 1000.0, 625.0), FILTER_BANK, max_ratio=0.9, words="mel scale ln(1 + f / {:g})"),
    Option("floor", (EPSILON, 1e-10, 1e-5, 1e-6, 1e-7, 1e-8, 1e-3, 1e-9, 1e-2, 1e-12, 1.0, TINY, EPSILON_64), (),
           max_ratio=0.7, words="a floor of {:g}"),
    Option("added", (1e-6, 1e-10, 1e-8, 1e-5, 1e-9, 2.0**-24, 1e-3, 1.0, 1e-7, EPSILON), (), max_ratio=0.7,
           words="{:g} added before the logarithm"),
    Option("root", (0.0, 1e-9, 1e-6), ("fbank", "spectrogram"), words="{:g} added to the power"),
    Option("span", words="values limited to {:g} dB below the maximum"),
    Option("padding", ("reflect", "constant", "reflect-window", "constant-window", "reflect-shift", "inside", "zeros"),
           (), words={
        "reflect": "frames centered by padding (reflect)",
        "constant": "frames centered by padding (constant)",
        "reflect-window": "frames centered by padding (reflect) of half a window",
        "constant-window": "frames centered by padding (constant) of half a window",
        "reflect-shift": "padding (reflect) of half of the FFT less the shift, as in HiFi-GAN",
        "inside": "frames as long as the FFT, the window in their middle",
        "zeros": "zeros fill the last frame, as in python_speech_features"}),
    Option("whole", ((), ("preemphasis",), ("offset",), ("offset", "preemphasis")), words={
        ("preemphasis",): PREEMPHASIS, ("offset",): DC_REMOVAL,
        ("offset", "preemphasis"): f"{DC_REMOVAL}, {PREEMPHASIS}"}),
    Option("warp", (1.0, *(round(0.8 + 0.01 * n, 2) for n in range(46) if n != 20)), ("fbank", *CEPSTRA), max_ratio=0.9,
           step=1e-3, words="VTLN factor {:g}"),
    Option("bins", ("kaldi", "log", "power", "magnitude"), ("spectrogram",), words={
        "log": "log power of all bins", "power": "power, no logarithm", "magnitude": "magnitudes, no logarithm"}),
    Option("magnitudes", (False, True), ("mfcc",), words={True: "of magnitudes"}),
    Option("dct", ("kaldi", "htk", "sum"), (), words={
        "htk": "C0 times the root of 2, as in HTK", "sum": "a DCT that is not normalized"}),
    Option("energy", ("kaldi", "spectrum"), ("mfcc",), words={
        "spectrum": "the energy is the sum of the power of all bins"}),
    Option("in_place", (False, True), BESIDE_PLP, max_ratio=0.8, words={
        True: "preemphasis in place, from the first sample to the last"}),
    Option("precise", words={True: "an FFT in double precision"}),
    Option("dithered", words={True: "dithered as the first utterance of a run of Kaldi's"}),
)  # fmt: skip
BY_NAME = {option.name: option for option in TABLE}
# Maps mel filters to filters that differ from them only in the height of the triangles. A cost allows any scale of a
# column, so the search needs only one of the two.
EQUAL_SHAPES = {"htk-area": "hertz", "slaney-height": "slaney"}
SHAPES = tuple(mel for mel in BY_NAME["mel"].values if mel not in EQUAL_SHAPES)
EDGES = ("low_freq", "high_freq")
WINDOW_SAMPLES = (400, 512, 1024, 2048, 1200, 800, 256)  # Usual frame lengths in samples.

# The following options describe features of other libraries.
DB_80: Changes = {"floor": 1e-10, "span": 80.0}  # The floor of librosa and Whisper, 80 dB below the maximum.
STFT: Changes = {"window_type": "hanning", "window": "periodic", "preemphasis_coefficient": 0.0,
                 "remove_dc_offset": False, "padding": "reflect-window"}  # fmt: skip
LIBRARY_MEL: Changes = STFT | {"low_freq": 0.0, "round_to_power_of_two": False}
SPEECH_FEATURES: Changes = {"window_type": "rectangular", "low_freq": 0.0, "mel": "snapped-more",
                            "whole": ("preemphasis",), "padding": "zeros", "remove_dc_offset": False}  # fmt: skip


def list_values(name: str) -> tuple[Any, ...]:
    """Return the values that a search tries for the option ``name``, the most common first."""
    return BY_NAME[name].values


def can_change_alone(kind: str, name: str) -> bool:
    """Return True if a search may change the option ``name`` alone for features of ``kind`` (:data:`TABLE`)."""
    return name in BY_NAME and kind in BY_NAME[name].kinds
