"""Name the call of another library that computes an explained array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kaldi_explain.models import FeatureModel
from kaldi_explain.options import DB_80, SPEECH_FEATURES

DECIBELS, WHISPER = "decibels (10 log10)", "(x + 4) / 4 of logarithms to base 10, as in Whisper"
# Maps mel filters of a model to the arguments of librosa.filters.mel that give them.
LIBROSA_FILTERS: dict[str, dict[str, Any]] = {
    "slaney": {}, "slaney-height": {"norm": None}, "hertz": {"htk": True, "norm": None}, "htk-area": {"htk": True},
}  # fmt: skip


def describe_library_call(model: FeatureModel, unit: float, steps: Sequence[str]) -> str:
    """Return the call of librosa, torchaudio, transformers or python_speech_features that computes an explained array.

    The array contains the features of ``model`` after the steps that ``steps`` describe, such as "transposed". ``unit``
    is the factor that scales the recording's samples to -1 to 1. In the call, ``y`` and ``waveform`` are the scaled
    samples, and ``samples`` are the unscaled samples. Return "" if no such call is known.
    """
    # Only python_speech_features takes unscaled samples and returns (frames, columns), not (columns, frames).
    if not steps and model.scale == 1:
        return _describe_speech_features_call(model)
    other_steps = [step for step in steps if step != "transposed"]
    if "transposed" not in steps or len(other_steps) > 1 or not _has_library_spectra(model, unit):
        return ""
    has_librosa_range = all(getattr(model, name) == value for name, value in DB_80.items())
    step = other_steps[0] if other_steps else ""
    if model.kind == "spectrogram":
        return _describe_spectrogram_call(model) if model.bins in ("power", "magnitude") and not step else ""
    if model.kind == "fbank":
        return _describe_filter_bank_call(model, step, has_librosa_range)
    # Like Kaldi, librosa and torchaudio use the power and an orthonormal DCT, but they have no energy and no lifter.
    has_variation = model.magnitudes or model.get("use_energy") or model.get("cepstral_lifter") or model.dct != "kaldi"
    return _describe_cepstra_call(model) if not has_variation and has_librosa_range and step == DECIBELS else ""


def _has_library_spectra(model: FeatureModel, unit: float) -> bool:
    """Return True if librosa and torchaudio can compute a model's spectra from the recording's samples times ``unit``.

    Their spectra have periodic Hann windows, and neither preemphasis nor DC removal. In addition, the model must have
    no VTLN factor, no numbers added to energies or power, and neither a mel scale nor frames that these libraries lack.
    """
    has_preparation = model.get("preemphasis_coefficient") or model.get("remove_dc_offset") or model.whole
    # The mel scale of HTK and of Kaldi is proportional to ln(1 + f / 700).
    has_variation = model.scale != unit or model.warp != 1 or model.corner != 700 or model.added or model.root
    has_hann_window = (model.get("window_type"), model.window) == ("hanning", "periodic")
    return not (has_preparation or has_variation) and has_hann_window and _get_pad_mode(model) is not None


def _get_pad_mode(model: FeatureModel) -> str | None:
    """Return librosa's ``pad_mode`` for a model's frames: "" for no padding, or None for frames that librosa lacks."""
    # librosa's frames are as long as the FFT, with the window in their middle. The paddings "inside" and "...-window"
    # belong to such frames, and the others only if the window is as long as the FFT.
    is_window_as_long_as_fft = model.size == model.fft_points
    if model.padding == "inside" or (not model.padding and model.get("snip_edges") and is_window_as_long_as_fft):
        return ""
    mode, _, suffix = model.padding.partition("-")
    is_centered = mode in ("constant", "reflect") and (suffix == "window" or (not suffix and is_window_as_long_as_fft))
    return mode if is_centered else None


def _format_arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _make_frame_arguments(model: FeatureModel, default_mode: str) -> dict[str, Any]:
    """Return librosa's and torchaudio's arguments for frames. Leave out ``pad_mode`` if it is ``default_mode``."""
    mode, arguments = _get_pad_mode(model), {"n_fft": model.fft_points, "hop_length": model.shift}
    if model.size != model.fft_points:
        arguments["win_length"] = model.size
    if mode == "":
        return arguments | {"center": False}
    return arguments | ({"pad_mode": mode} if mode != default_mode else {})


def _make_edge_arguments(model: FeatureModel, low_name: str, high_name: str) -> dict[str, Any]:
    """Return filter edges in Hz, named ``low_name`` and ``high_name``. Leave out the defaults: 0 and half the rate."""
    arguments = {low_name: model.get("low_freq")} if model.get("low_freq") else {}
    high, nyquist = model.get("high_freq"), model.rate / 2
    high = high if high > 0 else nyquist + high  # In Kaldi, 0 or less is an offset from the Nyquist frequency.
    return arguments | ({high_name: high} if high != nyquist else {})


def _has_torchaudio_defaults(model: FeatureModel) -> bool:
    """Return True if a model has torchaudio's default padding and, unless it is a spectrogram, default mel filters."""
    return _get_pad_mode(model) == "reflect" and (model.kind == "spectrogram" or model.mel == "hertz")


