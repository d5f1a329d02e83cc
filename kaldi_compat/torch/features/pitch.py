"""Modules for pitch: the pitch tracker, and the features that are computed from its output.

On a CPU, the exact engine computes many utterances at once. On other devices, with gradients, and in models that are
compiled, exported, traced or mapped, torch's operations compute the same formulas for a batch, and the path search
compares every pair of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, FeatureError, KaldiCompatError
from kaldi_compat.functional.array_api import is_traced_or_differentiated
from kaldi_compat.functional.batches import check_features, check_lengths, zero_padding
from kaldi_compat.functional.checks import check_list, check_samples, refuse_rate_as_lengths
from kaldi_compat.options.constructors import PitchConstructor, ProcessPitchConstructor
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.online import Analysis, compute_first_pass_pitch
from kaldi_compat.pitch.process import make_pitch_deltas, process_pitch
from kaldi_compat.pitch.tracker import track_pitches
from kaldi_compat.torch.calls import PitchCall, ProcessPitchCall
from kaldi_compat.torch.features.module import ConfiguredModule, refuse_old_compilers
from kaldi_compat.torch.streaming.pitch import PitchStream, ProcessPitchStream
from kaldi_compat.torch.tensors.pitch import PitchTables, track_batch

if TYPE_CHECKING:
    from kaldi_compat.pitch.process import Generator


class Pitch(PitchConstructor, PitchCall, ConfiguredModule):
    """Tracks pitch (Kaldi: compute-kaldi-pitch-feats).

    The correlation is differentiable with respect to the audio. The pitch is not, because it is one of a grid of
    values. The scale of the audio does not matter. For the options, see
    :class:`~kaldi_compat.options.pitch.PitchOptions`.

    >>> import torch
    >>> from kaldi_compat import Pitch
    >>> tone = 5000 * torch.sin(2 * torch.pi * 200 * torch.arange(16000) / 16000)
    >>> track = Pitch()(tone)
    >>> track.shape, round(float(track[50, 1]))
    (torch.Size([98, 2]), 200)
    """

    Options = PitchOptions
    _stream = PitchStream
    options: PitchOptions

    def setup(self) -> None:
        """Compute the constants of the tracker, and its tables as tensors."""
        super().setup()
        self._constants = PitchConstants.from_options(self.options)
        for name, table in PitchTables.from_constants(self._constants)._asdict().items():
            self._register_constant(name, table)

    @refuse_old_compilers
    def forward(self, samples: Tensor | Sequence[Tensor], lengths: Tensor | Sequence[int] | None = None) -> Any:
        """Compute the normalized correlation (NCCF) and the pitch in Hz of each frame.

        Args:
            samples: audio at ``options.sample_frequency``: (T,), (B, T), or a list of 1-D tensors of any lengths.
                float64 samples are computed in float64, and all other types in float32.
            lengths: number of valid samples in each row of (B, T), a tensor or a list.

        Returns:
            NCCF and pitch, of shape (frames, 2) or (B, frames, 2). With ``lengths``, also the number of frames of each
            row, shape (B,). Frames beyond this number are zero. For a list of utterances, a list of features.

        Raises:
            AudioError: the samples have a wrong shape or type, are not finite or are too loud (checked on a CPU
                only), or the lengths do not match the samples.
            KaldiCompatError: a compiled, exported, traced or mapped model has ``simulate_first_pass_online``.
        """
        refuse_rate_as_lengths(lengths)
        if not isinstance(samples, Tensor):
            utterances = check_list(samples, lengths, ("T",), Tensor, AudioError)
            return self._track_list([self._check_samples(utterance) for utterance in utterances])
        samples = self._check_samples(samples)
        lengths = check_lengths(lengths, samples, -1, AudioError)
        is_single = samples.dim() == 1
        batch, row_lengths = samples, lengths
        if is_single:
            batch, row_lengths = samples[None], None if lengths is None else lengths[None]
        features, counts = self._track_batch(batch, row_lengths)
        if is_single:
            features, counts = features[0], counts[0]
        return features if lengths is None else (features, counts.to(lengths.device))

    def stream(self, slots: int = 1, *, max_latency: int = 3000) -> PitchStream:
        """Return a :class:`~kaldi_compat.PitchStream`, which computes pitch from audio in chunks.

        Args:
            slots: number of utterances that the stream processes at the same time.
            max_latency: number of later frames after which the best path so far decides a frame, even if paths differ.

        Raises:
            OptionError: ``nccf_ballast_online`` is False, or an option requests to simulate online decoding.
        """
        return PitchStream(self, slots, max_latency=max_latency)

    def _make_example(self) -> Tensor:
        return torch.ones(2, int(self.options.sample_frequency))

    def _track_batch(self, batch: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return NCCF and pitch (B, frames, 2) of audio (B, T), and the number of frames of each row (B,)."""
        if self._runs_in_torch(batch):
            return track_batch(batch, lengths, self._constants, self._get_tables())
        counts = [batch.shape[-1]] * len(batch) if lengths is None else lengths.clamp(0, batch.shape[-1]).tolist()
        tracks = self._track_list([row[:count] for row, count in zip(batch, counts, strict=True)])
        features = batch.new_zeros((len(batch), self._constants.count_frames(batch.shape[-1]), 2))
        for i, track in enumerate(tracks):
            features[i, : len(track)] = track
        return features, torch.tensor([len(track) for track in tracks], dtype=torch.long, device=batch.device)

    def _get_tables(self) -> PitchTables:
        """Return the tables of the pitch tracker on the module's device."""
        return PitchTables(*(getattr(self, name) for name in PitchTables._fields))

    def _runs_in_torch(self, samples: Tensor) -> bool:
        """Return True if torch computes the pitch, and False if NumPy does.

        Only NumPy supports ``simulate_first_pass_online``. Raise KaldiCompatError if this option is set in a model that
        is compiled, exported, traced or mapped.
        """
        if not self.options.simulate_first_pass_online:
            return samples.device.type != "cpu" or is_traced_or_differentiated(samples)
        # The samples are detached, because a requested gradient is no obstacle: pitch has no gradient.
        if is_traced_or_differentiated(samples.detach()):
            raise KaldiCompatError(
                "simulate_first_pass_online=True is computed in NumPy and cannot be part of a compiled, exported, "
                "traced or mapped model: leave this option out"
            )
        return False

    def _check_samples(self, samples: Tensor) -> Tensor:
        """Return samples (T,) or (B, T) in float32 or float64. Raise AudioError for other samples."""
        check_samples(samples)
        if samples.is_meta:
            raise AudioError(
                "pitch depends on the samples, which have no data on the device meta: pass samples on a CPU"
            )
        if samples.dim() not in (1, 2):
            raise AudioError(
                f"samples have the shape {tuple(samples.shape)}: pass a tensor (T,) or (B, T), or a list of (T,)"
            )
        return samples if samples.dtype == torch.float64 else samples.float()

    def _track_list(self, utterances: Sequence[Tensor]) -> list[Tensor]:
        """Return NCCF and pitch (frames, 2) of each utterance (T,)."""
        if any(self._runs_in_torch(samples) for samples in utterances):
            return [
                track_batch(samples[None], None, self._constants, self._get_tables())[0][0] for samples in utterances
            ]
        arrays = [samples.numpy(force=True) for samples in utterances]
        if self.options.simulate_first_pass_online:
            tracks: list[np.ndarray[Any, Any]] = [
                compute_first_pass_pitch(Analysis.from_audio(samples, self.options), self.options) for samples in arrays
            ]
        else:
            tracks = [track for _, track in track_pitches(enumerate(arrays), self.options)]
        return [torch.from_numpy(track).to(samples) for track, samples in zip(tracks, utterances, strict=True)]


