"""Features of audio in chunks. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.plan import Plan
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.exact.stream import ChunkStream, pack_floats
from kaldi_standins.kaldi_native_fbank.base import StreamError, WrongOptionError
from kaldi_standins.kaldi_native_fbank.options import (
    FbankOptions,
    MfccOptions,
    RawAudioSamplesOptions,
    WhisperFeatureOptions,
)
from kaldi_standins.kaldi_native_fbank.plans import has_kaldis_log, make_plan, make_whisper_options

Samples = Sequence[float] | npt.NDArray[Any]

NO_SAMPLES = np.empty(0, np.float32)
# If each chunk completes only one frame, frames wait until this number of them can be computed together, because they
# fill a SIMD vector. Reading a frame computes all waiting frames at once.
MAX_WAITING_FRAMES = 16
# Energy of a chunk (sum of the squares of its samples) from which features are checked for NaN. With less energy in all
# chunks, the energies of frames cannot overflow in single precision.
MAX_SAFE_ENERGY = 1e20
# All objects of a process share one generator, because the original draws from the C library's rand().
_noise = KaldiRandom()


def to_samples(waveform: Samples) -> npt.NDArray[Any]:
    """Convert audio to an array (T,). Arrays of int16 and float32 stay unchanged, and other types become float32.

    Raise :class:`WrongOptionError`, which is a TypeError, if the audio is not a sequence of numbers.
    """
    if isinstance(waveform, list | tuple):
        packed = np.empty(len(waveform), np.float32)
        try:
            pack_floats(waveform, packed)
            return packed
        except (struct.error, OverflowError):  # A value is not a number, or overflows float32.
            pass
    try:
        samples = np.asarray(waveform)
    except ValueError:  # NumPy refuses nested lists of unequal lengths.
        samples = np.asarray(waveform, object)
    if samples.ndim == 1 and samples.dtype.kind in "iufb":
        return samples if samples.dtype == np.int16 else samples.astype(np.float32, copy=False)
    if samples.size == 0:
        return np.empty(0, np.float32)
    shown = f"{type(waveform).__name__} of shape {samples.shape} and type {samples.dtype}"
    raise WrongOptionError(f"waveform must be a sequence of numbers of shape (T,), not {shown}")


class FrameStore:
    """Base class of online features, which stores frames by number. The caller may discard the first frames."""

    def __init__(self) -> None:
        self._frames: list[Floats] = []
        self._discarded_count = 0  # Number of discarded frames.
        self._waiting_count = 0  # Number of frames whose audio is complete and that are not computed yet.
        self._is_finished = False

    def _compute_frames(self, *, final: bool = False) -> None:
        """Compute and store the waiting frames, and also the last frames if ``final``. The base class does nothing."""

    @property
    def num_frames_ready(self) -> int:
        """Number of frames whose audio is complete, including discarded frames."""
        return self._discarded_count + len(self._frames) + self._waiting_count

    def is_last_frame(self, frame: int) -> bool:
        """Return True if the audio has ended, and ``frame``, counted from 0, is its last frame."""
        return self._is_finished and frame == self.num_frames_ready - 1

    def get_frame(self, frame: int) -> Floats:
        """Return the features (dim,) of ``frame``, counted from 0, without a copy.

        Raises:
            StreamError: the frame is not available yet or was discarded. It is also an IndexError and a RuntimeError.
        """
        index = frame - self._discarded_count
        if self._waiting_count and index >= len(self._frames):
            self._compute_frames()
        if 0 <= index < len(self._frames):
            return self._frames[index]
        last = self._discarded_count + len(self._frames) - 1
        stored = f"the frames {self._discarded_count} to {last} are stored" if self._frames else "no frame is stored"
        advice = f"{stored}; pass more audio for later frames"
        raise StreamError(f"frame {frame} is not available: {advice}")

    def pop(self, n: int) -> None:
        """Discard the first ``n`` stored frames, or all if there are fewer. The other frames keep their numbers."""
        self._compute_frames()
        n = min(max(n, 0), len(self._frames))
        del self._frames[:n]
        self._discarded_count += n


class OnlineFeature(FrameStore):
    """Base class of online features, which are computed from audio in chunks of any size."""

    options_type: ClassVar[type[Any]]

    def __init__(self, opts: Any) -> None:
        super().__init__()
        self._prepare_computation(check_options(self, opts, self.options_type))

    def _prepare_computation(self, opts: Any) -> None:
        """Set up the computation for ``opts``, which are of the type ``options_type``."""
        self._plan: Plan = make_plan(opts)
        # Noise must be drawn in the order of the chunks, so the computation of dithered frames is never deferred.
        self._computes_at_once = self._plan.options.dither != 0
        self._stream = ChunkStream(self._plan)
        self._rate: float = opts.frame_opts.samp_freq
        self._shift = opts.frame_opts.frame_shift_ms

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self._plan.dim

    @property
    def frame_shift_in_seconds(self) -> float:
        """Seconds from the start of one frame to the start of the next."""
        return float(np.float32(self._shift) / np.float32(1000))

    def accept_waveform(self, sampling_rate: float, waveform: Samples) -> None:
        """Add a chunk of audio.

        Args:
            sampling_rate: sampling rate in Hz, which must be ``frame_opts.samp_freq``.
            waveform: samples (T,): an array, a list or another sequence.

        Raises:
            WrongOptionError: the chunk is not a sequence of numbers. The error is also a TypeError.
            AudioError: the chunk and the options have different sampling rates. The error is also a ValueError.
            StreamError: the audio has ended, or a completed frame has NaN, infinite or too large samples. The error is
                also a RuntimeError.
        """
        if not isinstance(waveform, list):
            waveform = to_samples(waveform)
        length = len(waveform)
        if not length:
            return
        if self._is_finished or sampling_rate != self._rate:
            check_chunk(sampling_rate, self._rate, self._is_finished)
        earlier_count, stream = self._waiting_count, self._stream
        try:
            samples = stream.history.append(waveform, length)
        except (struct.error, OverflowError):
            # A value is not a float, or overflows float32. to_samples() converts or refuses it.
            samples = stream.history.append(to_samples(waveform), length)
        self._waiting_count = waiting_count = stream.num_ready_frames
        if not samples.dot(samples) < MAX_SAFE_ENERGY:
            self._computes_at_once = True  # Compute now, so that this call refuses a NaN.
        if self._computes_at_once or waiting_count > earlier_count + 1 or waiting_count >= MAX_WAITING_FRAMES:
            self._compute_frames()

    def input_finished(self) -> None:
        """Mark the audio as ended. With ``snip_edges=False``, this adds the last frames."""
        if not self._is_finished:
            self._compute_frames(final=True)
        self._is_finished = True

    def _compute_frames(self, *, final: bool = False) -> None:
        """Compute and store the waiting frames, and also the last frames if ``final``. Raise StreamError for a NaN."""
        if final:
            features = self._stream.advance(NO_SAMPLES, True, seeds=_noise.frame_seeds)
        else:
            features = self._stream.compute_next_frames(self._waiting_count, _noise.frame_seeds)
        self._waiting_count = 0
        if self._computes_at_once and np.isnan(features).any():  # Only loud audio has a NaN or energies that overflow.
            raise StreamError(
                "mel energy is nan, because samples are NaN, infinite or too large: pass samples within -32768 to 32767"
            )
        features = self._complete_frames(features)
        if len(features) == 1:  # For one frame, append takes a third of extend's time.
            self._frames.append(features[0])
        else:
            self._frames.extend(features)

    def _complete_frames(self, features: Floats) -> Floats:
        """Apply the last step, by default none, of the computation to new frames (frames, dim). Return the frames."""
        return features


def check_options(owner: object, opts: Any, expected_class: type[Any]) -> Any:
    """Return ``opts``. If they are not of ``expected_class``, raise WrongOptionError, which names the owner's class."""
    if not isinstance(opts, expected_class):
        raise WrongOptionError(f"{type(owner).__name__} takes {expected_class.__name__}, not {type(opts).__name__}")
    return opts


