"""Pitch and its features as modules for a model: the pitch tracker, and what is made of its track.

On a CPU the search runs in NumPy, many utterances at once. On other devices, and where gradients are wanted, everything
runs in torch, batched: the same formulas, and a search that compares every pair of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from kaldi_compat.arrays import zero_past
from kaldi_compat.deltas import delta_filters
from kaldi_compat.errors import AudioError, KaldiCompatError
from kaldi_compat.optioned import OptionedModule
from kaldi_compat.options import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch_costs import local_costs, mean_square, path_features, search_nccf, step_factor
from kaldi_compat.pitch_features import pitch_deltas, process_pitch
from kaldi_compat.pitch_nccf import correlate, downsampled, nccf
from kaldi_compat.pitch_online import first_pass_pitch
from kaldi_compat.pitch_schedule import Schedule
from kaldi_compat.pitch_tracker import Analysis, track_pitches
from kaldi_compat.pitch_viterbi import cheapest_paths
from kaldi_compat.sinc import num_resampled

if TYPE_CHECKING:
    from kaldi_compat.pitch_features import Generator


class Pitch(OptionedModule):
    """Tracks pitch (Kaldi: compute-kaldi-pitch-feats).

    The correlation is differentiable with respect to the audio; the pitch is one of a grid of values and is not. A
    factor on the audio changes nothing, so that its scale does not matter here.

    Args:
        options: a :class:`PitchOptions`; Kaldi's defaults if none.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: options that Kaldi's program would refuse.

    >>> tone = 5000 * torch.sin(2 * torch.pi * 200 * torch.arange(16000) / 16000)
    >>> track = Pitch()(tone)
    >>> track.shape, round(float(track[50, 1]))
    (torch.Size([98, 2]), 200)
    """

    Options = PitchOptions
    options: PitchOptions

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, samples: Tensor | Sequence[Tensor], lengths: Tensor | None = None) -> Any:
        """Normalized correlation (NCCF) and pitch in Hz of each frame.

        Args:
            samples: audio at ``options.sample_frequency``: (T,), (B, T), or a list of 1-D tensors of any lengths.
                float64 is computed in float64, everything else in float32.
            lengths: how many samples count in each row of (B, T).

        Returns:
            (frames, 2) or (B, frames, 2); with ``lengths``, that and the number of frames of each row, shape (B,) (rows
            past it are zero); for a list, a list.

        Raises:
            AudioError: samples of a wrong shape or type.
            KaldiCompatError: a tracer or exporter records the operations: one utterance's path would be a constant of
                what it records.
        """
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise KaldiCompatError("Pitch cannot be traced or exported: its search depends on the values of the audio")
        if not isinstance(samples, Tensor):
            return self._of_list([self._checked(each, 1) for each in samples])
        samples = self._checked(samples, samples.dim())
        batch = samples if samples.dim() == 2 else samples[None]
        if lengths is None:
            counts = [batch.shape[-1]] * len(batch)
        else:
            if samples.dim() != 2 or lengths.shape != samples.shape[:1] or lengths.is_floating_point():
                raise AudioError(
                    f"lengths are integers that go with samples of shape (B, T): not {lengths.dtype} of shape "
                    f"{tuple(lengths.shape)} with {tuple(samples.shape)}"
                )
            counts = [min(max(int(n), 0), batch.shape[-1]) for n in lengths.tolist()]
        if self._wants_torch(batch):
            features, frames = track_batch(batch, counts, self.options)
        else:
            rows = self._of_list([row[:count] for row, count in zip(batch, counts, strict=True)])
            frames = [len(row) for row in rows]
            features = nn.utils.rnn.pad_sequence(rows, batch_first=True) if rows else batch.new_zeros((0, 0, 2))
        if lengths is not None:
            return features, torch.tensor(frames, device=lengths.device)
        return features if samples.dim() == 2 else features[0]

    def _wants_torch(self, samples: Tensor) -> bool:
        """Whether torch computes: the first pass of online decoding is simulated in NumPy alone."""
        if self.options.simulate_first_pass_online:
            return False
        return samples.device.type != "cpu" or (torch.is_grad_enabled() and samples.requires_grad)

    def _checked(self, samples: Tensor, dims: int) -> Tensor:
        if samples.dim() not in (1, 2) or samples.dim() != dims or samples.is_complex() or samples.dtype == torch.bool:
            raise AudioError(
                "samples are real numbers of shape (T,) or (B, T), or a list of (T,); not "
                f"{samples.dtype} of shape {tuple(samples.shape)}"
            )
        return samples if samples.dtype == torch.float64 else samples.float()

    def _of_list(self, utterances: Sequence[Tensor]) -> list[Tensor]:
        if any(self._wants_torch(each) for each in utterances):
            return [track_batch(each[None], [len(each)], self.options)[0][0] for each in utterances]
        arrays = [each.detach().cpu().numpy() for each in utterances]
        if self.options.simulate_first_pass_online:
            tracks: list[np.ndarray[Any, Any]] = [
                first_pass_pitch(Analysis.of(each, self.options), self.options) for each in arrays
            ]
        else:
            tracks = [track for _, track in track_pitches(enumerate(arrays), self.options)]
        return [torch.from_numpy(track).to(each) for track, each in zip(tracks, utterances, strict=True)]


def silent_past(samples: Tensor, lengths: Sequence[int]) -> Tensor:
    """Audio (B, T) with zeros past each row's length."""
    return zero_past(samples[..., None], lengths)[..., 0]


