"""Streams of pitch and processed pitch.

In the Viterbi search, a frame is decided once all surviving paths agree on its state, usually a few frames later. The
last frames are decided at the end of the audio. A stream stores only the data that undecided frames need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import OptionError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.exact.resample import resample_chunk
from kaldi_compat.exact.stream import refuse_after_failure
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import (
    PitchFrames,
    add_energy,
    check_finite,
    compute_ballast,
    compute_variance,
    preemphasize_frames,
)
from kaldi_compat.pitch.process import check_track, compute_undelayed_features, draw_standard_normal
from kaldi_compat.pitch.tracker import Paths
from kaldi_compat.torch.calls import ProcessPitchStreamCall
from kaldi_compat.torch.streaming.base import ChunkFrames, Configured, Stream, WindowStream
from kaldi_compat.torch.streaming.history import Counts, Flags

if TYPE_CHECKING:
    from kaldi_compat.pitch.process import Generator


Samples = npt.NDArray[Any]


class PitchStream(Stream[PitchOptions]):
    """Stream of :class:`~kaldi_compat.torch.features.pitch.Pitch`, which tracks the pitch of audio in chunks.

    The division into chunks does not affect the pitch. The pitch is always computed on the CPU.

    Args:
        module: a :class:`~kaldi_compat.torch.features.pitch.Pitch` with ``nccf_ballast_online``, so that the ballast of
            a frame depends only on the audio up to the end of the frame. Kaldi's default computes the ballast from the
            whole utterance, which a stream does not have.
        slots: number of utterances that are processed at the same time.
        max_latency: number of later frames after which the best path so far decides a frame, even if the paths
            disagree on its pitch. Paths disagree in digital silence, which matches every pitch equally well.

    Raises:
        OptionError: ``module`` is not a Pitch, ``nccf_ballast_online`` is False, or online decoding is simulated.

    >>> import torch
    >>> from kaldi_compat import Pitch
    >>> stream = Pitch(nccf_ballast_online=True).stream()
    >>> tone = 5000 * torch.sin(2 * torch.pi * 200 * torch.arange(16000) / 16000)
    >>> frames = [stream(chunk, final=i == 9) for i, chunk in enumerate(tone.split(1600))]
    >>> torch.cat(frames).shape, round(float(torch.cat(frames)[50, 1]))
    (torch.Size([98, 2]), 200)
    """

    takes = "Pitch(nccf_ballast_online=True)"
    item_axes = 0

    def __init__(self, module: Configured[PitchOptions], slots: int = 1, *, max_latency: int = 3000) -> None:
        self._max_latency = max_latency
        super().__init__(module, slots)
        options = self.options
        if not options.nccf_ballast_online:
            raise OptionError("a stream does not know the energy of the whole utterance: pass nccf_ballast_online=True")
        if options.simulate_first_pass_online or options.frames_per_chunk:
            raise OptionError(
                "a stream cannot simulate online decoding: unset simulate_first_pass_online and frames_per_chunk"
            )

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self._has_failed = False  # True if some trackers have taken a chunk, and others have not.
        self._trackers = [Tracker(self.options, self._max_latency) for _ in range(self.slots)]

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Return the NCCF and pitch of the frames that a chunk decides. A slot whose utterance ends is reset."""
        audio = chunk.detach().cpu()
        samples = (audio if audio.dtype == torch.float64 else audio.float()).numpy(force=True)
        refuse_after_failure(self._has_failed)
        for slot, length in enumerate(lengths.tolist()):
            check_finite(samples[slot, :length])
        self._has_failed = True
        rows = []
        for slot, (length, has_ended) in enumerate(zip(lengths.tolist(), ended.tolist(), strict=True)):
            rows.append(torch.from_numpy(self._trackers[slot].take_samples(samples[slot, :length], finished=has_ended)))
            if has_ended:
                self._trackers[slot] = Tracker(self.options, self._max_latency)
        self._has_failed = False
        features = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return features.to(chunk.device), np.array([len(row) for row in rows])