class ProcessPitch(ProcessPitchConstructor, ProcessPitchCall, ConfiguredModule):
    """Computes features for speech recognition from a pitch track (Kaldi: process-kaldi-pitch-feats).

    For the options, see :class:`~kaldi_compat.options.pitch.ProcessPitchOptions`.

    >>> import torch
    >>> from kaldi_compat import ProcessPitch
    >>> track = torch.tensor([[0.9, 100.0], [0.95, 101.0], [0.9, 102.0]])
    >>> ProcessPitch()(track).shape
    torch.Size([3, 3])
    """

    Options = ProcessPitchOptions
    _stream = ProcessPitchStream
    options: ProcessPitchOptions

    def setup(self) -> None:
        """Compute the filters of the deltas in single and in double precision."""
        super().setup()
        self._deltas = [make_pitch_deltas(self.options, dtype) for dtype in (np.float32, np.float64)]

    def _make_example(self) -> Tensor:
        return torch.ones(2, 8, 2)

    @refuse_old_compilers
    def forward(
        self,
        features: Tensor | Sequence[Tensor],
        lengths: Tensor | Sequence[int] | None = None,
        *,
        generator: Generator | None = None,
    ) -> Any:
        """Compute pitch features from the output of :class:`Pitch`.

        Args:
            features: NCCF and pitch in Hz: (frames, 2), (B, frames, 2), or a list of (frames, 2) of any lengths.
            lengths: number of valid frames in each row of (B, frames, 2), a tensor or a list.
            generator: source of the noise of ``delta_pitch_noise_stddev``: a ``torch.Generator``, torch's global
                generator if None, or a :class:`~kaldi_compat.exact.rand.KaldiRandom` for Kaldi's own noise.

        Returns:
            Features of shape (frames + delay, dim) or (B, frames + delay, dim). With ``lengths``, also the number of
            frames of each row, shape (B,). Frames beyond this number are zero. For a list, a list of features.

        Raises:
            FeatureError: the features have a wrong shape, a pitch is not positive, or the lengths do not match.
            OptionError: ``generator`` has a wrong type.
        """
        if not isinstance(features, Tensor):
            utterances = check_list(features, lengths, ("frames", "2"), Tensor, FeatureError)
            return [self(utterance, generator=generator) for utterance in utterances]
        lengths = check_features(features, lengths)
        deltas = self._deltas[features.dtype is torch.float64]
        processed = process_pitch(features, self.options, lengths, generator=generator, deltas=deltas)
        if lengths is None:
            return processed
        counts = torch.where(lengths > 0, lengths + self.options.delay, 0)
        return zero_padding(processed, counts), counts
