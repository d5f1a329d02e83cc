"""Simulation of reverberation and noise (Kaldi: src/featbin/wav-reverberate.cc, src/feat/signal.cc).

NumPy arrays give Kaldi's samples bit for bit, in float32. Torch tensors use torch's FFT, on any device, with gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.convolution import choose_fft_points, convolved_in_c
from kaldi_compat.exact.fft import compute_packed_irfft, compute_packed_rfft
from kaldi_compat.exact.sums import compute_vector_sums
from kaldi_compat.functional.array_api import Array, arange, astype, convert_like, full, get_namespace, to_float64
from kaldi_compat.functional.checks import check_samples
from kaldi_compat.options.base import as_float32, make_options, takes_options
from kaldi_compat.options.constructors import ReverberationKeywords, Unpack
from kaldi_compat.options.postprocessing import ReverberationOptions

__all__ = ["AdditiveSignal", "add_noise", "convolve", "reverberate"]

# Time in seconds before the peak of the impulse response at which direct speech begins (Kaldi: wav-reverberate).
EARLY_BEFORE_PEAK = 0.001
# Time in seconds after the peak up to which reflections count as direct speech (Kaldi: wav-reverberate).
EARLY_AFTER_PEAK = 0.05
SAMPLES_LIMIT = 2**31  # Audio must have fewer samples, because Kaldi counts samples in 32-bit integers.
MIN_SNR = -3000.0  # Signal-to-noise ratio in dB. With a lower ratio, the power of the noise overflows a double.


@dataclass(frozen=True)
class AdditiveSignal:
    """Noise to add to a signal.

    Attributes:
        samples: ``(samples,)``, at the sampling rate of the signal.
        snr: signal-to-noise ratio in dB.
        start_time: start of the noise in the signal, in seconds.
    """

    samples: Any
    snr: float
    start_time: float = 0.0


def multiply_packed_spectra(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Multiply two packed spectra, which are pairs of real and imaginary parts ``(..., points / 2)``.

    The imaginary part of bin 0 holds the Nyquist bin, because both bins are real. Like Kaldi, this function multiplies
    the two bins as one complex number, which adds a constant and a tone at the Nyquist frequency to the product.
    """
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _compute_spectrum(signal: Array) -> tuple[Array, Array]:
    """Return the packed spectrum of a signal (..., points): real and imaginary part, each (..., points / 2).

    See :func:`multiply_packed_spectra`.
    """
    if isinstance(signal, np.ndarray):
        return compute_packed_rfft(signal)
    xp = get_namespace(signal)
    bins = xp.fft.rfft(signal)
    re: Array = bins.real[..., :-1]
    im: Array = xp.concatenate((bins.real[..., -1:], bins.imag[..., 1:-1]), axis=-1)
    return re, im


def _compute_signal(re: Array, im: Array) -> Array:
    """Return the signal (..., points) of a packed spectrum: see :func:`multiply_packed_spectra`."""
    points = 2 * re.shape[-1]
    if isinstance(re, np.ndarray):
        scaled: np.ndarray[Any, Any] = compute_packed_irfft(re, im) * np.float32(1.0 / points)
        return scaled
    xp = get_namespace(re)
    real = xp.concatenate((re, im[..., :1]), axis=-1)
    imaginary = xp.nn.functional.pad(im[..., 1:], (1, 1))
    signal: Array = xp.fft.irfft(xp.complex(real, imaginary), points)
    return signal