class ProcessPitchStream(ProcessPitchStreamCall, WindowStream[ProcessPitchOptions]):
    """Stream of :class:`~kaldi_compat.torch.features.pitch.ProcessPitch`, which processes a pitch track in chunks.

    The latency is ``normalization_right_context`` frames. Like a call of the module, a call of the stream takes
    ``generator``. When a chunk arrives, the stream draws noise for the deltas of all slots, including the padding of
    slots that receive fewer frames. Therefore only a stream with a single slot and a
    :class:`~kaldi_compat.KaldiRandom` draws the same noise as a call with the whole utterance.

    Args:
        module: a :class:`~kaldi_compat.torch.features.pitch.ProcessPitch`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import ProcessPitch
    >>> stream = ProcessPitch().stream()
    >>> track = torch.tensor([[0.9, 100.0]]).expand(100, 2)
    >>> stream(track).shape, stream(track, final=True).shape
    (torch.Size([25, 3]), torch.Size([175, 3]))
    """

    takes = "ProcessPitch()"
    _item_shape = (2,)
    _generator: Generator | None = None  # Generator of the current call.

    def __init__(self, module: Configured[ProcessPitchOptions], slots: int = 1) -> None:
        super().__init__(module, slots)
        # Numbers of frames before and after a frame that the mean of the pitch and the deltas need.
        delta_window = self.options.delta_window if self.options.add_delta_pitch else 0
        self._left = max(self.options.normalization_left_context, delta_window)
        self._right = max(self.options.normalization_right_context, delta_window)

    def _take(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
        generator: Generator | None = None,
    ) -> ChunkFrames:
        """Store the generator for :meth:`_advance`, and return the frames that the base class computes."""
        self._generator = generator
        return super()._take(chunk, lengths, final=final)

    if not TYPE_CHECKING:  # ProcessPitchStreamCall declares __call__ for type checkers.
        __call__ = _take

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Append a column of noise for the deltas to ``chunk`` (slots, T, 2), and process the chunk."""
        check_track(chunk, torch.from_numpy(lengths).to(chunk.device))
        # The history stores the noise of a frame as an additional column, for later calls. Kaldi draws noise even if it
        # is scaled to zero, so a KaldiRandom must draw it as well.
        noise = chunk.new_zeros(chunk.shape[:-1])
        is_drawn = self.options.delta_pitch_noise_stddev != 0 or isinstance(self._generator, KaldiRandom)
        if self.options.add_delta_pitch and is_drawn:
            noise = draw_standard_normal(noise, self._generator)
        return super()._advance(torch.cat((chunk, noise[..., None]), -1), lengths, ended)

    def _add_delay(self, frames: Counts) -> Counts:
        """Return the number of output frames (slots,): ``frames + delay``, or 0 for slots without input frames."""
        return np.where(frames > 0, frames + self.options.delay, 0)

    def _count_frames(self, end: Counts) -> Counts:
        return self._add_delay(end)

    def _count_decided_frames(self, end: Counts) -> Counts:
        return self._add_delay(np.maximum(end - self._right, 0))

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(np.minimum(done - self.options.delay - self._left, end - 1), 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Process all stored frames, and return the output frames ``first`` to ``first + count - 1`` of each slot."""
        history = self.history
        counts = history.end - history.start
        longest = int(counts.max()) if count else 0
        stored = history.get_items(history.list_indices(history.start, longest))
        lengths = torch.from_numpy(np.minimum(counts, longest)).to(stored.device)
        features = compute_undelayed_features(stored[..., :-1], stored[..., -1], self.options, lengths)
        frame_indices = history.list_indices(first - self.options.delay, count).clamp(min=0)
        last_index = history.to_column(np.maximum(history.end - 1, 0))
        columns = torch.minimum(frame_indices, last_index) - history.to_column(history.start)
        return torch.take_along_dim(features, columns.clamp(min=0)[..., None], 1)


