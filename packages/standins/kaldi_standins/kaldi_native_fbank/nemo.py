"""NeMo's filter bank features of buffers of audio. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

import numpy as np

from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.librosa_mel import compute_librosa_filters
from kaldi_compat.options.base import require
from kaldi_compat.options.spectral import FrameOptions
from kaldi_standins.kaldi_native_fbank.online import Samples, check_chunk, check_options, to_samples
from kaldi_standins.kaldi_native_fbank.options import NemoFbankOptions, StftConfig
from kaldi_standins.kaldi_native_fbank.plans import cached_by_options, make_window
from kaldi_standins.kaldi_native_fbank.stft import check_config, compute_spectra

GUARD = 2.0**-24  # Constant that NeMo adds to the energies before the logarithm.


@cached_by_options
def _make_tables(
    rate: float, shift: float, length: float, num_mel_bins: int, low_freq: float, high_freq: float
) -> tuple[StftConfig, Floats, Floats]:
    """Return the STFT's configuration, its window (points,), and mel filters (points // 2 + 1, num_mel_bins).

    ``points`` is the size of the FFT. Rates and frequencies are in Hz, and the frame shift and length in milliseconds.
    """
    frames = FrameOptions(sample_frequency=rate, frame_shift=shift, frame_length=length)
    points = frames.padded_window_size
    zeros_before = (points - frames.window_size) // 2
    window = np.pad(
        make_window("hanning", frames.window_size), (zeros_before, points - frames.window_size - zeros_before)
    )
    config = StftConfig(points, frames.window_shift, points, pad_mode="constant", window=window.tolist())
    return *check_config(config), compute_librosa_filters(num_mel_bins, points, rate, low_freq, high_freq)


class OnlineNemoFbank:
    """NeMo's log-mel features of audio in -1 to 1. Every request for a range of frames computes the range again.

    Args:
        opts: the options.

    Raises:
        OptionError: Kaldi refuses a value, or ``opts`` has a wrong type.

    >>> from kaldi_standins.kaldi_native_fbank import NemoFbankOptions, OnlineNemoFbank
    >>> fbank = OnlineNemoFbank(NemoFbankOptions())
    >>> fbank.accept_waveform(16000, [0.0] * 1000)
    >>> fbank.get_frames(0, 6)[0].shape, fbank.num_trailing_samples
    ((6, 80), 40)
    """

    def __init__(self, opts: NemoFbankOptions) -> None:
        opts = check_options(self, opts, NemoFbankOptions)
        sizes = opts.samp_freq, opts.frame_shift_ms, opts.frame_length_ms
        self._stft, self._window, self._filters = _make_tables(*sizes, opts.num_mel_bins, opts.low_freq, opts.high_freq)
        self._hop = self._stft.hop_length
        self._preemphasis, self._capacity = np.float32(opts.preemph_coeff), opts.buffered_capacity
        self._rate: float = opts.samp_freq
        self._samples: Floats = np.empty(0, np.float32)
        self._start = 0  # Number of samples that were discarded before the first buffered sample.
        self._is_finished = False

    @property
    def dim(self) -> int:
        """Number of mel bins."""
        return int(self._filters.shape[1])

    @property
    def frame_shift_in_seconds(self) -> float:
        """Seconds from the start of one frame to the start of the next."""
        return float(np.float32(self._hop) / np.float32(self._rate))

    @property
    def num_frames_ready(self) -> int:
        """Number of frames: one for each whole frame shift of audio, including frames that were discarded."""
        return (self._start + len(self._samples)) // self._hop

    @property
    def num_trailing_samples(self) -> int:
        """Number of samples after the last whole frame shift."""
        return (self._start + len(self._samples)) % self._hop

    def is_last_frame(self, frame: int) -> bool:
        """Return True if the audio has ended, and ``frame``, counted from 0, is its last frame."""
        return self._is_finished and 0 <= frame == self.num_frames_ready - 1

    def accept_waveform(self, sampling_rate: float, waveform: Samples) -> None:
        """Add a chunk of audio: samples (T,) at the sampling rate ``samp_freq`` of the options, in Hz.

        Raises:
            WrongOptionError: the chunk is not a sequence of numbers. The error is also a TypeError.
            AudioError: the chunk and the options have different sampling rates. The error is also a ValueError.
            StreamError: the audio has ended. The error is also a RuntimeError.
        """
        samples = to_samples(waveform)
        check_chunk(sampling_rate, self._rate, self._is_finished)
        self._samples = np.concatenate((self._samples, samples))

    def input_finished(self) -> None:
        """Mark the audio as ended, after which no chunk is accepted."""
        self._is_finished = True

    def get_frames(self, frame_index: int, n: int, is_final: bool = False) -> tuple[Floats, int]:
        """Compute consecutive frames, and discard the audio before the first frame.

        Args:
            frame_index: number of the first frame, counted from 0.
            n: number of frames.
            is_final: True to use the trailing samples for the last frame of the audio, after the audio has ended.

        Returns:
            Features (n, dim), and the number of samples that were skipped at the start. If ``n`` is
            ``buffered_capacity``, this is the number of trailing samples that are used, and otherwise 0.

        Raises:
            OptionError: an argument is negative, a frame is not available yet, or its audio was discarded. The error is
                also a ValueError.
        """
        require(frame_index >= 0 and n >= 0, f"frame_index={frame_index} and n={n} must be 0 or larger")
        first, end = frame_index * self._hop, (frame_index + n) * self._hop  # Sample indices.
        if first < self._start or frame_index + n > self.num_frames_ready:
            oldest, last = self._start // self._hop, self.num_frames_ready - 1
            advice = f"ask for {oldest} to {last}" if last >= oldest else "no frame is ready"
            raise OptionError(f"requested frames are out of range: {frame_index} to {frame_index + n - 1}: {advice}")
        if n == 0:
            return np.empty((0, self.dim), np.float32), 0
        if is_final and self._is_finished and frame_index + n == self.num_frames_ready:
            end += self.num_trailing_samples
        offset = end - first - n * self._hop if n == self._capacity else 0
        self._samples, self._start = self._samples[first - self._start :], first
        return self._compute_features(self._samples[offset : end - first], n), offset

    def _compute_features(self, samples: Floats, max_frames: int) -> Floats:
        """Return the features (frames, dim) of samples (T,), for at most ``max_frames`` frames."""
        emphasized = samples.copy()
        emphasized[1:] -= self._preemphasis * samples[:-1]
        power = np.abs(compute_spectra(self._stft, self._window, emphasized, max_frames)) ** 2
        features: Floats = np.log(power.dot(self._filters) + GUARD)
        return features