@convolved_in_c
def convolve(signal: Array, taps: Array) -> Array:
    """Convolve a signal and a filter by FFT, block by block with overlap-add (Kaldi: FFTbasedBlockConvolveSignals).

    As in Kaldi, each block gets a constant and a tone at the Nyquist frequency (:func:`multiply_packed_spectra`).

    Args:
        signal: ``(..., samples)``, float32 (or float64 in torch).
        taps: ``(taps,)``: the filter.

    Returns:
        The whole convolution, ``(..., samples + taps - 1)``.

    >>> import numpy as np
    >>> from kaldi_compat.functional.reverberate import convolve
    >>> convolve(np.ones(1000, np.float32), np.ones(9, np.float32)).shape
    (1008,)
    """
    xp = get_namespace(signal)
    *batch, sample_count = signal.shape
    length = sample_count + taps.shape[0] - 1
    points = choose_fft_points(taps.shape[0])  # Kaldi's size of the FFT, on which the rounding depends.
    step = points - taps.shape[0] + 1  # Number of input samples in a block.
    block_count = -(-length // step)

    padded = xp.concatenate((signal, full((*batch, block_count * step - sample_count), 0.0, signal)), axis=-1)
    steps = padded.reshape(*batch, block_count, step)
    inputs = xp.concatenate((steps, full((*batch, block_count, points - step), 0.0, signal)), axis=-1)
    padded_taps = xp.concatenate((taps, full((points - taps.shape[0],), 0.0, taps)), axis=-1)
    out = _compute_signal(*multiply_packed_spectra(_compute_spectrum(padded_taps), _compute_spectrum(inputs)))

    # The tail of a block overlaps the start of the next block, to which it is added.
    zeros = full((*batch, block_count + 1, step), 0.0, signal)
    heads = xp.concatenate((out[..., :step], zeros[..., :1, :]), axis=-2)
    tails = xp.concatenate((out[..., step:], zeros[..., 1:, points - step :]), axis=-1)
    output_blocks = heads + xp.concatenate((zeros[..., :1, :], tails), axis=-2)
    result: Array = output_blocks.reshape(*batch, -1)[..., :length]
    return result


def compute_power(signal: Array) -> Array:
    """Return the mean square ``(..., 1)`` of the samples of a signal ``(..., samples)``."""
    energy: Any
    if isinstance(signal, np.ndarray):
        # Squares are added in the order of Kaldi's BLAS, which decides the last digit of the scaled samples.
        rows = signal.reshape(-1, signal.shape[-1])
        energy = np.array([compute_vector_sums(row)[0] for row in rows], signal.dtype).reshape(*signal.shape[:-1], 1)
    else:
        energy = astype((to_float64(signal) ** 2).sum(-1, keepdim=True), signal.dtype)
    mean: Array = energy / full((), float(signal.shape[-1]), signal)
    return mean


def extract_early_part(impulse_response: Array, sample_frequency: float) -> Array:
    """Return the taps of an impulse response (taps,) from 1 ms before the highest tap to 50 ms after the highest tap.

    The highest tap is the direct sound (Kaldi: ComputeEarlyReverbEnergy). ``sample_frequency`` is the sampling rate of
    the impulse response in Hz.
    """
    rate, peak = np.float32(sample_frequency), int(impulse_response.argmax())
    start = max(0, int(np.float32(peak) - np.float32(EARLY_BEFORE_PEAK) * rate))
    end = int(np.float32(peak) + np.float32(EARLY_AFTER_PEAK) * rate)
    return impulse_response[start:end]


def add_noise(signal: Array, noise: AdditiveSignal, signal_power: Array, sample_frequency: float) -> Array:
    """Add noise to a signal at a signal-to-noise ratio, as Kaldi's wav-reverberate does.

    Noise past the end of the signal is cut off.

    Args:
        signal: ``(..., samples)``.
        noise: the noise, its level and its start.
        signal_power: ``(..., 1)``: power of the speech, to which the signal-to-noise ratio refers.
        sample_frequency: sampling rate of the signal in Hz.

    Returns:
        Signal of the same shape and dtype.

    Raises:
        AudioError: the noise is empty or not 1-D, starts a sample or more before the signal, or has an SNR that is NaN
            or at most :data:`MIN_SNR`.

    >>> import numpy as np
    >>> from kaldi_compat.functional.reverberate import AdditiveSignal, add_noise
    >>> noise = AdditiveSignal(np.ones(2, np.float32), snr=0.0, start_time=1 / 16000)
    >>> add_noise(np.full(4, 2.0, np.float32), noise, np.float32([4.0]), 16000.0).round(3).tolist()
    [2.0, 4.0, 4.0, 2.0]
    """
    xp = get_namespace(signal)
    samples = astype(convert_like(noise.samples, signal), signal.dtype)
    start = convert_seconds_to_samples(noise.start_time, sample_frequency)
    if samples.ndim != 1 or samples.shape[0] == 0:
        raise AudioError(f"noise must have the shape (samples,), not {tuple(samples.shape)}: pass one nonempty channel")
    if not start > -1:
        raise AudioError(f"a noise starts at {noise.start_time:g} s, before the signal: let it start at 0 s or later")
    if not noise.snr > MIN_SNR:
        raise AudioError(f"a noise has a signal-to-noise ratio of {noise.snr:g} dB: choose more than {MIN_SNR:g} dB")
    offset = int(min(start, signal.shape[-1]))
    noise_power = compute_power(samples) + full((), float(np.finfo(np.float32).eps), samples)
    target_power = 10.0 ** float(np.float32(-noise.snr) / np.float32(10)) * to_float64(signal_power)
    scale = astype(xp.sqrt(target_power / to_float64(noise_power)), signal.dtype)
    # The noise may start past the signal's end, and end before it, so it is gathered by index.
    indices = arange(0, signal.shape[-1], signal) - offset  # Index of the noise sample that is added to each sample.
    has_noise = (indices >= 0) & (indices < samples.shape[0])
    scaled_noise = (samples * scale)[..., xp.clip(indices, 0, samples.shape[0] - 1)]
    mixed: Array = signal + xp.where(has_noise, scaled_noise, full((), 0.0, signal))
    return mixed


def convert_seconds_to_samples(seconds: float, sample_frequency: float) -> float:
    """Return ``seconds * sample_frequency`` as Kaldi computes it in float32. The result is infinite on overflow."""
    with np.errstate(over="ignore"):
        return float(np.float32(seconds) * np.float32(sample_frequency))


@takes_options(ReverberationOptions)
def reverberate(
    signal: Array,
    sample_frequency: float,
    impulse_response: Array | None = None,
    additive: Sequence[AdditiveSignal] = (),
    options: ReverberationOptions | None = None,
    *,
    rir_frequency: float | None = None,
    **changes: Unpack[ReverberationKeywords],
) -> Array:
    """Convolve a signal with a room impulse response, add noises, and scale (Kaldi: wav-reverberate).

    Args:
        signal: ``(..., samples)``, float32, NumPy or torch.
        sample_frequency: sampling rate of the signal in Hz.
        impulse_response: ``(taps,)``, on the scale -1 to 1 (Kaldi: 16-bit samples / 32768); None for no reverberation.
        additive: noises; their signal-to-noise ratios refer to the speech with its early reflections.
        options, changes: length and level of the output, as ``ReverberationOptions`` or by name (default: Kaldi's).
        rir_frequency: sampling rate in Hz of the impulse response, which is not resampled, as in Kaldi; None if equal.

    Returns:
        ``(..., samples)``, or a different length with ``duration`` or ``shift_output=False``. Without noise, a silent
        signal stays silent.

    Raises:
        AudioError: the signal or the impulse response is empty or has a wrong shape, the signal has unsigned or 8-bit
            integers, a noise is invalid, or the duration is out of range.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.reverberate import reverberate
    >>> reverberate(np.array([1.0, -2.0, 3.0], np.float32), 16000.0, volume=2.0).tolist()
    [2.0, -4.0, 6.0]
    """
    options = make_options("reverberate", ReverberationOptions, options, changes)
    xp = get_namespace(signal)
    check_samples(signal)
    sample_count = signal.shape[-1]
    if impulse_response is not None and impulse_response.ndim != 1:
        raise AudioError(f"the impulse response must have one channel, not the shape {tuple(impulse_response.shape)}")
    if sample_count == 0 or (impulse_response is not None and impulse_response.shape[0] == 0):
        raise AudioError("the signal or the impulse response is empty: pass at least one sample")
    if isinstance(signal, np.ndarray):
        signal = astype(signal, np.float32)
    power_before = speech_power = compute_power(signal)
    shift, num_taps = 0, 0
    if impulse_response is not None:
        impulse_response = astype(impulse_response, signal.dtype)
        num_taps = impulse_response.shape[0]
        speech_power = compute_power(
            convolve(signal, extract_early_part(impulse_response, rir_frequency or sample_frequency))
        )
        signal = convolve(signal, impulse_response)
        shift = int(impulse_response.argmax()) if options.shift_output else 0
    for noise in additive:
        signal = add_noise(signal, noise, speech_power, sample_frequency)

    # Kaldi stores both options in single precision, in which 1e-46 is 0.
    volume, duration = as_float32(options.volume), as_float32(options.duration)
    if volume > 0:
        signal = signal * volume
    elif options.normalize_output:
        power_after = compute_power(signal)
        is_silent = power_after == 0
        one = full((), 1.0, signal)
        ratio = xp.where(is_silent, one, power_before) / xp.where(is_silent, one, power_after)
        signal = signal * xp.sqrt(ratio)

    if duration > 0:
        length = convert_seconds_to_samples(duration, sample_frequency)
        if not 1 <= length < SAMPLES_LIMIT:
            raise AudioError(
                f"duration={options.duration:g} s is {length:g} samples: expected 1 to {SAMPLES_LIMIT - 1}"
            )
        num_samples = int(length)
    else:
        # Kaldi computes the number of outputs in single precision, and may drop or repeat samples beyond 2**24 samples.
        num_samples = int(np.float32(sample_count if options.shift_output else sample_count + num_taps - 1))
    if num_samples <= sample_count:
        return signal[..., shift : shift + num_samples]
    # Kaldi extends the output past the length of the input by repeating the signal, even without reverberation.
    repeated: Array = xp.concatenate([signal[..., shift : shift + sample_count]] * -(-num_samples // sample_count), -1)
    return repeated[..., :num_samples]