def check_chunk(sampling_rate: float, expected_rate: float, is_finished: bool) -> None:
    """Raise StreamError if the audio has ended (``is_finished``), or AudioError for a wrong sampling rate.

    ``sampling_rate`` is the rate of a new chunk in Hz, and ``expected_rate`` the rate of the options.
    """
    if is_finished:
        raise StreamError("accept_waveform was called after input_finished: make a new object for the next utterance")
    if sampling_rate != expected_rate and np.float32(sampling_rate) != expected_rate:  # Options are float32.
        raise AudioError(
            f"sampling_rate does not match the options: {sampling_rate:g} Hz, but samp_freq is {expected_rate:g}: "
            "resample the audio"
        )


class OnlineFbank(OnlineFeature):
    """Log-mel filter bank features of audio in chunks.

    >>> from kaldi_standins.kaldi_native_fbank import FbankOptions, OnlineFbank
    >>> opts = FbankOptions()
    >>> opts.frame_opts.dither = 0
    >>> fbank = OnlineFbank(opts)
    >>> fbank.accept_waveform(16000, [0.0] * 16000)
    >>> fbank.num_frames_ready, fbank.get_frame(0).shape
    (98, (23,))
    """

    options_type: ClassVar[type[Any]] = FbankOptions

    def _prepare_computation(self, opts: FbankOptions) -> None:
        super()._prepare_computation(opts)
        values = opts.flatten()
        # Column 0 has the energy, unless htk_compat moves the energy to the last column.
        self._first_bin = int(opts.use_energy and not opts.htk_compat)
        self._has_linear_bins = not has_kaldis_log(values) and (opts.use_log_fbank or opts.mel_opts.htk_mode)
        self._min_energy = np.float32(1.0 if opts.mel_opts.htk_mode else 0.0)
        self._takes_log, self._floors_at_eps, self._eps = opts.use_log_fbank, opts.use_log_floor, np.float32(opts.eps)

    def _complete_frames(self, features: Floats) -> Floats:
        """Return new frames (frames, dim). If the plan leaves mel energies linear, apply ``htk_mode`` and the log."""
        if self._has_linear_bins:
            energies = features[:, self._first_bin : self._first_bin + self._plan.num_mel_bins]
            np.maximum(energies, self._min_energy, out=energies)
            if self._takes_log:
                floored = np.maximum(energies, self._eps) if self._floors_at_eps else energies + self._eps
                np.log(floored, out=energies)
        return features


class OnlineMfcc(OnlineFeature):
    """Mel-frequency cepstral coefficients of audio in chunks.

    >>> from kaldi_standins.kaldi_native_fbank import MfccOptions, OnlineMfcc
    >>> mfcc = OnlineMfcc(MfccOptions())
    >>> mfcc.accept_waveform(16000, [0.0] * 16000)
    >>> mfcc.num_frames_ready, mfcc.get_frame(0).shape
    (98, (13,))
    """

    options_type = MfccOptions


class OnlineWhisperFbank(OnlineFbank):
    """Whisper's mel energies, computed from audio in -1 to 1. The caller applies the logarithm and the scaling."""

    options_type = WhisperFeatureOptions

    def _prepare_computation(self, opts: Any) -> None:
        super()._prepare_computation(make_whisper_options(opts))


class OnlineRawAudioSamples(OnlineFeature):
    """Frames of audio without a transform, computed from audio in chunks."""

    options_type = RawAudioSamplesOptions
