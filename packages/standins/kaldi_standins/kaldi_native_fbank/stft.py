"""Fourier transforms. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.options.base import require
from kaldi_standins.kaldi_native_fbank.online import Samples, to_samples
from kaldi_standins.kaldi_native_fbank.options import StftConfig
from kaldi_standins.kaldi_native_fbank.plans import make_window

BLOCK_FRAMES = 256  # Number of spectra that are converted at once, which bounds the memory.
# Maps pad_mode to the mode of numpy.pad. Any other pad_mode adds zeros.
PADDING: dict[str, Literal["reflect", "edge"]] = {"reflect": "reflect", "replicate": "edge"}


class Rfft:
    """FFT of ``n`` real samples, or the inverse FFT times ``n``.

    A spectrum is a list of ``n`` numbers: the real parts of the bins 0 and n / 2, then the real and imaginary parts of
    the bins 1 to n / 2 - 1.

    Args:
        n: number of samples, which must be even.
        inverse: True for the inverse FFT.

    Raises:
        OptionError: ``n`` is odd or not positive.

    >>> from kaldi_standins.kaldi_native_fbank import Rfft
    >>> Rfft(4).compute([1.0, 2.0, 3.0, 4.0])
    [10.0, -2.0, -2.0, 2.0]
    """

    def __init__(self, n: int, inverse: bool = False) -> None:
        require(n > 0, f"n must be positive, not {n}")
        require(n % 2 == 0, f"n should be even. Given: {n}")
        self._n, self._inverse = n, inverse

    def compute(self, d: Samples) -> list[float]:
        """Return the spectrum of the samples ``d``, or with ``inverse``, ``n`` times the samples of the spectrum ``d``.

        Raises:
            AudioError: ``d`` does not have ``n`` numbers.
            WrongOptionError: ``d`` is not a sequence of numbers. The error is also a TypeError.
        """
        values = to_samples(d).astype(np.float64)
        if len(values) != self._n:
            raise AudioError(f"expected n={self._n} numbers, not {len(values)}: pass one frame")
        if self._inverse:
            unpacked = np.zeros(self._n + 2)
            unpacked[: self._n] = values
            unpacked[1], unpacked[self._n] = 0, values[1]
            return round_to_list(np.fft.irfft(unpacked.view(np.complex128), self._n, norm="forward"))
        spectrum = np.fft.rfft(values)
        packed = round_to_list(spectrum.view(np.float64))
        packed[1] = packed[-2]  # The bins 0 and n / 2 are real. Bin n / 2 replaces the imaginary part of bin 0.
        del packed[-2:]
        return packed


def round_to_list(values: npt.NDArray[Any]) -> list[float]:
    """Round numbers to single precision, and return them as a list."""
    numbers: list[float] = values.astype(np.float32, copy=False).tolist()
    return numbers


class StftResult:
    """Spectra of frames.

    Args:
        real, imag: real and imaginary parts of the spectra, ``num_frames * (n_fft // 2 + 1)`` numbers, frame by frame.
        num_frames: number of frames.

    >>> from kaldi_standins.kaldi_native_fbank import StftResult
    >>> StftResult([1.0, 2.0, 3.0], [0.0, 1.0, 0.0], 1).real
    [1.0, 2.0, 3.0]
    """

    def __init__(self, real: Samples, imag: Samples, num_frames: int) -> None:
        self._real, self._imag, self._num_frames = to_samples(real), to_samples(imag), num_frames

    @property
    def real(self) -> list[float]:
        """Real parts, frame by frame."""
        return round_to_list(self._real)

    @property
    def imag(self) -> list[float]:
        """Imaginary parts, frame by frame."""
        return round_to_list(self._imag)

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return self._num_frames

    def iterate_spectra(self, bins: int) -> Iterator[npt.NDArray[np.complex64]]:
        """Yield the spectra in blocks (frames, bins) of at most ``BLOCK_FRAMES`` frames.

        Raise :class:`AudioError` if the result does not have ``num_frames`` times ``bins`` numbers.
        """
        size = self._num_frames * bins
        if not len(self._real) == len(self._imag) == size:
            shown = f"{len(self._real)} real and {len(self._imag)} imaginary parts"
            raise AudioError(f"num_frames={self._num_frames} needs {size} real and {size} imaginary parts, not {shown}")
        for first in range(0, size, BLOCK_FRAMES * bins):
            block = np.empty(min(BLOCK_FRAMES * bins, size - first), np.complex64)
            block.real, block.imag = (part[first : first + len(block)] for part in (self._real, self._imag))
            yield block.reshape(-1, bins)


def check_config(config: StftConfig) -> tuple[StftConfig, Floats]:
    """Check a configuration, and return a copy of it and its window (n_fft,), float32.

    As in kaldi-native-fbank, a shorter window is followed by ones. Raise OptionError if the window is unknown or has
    more than ``n_fft`` samples, ``n_fft`` is not positive and even, or ``hop_length`` is not positive.
    """
    require(config.n_fft > 0, f"n_fft must be positive, not {config.n_fft}")
    require(config.n_fft % 2 == 0, f"n_fft should be even. Given: {config.n_fft}")
    require(config.hop_length > 0, f"hop_length must be positive, not {config.hop_length}")
    window = np.ones(config.n_fft, np.float32)
    unpadded = np.array(config.window, np.float32)
    if not len(unpadded) and config.window_type:
        unpadded = make_window(config.window_type, config.win_length)
    require(
        len(unpadded) <= len(window),
        f"the window has {len(unpadded)} samples, more than n_fft={config.n_fft}: shorten the window or increase n_fft",
    )
    window[: len(unpadded)] = unpadded
    return replace(config), window


def compute_spectra(
    config: StftConfig, window: Floats, samples: Floats, max_frames: int | None = None
) -> npt.NDArray[np.complex64]:
    """Return the complex spectra (frames, n_fft // 2 + 1) of the whole frames of ``samples`` (T,).

    ``config`` and ``window`` (n_fft,) come from :func:`check_config`. ``config`` selects padding and normalization. If
    ``max_frames`` is not None, only the first ``max_frames`` frames are computed. Raise AudioError if the audio with
    its padding is shorter than a frame, or is empty and cannot be padded.
    """
    if config.center:
        samples = _pad_samples(samples, config.n_fft // 2, config.pad_mode)
    if len(samples) < config.n_fft:
        raise AudioError(
            f"the audio has fewer samples ({len(samples)}) than a frame of n_fft={config.n_fft}: "
            "pass longer audio, or reduce n_fft"
        )
    count = (len(samples) - config.n_fft) // config.hop_length + 1
    shape = count if max_frames is None else min(count, max_frames), config.n_fft
    samples = np.ascontiguousarray(samples)
    frames = np.ndarray(shape, np.float32, samples, strides=(4 * config.hop_length, 4))  # In bytes.
    # Compute in double precision, because NumPy's real transforms of float32 take seven times as long.
    windowed = (frames * window).astype(np.float64, copy=False)
    return np.fft.rfft(windowed, norm="ortho" if config.normalized else "backward").astype(np.complex64)


def _pad_samples(samples: Floats, size: int, mode: str) -> Floats:
    """Return audio (T,) with ``size`` more samples at each end: zeros, or repeated samples if ``mode`` is in PADDING.

    Raise :class:`AudioError` if there are no samples to repeat.
    """
    if mode in PADDING:
        if not len(samples):
            raise AudioError(f"empty audio cannot be padded by pad_mode={mode!r}: pass at least one sample")
        return np.pad(samples, size, mode=PADDING[mode])
    padded = np.zeros(len(samples) + 2 * size, np.float32)
    padded[size : size + len(samples)] = samples
    return padded


class Stft:
    """Short-time Fourier transform of audio. Call an instance with samples (T,) for a :class:`StftResult`.

    Args:
        config: the options.

    Raises:
        OptionError: the window is unknown or longer than ``n_fft``, ``n_fft`` is not positive and even, or
            ``hop_length`` is not positive.

    >>> from kaldi_standins.kaldi_native_fbank import Stft, StftConfig
    >>> Stft(StftConfig(4, 2, 4))([1.0, 2.0, 3.0, 4.0]).num_frames
    3
    """

    def __init__(self, config: StftConfig) -> None:
        self._config, self._window = check_config(config)

    def __call__(self, input: Samples) -> StftResult:
        """Compute the spectra of audio (T,).

        Raises:
            AudioError: the audio with its padding is shorter than a frame, or is empty and cannot be padded.
            WrongOptionError: the audio is not a sequence of numbers. The error is also a TypeError.
        """
        result = compute_spectra(self._config, self._window, to_samples(input).astype(np.float32, copy=False))
        return StftResult(result.real.ravel(), result.imag.ravel(), len(result))

    compute = __call__


class IStft:
    """The inverse of :class:`Stft`, which sums windowed frames and divides by the sum of the squared windows.

    Args:
        config: the options.

    Raises:
        OptionError: the window is unknown or longer than ``n_fft``, ``n_fft`` is not positive and even, or
            ``hop_length`` is not positive.

    >>> from kaldi_standins.kaldi_native_fbank import IStft, Stft, StftConfig
    >>> config = StftConfig(4, 2, 4)
    >>> IStft(config)(Stft(config)([1.0, 2.0, 3.0, 4.0]))
    [1.0, 2.0, 3.0, 4.0]
    """

    def __init__(self, config: StftConfig) -> None:
        self._config, self._window = check_config(config)

    def __call__(self, stft_result: StftResult) -> list[float]:
        """Return the audio (T,) of ``stft_result``, without the padding that ``center`` adds.

        Raises:
            AudioError: the result does not have ``num_frames`` spectra.
        """
        config, count = self._config, stft_result.num_frames
        size = config.n_fft + (count - 1) * config.hop_length if count else 0
        samples, weights = np.zeros(size, np.float32), np.zeros(size, np.float32)
        squared_window, start = self._window**2, 0
        for block in stft_result.iterate_spectra(config.n_fft // 2 + 1):
            for frame in np.fft.irfft(block, config.n_fft, norm="ortho" if config.normalized else None) * self._window:
                samples[start : start + config.n_fft] += frame
                weights[start : start + config.n_fft] += squared_window
                start += config.hop_length
        weights[weights == 0] = 1
        samples /= weights
        trim_size = config.n_fft // 2 if config.center else 0
        return round_to_list(samples[trim_size : max(size - trim_size, trim_size)])

    compute = __call__
