"""Mel filters and windows. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.librosa_mel import convert_hertz_to_slaney_mel, convert_slaney_mel_to_hertz
from kaldi_compat.exact.mel import convert_hertz_to_mel, convert_mel_to_hertz
from kaldi_standins.kaldi_native_fbank.online import to_samples
from kaldi_standins.kaldi_native_fbank.options import FrameExtractionOptions, MelBanksOptions
from kaldi_standins.kaldi_native_fbank.plans import make_filters, make_frame_options, make_window


class MelBanks:
    """Triangular mel filters.

    Args:
        opts: options of the filters. None for the defaults.
        frame_opts: options that determine the sampling rate and the number of points of the FFT. None for the defaults.
        vtln_warp_factor: VTLN warp factor. 1.0 leaves the filters unwarped.

    Raises:
        OptionError: Kaldi refuses a value.

    >>> from kaldi_standins.kaldi_native_fbank import MelBanks
    >>> MelBanks().get_matrix().shape
    (25, 257)
    """

    def __init__(
        self,
        opts: MelBanksOptions | None = None,
        frame_opts: FrameExtractionOptions | None = None,
        vtln_warp_factor: float = 1.0,
    ) -> None:
        opts = opts or MelBanksOptions()
        values = (frame_opts or FrameExtractionOptions()).flatten() | opts.flatten()
        self._weights: Floats = np.ascontiguousarray(make_filters(tuple(values.items()), vtln_warp_factor).T)
        self._is_floored = opts.htk_mode

    @property
    def dim(self) -> int:
        """Number of filters."""
        return len(self._weights)

    def get_matrix(self) -> Floats:
        """Return a copy of the weights, float32 (dim, points // 2 + 1), where the FFT has ``points`` points."""
        weights: Floats = self._weights.copy()
        return weights

    def compute(self, fft_energies: npt.ArrayLike) -> Floats:
        """Return mel energies (dim,) of a power spectrum (points // 2 + 1,), floored at 1 if ``htk_mode`` is True.

        Raises:
            AudioError: the array does not have this shape, or is not contiguous. The error is also a ValueError.
        """
        energies = np.asarray(fft_energies, np.float32)
        if not energies.flags.c_contiguous:
            raise AudioError("input fft_energies should be contiguous: use np.ascontiguousarray(fft_energies)")
        if energies.shape != self._weights.shape[1:]:
            raise AudioError(f"fft_energies must have the shape {self._weights.shape[1:]}, not {energies.shape}")
        mel: Floats = self._weights.dot(energies)
        return np.maximum(mel, np.float32(1)) if self._is_floored else mel

    @staticmethod
    def mel_scale(hz: float) -> float:
        """Convert a frequency in Hz to mel on Kaldi's scale, in float32."""
        return float(convert_hertz_to_mel(np.float32(hz)))

    @staticmethod
    def inverse_mel_scale(mel: float) -> float:
        """Convert a mel value on Kaldi's scale to Hz, in float32."""
        return float(convert_mel_to_hertz(np.float32(mel)))

    @staticmethod
    def mel_scale_slaney(hz: float) -> float:
        """Convert a frequency in Hz to mel on Slaney's scale."""
        return float(convert_hertz_to_slaney_mel(hz))

    @staticmethod
    def inverse_mel_scale_slaney(mel: float) -> float:
        """Convert a mel value on Slaney's scale to Hz."""
        return float(convert_slaney_mel_to_hertz(mel))


class FeatureWindowFunction:
    """Window by which the samples of a frame are multiplied.

    Args:
        opts: options that determine the type and length of the window.

    Raises:
        OptionError: the window is unknown, or a frame has no samples.

    >>> from kaldi_standins.kaldi_native_fbank import FeatureWindowFunction, FrameExtractionOptions
    >>> len(FeatureWindowFunction(FrameExtractionOptions()).window)
    400
    """

    def __init__(self, opts: FrameExtractionOptions) -> None:
        size = make_frame_options(opts.flatten()).window_size
        self._window = make_window(opts.window_type, size, opts.blackman_coeff)

    @property
    def window(self) -> list[float]:
        """Samples (size,) of the window, in order of time."""
        values: list[float] = self._window.tolist()
        return values

    def apply(self, wave: Sequence[float]) -> list[float]:
        """Multiply the first samples of audio (T,) by the window, and return all T samples.

        Raises:
            AudioError: the audio is shorter than the window. The error is also a ValueError.
            WrongOptionError: the audio is not a sequence of numbers. The error is also a TypeError.
        """
        # An array is copied, because it must stay unchanged. For a list, to_samples() has made a new array.
        frame = to_samples(wave).astype(np.float32, copy=not isinstance(wave, list | tuple))
        if len(frame) < len(self._window):
            raise AudioError(
                f"the audio has fewer samples ({len(frame)}) than the window ({len(self._window)}): pad the audio"
            )
        frame[: len(self._window)] *= self._window
        values: list[float] = frame.tolist()
        return values
