"""Ways to call kaldi_native_fbank, which its users have, or which cover its options; each returns arrays.

``python -m packages.standins.tests.native_fbank_forms`` stores what the original returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = list[npt.NDArray[Any]]
STORED = Path(__file__).parents[3] / "reference_data" / "interop" / "kaldi_native_fbank.npz"
CHUNKS = (1, 3, 399, 1, 500, 2000, 10**9)


def audio(samples: int = 6000) -> npt.NDArray[np.float32]:
    """Return a voiced sound in noise, in -1 to 1, of float32."""
    time = np.arange(samples)
    phase = np.cumsum(120 + 40 * np.sin(time / 2000)) / 16000 * 2 * np.pi
    noise = np.random.RandomState(0).randn(samples)
    sound = 0.2 * np.sin(phase) + 0.1 * np.sin(2 * phase) + 0.1 * np.sin(9 * phase) + 0.01 * noise + 0.02
    return np.round(sound * 32768).astype(np.float32) / np.float32(32768)


def set_options(options: Any, values: dict[str, Any]) -> Any:
    """Set attributes, whose names may hold the names of groups of options, and return the options."""
    for name, value in values.items():
        *groups, last = name.split(".")
        setattr(functools.reduce(getattr, groups, options), last, value)
    return options


def online(kind: str, knf: Any, **values: Any) -> Arrays:
    """Return the features of audio in chunks. Underscores stand for dots."""
    name = {"WhisperFbank": "WhisperFeature"}.get(kind, kind)
    named = {each.replace("frame_opts_", "frame_opts.").replace("mel_opts_", "mel_opts."): values[each]
             for each in values}  # fmt: skip
    feature = getattr(knf, f"Online{kind}")(set_options(getattr(knf, f"{name}Options")(), named))
    samples, first = audio().tolist(), 0
    for size in CHUNKS:
        feature.accept_waveform(16000, samples[first : first + size])
        first += size
    feature.input_finished()
    return [np.array([feature.get_frame(i) for i in range(feature.num_frames_ready)])]


def fbank(**values: Any) -> Callable[[Any], Arrays]:
    """Return a form of ``OnlineFbank`` without dithering."""
    return functools.partial(online, "Fbank", frame_opts_dither=0.0, **values)


def mfcc(**values: Any) -> Callable[[Any], Arrays]:
    """Return a form of ``OnlineMfcc`` without dithering."""
    return functools.partial(online, "Mfcc", frame_opts_dither=0.0, **values)


def nemo(knf: Any, **values: Any) -> Arrays:
    """Return windows of NeMo's features."""
    feature = knf.OnlineNemoFbank(knf.NemoFbankOptions(**values))
    feature.accept_waveform(16000, audio().tolist())
    feature.input_finished()
    last = feature.num_frames_ready - 10
    return [np.append(*feature.get_frames(i, 10, i == last)) for i in (0, 5, last)]


def mel(knf: Any, warp: float = 1.0, **values: Any) -> Arrays:
    """Return mel filters, and energies by them."""
    banks = knf.MelBanks(knf.MelBanksOptions(**values), vtln_warp_factor=warp)
    return [banks.get_matrix(), banks.compute(np.linspace(0, 30, 257, dtype=np.float32))]


def stft(knf: Any, **values: Any) -> Arrays:
    """Return a spectrum, and the audio of it."""
    config = knf.StftConfig(n_fft=256, hop_length=64, win_length=256, **values)
    found = knf.Stft(config)(audio(1000).tolist())
    return [np.array(found.real), np.array(found.imag), np.array(knf.IStft(config)(found))[128:-128]]


def rfft(knf: Any, n: int) -> Arrays:
    """Return a spectrum, and the inverse of a spectrum."""
    samples = audio(n).tolist()
    return [np.array(knf.Rfft(n).compute(samples)), np.array(knf.Rfft(n, inverse=True).compute(samples))]


