"""API of ``torchaudio.compliance.kaldi``, with the original's names, arguments, defaults and return shapes.

Code written for torchaudio runs after a change of one import::

    import kaldi_standins.torchaudio as kaldi
    features = kaldi.fbank(waveform, num_mel_bins=80, sample_frequency=16000)

Beyond torchaudio, ``waveform`` may be a batch ``(B, channels, T)``, which gives ``(B, frames, dim)``, or a list of
``(channels, T)``, which gives a list. Samples may be int16, and :func:`plp` computes PLP features. Audio shorter than a
frame raises :class:`WaveformError`, an AssertionError, as in torchaudio. Options that Kaldi refuses raise
:class:`~kaldi_compat.errors.OptionError`, except that a mel bin without a bin of the FFT has the energy 0, as in
torchaudio (``allow_empty_bins``).

As in torchaudio, some defaults differ from Kaldi's: no dithering, ``energy_floor=1.0``, and no energy in MFCCs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Tuple, TypeVar  # noqa: F401, UP035  Public code imports Tuple from here.

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError
from kaldi_compat.exact import engine, mel
from kaldi_compat.functional.array_api import ask_compiler, is_traced_or_differentiated
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.spectral import FbankOptions, MfccOptions, PlpOptions
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.mfcc import Mfcc
from kaldi_compat.torch.features.plp import Plp
from kaldi_compat.torch.features.spectral import MelFeature, SpectralFeature
from kaldi_compat.torch.features.spectrogram import Spectrogram
from kaldi_standins.torchaudio_internals import (  # noqa: F401  Public code imports these names.
    BLACKMAN,
    EPSILON,
    HAMMING,
    HANNING,
    MILLISECONDS_TO_SECONDS,
    POVEY,
    RECTANGULAR,
    WINDOWS,
    _feature_window_function,
    _get_dct_matrix,
    _get_epsilon,
    _get_lifter_coeffs,
    _get_log_energy,
    _get_strided,
    _get_waveform_and_window_properties,
    _get_window,
    _next_power_of_2,
    _subtract_column_mean,
)

__all__ = [
    "fbank", "get_mel_banks", "inverse_mel_scale", "inverse_mel_scale_scalar", "mel_scale", "mel_scale_scalar",
    "mfcc", "plp", "spectrogram", "vtln_warp_freq", "vtln_warp_mel_freq",
]  # fmt: skip

Waveform = Tensor | Sequence[Tensor]
F = TypeVar("F", bound=Callable[..., Any])


# Types to which options are converted, because torchaudio accepts floats for integers, such as num_mel_bins=80.0, and
# any value for a flag, such as use_energy=1.
_TYPES = {
    field.name: type(field.default)
    for options in (FbankOptions, MfccOptions, PlpOptions)
    for field in dataclasses.fields(options)
}
_FEATURES: dict[str, type[SpectralFeature]] = {"fbank": Fbank, "mfcc": Mfcc, "plp": Plp, "spectrogram": Spectrogram}


@functools.lru_cache(maxsize=64)
def _get_module(feature: str, options: tuple[tuple[str, Any], ...], device: torch.device) -> SpectralFeature:
    """Return the module of ``feature`` with ``options``, pairs of names and values, on a device.

    Modules are cached, because creating one takes longer than computing a short utterance.
    """
    # Create the module in a new thread, outside of the caller's inference mode, gradients, tracing and transforms,
    # because later calls in other modes use the same module and its constants.
    with ThreadPoolExecutor(1) as thread:
        module = thread.submit(lambda: _FEATURES[feature](**dict(options)).to(device)).result()
    module._warns_of_scale = False  # As in torchaudio, audio may be on any scale.
    return module


class WaveformError(AudioError, AssertionError):
    """Error for a waveform of a wrong type or shape, without the channel, or shorter than a frame."""


def _convert_options(options: dict[str, Any]) -> dict[str, Any]:
    """Convert options to Python types, and adjust lengths and shifts of frames that Kaldi would round differently."""
    plain = {name: _convert_argument(name, value) for name, value in options.items()}
    rate = plain.get("sample_frequency", 16000.0)
    for name in ("frame_length", "frame_shift"):
        length = plain.get(name)
        if isinstance(length, (int, float)) and isinstance(rate, (int, float)) and 0 < rate * length < math.inf:
            # If an option is a tensor, torchaudio multiplies in the tensor's precision, which may change the size.
            samples = int(options.get("sample_frequency", 16000.0) * options[name] * MILLISECONDS_TO_SECONDS)
            if samples != int(as_float32(rate) * 0.001 * as_float32(length)):
                # Kaldi rounds down, so a quarter of a sample keeps rounding errors from removing a sample.
                plain[name] = (samples + 0.25) * 1000.0 / rate
    return plain


class _Compiled:
    """Holds, as attributes, the modules that compiled code uses."""


_compiled = _Compiled()
_attribute_names: dict[Any, str] = {}


def _register_compiled_module(feature: str, device: torch.device, vtln_warp: float, **options: Any) -> str:
    """Return the name of the attribute of ``_compiled`` that holds the module for these arguments. Add it if needed."""
    key = feature, tuple(options.items()), device
    if (key, vtln_warp) not in _attribute_names:
        module = _get_module(*key)
        if vtln_warp != 1 and isinstance(module, MelFeature):
            module = module._copy_for_warp(vtln_warp)
        name = f"{feature}{len(_attribute_names)}"
        setattr(_compiled, name, module)
        _attribute_names[key, vtln_warp] = name
    return _attribute_names[key, vtln_warp]


# torch.compile runs this function while it compiles, instead of tracing it. A compiler's constant cannot be a module,
# so the function returns a name. torch.compiler.assume_constant_result would set the same mark, but it imports the
# compiler, which takes a second.
_register_compiled_module._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _make_constant(value: Any) -> Any:
    """Return ``value``, with a float as a constant that even torch.compile(dynamic=True) does not make a variable."""
    return float.fromhex(value.hex()) if isinstance(value, float) else value


def _convert_argument(name: str, value: Any) -> Any:
    """Convert a scalar tensor or array to a number, a flag to bool, and a whole float to int for an integer option."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if _TYPES.get(name) is bool:
        return bool(value)
    return int(value) if _TYPES.get(name) is int and isinstance(value, float) and value.is_integer() else value