def track_batch(samples: Tensor, lengths: Sequence[int], options: PitchOptions) -> tuple[Tensor, list[int]]:
    """Track pitch in a padded batch, in torch throughout.

    Args:
        samples: (B, T), float32 or float64, on any device.
        lengths: samples that count in each row.
        options: of the tracker.

    Returns:
        features: (B, frames, 2): correlation and pitch, zeros past a row's frames.
        frames: frames of each row.
    """
    schedules = [Schedule.of(length, options) for length in lengths]
    frames = [schedule.frames for schedule in schedules]
    most = max(frames, default=0)
    if most == 0:
        return samples.new_zeros((len(schedules), 0, 2)), frames
    rates = int(options.sample_frequency), int(options.resample_frequency)
    resampled = [max(1, num_resampled(length, *rates)) for length in lengths]
    signal = silent_past(downsampled(silent_past(samples, lengths), options), resampled)

    ballast_samples = np.ones((len(schedules), most), np.int64)
    recomputed = np.zeros((len(schedules), most), bool)
    for row, schedule in enumerate(schedules):
        ballast_samples[row, : schedule.frames] = schedule.samples
        recomputed[row, : schedule.recomputed] = True
    better_samples = np.array([[max(1, schedule.recompute_samples)] for schedule in schedules])

    inner, norm = correlate(signal, most, options, resampled)
    energy, better_energy = mean_square(signal, ballast_samples), mean_square(signal, better_samples)
    again = torch.as_tensor(recomputed, device=signal.device)
    with torch.no_grad():
        searched = search_nccf(inner, norm, energy, better_energy, again, options)
        path = cheapest_paths(local_costs(searched, options), step_factor(options), frames)
    return zero_past(path_features(nccf(inner, norm, 0.0), path, options), frames), frames


class ProcessPitch(OptionedModule):
    """Makes features for speech recognition of a pitch track (Kaldi: process-kaldi-pitch-feats).

    Args:
        options: a :class:`ProcessPitchOptions`; Kaldi's defaults if none.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: options that Kaldi's program would refuse.

    >>> track = torch.tensor([[0.9, 100.0], [0.95, 101.0], [0.9, 102.0]])
    >>> ProcessPitch()(track).shape
    torch.Size([3, 3])
    """

    Options = ProcessPitchOptions
    options: ProcessPitchOptions

    def __init__(self, options: ProcessPitchOptions | None = None, **changes: Any) -> None:
        super().__init__(options, **changes)
        self._filters = [delta_filters(pitch_deltas(self.options), dtype) for dtype in (np.float32, np.float64)]

    def forward(
        self,
        features: Tensor | Sequence[Tensor],
        lengths: Tensor | None = None,
        *,
        generator: Generator | None = None,
    ) -> Any:
        """Process the output of :class:`Pitch`.

        Args:
            features: (frames, 2), (B, frames, 2), or a list of (frames, 2) of any lengths.
            lengths: how many frames count in each row of (B, frames, 2).
            generator: where the noise of ``delta_pitch_noise_stddev`` comes from: torch's global generator, a
                ``torch.Generator``, or a :class:`~kaldi_compat.random.KaldiRandom` for Kaldi's own.

        Returns:
            (frames + delay, dim) or (B, frames + delay, dim); with ``lengths``, that and the number of frames of each
            row (rows past it are zero); for a list, a list.

        Raises:
            FeatureError: features of a wrong shape, or a pitch that is not positive.
        """
        if not isinstance(features, Tensor):
            return [self(each, generator=generator) for each in features]
        filters = self._filters[features.dtype is torch.float64]
        processed = process_pitch(features, self.options, lengths, generator=generator, filters=filters)
        if lengths is None:
            return processed
        counts = torch.where(lengths > 0, lengths + self.options.delay, 0)
        return zero_past(processed, counts), counts
