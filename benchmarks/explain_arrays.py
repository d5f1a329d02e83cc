"""Arrays as people bring them to ``kaldi-compat explain``, made with the libraries that are installed, and its answers.

    python -m benchmarks.explain_arrays                 # the table: kind, right, partly, missed, wrong, seconds
    python -m benchmarks.explain_arrays --only NeMo     # kinds whose name contains a word, with each answer
    python -m benchmarks.explain_arrays --random 2000   # random arrays, none of which may be explained

An answer is right if it explains the array in the words that name how it was made, or refuses one that has nothing to
do with the audio; wrong if it explains an array otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.functional.stacking import low_frame_rate
from kaldi_compat.numpy import Fbank, Mfcc, Plp, Spectrogram
from kaldi_compat.options.frontend import LowFrameRateOptions
from kaldi_explain.explanation import explain

WAVES = Path(__file__).parents[1] / "reference_data" / "inputs" / "wav"
REFUSED = ("refused",)
Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """An array, the audio that explain is given, and words of the right answer ("a|b" for one of two)."""

    kind: str
    name: str
    make: Callable[[], Array]
    audio: Array
    rate: int
    words: tuple[str, ...]


def import_library(name: str) -> Any:
    """Return a module; None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def load_speech() -> dict[str, tuple[Array, int]]:
    """Return recordings by name, and their rates."""
    recordings = {}
    for name in ("speech16k", "speech16k_b", "speech8k", "speech22k"):
        wave = io_ark.load(WAVES / f"{name}.wav")
        recordings[name] = wave.samples[0], int(wave.sample_frequency)
    soxr = import_library("soxr")
    if soxr is not None:
        for name, rate in (("speech22k", 24000), ("speech16k_b", 44100)):
            samples, have = recordings[name]
            recordings[f"{name}-{rate}"] = (
                np.rint(soxr.resample(samples.astype(float), have, rate)).astype(np.int16),
                rate,
            )
    return recordings