def windows(knf: Any) -> Arrays:
    """Return all windows, and a frame with a window."""
    kinds = ("hann", "hanning", "hamming", "povey", "rectangular", "blackman", "sine")
    made = [knf.FeatureWindowFunction(knf.FrameExtractionOptions(window_type=kind)) for kind in kinds]
    return [np.array([each.window for each in made]), np.array(made[0].apply(audio(410).tolist()))]


def features() -> npt.NDArray[np.float32]:
    """Return features (50, 6)."""
    return np.random.RandomState(1).randn(50, 6).astype(np.float32) * 3 + 1


def matrices(knf: Any) -> Arrays:
    """Return what the functions on features return."""
    accumulator = knf.CmvnAccumulator(6)
    accumulator.accumulate(features())
    accumulator.add(6, features()[3].tolist(), 0.5)
    stats = accumulator.stats
    normalized = [knf.apply_cmvn(stats, knf.CmvnOptions(norm_vars=a, reverse=b), features())
                  for a in (False, True) for b in (False, True)]  # fmt: skip
    transforms = [knf.FeatureTransform(np.arange(3 * n, dtype=np.float32).reshape(3, n) / 7) for n in (6, 7)]
    return [
        *(knf.compute_cmvn_stats(features()), stats, *normalized),
        *(knf.compute_deltas(knf.DeltaOptions(), features()), knf.compute_deltas(knf.DeltaOptions(1, 3), features())),
        *(knf.splice_frames(features()), knf.splice_frames(features(), knf.SpliceOptions(1, 2))),
        *(knf.transform_features(features(), each) for each in transforms),
    ]


def pitch(knf: Any, tracking: dict[str, Any], processing: dict[str, Any]) -> Arrays:
    """Return pitch features at once, and of chunks after each of them."""
    options = (
        knf.PitchExtractionOptions(**tracking),
        knf.ProcessPitchOptions(delta_pitch_noise_stddev=0, **processing),
    )
    samples = (audio(24000) * 32768).tolist()
    feature, found = knf.OnlinePitch(*options), [knf.compute_and_process_kaldi_pitch(*options, samples)]
    for first, end in ((0, 100), (100, 18000), (18000, 24000)):
        feature.accept_waveform(16000, samples[first:end])
        found.append(np.array([feature.get_frame(i) for i in range(feature.num_frames_ready)]))
    feature.input_finished()
    return [*found, np.array([feature.get_frame(i) for i in range(feature.num_frames_ready)])]


