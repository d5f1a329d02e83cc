"""Constants of the pitch tracker, computed once from the options and rounded where Kaldi rounds."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.resample import (
    Filters,
    PeriodFilters,
    count_resampled,
    evaluate_windowed_sinc,
    make_resampling_filters,
)
from kaldi_compat.functional.array_api import astype, get_namespace, to_float64
from kaldi_compat.native import Structure
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import PitchOptions


@dataclass(frozen=True, eq=False)
class PitchConstants:
    """Numbers and tables of the pitch tracker.

    Lags are times at which audio is compared with itself. Correlations are measured at lags of whole resampled samples,
    and interpolated to the lags of the search's states (Kaldi: ArbitraryResample).
    """

    rate_in: int  # Sampling rate of the audio in Hz.
    rate_out: int  # Sampling rate in Hz of the resampled audio that pitch is tracked in.
    # Cutoff in Hz of the resampling filters, and their width in zero crossings of the sinc on each side.
    lowpass: tuple[float, int]
    # The resampling filters as tables. They are stored because torch.compile cannot trace make_resampling_filters.
    period_filters: PeriodFilters
    # Duration of the audio after a resampled sample on which the sample depends (half the width of its filter). The
    # unit is ``1 / lcm(rate_in, rate_out)`` seconds.
    settling: int
    chunk: int  # Number of samples in a chunk of audio. 0 to process all audio at once.
    window: int  # Number of resampled samples in a correlation window.
    span: int  # Number of resampled samples that a frame needs: its window and the longest lag.
    shift: int  # Number of resampled samples from the start of a frame to the start of the next frame.
    start: int  # First resampled sample of the first frame. It is negative if frames are centered (snip_edges=False).
    snip_edges: bool  # True to omit frames that do not lie wholly in the audio.
    preemphasis: float  # Fraction of the previous sample that is subtracted from each sample.
    ballast: float  # Factor on the square of a window's energy, which gives the ballast of a frame.
    ballast_online: bool  # True to compute the energy for the ballast from the audio up to the end of each frame.
    recompute_frame: int  # Number of frames at the start that are searched again with the energy of more audio.
    first_lag: int  # The first whole lag at which correlations are measured, in resampled samples.
    lags: int  # Number of whole lags at which correlations are measured: ``first_lag``, ``first_lag + 1`` and so on.
    step: float  # Cost of a step by one state. A step by ``n`` states costs ``n**2`` times ``step``.
    soft_min_f0: float  # Pitch in Hz. A lower value penalizes long lags less (see ``PitchOptions``).
    seconds: Floats  # ``(states,)``: lags of the states in seconds, evenly spaced in log pitch, in increasing order.
    pitch: Floats  # ``(states,)``: pitch of each state in Hz.
    # ``(lags, states)``: factors that interpolate correlations to the states' lags; 0 outside of Kaldi's filters.
    weights: Floats
    first: npt.NDArray[np.int32]  # ``(states,)``: row in ``weights`` of the first whole lag in each state's filter.
    columns: npt.NDArray[np.int32]  # ``(states,)``: number of whole lags in each state's filter.

    @property
    def states(self) -> int:
        """Number of states of the search. Each state is a pitch."""
        return len(self.pitch)

    @property
    def filters(self) -> Filters:
        """Filters that resample audio from ``rate_in`` to ``rate_out``."""
        return make_resampling_filters(self.rate_in, self.rate_out, *self.lowpass)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "c_arguments"}

    @functools.cached_property
    def c_arguments(self) -> Structure:
        """The constants as a structure for the C library. It stores the weights of all states one after another."""
        weights = np.concatenate([self.get_state_weights(state) for state in range(self.states)])
        state_starts = np.cumsum(self.columns, dtype=np.int64) - self.columns
        return native.get_structure("pitch_plan")(self, offset=state_starts, weights=weights)

    def get_state_weights(self, state: int) -> Floats:
        """Return the weights (columns[state],) of the whole lags in a state's filter, in order of the lags."""
        return self.weights[self.first[state] :, state][: self.columns[state]]

    @classmethod
    @functools.lru_cache(maxsize=16)
    def from_options(cls, options: PitchOptions) -> PitchConstants:
        """Compute the constants from the options of the tracker. Equal options share one object."""
        rate_in, rate_out = options.integer_rates
        cutoff = as_float32(options.lowpass_cutoff)
        half_width = np.float32(options.lowpass_filter_width / (2.0 * cutoff))  # Half the filter's width in s.
        rate = as_float32(options.resample_frequency)
        # The filters that interpolate the correlation extend by ``margin`` seconds before and after a state's lag.
        margin = options.upsample_filter_width / (2.0 * rate)
        first_lag = math.ceil(rate * (1.0 / as_float32(options.max_f0) - margin))
        last_lag = math.floor(rate * (1.0 / as_float32(options.min_f0) + margin))
        num_lags = last_lag - first_lag + 1
        seconds = _compute_lags(options)
        weights, is_inside = _make_interpolation_weights(seconds, first_lag, num_lags, options)
        window, shift = options.window_size, options.window_shift
        span = window + last_lag
        squared_log_ratio = np.float32(np.log(1.0 + as_float32(options.delta_pitch)) ** 2)
        return cls(
            rate_in=rate_in,
            rate_out=rate_out,
            lowpass=(cutoff, options.lowpass_filter_width),
            period_filters=PeriodFilters.from_filters(
                make_resampling_filters(rate_in, rate_out, cutoff, options.lowpass_filter_width)
            ),
            settling=math.floor(half_width * np.float32(math.lcm(rate_in, rate_out))),
            chunk=_count_chunk_samples(options),
            window=window,
            span=span,
            shift=shift,
            start=0 if options.snip_edges else shift // 2 - span // 2,
            snip_edges=options.snip_edges,
            preemphasis=as_float32(options.preemphasis_coefficient),
            ballast=as_float32(options.nccf_ballast),
            ballast_online=options.nccf_ballast_online,
            recompute_frame=options.recompute_frame,
            first_lag=first_lag,
            lags=num_lags,
            step=float(squared_log_ratio * np.float32(options.penalty_factor)),
            soft_min_f0=as_float32(options.soft_min_f0),
            seconds=seconds,
            pitch=(1.0 / seconds.astype(np.float64)).astype(np.float32),
            weights=weights,
            first=is_inside.argmax(0).astype(np.int32),
            columns=is_inside.sum(0).astype(np.int32),
        )

    def count_resampled(self, samples_in: Any, *, finished: bool) -> Any:
        """Return the number of samples after resampling (Kaldi: LinearResample::GetNumOutputSamples).

        Args:
            samples_in: number of samples before resampling: an integer, an array or a tensor.
            finished: True if no more audio follows. If False, resampled samples whose filters extend beyond the end
                are not counted.
        """
        if finished:
            return count_resampled(samples_in, self.rate_in, self.rate_out)
        # Times are counted in ticks, because a sample of either rate lasts a whole number of ticks.
        ticks_per_second = math.lcm(self.rate_in, self.rate_out)
        end = samples_in * (ticks_per_second // self.rate_in) - self.settling
        return _clip_at_zero(-(-end // (ticks_per_second // self.rate_out)))

    def count_available_frames(self, samples: Any, *, finished: bool) -> Any:
        """Return the number of frames in the first ``samples`` resampled samples (Kaldi: NumFramesAvailable).

        ``samples`` is an integer, an array or a tensor. Unless the audio is ``finished``, each counted frame has
        ``span`` samples. In finished audio, ``window`` samples are enough. However, without ``snip_edges`` the finished
        audio has ``samples / shift`` frames, rounded half up, or 0 frames if it is shorter than ``window``.
        """
        if isinstance(samples, int):
            return int(self.count_available_frames(np.array([samples]), finished=finished)[0])
        size, shift = self.window if finished else self.span, self.shift
        if self.snip_edges:
            return _clip_at_zero((samples - size) // shift + 1)
        xp = get_namespace(samples)
        centered = samples if finished else samples - size // 2
        # Kaldi divides and adds in float32. Here the division is computed in double precision and then rounded, because
        # a GPU does not round a float32 division by a constant correctly.
        quotient = astype(to_float64(astype(centered, xp.float32)) / shift, xp.float32)
        return xp.where(samples < size, 0 * samples, astype(quotient + 0.5, xp.int64))

    def count_frames(self, samples: Any) -> Any:
        """Return the number of frames of whole waveforms with ``samples`` samples: an integer, an array or a tensor."""
        return self.count_available_frames(self.count_resampled(samples, finished=True), finished=True)


def _compute_lags(options: PitchOptions) -> Floats:
    """Return the lags (states,) of the states in seconds, from ``1 / max_f0`` to at most ``1 / min_f0``.

    Each lag is the previous lag times ``1 + delta_pitch``. Kaldi's rounding to float32 decides how many lags fit.
    """
    lags = []
    lag, longest = np.float32(1.0 / as_float32(options.max_f0)), np.float32(1.0 / as_float32(options.min_f0))
    ratio = 1.0 + as_float32(options.delta_pitch)
    while lag <= longest:
        lags.append(lag)
        lag = np.float32(float(lag) * ratio)
    return np.array(lags, np.float32)


def _make_interpolation_weights(
    seconds: Floats, first_lag: int, num_lags: int, options: PitchOptions
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Compute the weights that interpolate the correlation from whole lags to the lags of the states.

    Args:
        seconds: lags (states,) of the states in seconds.
        first_lag, num_lags: the first whole lag in resampled samples, and the number of whole lags.
        options: options of the tracker.

    Returns:
        Weights (num_lags, states), and a mask (num_lags, states) that is True in the filters. Other weights are 0.
    """
    rate = np.float32(options.resample_frequency)
    indices = np.arange(num_lags, dtype=np.float32)[:, None]  # Whole lags minus ``first_lag``, in samples.
    offset = seconds + np.float32(-first_lag) / rate  # Lags of the states minus ``first_lag``, in seconds.
    cutoff = as_float32(float(rate) * 0.5)
    half_width = np.float32(options.upsample_filter_width / (2.0 * cutoff))
    is_inside = indices >= np.ceil(rate * (offset - half_width))
    is_inside &= indices <= np.floor(rate * (offset + half_width))
    times = (offset - indices / rate)[is_inside].tolist()
    weights = np.zeros(is_inside.shape, np.float32)
    weights[is_inside] = [evaluate_windowed_sinc(time, cutoff, options.upsample_filter_width) for time in times]
    return weights / rate, is_inside


def _count_chunk_samples(options: PitchOptions) -> int:
    """Return the number of input samples in a chunk of ``frames_per_chunk`` frames, or 0 if all audio is one chunk."""
    if options.frames_per_chunk == 0:
        return 0
    product = np.float32(options.frames_per_chunk) * np.float32(options.sample_frequency)  # Kaldi rounds to float32.
    return max(1, int(product * np.float32(options.frame_shift) / np.float32(1000)))


def _clip_at_zero(count: Any) -> Any:
    return max(count, 0) if isinstance(count, int) or not hasattr(count, "clip") else count.clip(0)