class Tracker:
    """Pitch tracker of one utterance, which decides each frame after at most ``max_latency`` further frames."""

    def __init__(self, options: PitchOptions, max_latency: int) -> None:
        self._paths = Paths(options)
        self._constants = self._paths.constants
        self._max_latency = max_latency
        self._resampler = Resampler(self._constants)
        self._signal: Samples = np.zeros(0, np.float32)  # (T,): resampled audio from sample _signal_start on.
        self._signal_start = 0
        self._energy = (0.0, 0.0)  # Sums of squares and of samples, over the samples before sample _energy_end.
        self._energy_end = 0
        self._searched_count = 0  # Number of frames that have been searched.

    def take_samples(self, samples: Samples, *, finished: bool) -> Samples:
        """Take the next samples (T,), and return NCCF and pitch in Hz, (frames, 2), of the frames that they decide.

        ``finished`` is True for the last samples of the utterance, which decide all frames. Raise AudioError if a
        sample is infinite or NaN, or the audio is so loud that its correlation overflows.
        """
        resampled = self._resampler.take_samples(samples, finished=finished)
        check_finite(resampled)
        self._signal = np.concatenate((self._signal, resampled))
        signal_end = self._signal_start + len(self._signal)
        frame_count = self._constants.count_available_frames(signal_end, finished=finished)
        if frame_count > self._searched_count:
            self._search_frames(frame_count)
        self._discard_audio()
        count = len(self._paths) if finished else self._paths.count_agreed_frames(self._max_latency)
        return self._paths.decide_frames(count)

    def _search_frames(self, frame_count: int) -> None:
        """Continue the path search to the end of frame ``frame_count - 1``."""
        constants, count = self._constants, frame_count - self._searched_count
        begin = constants.start + self._searched_count * constants.shift
        signal_end = self._signal_start + len(self._signal)
        ends = np.minimum(begin + constants.shift * np.arange(count) + constants.span, signal_end)
        variances = np.array([self._compute_variance(end) for end in ends.tolist()])
        signal, first, shift = self._signal, begin - self._signal_start, constants.shift
        if constants.preemphasis != 0:
            signal, first, shift = preemphasize_frames(signal, first, count, constants), 0, constants.span
        new_frames = PitchFrames(
            signal=signal,
            starts=np.zeros(1, np.int64),
            lengths=np.array([len(signal)]),
            rows=np.array([0, count]),
            first=first,
            shift=shift,
            ballast=compute_ballast(variances, constants),
            revised=None,
            groups=np.zeros(count, np.uint8),  # Add all rows as in groups of four, because chunks must not affect sums.
            frame_counts=np.array([count]),
        )
        self._paths.extend(new_frames, begin=0, end=count, ends=[len(self._paths) + count])
        self._searched_count = frame_count

    def _compute_variance(self, end: int) -> float:
        """Add the samples before ``end`` to the energy, and return the variance of all samples before ``end``.

        ``end`` must not decrease from call to call.
        """
        added = self._signal[max(0, self._energy_end - self._signal_start) : end - self._signal_start]
        self._energy = add_energy(self._energy, added)
        self._energy_end = end
        return compute_variance(self._energy, end)

    def _discard_audio(self) -> None:
        """Discard the audio that neither the next frame nor the next sum of the energy needs."""
        next_begin = self._constants.start + self._searched_count * self._constants.shift
        start = max(min(next_begin, self._energy_end), self._signal_start)
        self._signal = self._signal[start - self._signal_start :]
        self._signal_start = start


class Resampler:
    """Resampler of audio in chunks for the tracker. The division into chunks does not affect the result."""

    def __init__(self, constants: PitchConstants) -> None:
        self._constants = constants
        # Maximum number of periods by which a filter extends before the period of its output sample.
        self._reach = -(constants.filters.first[0] // constants.filters.period)
        self._audio: Samples = np.zeros(0, np.float32)  # (T,): audio from period _first_period on.
        self._first_period = 0
        self._received_count = self._returned_count = 0  # Numbers of input and output samples so far.

    def take_samples(self, samples: Samples, *, finished: bool) -> Samples:
        """Take the next samples (T,), and return the resampled audio that later samples cannot change.

        ``finished`` is True for the last samples of the utterance.
        """
        self._audio = np.concatenate((self._audio, samples.astype(np.float32)))
        self._received_count += len(samples)
        resampled = [self._resample_until(self._constants.count_resampled(self._received_count, finished=False), 0)]
        if finished:  # Kaldi sums filters that extend beyond the end in a different order, as if in an empty chunk.
            count = self._constants.count_resampled(self._received_count, finished=True)
            resampled.append(self._resample_until(count, len(self._audio)))
        filters = self._constants.filters
        first_period = max(self._returned_count // len(filters.first) - self._reach, self._first_period)
        self._audio = self._audio[(first_period - self._first_period) * filters.period :]
        self._first_period = first_period
        return np.concatenate(resampled)

    def _resample_until(self, end: int, chunk_start: int) -> Samples:
        """Return the output samples that follow the last returned sample, up to sample ``end - 1`` of the utterance.

        ``chunk_start`` is the index in the stored audio of the chunk's first sample: see :func:`resample_chunk`.
        """
        filters = self._constants.filters
        offset = self._first_period * len(filters.first)
        outputs = (self._returned_count - offset, max(end, self._returned_count) - offset)
        self._returned_count = max(end, self._returned_count)
        return resample_chunk(self._audio, filters, outputs, chunk_start)