def _describe_spectrogram_call(model: FeatureModel) -> str:
    """Return the call of torchaudio, or else of librosa, that computes a model's power or magnitude spectrogram."""
    is_power = model.bins == "power"
    if _has_torchaudio_defaults(model):
        arguments = _make_frame_arguments(model, "reflect") | ({} if is_power else {"power": 1.0})
        return f"torchaudio.transforms.Spectrogram({_format_arguments(arguments)})(waveform)"
    arguments = _make_frame_arguments(model, "constant")
    return f"np.abs(librosa.stft(y, {_format_arguments(arguments)})){' ** 2' * is_power}"


def _describe_filter_bank_call(model: FeatureModel, step: str, has_librosa_range: bool) -> str:
    """Return the call that computes a model's mel energies or their logarithms, or "" if no library has such a call.

    ``step`` is :data:`DECIBELS`, :data:`WHISPER`, another description of the only step after the features, or "".
    ``has_librosa_range`` is True if the features have librosa's floor, and are at least their maximum minus 80 dB.
    """
    is_power, bins, rate = model.get("use_power"), model.get("num_mel_bins"), int(model.rate)
    if model.mel not in LIBROSA_FILTERS or model.get("use_energy"):
        return ""
    has_whisper_frames = (model.fft_points, model.shift, _get_pad_mode(model)) == (400, 160, "reflect")
    if model.get("use_log_fbank") and step == WHISPER and has_librosa_range and has_whisper_frames:
        return f"transformers.WhisperFeatureExtractor(feature_size={bins})(y, sampling_rate={rate})"
    is_decibels = model.get("use_log_fbank") and step == DECIBELS and has_librosa_range and is_power
    if not is_decibels and (model.get("use_log_fbank") or step):
        return ""
    power_argument = {} if is_power else {"power": 1.0}
    if _has_torchaudio_defaults(model) and not is_decibels:
        arguments = _make_frame_arguments(model, "reflect") | _make_edge_arguments(model, "f_min", "f_max")
        arguments |= {"n_mels": bins} | power_argument
        return f"torchaudio.transforms.MelSpectrogram({rate}, {_format_arguments(arguments)})(waveform)"
    arguments = _make_librosa_arguments(model) | power_argument
    call = f"librosa.feature.melspectrogram(y=y, sr={rate}, {_format_arguments(arguments)})"
    return f"librosa.power_to_db({call})" if is_decibels else call


def _make_librosa_arguments(model: FeatureModel) -> dict[str, Any]:
    """Return the keyword arguments of librosa's ``melspectrogram`` and ``mfcc`` for a model's frames and filters."""
    frames, edges = _make_frame_arguments(model, "constant"), _make_edge_arguments(model, "fmin", "fmax")
    return frames | {"n_mels": model.get("num_mel_bins")} | edges | LIBROSA_FILTERS[model.mel]


def _describe_cepstra_call(model: FeatureModel) -> str:
    """Return the call of torchaudio or librosa for a model's cepstra, or "" if they lack the filters or put C0 last."""
    dim, rate = model.get("num_ceps"), int(model.rate)
    if model.mel not in LIBROSA_FILTERS or model.get("htk_compat"):
        return ""
    if _has_torchaudio_defaults(model):
        arguments = _make_frame_arguments(model, "reflect") | _make_edge_arguments(model, "f_min", "f_max")
        arguments |= {"n_mels": model.get("num_mel_bins")}
        return f"torchaudio.transforms.MFCC({rate}, n_mfcc={dim}, melkwargs={arguments})(waveform)"
    return f"librosa.feature.mfcc(y=y, sr={rate}, n_mfcc={dim}, {_format_arguments(_make_librosa_arguments(model))})"


def _describe_speech_features_call(model: FeatureModel) -> str:
    """Return the call of python_speech_features with default frames, preemphasis and upper edge, or "" if none fits."""
    defaults = SPEECH_FEATURES | {"frame_length": 25.0, "frame_shift": 10.0, "preemphasis_coefficient": 0.97}
    defaults |= {"high_freq": 0.0, "warp": 1.0}
    if any(model.get(name) != value for name, value in defaults.items()):
        return ""
    bins, rate = model.get("num_mel_bins"), int(model.rate)
    arguments = {"samplerate": rate, "nfilt": bins, "nfft": model.fft_points}
    if model.kind == "fbank" and model.get("use_log_fbank") and not model.get("use_energy"):
        return f"python_speech_features.logfbank(samples, {_format_arguments(arguments)})"
    if model.kind != "mfcc" or model.get("cepstral_lifter") != 22 or model.dct != "kaldi":  # The default lifter is 22.
        return ""
    arguments |= {"numcep": model.get("num_ceps"), "appendEnergy": model.get("use_energy")}
    return f"python_speech_features.mfcc(samples, {_format_arguments(arguments)})"