def _compute_feature(
    feature: str,
    waveform: Waveform,
    *,
    channel: int,
    min_duration: float,
    subtract_mean: bool,
    vtln_warp: float = 1.0,
    **options: Any,
) -> Any:
    """Compute ``feature``: "fbank", "mfcc", "plp" or "spectrogram".

    For the other arguments, the result and the errors, see :func:`spectrogram`.
    """
    if not isinstance(waveform, Tensor):
        options |= {"channel": channel, "min_duration": min_duration, "subtract_mean": subtract_mean}
        waveforms = _check_list_of_tensors(waveform)
        return [_compute_feature(feature, tensor, vtln_warp=vtln_warp, **options) for tensor in waveforms]
    if waveform.ndim not in (2, 3):
        raise WaveformError(
            f"waveform must have the shape (channels, T) or (B, channels, T), not {tuple(waveform.shape)}: for one "
            "channel, pass waveform.unsqueeze(0)"
        )
    is_compiled = ask_compiler(torch, "is_dynamo_compiling")
    if is_compiled:
        options = {name: _make_constant(value) for name, value in options.items()}
    size = int(options.get("sample_frequency", 16000.0) * options.get("frame_length", 25.0) * MILLISECONDS_TO_SECONDS)
    if waveform.shape[-1] < size:
        raise WaveformError(
            f"the waveform has fewer samples ({waveform.shape[-1]}) than a frame ({size}): skip or pad the audio"
        )
    options = _convert_options(options)
    if feature != "spectrogram":
        options = {"allow_empty_bins": True, **options}
    channel = max(int(channel), 0)
    if channel >= waveform.shape[-2]:
        raise WaveformError(f"channel={channel} does not exist: pass a channel from 0 to {waveform.shape[-2] - 1}")
    samples = waveform[..., channel, :]
    if samples.shape[-1] < min_duration * options.get("sample_frequency", 16000.0):
        return samples.new_empty(0, dtype=torch.float64 if samples.dtype == torch.float64 else torch.float32)
    # The utterances of a batch have the same length, so the mean that is subtracted contains no padding.
    features: Tensor
    if is_compiled:
        name = _register_compiled_module(feature, samples.device, _make_constant(vtln_warp), **options)
        features = getattr(_compiled, name)(samples)
    else:
        features = _get_module(feature, tuple(options.items()), samples.device)(samples, vtln_warp=vtln_warp)
    return _subtract_mean(features) if subtract_mean else features


def _check_list_of_tensors(waveforms: Any) -> list[Tensor]:
    """Return a list or tuple of tensors as a list. Raise :class:`WaveformError` for any other value."""
    if not isinstance(waveforms, list | tuple) or not all(isinstance(waveform, Tensor) for waveform in waveforms):
        raise WaveformError("the waveform must be a tensor or a list of tensors: convert arrays with torch.from_numpy")
    return list(waveforms)


