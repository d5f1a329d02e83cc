"""Features for speech recognition from correlation and pitch (src/feat/pitch-functions.cc, OnlineProcessPitch)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.rand import NUMPY_GENERATOR, TORCH_GENERATOR, KaldiRandom, make_generator_error
from kaldi_compat.functional.array_api import (
    Array,
    arange,
    astype,
    choose_precision,
    convert_like,
    full,
    get_namespace,
    is_traced_or_differentiated,
    refuse_export_of_noise,
    run_eagerly,
    sum_cumulatively,
    to_float64,
)
from kaldi_compat.functional.batches import check_features, mask_frames
from kaldi_compat.functional.block_deltas import append_deltas
from kaldi_compat.functional.deltas import Filter, add_deltas, compute_delta_filters
from kaldi_compat.functional.means import compute_window_means
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import ProcessPitchKeywords, Unpack
from kaldi_compat.options.pitch import ProcessPitchOptions
from kaldi_compat.options.postprocessing import DeltaOptions

if TYPE_CHECKING:
    import torch

    Generator = KaldiRandom | np.random.Generator | torch.Generator


def compute_pov_feature(correlation: Array) -> Array:
    """Return the probability-of-voicing feature, which decreases with the correlation (Kaldi: NccfToPovFeature).

    The feature is ``(1.0001 - n)**0.15 - 1``, where ``n`` is the correlation (any shape), clipped to -1 to 1.
    """
    clipped: Array = get_namespace(correlation).clip(to_float64(correlation), -1.0, 1.0)
    base = 1.0001 - clipped
    # The last bit of NumPy's ** depends on the processor. float_power calls the C library's pow(), as Kaldi does.
    power: Array = np.float_power(base, 0.15) if isinstance(base, np.ndarray) else base**0.15
    return astype(power - 1.0, correlation.dtype)


def estimate_probability_of_voicing(correlation: Array) -> Array:
    """Estimate the probability that each frame is voiced from its normalized cross-correlation (Kaldi: NccfToPov).

    The result has the shape and dtype of ``correlation``, whose sign is ignored. Magnitudes above 1 count as 1.
    """
    xp = get_namespace(correlation)
    magnitude = xp.clip(abs(to_float64(correlation)), None, 1.0)
    # Kaldi's authors fitted these numbers to the Keele corpus.
    log_odds: Array = -5.2 + 5.4 * xp.exp(7.5 * (magnitude - 1)) + 4.8 * magnitude - 2 * xp.exp(-10 * magnitude)
    log_odds = log_odds + 4.2 * xp.exp(20 * (magnitude - 1))
    rounded = to_float64(astype(log_odds, correlation.dtype))  # Kaldi also rounds the log odds to float32.
    probability: Array = 1 / (1 + xp.exp(-rounded))
    return astype(probability, correlation.dtype)


def compute_log_pitch(pitch: Array) -> Array:
    """Return the natural logarithm of each pitch in Hz (any shape). Float32 NumPy arrays get the bits of ``logf``."""
    if isinstance(pitch, np.ndarray) and pitch.dtype == np.float32:
        return logf(pitch)
    log: Array = get_namespace(pitch).log(to_float64(pitch))
    return astype(log, pitch.dtype)


def normalize_log_pitch(features: Array, left: int, right: int, lengths: Any = None) -> Array:
    """Return the log pitch ``(..., frames)`` minus its mean over neighboring frames.

    In the mean, each frame is weighted by its probability of voicing.

    Args:
        features: columns ``(..., frames, 2)``: correlation, and pitch in Hz.
        left, right: number of frames before and after each frame in the window of the mean. The window is shorter at
            both ends of an utterance.
        lengths: numbers ``(...,)`` of valid frames. None if all frames are valid. Later results are undefined.
    """
    xp = get_namespace(features)
    frames = features.shape[-2]
    log_pitches = compute_log_pitch(features[..., 1])
    weight = estimate_probability_of_voicing(features[..., 0])
    weighted = weight * log_pitches  # Kaldi also rounds this product to the precision of the features.
    frame_indices = arange(0, frames, features)
    begin = xp.clip(frame_indices - left, 0, None)
    end = xp.clip(frame_indices + right + 1, None, frames)
    if xp is np and lengths is None and frames:
        weights, values = (np.asarray(column).reshape(-1) for column in (weight, weighted))
        means = compute_window_means(weights, values, frames * np.arange(len(weights) // frames + 1), left, right)
        bit_identical: Array = log_pitches - means.reshape(log_pitches.shape)
        return bit_identical
    if lengths is not None:
        end = xp.maximum(xp.minimum(end, convert_like(lengths, features)[..., None]), begin)

    def sum_windows(x: Array) -> Array:
        """Return the sums (..., frames) of ``x`` over the frames ``begin`` to ``end - 1``, in double precision."""
        doubles = to_float64(x)
        prefix_sums = xp.concatenate((0 * doubles[..., :1], sum_cumulatively(doubles, -1)), -1)
        sums: Array
        if lengths is None:
            sums = prefix_sums[..., end] - prefix_sums[..., begin]
        else:
            begins = xp.broadcast_to(begin, end.shape)
            select = np.take_along_axis if xp is np else xp.take_along_dim
            sums = select(prefix_sums, end, -1) - select(prefix_sums, begins, -1)
        return sums

    total = sum_windows(weight)
    if lengths is not None:  # Divide by 1 where a window in the padding is empty: 0 / 0 has no gradient.
        total = xp.where(end > begin, total, full((), 1.0, total))
    mean: Array = sum_windows(weighted) / total
    normalized: Array = log_pitches - astype(mean, features.dtype)
    return normalized


def draw_standard_normal(template: Array, generator: Generator | None) -> Array:
    """Draw standard normal numbers with the shape, the dtype and the device of ``template``.

    Args:
        template: array or tensor of any shape. Its values are not used.
        generator: see :func:`process_pitch`.

    Raises:
        OptionError: ``generator`` is neither a :class:`KaldiRandom` nor a generator of the library of ``template``, or
            is a :class:`KaldiRandom` while a model is exported or traced.
    """
    draws: Array
    if isinstance(generator, KaldiRandom):
        refuse_export_of_noise(template)
        noise = run_eagerly(generator.gauss)(math.prod(template.shape))
        draws = convert_like(noise.reshape(tuple(template.shape)), template)
    elif isinstance(template, np.ndarray):
        numpy_generator = np.random.default_rng() if generator is None else generator
        if not isinstance(numpy_generator, np.random.Generator):
            raise make_generator_error(generator, NUMPY_GENERATOR)
        draws = numpy_generator.standard_normal(template.shape)
    elif generator is None:
        draws = get_namespace(template).randn_like(template)
    else:
        torch = get_namespace(template)
        if not isinstance(generator, torch.Generator):
            raise make_generator_error(generator, TORCH_GENERATOR)
        like = {"dtype": template.dtype, "device": generator.device}
        draws = torch.randn(template.shape, generator=generator, **like).to(template.device)
    return astype(draws, template.dtype)


class PitchDeltas(NamedTuple):
    """Options and filters of the deltas of the log pitch."""

    options: DeltaOptions
    filters: Sequence[Filter]


@takes_options(ProcessPitchOptions)
def process_pitch(
    features: Array,
    options: ProcessPitchOptions | None = None,
    lengths: Any = None,
    *,
    generator: Generator | None = None,
    deltas: PitchDeltas | None = None,
    **changes: Unpack[ProcessPitchKeywords],
) -> Array:
    """Compute features for speech recognition from correlation and pitch (Kaldi: ProcessPitch).

    Args:
        features: columns ``(..., frames, 2)`` from the pitch tracker: normalized correlation, and pitch in Hz.
        options, changes: the columns and their scales, as ``ProcessPitchOptions`` or by name (default: Kaldi's).
        lengths: numbers ``(...,)`` of valid frames of the utterances in a padded batch. Later frames are ignored.
        generator: source of the noise on the deltas: a :class:`KaldiRandom` for Kaldi's numbers, a generator of NumPy
            or torch, or None for the library's default. ``options.delta_pitch_noise_stddev`` scales the noise.
        deltas: result of :func:`make_pitch_deltas`. None to compute it.

    Returns:
        Features ``(..., frames + delay, dim)``, or ``(..., 0, dim)`` if there are no frames. The selected columns have
        this order: probability-of-voicing feature, normalized log pitch, delta of the log pitch, log pitch.

    Raises:
        FeatureError: the features do not have two columns, a pitch is not positive, or the lengths do not match.
        OptionError: an option is invalid, or ``generator`` has a wrong type, or is a :class:`KaldiRandom` while a model
            is exported or traced.

    >>> import numpy as np
    >>> from kaldi_compat import process_pitch
    >>> track = np.array([[0.9, 100.0], [0.95, 101.0], [0.9, 102.0]], np.float32)
    >>> process_pitch(track, add_delta_pitch=False).round(3)
    array([[-0.584, -0.02 ],
           [-0.724,  0.   ],
           [-0.584,  0.02 ]], dtype=float32)
    """
    options = make_options("process_pitch", ProcessPitchOptions, options, changes)
    lengths = check_features(features, lengths)
    check_track(features, lengths)
    noise = None
    # Kaldi draws noise even if it is scaled to zero, so a KaldiRandom must advance as well.
    is_drawn = options.delta_pitch_noise_stddev != 0 or isinstance(generator, KaldiRandom)
    if options.add_delta_pitch and is_drawn and features.shape[-2]:
        noise = draw_standard_normal(features[..., 1], generator)
    return delay_frames(compute_undelayed_features(features, noise, options, lengths, deltas), options.delay)


def check_track(features: Array, lengths: Any) -> None:
    """Raise FeatureError unless features have two columns, and the pitch of each valid frame is positive.

    The pitches are not checked while a compiler, a tracer, autograd or vmap follows the operations on ``features``.
    """
    if features.shape[-1] != 2:
        raise FeatureError(
            f"pitch features have two columns, correlation and pitch, not {features.shape[-1]}: "
            "pass the output of Pitch or track_pitch"
        )
    if is_traced_or_differentiated(features):
        return
    pitch = features[..., 1]
    is_invalid = ~(pitch > 0)
    if lengths is not None:
        is_invalid = is_invalid & mask_frames(lengths, features)
    if bool(is_invalid.any()):
        raise FeatureError("a pitch is not positive, so it has no logarithm: pass the output of the pitch tracker")


def can_process_together(features: npt.NDArray[Any]) -> bool:
    """Return True if features are float32 (rows, 2) with positive pitches (column 1), as process_utterances() needs."""
    return features.dtype == np.float32 and features.shape[1] == 2 and bool((features[:, 1] > 0).all())


def process_utterances(
    features: npt.NDArray[np.float32],
    bounds: npt.NDArray[np.int64],
    options: ProcessPitchOptions,
    generator: KaldiRandom,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Apply :func:`process_pitch` to several utterances together. The results are bit-identical.

    Args:
        features: columns (rows, 2) of all utterances, for which :func:`can_process_together` is true: correlation,
            and pitch in Hz.
        bounds: indices (utterances + 1,): first row of each utterance, followed by the number of rows.
        options: options of the pitch features.
        generator: source of the noise on the deltas.

    Returns:
        The features (rows, dim) of all utterances, and the numbers (utterances,) of rows of the utterances. Each
        utterance has ``options.delay`` additional rows, unless it has no frames.
    """
    log_pitches = compute_log_pitch(np.ascontiguousarray(features[:, 1]))

    def normalize_pitch() -> Floats:
        """Return the log pitch (rows,) minus its mean over neighboring frames, weighted by probability of voicing."""
        weights = estimate_probability_of_voicing(features[:, 0])
        left, right = options.normalization_left_context, options.normalization_right_context
        normalized: Floats = log_pitches - compute_window_means(weights, weights * log_pitches, bounds, left, right)
        return normalized

    def compute_deltas() -> Floats:
        """Return the deltas (rows,) of the log pitch."""
        return append_deltas(log_pitches[:, None], bounds, make_pitch_deltas(options).options)[:, 1]

    noise = draw_standard_normal(log_pitches, generator) if options.add_delta_pitch else None
    processed = _compute_columns(features[:, 0], log_pitches, options, normalize_pitch, compute_deltas, noise)
    counts = np.diff(bounds)
    if options.delay == 0:
        return processed, counts
    delayed_counts = np.where(counts > 0, counts + options.delay, 0)
    first_rows = np.repeat(bounds[:-1], delayed_counts)
    first_outputs = np.repeat(np.cumsum(delayed_counts) - delayed_counts, delayed_counts)
    frame_indices = np.maximum(np.arange(len(first_rows)) - first_outputs - options.delay, 0)
    return processed[first_rows + frame_indices], delayed_counts


def make_pitch_deltas(options: ProcessPitchOptions, dtype: type[np.floating[Any]] = np.float32) -> PitchDeltas:
    """Compute the argument ``deltas`` of :func:`process_pitch` in advance, because compilers cannot trace this step.

    Args:
        options: options of :func:`process_pitch`.
        dtype: floating-point type of the weights of the filters.
    """
    deltas = DeltaOptions(delta_order=1, delta_window=options.delta_window)
    return PitchDeltas(deltas, tuple(compute_delta_filters(deltas, dtype)))


def compute_undelayed_features(
    features: Array,
    noise: Array | None,
    options: ProcessPitchOptions,
    lengths: Any = None,
    deltas: PitchDeltas | None = None,
) -> Array:
    """Compute the features of :func:`process_pitch` without the delay, and with ``noise`` on the deltas.

    Args:
        features: columns (..., frames, 2): normalized correlation, and pitch in Hz.
        noise: standard normal numbers (..., frames). None for no noise.
        options: the columns and their scales.
        lengths: numbers (...,) of valid frames. None if all frames are valid.
        deltas: result of :func:`make_pitch_deltas`. None to compute it.

    Returns:
        Features (..., frames, dim) with the columns of :func:`process_pitch`.
    """
    xp = get_namespace(features)
    if lengths is not None:  # The padding gets the value 1, whose logarithm and gradient are finite.
        features = xp.where(mask_frames(lengths, features)[..., None], features, full((), 1.0, features))
    log_pitches = compute_log_pitch(features[..., 1])

    def normalize_pitch() -> Array:
        """Return the log pitch (..., frames) minus its weighted mean: see :func:`normalize_log_pitch`."""
        left, right = options.normalization_left_context, options.normalization_right_context
        return normalize_log_pitch(features, left, right, lengths)

    def compute_deltas() -> Array:
        """Return the deltas (..., frames) of the log pitch."""
        delta_options, filters = deltas or make_pitch_deltas(options, choose_precision(log_pitches))
        return add_deltas(log_pitches[..., None], delta_options, lengths=lengths, filters=filters)[..., 1]

    return _compute_columns(features[..., 0], log_pitches, options, normalize_pitch, compute_deltas, noise)


def _compute_columns(
    correlation: Array,
    log_pitches: Array,
    options: ProcessPitchOptions,
    normalize_pitch: Callable[[], Array],
    compute_deltas: Callable[[], Array],
    noise: Array | None,
) -> Array:
    """Return the columns (..., frames, columns) that the options select, in the order of :func:`process_pitch`.

    Args:
        correlation, log_pitches: arrays (..., frames): normalized correlation, and natural log of the pitch in Hz.
        options: options of the processing.
        normalize_pitch, compute_deltas: functions that return arrays (..., frames): the normalized log pitch, and
            the deltas of the log pitch. They are called only for columns that the options select.
        noise: standard normal noise (..., frames) on the deltas. None for no noise.
    """
    columns: list[Any] = []
    if options.add_pov_feature:
        columns.append(options.pov_scale * compute_pov_feature(correlation) + options.pov_offset)
    if options.add_normalized_log_pitch:
        columns.append(normalize_pitch() * options.pitch_scale)
    if options.add_delta_pitch:
        delta = compute_deltas() if noise is None else compute_deltas() + noise * options.delta_pitch_noise_stddev
        columns.append(delta * options.delta_pitch_scale)
    if options.add_raw_log_pitch:
        columns.append(log_pitches)
    processed: Array = get_namespace(log_pitches).stack(columns, -1)
    return processed


def delay_frames(features: Array, delay: int) -> Array:
    """Insert ``delay`` copies of the first frame before features (..., frames, dim), unless there are no frames."""
    frames = features.shape[-2]
    if delay == 0 or frames == 0:
        return features
    shifted: Array = features[..., get_namespace(features).clip(arange(-delay, frames, features), 0, None), :]
    return shifted