def list_kaldi_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield Kaldi's own features with options, whole and in part, turned, masked, stacked, pasted, and normalized."""
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (Fbank, {"num_mel_bins": 80}),
        (Fbank, {"num_mel_bins": 40, "window_type": "hamming"}),
        (Fbank, {"num_mel_bins": 23, "snip_edges": False}),
        (Mfcc, {}),
        (Mfcc, {"use_energy": False, "num_ceps": 20}),
        (Plp, {}),
        (Spectrogram, {}),
        (Fbank, {"num_mel_bins": 64, "high_freq": -200.0, "low_freq": 40.0}),
        (Fbank, {"num_mel_bins": 80, "frame_length": 50.0, "frame_shift": 12.5}),
        (Mfcc, {"num_ceps": 40, "num_mel_bins": 40, "low_freq": 20.0, "high_freq": -400.0, "use_energy": False}),
    ]
    for name in ("speech16k", "speech16k_b", "speech8k"):
        samples, rate = audio[name]
        for kind, options in kinds:
            made = kind(dither=0.0, sample_frequency=rate, **options)
            changed = {key: each for key, each in options.items() if each != getattr(kind().options, key)}
            words = (kind.__name__.lower() + "(|preset", *(f"{key}={each!r}|preset" for key, each in changed.items()))
            if name == "speech16k_b" or kind is not Plp:  # PLP of the others has NaN, because of digital silence.
                yield Case(
                    "Kaldi's", f"{name} {kind.__name__} {options}", lambda m=made, s=samples: m(s), samples, rate, words
                )
            if kind is not Plp:
                noisy = kind(sample_frequency=rate, **options)
                make = lambda m=noisy, s=samples: m(s, generator=KaldiRandom())  # noqa: E731
                yield Case("Kaldi's, dithered", f"{name} {kind.__name__} {options}", make, samples, rate,
                           (*words, "dithered as the first utterance"))  # fmt: skip
    for name in ("speech16k", "speech16k_b"):
        samples, rate = audio[name]
        for kind, options in (kinds[0], kinds[1], kinds[4]):
            made = kind(dither=0.0, sample_frequency=rate, **options)
            word = kind.__name__.lower() + "("
            for first, end in ((30, 90), (55, 100), (0, 70)):
                yield Case(
                    "part of a recording",
                    f"{name} {word} {first}:{end}",
                    lambda m=made, s=samples, a=first, b=end: m(s)[a:b],
                    samples,
                    rate,
                    (word, "left out"),
                )
            yield Case(
                "part of a recording",
                f"{name} {word} samples 4321 on",
                lambda m=made, s=samples: m(s[4321:17000]),
                samples,
                rate,
                (word, "the audio from 0.27"),
            )
    samples, rate = audio["speech16k_b"]
    made = Fbank(dither=0.0, num_mel_bins=80, window_type="hamming")(samples).astype(np.float64)
    fbank = ("fbank(|preset", "hamming|preset")
    for batch in ((1, *made.shape), (made.shape[0], 1, 80), (1, 1, *made.shape)):
        yield Case("orientation", f"shape {batch}", lambda b=batch: made.reshape(b), samples, rate, fbank)
    for turned in (made.T, made.T[None], made.T[:, :, None], np.vstack([made, np.zeros((500, 80))]).T):
        yield Case("orientation", f"shape {turned.shape}", lambda t=turned: t, samples, rate, (*fbank, "transposed"))
    for what, place in (
        ("frame", np.s_[40:50]),
        ("frame", np.s_[[20, 21, 80, 81, 82]]),
        ("column", np.s_[:, 10:15]),
        ("column", np.s_[:, 60:63]),
    ):
        for fill in (0.0, float(made.mean())):
            masked = made.copy()
            masked[place] = fill
            yield Case(
                "masked", f"{what} {place} {fill:.3g}", lambda m=masked: m, samples, rate, (*fbank, what, "masked")
            )
    for text, change in (("the end", made[:-1]), ("the start", made[1:]), ("the start", made[3:])):
        yield Case("missing frames", text, lambda c=change: c, samples, rate, (*fbank, f"left out at {text}"))
    normalized = (made - made.mean(0)) / made.std(0)
    after = {
        "minus the mean": made - made.mean(0),
        "standard deviation": normalized,
        "base 10": made / np.log(10),
        "decibels": 10 / np.log(10) * made,
        "CMVN of a speaker or corpus": (made - np.cos(np.arange(80))) / np.linspace(1, 2, 80),
        "float16": made.astype(np.float16),
        "standard deviation|padding": np.vstack([normalized, np.zeros((40, 80))]),
    }
    for text, array in after.items():
        yield Case("normalized, stored", text, lambda a=array: a, samples, rate, (*fbank, f"{text}|preset"))
    for stack, stride in ((7, 6), (5, 1), (4, 3)):
        options = LowFrameRateOptions(stack=stack, stride=stride)
        yield Case(
            "stacked, deltas",
            f"LFR {stack} {stride}",
            lambda o=options: low_frame_rate(made, o),
            samples,
            rate,
            (*fbank, f"{stack} frames stacked, every {stride}|preset"),
        )
    ceps = Mfcc(dither=0.0, use_energy=False)(samples).astype(np.float64)
    yield Case("stacked, deltas", "deltas", lambda: add_deltas(ceps), samples, rate, ("mfcc(", "deltas of 2"))
    yield Case(
        "stacked, deltas", "joined", lambda: made[:116].reshape(-1, 160), samples, rate, (*fbank, "2 frames stacked")
    )
    pitch = compute_pitch(samples)
    for columns in (80, 40, 13):
        plain = Mfcc(dither=0.0)(samples) if columns == 13 else Fbank(num_mel_bins=columns, dither=0.0)(samples)
        pasted = np.hstack([plain[: len(pitch)], pitch[: len(plain)]])
        yield Case("with pitch", f"{columns} + 3", lambda p=pasted: p, samples, rate, ("mfcc(|fbank(|preset", "pitch"))


def compute_pitch(samples: Array) -> Array:
    """Return the pitch features of Kaldi's recipes."""
    from kaldi_compat.exact.rand import KaldiRandom
    from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
    from kaldi_compat.pitch.process import process_utterances
    from kaldi_compat.pitch.tracker import track_pitch

    track = np.asarray(track_pitch(samples.astype(np.float32), PitchOptions()), np.float32)
    return process_utterances(track, np.array([0, len(track)]), ProcessPitchOptions(), KaldiRandom())[0]