def _subtract_mean(features: Tensor) -> Tensor:
    """Subtract each column's mean from features (..., frames, dim). A float32 CPU matrix is rounded as in Kaldi."""
    is_plain = features.ndim == 2 and features.dtype == torch.float32
    if is_plain and features.device.type == "cpu" and not is_traced_or_differentiated(features):
        return torch.from_numpy(engine.subtract_mean(features.numpy()))
    return features - features.mean(-2, keepdim=True)


def _implement_feature(function: F) -> F:
    """Decorate a function without a body so that it computes the feature that has the name of the function.

    The decorator collects the arguments by name, because torch.compile cannot trace ``locals()``.
    """
    feature, parameters = function.__name__, inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters]
    defaults = {parameter.name: parameter.default for parameter in parameters}

    @functools.wraps(function)
    def compute(*arguments: Any, **keywords: Any) -> Any:
        function(*arguments, **keywords)  # For wrong arguments, Python raises a TypeError here.
        return _compute_feature(feature, **{**defaults, **dict(zip(names, arguments, strict=False)), **keywords})

    return compute  # type: ignore[return-value]


@_implement_feature
def spectrogram(
    waveform: Waveform,
    blackman_coeff: float = 0.42,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    min_duration: float = 0.0,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    window_type: str = POVEY,
) -> Any:
    """Compute log power spectra like ``torchaudio.compliance.kaldi.spectrogram``.

    Args:
        waveform: audio on Kaldi's scale, ``(channels, T)``, ``(B, channels, T)``, or a list of ``(channels, T)``.
        channel: index of the channel. A negative index also selects the first channel.
        min_duration: duration in seconds. For shorter audio of at least one frame, the result is an empty tensor (0,).
        subtract_mean: True to subtract each column's mean.

    The other arguments are fields of :class:`~kaldi_compat.options.spectral.SpectrogramOptions`.

    Returns:
        Features ``(frames, dim)``, where ``dim`` is ``padded_window_size // 2 + 1``. For a batch, features
        ``(B, frames, dim)``. For a list of waveforms, a list of features.

    Raises:
        WaveformError: the channel does not exist, or the waveform has a wrong type or shape, or no whole frame.
        OptionError: the options are invalid in Kaldi.

    >>> import torch
    >>> from kaldi_standins import torchaudio as kaldi
    >>> kaldi.spectrogram(torch.zeros(1, 16000)).shape
    torch.Size([98, 257])
    """


@_implement_feature
def fbank(
    waveform: Waveform,
    blackman_coeff: float = 0.42,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    high_freq: float = 0.0,
    htk_compat: bool = False,
    low_freq: float = 20.0,
    min_duration: float = 0.0,
    num_mel_bins: int = 23,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    use_energy: bool = False,
    use_log_fbank: bool = True,
    use_power: bool = True,
    vtln_high: float = -500.0,
    vtln_low: float = 100.0,
    vtln_warp: float = 1.0,
    window_type: str = POVEY,
) -> Any:
    """Compute log-mel filter bank features like ``torchaudio.compliance.kaldi.fbank``.

    The features have ``num_mel_bins`` columns, and with ``use_energy`` a column of energies. For the shapes, the errors
    and the arguments, see :func:`spectrogram`. ``vtln_warp`` is the VTLN factor, and the other arguments are fields of
    :class:`~kaldi_compat.options.spectral.FbankOptions`.

    >>> import torch
    >>> from kaldi_standins import torchaudio as kaldi
    >>> kaldi.fbank(torch.zeros(1, 16000), num_mel_bins=80).shape
    torch.Size([98, 80])
    """


@_implement_feature
def mfcc(
    waveform: Waveform,
    blackman_coeff: float = 0.42,
    cepstral_lifter: float = 22.0,
    channel: int = -1,
    dither: float = 0.0,
    energy_floor: float = 1.0,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    high_freq: float = 0.0,
    htk_compat: bool = False,
    low_freq: float = 20.0,
    num_ceps: int = 13,
    min_duration: float = 0.0,
    num_mel_bins: int = 23,
    preemphasis_coefficient: float = 0.97,
    raw_energy: bool = True,
    remove_dc_offset: bool = True,
    round_to_power_of_two: bool = True,
    sample_frequency: float = 16000.0,
    snip_edges: bool = True,
    subtract_mean: bool = False,
    use_energy: bool = False,
    vtln_high: float = -500.0,
    vtln_low: float = 100.0,
    vtln_warp: float = 1.0,
    window_type: str = POVEY,
) -> Any:
    """Compute mel-frequency cepstral coefficients like ``torchaudio.compliance.kaldi.mfcc``.

    The features have ``num_ceps`` columns. See :func:`spectrogram` for the shapes, the errors and the arguments.
    ``vtln_warp`` is the VTLN factor, and the other arguments are fields of
    :class:`~kaldi_compat.options.spectral.MfccOptions`.

    >>> import torch
    >>> from kaldi_standins import torchaudio as kaldi
    >>> kaldi.mfcc(torch.zeros(2, 1, 16000)).shape
    torch.Size([2, 98, 13])
    """