FORMS: dict[str, Callable[[Any], Arrays]] = {
    "defaults": fbank(),
    "icefall": fbank(mel_opts_num_bins=80, frame_opts_snip_edges=False, mel_opts_high_freq=-400.0),
    "hann": fbank(frame_opts_window_type="hann", frame_opts_remove_dc_offset=False, frame_opts_preemph_coeff=0.0),
    "energy": fbank(use_energy=True, frame_opts_round_to_power_of_two=False),
    "energy last": fbank(use_energy=True, htk_compat=True, raw_energy=False, energy_floor=1.0),
    "magnitudes": fbank(use_log_fbank=False, use_power=False),
    "nemo's log": fbank(use_log_floor=False, eps=2.0**-24, use_energy=True),
    "floor": fbank(eps=1e-3),
    "medasr": fbank(mel_opts_is_librosa=True, mel_opts_low_freq=125.0, mel_opts_high_freq=7500.0, mel_opts_num_bins=64),
    "librosa, htk": fbank(mel_opts_is_librosa=True, mel_opts_norm="", mel_opts_use_slaney_mel_scale=False),
    "librosa, floor": fbank(mel_opts_is_librosa=True, mel_opts_floor_to_int_bin=True, mel_opts_low_freq=0.0),
    "htk": fbank(mel_opts_htk_mode=True),
    "htk, linear": fbank(mel_opts_htk_mode=True, use_log_fbank=False),
    "blackman": fbank(frame_opts_window_type="blackman", frame_opts_frame_length_ms=30.5),
    "mfcc": mfcc(),
    "mfcc, no energy": mfcc(use_energy=False, num_ceps=20, mel_opts_num_bins=40, cepstral_lifter=0.0),
    "mfcc, librosa": mfcc(htk_compat=True, use_energy=False, mel_opts_is_librosa=True, mel_opts_low_freq=0.0),
    "whisper": functools.partial(online, "WhisperFbank", dim=128, frame_opts_dither=1.0),
    "whisper, defaults": functools.partial(online, "WhisperFbank"),
    "samples": functools.partial(online, "RawAudioSamples", frame_opts_frame_shift_ms=100.0),
    "samples, windowed": functools.partial(
        online, "RawAudioSamples", frame_opts_window_type="hann", frame_opts_frame_shift_ms=100.0,
        frame_opts_snip_edges=False, frame_opts_preemph_coeff=0.9, frame_opts_remove_dc_offset=True,
    ),
    # Options that only the projects in packages/standins/tests/toolkits use.
    "speaker models": fbank(mel_opts_num_bins=80),
    "funasr": fbank(mel_opts_num_bins=80, frame_opts_window_type="hamming"),
    "funasr, wenet": fbank(mel_opts_num_bins=80, frame_opts_window_type="hamming", frame_opts_snip_edges=False),
    "sherpa": fbank(mel_opts_num_bins=80, frame_opts_snip_edges=False),
    "wespeaker": fbank(mel_opts_num_bins=80, energy_floor=1.0),
    "nemo's models": fbank(
        frame_opts_remove_dc_offset=False, frame_opts_window_type="hann", mel_opts_low_freq=0.0, mel_opts_num_bins=128,
        mel_opts_is_librosa=True,
    ),
    "gigaam": fbank(
        frame_opts_remove_dc_offset=False, frame_opts_preemph_coeff=0.0, frame_opts_window_type="hann",
        frame_opts_round_to_power_of_two=False, mel_opts_low_freq=0.0, mel_opts_high_freq=8000.0, mel_opts_num_bins=64,
    ),
    "tele-speech": mfcc(
        mel_opts_low_freq=40.0, mel_opts_high_freq=-200.0, mel_opts_num_bins=40, num_ceps=40, use_energy=False
    ),
    "t-one": functools.partial(
        online, "RawAudioSamples", frame_opts_frame_length_ms=300.0, frame_opts_frame_shift_ms=300.0
    ),
    "nemo": nemo,
    "nemo, buffered": functools.partial(nemo, num_mel_bins=64, low_freq=50.0, preemph_coeff=0.0, buffered_capacity=10),
    "mel": mel,
    "mel, vtln": functools.partial(mel, warp=0.9, num_bins=40),
    "mel, librosa": functools.partial(mel, is_librosa=True, low_freq=0, num_bins=40),
    "stft": functools.partial(stft, window_type="hann", normalized=True),
    "stft, zeros": functools.partial(stft, pad_mode="constant"),
    "stft, window": functools.partial(stft, window=np.hamming(256).tolist(), center=False, pad_mode="replicate"),
    "rfft": functools.partial(rfft, n=64),
    "rfft of 10": functools.partial(rfft, n=10),
    "windows": windows,
    "matrices": matrices,
    "pitch": functools.partial(pitch, tracking={}, processing={}),
    "pitch, short": functools.partial(
        pitch, tracking={"recompute_frame": 40, "snip_edges": False}, processing={"add_raw_log_pitch": True, "delay": 2}
    ),
}  # fmt: skip


def stored(name: str) -> Arrays:
    """Return what the original returned."""
    with np.load(STORED) as file:
        return [file[each] for each in sorted(file.files) if each.rpartition("/")[0] == name]


def main() -> None:
    import kaldi_native_fbank

    found = {
        f"{name}/{i:02}": array for name, form in FORMS.items() for i, array in enumerate(form(kaldi_native_fbank))
    }
    single = {name: array.astype(np.float32) if array.size > 100 else array for name, array in found.items()}
    np.savez_compressed(STORED, **single)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