def list_librosa_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield librosa's defaults, and mels of speech synthesis with librosa's filters."""
    librosa = import_library("librosa")
    if librosa is None:
        return
    for name, (samples, rate) in audio.items():
        unit = samples.astype(np.float32) / 32768
        slaney = "Slaney's scale"
        yield Case(
            "librosa's defaults",
            f"{name} power_to_db",
            lambda y=unit, r=rate: librosa.power_to_db(librosa.feature.melspectrogram(y=y, sr=r)),
            samples,
            rate,
            ("fbank(", slaney, "transposed", "decibels"),
        )
        yield Case(
            "librosa's defaults",
            f"{name} mel",
            lambda y=unit, r=rate: librosa.feature.melspectrogram(y=y, sr=r),
            samples,
            rate,
            ("fbank(", slaney, "transposed", "use_log_fbank=False"),
        )
        yield Case(
            "librosa's defaults",
            f"{name} mfcc",
            lambda y=unit, r=rate: librosa.feature.mfcc(y=y, sr=r),
            samples,
            rate,
            ("mfcc(", slaney, "transposed"),
        )
        yield Case(
            "librosa's defaults",
            f"{name} stft",
            lambda y=unit: np.abs(librosa.stft(y, n_fft=512, hop_length=160)),
            samples,
            rate,
            ("spectrogram(", "magnitudes", "transposed"),
        )
        if rate >= 22050:
            for bins, points, hop, top, title in (
                (80, 1024, 256, 8000, "HiFi-GAN"),
                (100, 1024, 256, rate / 2, "BigVGAN"),
            ):
                yield Case(
                    title,
                    name,
                    lambda y=unit, r=rate, a=(bins, points, hop, top): compute_hifi_gan(librosa, y, r, *a),
                    samples,
                    rate,
                    ("fbank(", slaney, "use_power=False", "transposed"),
                )
        yield Case(
            "Tacotron 2",
            name,
            lambda y=unit, r=rate: np.log(
                np.maximum(
                    librosa.filters.mel(sr=r, n_fft=1024, n_mels=80, fmin=0, fmax=min(8000, r / 2))
                    @ np.abs(librosa.stft(y, n_fft=1024, hop_length=256, pad_mode="reflect")),
                    1e-5,
                )
            ),
            samples,
            rate,
            ("fbank(", slaney, "use_power=False", "transposed"),
        )
        if rate > 24000:  # Left out, because 50 ms are more than 2048 samples.
            continue
        yield Case(
            "Tacotron 2",
            f"{name} 50 and 12.5 ms",
            lambda y=unit, r=rate: np.log10(
                np.maximum(
                    librosa.filters.mel(sr=r, n_fft=2048, n_mels=80, fmin=40, fmax=r / 2)
                    @ np.abs(
                        librosa.stft(
                            y, n_fft=2048, win_length=int(0.05 * r), hop_length=int(0.0125 * r), pad_mode="reflect"
                        )
                    ),
                    1e-10,
                )
            ),
            samples,
            rate,
            ("fbank(", slaney, "use_power=False", "base 10", "transposed"),
        )


def compute_hifi_gan(librosa: Any, unit: Array, rate: int, bins: int, points: int, hop: int, top: float) -> Array:
    """Return the mel spectrogram of HiFi-GAN's ``meldataset.py``, which BigVGAN has as well."""
    padded = np.pad(unit, (points - hop) // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, points)[::hop]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(points) / points)
    spectrum = np.sqrt(np.abs(np.fft.rfft(frames * window)) ** 2 + 1e-9).T
    mel = librosa.filters.mel(sr=rate, n_fft=points, n_mels=bins, fmin=0, fmax=top) @ spectrum
    return np.log(np.maximum(mel, 1e-5)).astype(np.float32)


def list_torchaudio_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield torchaudio's and Vocos' defaults."""
    torchaudio, torch = import_library("torchaudio"), import_library("torch")
    if torchaudio is None or torch is None:
        return
    for name, (samples, rate) in audio.items():
        unit = torch.tensor(samples.astype(np.float32) / 32768)
        whole = torch.tensor(samples.astype(np.float32))
        yield Case(
            "torchaudio's defaults",
            f"{name} MelSpectrogram",
            lambda u=unit, r=rate: torchaudio.transforms.MelSpectrogram(r)(u).numpy(),
            samples,
            rate,
            ("fbank(", "use_log_fbank=False", "transposed"),
        )
        yield Case(
            "torchaudio's defaults",
            f"{name} MFCC",
            lambda u=unit, r=rate: torchaudio.transforms.MFCC(r)(u).numpy(),
            samples,
            rate,
            ("mfcc(", "transposed"),
        )
        yield Case(
            "torchaudio's defaults",
            f"{name} Spectrogram",
            lambda u=unit: torchaudio.transforms.Spectrogram()(u).numpy(),
            samples,
            rate,
            ("spectrogram(", "power, no logarithm", "transposed"),
        )
        yield Case(
            "torchaudio's defaults",
            f"{name} compliance",
            lambda u=whole, r=rate: torchaudio.compliance.kaldi.spectrogram(u[None], sample_frequency=r).numpy(),
            samples,
            rate,
            ("spectrogram(",),
        )
        yield Case(
            "Vocos",
            name,
            lambda u=unit, r=rate: torch.log(
                torch.clip(
                    torchaudio.transforms.MelSpectrogram(
                        r, n_fft=1024, hop_length=256, n_mels=100, center=True, power=1
                    )(u),
                    min=1e-7,
                )
            ).numpy(),
            samples,
            rate,
            ("fbank(", "use_power=False", "transposed"),
        )


def list_transformers_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield feature extractors of transformers."""
    transformers = import_library("transformers")
    if transformers is None:
        return
    for name, (samples, rate) in audio.items():
        if rate == 16000:
            unit = samples.astype(np.float32) / 32768
            extract = transformers.SpeechT5FeatureExtractor()
            yield Case(
                "SpeechT5",
                name,
                lambda e=extract, u=unit: e(audio_target=u, sampling_rate=16000)["input_values"][0],
                samples,
                rate,
                ("fbank(", "Slaney's scale", "use_power=False", "base 10"),
            )
            whisper = transformers.WhisperFeatureExtractor()
            yield Case(
                "Whisper",
                name,
                lambda e=whisper, u=unit: e(u, sampling_rate=16000)["input_features"][0],
                samples,
                rate,
                ("fbank(", "Slaney's scale", "Whisper", "transposed"),
            )


def list_nemo_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield the features of NeMo's FilterbankFeatures, computed by their formula."""
    librosa = import_library("librosa")
    if librosa is None:
        return
    for name, (samples, rate) in audio.items():
        unit = samples.astype(np.float64) / 32768
        for norm in ("per_feature", "all_features", ""):
            for padded in (False, True):
                yield Case(
                    "NeMo",
                    f"{name} {norm or 'raw'}{' padded' * padded}",
                    lambda u=unit, r=rate, n=norm, p=padded: compute_nemo(librosa, u, r, n, p),
                    samples,
                    rate,
                    ("fbank(", "Slaney's scale", "5.96046e-08 added"),
                )


def compute_nemo(librosa: Any, unit: Array, rate: int, norm: str, padded: bool) -> Array:
    """Return NeMo's log-mel features (80, frames): frames of 25 ms in an FFT of 512, the last one masked."""
    audio = np.append(unit[:1], unit[1:] - 0.97 * unit[:-1])
    size, hop, points = int(0.025 * rate), rate // 100, 1 << (int(0.025 * rate) - 1).bit_length()
    window = np.pad(np.hanning(size), ((points - size) // 2, points - size - (points - size) // 2))
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(audio, points // 2), points)[::hop]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mel = np.log(power @ librosa.filters.mel(sr=rate, n_fft=points, n_mels=80, fmin=0, fmax=rate / 2).T + 2.0**-24).T
    count = len(unit) // hop
    own = mel[:, :count]
    if norm == "per_feature":
        mel = (mel - own.mean(1, keepdims=True)) / (own.std(1, ddof=1, keepdims=True) + 1e-5)
    elif norm:
        mel = (mel - own.mean()) / (own.std(ddof=1) + 1e-5)
    mel[:, count:] = 0
    return np.pad(mel, ((0, 0), (0, -mel.shape[1] % 16))) if padded else mel


def list_python_speech_features_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield the defaults of python_speech_features."""
    psf = import_library("python_speech_features")
    if psf is None:
        return
    for name, (samples, rate) in audio.items():
        if rate <= 16000:
            yield Case(
                "python_speech_features",
                f"{name} mfcc",
                lambda s=samples, r=rate: psf.mfcc(s, r),
                samples,
                rate,
                ("mfcc(", "python_speech_features"),
            )
            yield Case(
                "python_speech_features",
                f"{name} logfbank",
                lambda s=samples, r=rate: psf.logfbank(s, r),
                samples,
                rate,
                ("fbank(", "python_speech_features"),
            )
            yield Case(
                "python_speech_features",
                f"{name} no energy",
                lambda s=samples, r=rate: psf.mfcc(s, r, appendEnergy=False),
                samples,
                rate,
                ("mfcc(", "python_speech_features"),
            )


def list_resampled_cases(audio: dict[str, tuple[Array, int]]) -> Iterator[Case]:
    """Yield features of audio that was resampled."""
    soxr, scipy, torchaudio, torch = (
        import_library(library_name) for library_name in ("soxr", "scipy.signal", "torchaudio", "torch")
    )
    for name, (samples, rate) in audio.items():
        wide = samples.astype(np.float64)
        for other in (8000, 16000):
            if other == rate:
                continue
            ways: dict[str, Callable[[], Array]] = {}
            if soxr is not None:
                ways["soxr"] = lambda w=wide, r=rate, o=other: soxr.resample(w, r, o)
            if scipy is not None and rate % 1000 == 0:
                ways["polyphase"] = lambda w=wide, r=rate, o=other: scipy.resample_poly(w, o // 1000, r // 1000)
            if torch is not None and torchaudio is not None:
                ways["torchaudio"] = lambda w=wide, r=rate, o=other: torchaudio.functional.resample(
                    torch.tensor(w.astype(np.float32)), r, o
                ).numpy()
            for way, make in ways.items():
                fbank = Fbank(num_mel_bins=40, dither=0.0, sample_frequency=other, high_freq=-400.0)
                yield Case(
                    "resampled",
                    f"{name} to {other} by {way}",
                    lambda m=make, f=fbank: f(m().astype(np.float32)),
                    samples,
                    rate,
                    ("fbank(", f"resampled to {other}", way),
                )


def make_random_arrays(count: int, seed: int = 0) -> Iterator[tuple[str, Array, Array, int]]:
    """Yield random arrays of all kinds, and speech that they have nothing to do with."""
    rng, recordings = np.random.default_rng(seed), [*load_speech().values()][:4]
    shapes: list[Callable[[int, int], Array]] = [
        lambda t, d: rng.integers(0, 2, (t, d)),
        lambda t, d: rng.integers(0, 2, (t, d)).astype(np.float32),
        lambda t, d: rng.integers(0, 5, (t, d)).astype(np.int64),
        lambda t, d: rng.integers(-40, 40, (t, d)),
        lambda t, d: rng.normal(size=(t, d)),
        lambda t, d: 1e-5 * rng.normal(size=(t, d)),
        lambda t, d: 1e-12 * rng.random((t, d)),
        lambda t, d: 1e9 * rng.normal(size=(t, d)),
        lambda t, d: rng.dirichlet(np.full(d, 0.05), t),
        lambda t, d: rng.dirichlet(np.full(d, 1.0), t),
        lambda t, d: 5 + 1e-7 * rng.normal(size=(t, d)),
        lambda t, d: np.sort(rng.normal(size=(t, d)), 0),
        lambda t, d: np.cumsum(rng.normal(size=(t, d)), 0),
        lambda t, d: rng.normal(size=(t, d)).astype(np.float16),
        lambda t, d: np.where(np.arange(d) % 3, 7.0, rng.normal(size=(t, d))),
        lambda t, d: np.tile(rng.normal(size=d), (t, 1)),
        lambda t, d: np.tile(rng.normal(size=(t, 1)), (1, d)),
        lambda t, d: np.round(rng.normal(size=(t, d)), 1),
        lambda t, d: rng.exponential(size=(t, d)) ** 8,
        lambda t, d: np.repeat(rng.integers(0, 2, (t, 1)), d, 1),
        lambda t, d: np.sin(np.arange(t)[:, None] / rng.uniform(3, 30, d)),
        lambda t, d: rng.uniform(-16, 20, (t, d)),
        lambda t, d: np.clip(rng.normal(size=(t, d)), -0.5, 9),
        lambda t, d: np.zeros((t, d)) + (rng.random((t, d)) < 0.01),
        lambda t, d: rng.normal(size=(t, d)) @ rng.normal(size=(d, d)),
        lambda t, d: rng.poisson(30, (t, d)),
    ]
    for number in range(count):
        samples, rate = recordings[number % len(recordings)]
        frames = int(rng.choice([len(samples) * 100 // rate - 2, len(samples) * 100 // rate, 40, 12, 5, 200]))
        columns = int(rng.choice([80, 40, 13, 23, 257, 1, 2, 64, 20, 39, 83]))
        kind = number // 4 % (len(shapes) + 2)
        if kind < len(shapes):
            array = np.asarray(shapes[kind](frames, columns))
        else:  # Features of the audio whose frames, or the values of each column, are shuffled.
            array = Fbank(num_mel_bins=40, dither=0.0, sample_frequency=rate)(samples)
            array = rng.permutation(array) if kind == len(shapes) else rng.permuted(array, axis=0)
        yield f"{kind}: {array.dtype} {array.shape}", array, samples, rate


def list_unrelated_cases() -> Iterator[Case]:
    """Yield random arrays, which explain has to refuse."""
    for name, array, samples, rate in make_random_arrays(56, seed=1):
        yield Case("random", name, lambda a=array: a, samples, rate, REFUSED)


def verdict(case: Case, answer: Any) -> str:
    """Return the judgment of an answer: "right", "partly", "missed" or "wrong"."""
    words = str(answer)
    named = all(any(alternative in words for alternative in word.split("|")) for word in case.words)
    if case.words == REFUSED:
        return "wrong" if answer.is_exact else "right"
    if answer.is_exact:
        return "right" if named else "wrong"
    return "partly" if answer.verdict == "partly" else "missed"


def report(cases: Iterable[Case], only: str = "") -> None:
    """Print the table of the answers to cases whose name contains a word, and the answers that are not right."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        if only in case.kind + case.name:
            array = case.make()
            array = np.where(np.isfinite(array), array, 0) if case.kind == "random" else array
            begin = time.process_time()
            answer = explain(array, case.audio, case.rate)
            seconds[case.kind].append(time.process_time() - begin)
            judgment = verdict(case, answer)
            table[case.kind][judgment] += 1
            if judgment != "right" or only:
                print(f"{judgment}: {case.kind}: {case.name}: {seconds[case.kind][-1]:.1f} s: {answer}", flush=True)
    columns = ("right", "partly", "missed", "wrong")
    print(f"{'kind':24}" + "".join(f"{column:>8}" for column in columns) + "  seconds, median and largest")
    for kind, counts in table.items():
        row = "".join(f"{counts[column]:8}" for column in columns)
        print(f"{kind:24}{row}  {np.median(seconds[kind]):.2f} {max(seconds[kind]):.2f}")
    every = [duration for times in seconds.values() for duration in times]
    total = "".join(f"{sum(counts[column] for counts in table.values()):8}" for column in columns)
    print(f"{'all':24}{total}  {np.median(every):.2f} {max(every):.2f}")


def main() -> None:
    """Print the table of answers or, with ``--random``, the random arrays that are explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--shard", default="0/1", help="take each n-th array, such as 0/2")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.shard.split("/"))
    if arguments.random:
        explained = []
        for number, (name, array, samples, rate) in enumerate(make_random_arrays(arguments.random)):
            if number % parts == part:
                answer = explain(array, samples, rate)
                explained += [f"{name}: {answer}"] if answer.is_exact else []
                if number % 100 == part:
                    print(number, len(explained), flush=True)
        print(f"{arguments.random} random arrays, {len(explained)} explained", *explained, sep="\n")
        return
    audio = load_speech()
    makers = (
        list_kaldi_cases,
        list_librosa_cases,
        list_torchaudio_cases,
        list_transformers_cases,
        list_nemo_cases,
        list_python_speech_features_cases,
        list_resampled_cases,
    )
    cases = [*(case for make in makers for case in make(audio)), *list_unrelated_cases()]
    report(cases[part::parts], arguments.only)


if __name__ == "__main__":
    main()