def plp(
    waveform: Waveform,
    channel: int = -1,
    min_duration: float = 0.0,
    subtract_mean: bool = False,
    vtln_warp: float = 1.0,
    dither: float = 0.0,
    **options: Any,
) -> Any:
    """Compute perceptual linear prediction (PLP) cepstra like ``compute-plp-feats``. torchaudio has no such function.

    The features have ``num_ceps`` columns. See :func:`spectrogram` for the shapes, the errors and the arguments.
    ``vtln_warp`` is the VTLN factor, and ``options`` are other fields of
    :class:`~kaldi_compat.options.spectral.PlpOptions`, with Kaldi's defaults.

    >>> import torch
    >>> from kaldi_standins import torchaudio as kaldi
    >>> kaldi.plp(torch.zeros(1, 16000)).shape
    torch.Size([98, 13])
    """
    options |= {"channel": channel, "min_duration": min_duration, "subtract_mean": subtract_mean, "dither": dither}
    return _compute_feature("plp", waveform, vtln_warp=vtln_warp, **options)


def get_mel_banks(
    num_bins: int,
    window_length_padded: int,
    sample_freq: float,
    low_freq: float,
    high_freq: float,
    vtln_low: float,
    vtln_high: float,
    vtln_warp_factor: float,
) -> tuple[Tensor, Tensor]:
    """Return mel filters: weights ``(num_bins, window_length_padded // 2)`` and centers in Hz ``(num_bins, 1)``.

    Args:
        num_bins: number of filters.
        window_length_padded: number of points of the FFT. The weights leave out the last of its bins.
        sample_freq: sampling rate in Hz.
        low_freq, high_freq: edges of the filters in Hz. A ``high_freq`` of 0 or less is relative to the Nyquist
            frequency.
        vtln_low, vtln_high: cutoffs of the VTLN warp in Hz. A negative ``vtln_high`` is relative to the Nyquist
            frequency.
        vtln_warp_factor: VTLN factor.

    Raises:
        OptionError: there are fewer than three filters, or the frequencies are out of order or range.

    >>> from kaldi_standins.torchaudio import get_mel_banks
    >>> weights, centers = get_mel_banks(23, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0)
    >>> weights.shape, centers.shape
    (torch.Size([23, 256]), torch.Size([23, 1]))
    """
    options = {
        "num_mel_bins": num_bins,
        "sample_frequency": sample_freq,
        "frame_length": 1000.0 * window_length_padded / sample_freq,
        "low_freq": low_freq,
        "high_freq": high_freq,
        "vtln_low": vtln_low,
        "vtln_high": vtln_high,
    }
    plain = {name: _convert_argument(name, value) for name, value in options.items()}
    banks = mel.compute_mel_banks(
        FbankOptions(round_to_power_of_two=False, allow_empty_bins=True, **plain), float(vtln_warp_factor)
    )
    weights, centers = torch.tensor(banks.weights[:-1].T), torch.tensor(banks.centers)[:, None]
    return weights.to(torch.get_default_dtype()), centers.to(torch.get_default_dtype())


def resample_waveform(waveform: Tensor, orig_freq: int, new_freq: int, lowpass_filter_width: int = 6) -> Tensor:
    """Resample audio as torchaudio before 2.0 did, with a windowed sinc filter that differs from Kaldi's.

    Args:
        waveform: samples (channels, T).
        orig_freq, new_freq: sampling rates in Hz.
        lowpass_filter_width: number of zero crossings of the filter on each side.

    Returns:
        Samples (channels, ceil(T * new_freq / orig_freq)).

    Raises:
        OptionError: a rate or the width is invalid. The error is also a ValueError.
        TypeError: the samples are not floating point.

    >>> import torch
    >>> from kaldi_standins.torchaudio import resample_waveform
    >>> resample_waveform(torch.zeros(1, 441), 44100, 16000).shape
    torch.Size([1, 160])
    """
    from kaldi_standins.torchaudio_package.functional import resample  # Imported here to avoid a cycle.

    return resample(waveform, orig_freq, new_freq, lowpass_filter_width)


def _apply_in_float32(function: Callable[[Any], Any], x: Tensor) -> Tensor:
    """Apply a NumPy function of float32 arrays to ``x``. The result has the same device and type, but no gradient."""
    return torch.from_numpy(np.asarray(function(x.detach().cpu().float().numpy()))).to(x)


def mel_scale(freq: Tensor) -> Tensor:
    """Convert frequencies in Hz, of any shape, to mel, computed in float32 as in Kaldi and without a gradient.

    >>> import torch
    >>> from kaldi_standins.torchaudio import mel_scale
    >>> mel_scale(torch.tensor([0.0, 1000.0])).round().tolist()
    [0.0, 1000.0]
    """
    return _apply_in_float32(mel.convert_hertz_to_mel, freq)


def mel_scale_scalar(freq: float) -> float:
    """Convert one frequency in Hz to mel, in float32 as in Kaldi.

    >>> from kaldi_standins.torchaudio import mel_scale_scalar
    >>> round(mel_scale_scalar(1000.0))
    1000
    """
    return float(mel.convert_hertz_to_mel(np.float32(freq)))


def inverse_mel_scale(mel_freq: Tensor) -> Tensor:
    """Convert mel frequencies, of any shape, to Hz, computed in float32 as in Kaldi and without a gradient.

    >>> import torch
    >>> from kaldi_standins.torchaudio import inverse_mel_scale
    >>> inverse_mel_scale(torch.tensor([0.0, 1000.0])).round().tolist()
    [0.0, 1000.0]
    """
    return _apply_in_float32(mel.convert_mel_to_hertz, mel_freq)


def inverse_mel_scale_scalar(mel_freq: float) -> float:
    """Convert one mel frequency to Hz, in float32 as in Kaldi.

    >>> from kaldi_standins.torchaudio import inverse_mel_scale_scalar
    >>> round(inverse_mel_scale_scalar(1000.0))
    1000
    """
    return float(mel.convert_mel_to_hertz(np.float32(mel_freq)))


def vtln_warp_freq(
    vtln_low_cutoff: float,
    vtln_high_cutoff: float,
    low_freq: float,
    high_freq: float,
    vtln_warp_factor: float,
    freq: Tensor,
) -> Tensor:
    """Warp frequencies with the piecewise linear VTLN warp. No argument is relative to the Nyquist frequency.

    Args:
        vtln_low_cutoff, vtln_high_cutoff: cutoffs of the warp in Hz.
        low_freq, high_freq: edges of the filters in Hz.
        vtln_warp_factor: VTLN factor.
        freq: frequencies in Hz, of any shape.

    Returns:
        Warped frequencies in Hz, of the shape of ``freq``. Frequencies outside of the edges stay unchanged.

    Raises:
        OptionError: the warped cutoffs leave the range from ``low_freq`` to ``high_freq``.

    >>> import torch
    >>> from kaldi_standins.torchaudio import vtln_warp_freq
    >>> vtln_warp_freq(100.0, 7500.0, 20.0, 8000.0, 1.0, torch.tensor([1000.0])).tolist()
    [1000.0]
    """
    points = (low_freq, high_freq, vtln_low_cutoff, vtln_high_cutoff, vtln_warp_factor)
    return _apply_in_float32(mel.VtlnWarp(*(np.float32(value) for value in points)), freq)


def vtln_warp_mel_freq(
    vtln_low_cutoff: float,
    vtln_high_cutoff: float,
    low_freq: float,
    high_freq: float,
    vtln_warp_factor: float,
    mel_freq: Tensor,
) -> Tensor:
    """Warp mel frequencies ``mel_freq``, of any shape, with the VTLN warp, and return mel frequencies.

    See :func:`vtln_warp_freq` for the other arguments and the error.

    >>> import torch
    >>> from kaldi_standins.torchaudio import vtln_warp_mel_freq
    >>> vtln_warp_mel_freq(100.0, 7500.0, 20.0, 8000.0, 1.0, torch.tensor([1000.0])).round().tolist()
    [1000.0]
    """
    hertz = inverse_mel_scale(mel_freq)
    return mel_scale(vtln_warp_freq(vtln_low_cutoff, vtln_high_cutoff, low_freq, high_freq, vtln_warp_factor, hertz))
