"""The exact engine in NumPy: the operations of ``kaldi_compat/native`` in the same order, for a block of frames."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.fft import compute_accurate_rfft, compute_packed_rfft
from kaldi_compat.exact.libm import cosf
from kaldi_compat.exact.plan import MelTable, Plan
from kaldi_compat.exact.products import scale_vector
from kaldi_compat.exact.rand import draw_polar_noise
from kaldi_compat.exact.sums import compute_plain_sum, dot, multiply_matrix_vector

F32 = np.float32
EPSILON = np.finfo(F32).eps
BLOCK = 256  # Number of frames that are computed at once. Their arrays fit into the second-level cache.


def compute_batch_features(plan: Plan, batch: AudioBatch, begin: int, end: int, out: Floats) -> None:
    """Compute rows ``begin`` to ``end - 1`` of the features of a batch in NumPy, and write them into ``out``.

    ``out`` is float32 (end - begin, dim).
    """
    for start in range(begin, end, BLOCK):
        rows = np.arange(start, min(start + BLOCK, end))
        utterances = np.searchsorted(batch.rows, rows, side="right") - 1
        with np.errstate(all="ignore"):
            frames, log_energy = _apply_window(plan, batch, rows, utterances)
            out_rows = out[start - begin : start - begin + len(rows)]
            if plan.kind == "frames":
                out_rows[...] = frames[:, : plan.dim]
                continue
            spectrum = compute_accurate_rfft(frames) if plan.accurate_fft else compute_packed_rfft(frames)
            if plan.kind == "spectrogram":
                out_rows[...] = _compute_spectrogram(plan, spectrum, log_energy)
                continue
            power = _compute_power(spectrum)
            if not plan.use_power:
                power = np.sqrt(power)
            warps = batch.warps[utterances]
            for warp in np.unique(warps):
                has_warp = warps == warp
                table = plan.compute_mel_table(batch.warp_factors[warp])
                out_rows[has_warp] = _compute_mel_features(plan, table, power[has_warp], log_energy[has_warp])


def _apply_window(
    plan: Plan, batch: AudioBatch, rows: npt.NDArray[np.int64], utterances: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return the windowed frames (rows, points) and the log energies (rows,) of rows of features.

    ``rows`` are indices of rows, and ``utterances`` (rows,) the index of the utterance of each row. Without
    ``use_energy``, the log energies are undefined.
    """
    options = plan.options
    first = batch.firsts[utterances] + (rows - batch.rows[utterances]) * plan.shift
    length = batch.lengths[utterances][:, None]
    indices = (first[:, None] + np.arange(plan.size)) % (2 * length)
    indices = np.minimum(indices, 2 * length - 1 - indices)  # The audio is reflected at both ends, even repeatedly.
    frames = batch.samples[batch.starts[utterances][:, None] + indices].astype(F32)
    if options.waveform_scale != 1:
        frames *= F32(options.waveform_scale)
    if batch.seeds is not None and options.dither != 0:
        frames += draw_noise(batch.seeds[rows], plan.size) * F32(options.dither)
    if options.remove_dc_offset:
        frames -= (compute_plain_sum(frames) / F32(plan.size))[:, None]
    log_energy = np.zeros(len(rows), F32)
    if plan.use_energy and options.raw_energy:
        log_energy = _compute_log_energy(frames, EPSILON)
    if options.preemphasis_coefficient != 0:
        frames = frames - F32(options.preemphasis_coefficient) * np.concatenate((frames[:, :1], frames[:, :-1]), 1)
    frames = np.pad(frames * plan.window, ((0, 0), (0, plan.points - plan.size)))
    if plan.use_energy and not options.raw_energy:
        log_energy = _compute_log_energy(frames, plan.energy_minimum)
    return frames, np.where(log_energy < plan.log_energy_floor, plan.log_energy_floor, log_energy)


def _compute_log_energy(frames: Floats, minimum: np.float32) -> Floats:
    return logf(_take_maximum(dot(frames, frames), minimum))


def _take_maximum(x: Floats, minimum: np.float32) -> Floats:
    return np.where(x < minimum, minimum, x)  # Like std::max of C++, this keeps NaN.


def draw_noise(seeds: npt.NDArray[np.int32], size: int) -> Floats:
    """Draw Kaldi's standard normal noise (frames, size) from the ``rand_r()`` states ``seeds`` (frames,)."""
    radius, angle = draw_polar_noise(seeds, size)
    return radius * cosf(angle)


def _compute_power(spectrum: tuple[Floats, Floats]) -> Floats:
    """Return the power spectra (rows, points / 2 + 1) of packed spectra (see :func:`compute_packed_rfft`)."""
    re, im = spectrum
    power = np.empty((len(re), re.shape[1] + 1), F32)
    power[:, 1:-1] = re[:, 1:] * re[:, 1:] + im[:, 1:] * im[:, 1:]
    power[:, 0], power[:, -1] = re[:, 0] * re[:, 0], im[:, 0] * im[:, 0]
    return power


def _compute_spectrogram(plan: Plan, spectrum: tuple[Floats, Floats], log_energy: Floats) -> Floats:
    """Return log power spectra (rows, points / 2 + 1) of packed spectra. The log energy (rows,) replaces column 0.

    With ``return_raw_fft``, return the packed spectra (rows, points), in which real and imaginary parts alternate.
    """
    if plan.return_raw_fft:
        return np.stack(spectrum, -1).reshape(len(log_energy), plan.points)
    features = _compute_floored_log(_compute_power(spectrum))
    features[:, 0] = log_energy
    return features


def _compute_floored_log(energies: Floats) -> Floats:
    return logf(_take_maximum(energies, EPSILON))


def _compute_mel_features(plan: Plan, table: MelTable, power: Floats, log_energy: Floats) -> Floats:
    """Return the features (rows, dim) of power or magnitude spectra (rows, fft_bins) and log energies (rows,).

    ``table`` has the mel filters. With ``debug_mel``, also print the mel energies to standard error, as Kaldi does.
    """
    bins = zip(table.first, table.weights, strict=True)
    energies = np.stack([dot(power[:, i : i + len(weights)], weights) for i, weights in bins], -1)
    if plan.debug_mel:
        for row in energies.tolist():
            print("MEL BANKS:\n", " ".join(f"{energy:f}" for energy in row), file=sys.stderr)
    if plan.kind == "fbank":
        return _compute_fbank(plan, energies, log_energy)
    cepstra = _compute_mfcc(plan, energies) if plan.kind == "mfcc" else _compute_plp(plan, energies * table.loudness)
    return _place_energy(plan, cepstra, log_energy)


def _compute_fbank(plan: Plan, energies: Floats, log_energy: Floats) -> Floats:
    """Return the fbank features (rows, dim) of mel energies (rows, num_mel_bins) and log energies (rows,).

    With ``use_energy``, the log energy is the first column, or the last column for ``htk_compat``.
    """
    bins = _compute_floored_log(energies) if plan.use_log_fbank else energies
    if not plan.use_energy:
        return bins
    energy = log_energy[:, None]
    return np.concatenate((bins, energy) if plan.htk_compat else (energy, bins), -1)


def _compute_mfcc(plan: Plan, energies: Floats) -> Floats:
    """Return the cepstra (rows, num_ceps) of mel energies (rows, num_mel_bins)."""
    assert plan.matrix is not None and plan.lifter is not None
    return multiply_matrix_vector(plan.matrix, _compute_floored_log(energies)) * plan.lifter


def _compute_plp(plan: Plan, energies: Floats) -> Floats:
    """Return the PLP cepstra (rows, num_ceps) of mel energies (rows, num_mel_bins).

    The equal-loudness weights are already applied to the energies.
    """
    assert plan.matrix is not None and plan.lifter is not None
    exponent = float(F32(plan.compress_factor))
    powers = [_raise_to_power(x, exponent) for x in energies.ravel().tolist()]
    loudness = np.array(powers).astype(F32).reshape(energies.shape)
    # As in Kaldi, the first and the last bin are repeated at the edges of the spectrum.
    loudness = np.concatenate((loudness[:, :1], loudness, loudness[:, -1:]), -1)
    autocorrelations = multiply_matrix_vector(plan.matrix, loudness)
    lpc, residual = _predict_linearly(autocorrelations)
    higher_cepstra = _compute_cepstra(lpc)
    c0 = np.array([_compute_log_of_residual(x) for x in residual.tolist()]).astype(F32)
    has_nan = np.isnan(higher_cepstra).any(-1)
    if has_nan.any():  # The signs of NaN follow from the order of Kaldi's operands on x86, so compute them again.
        nan = F32(np.nan if math.isnan(exponent) else -np.nan)
        autocorrelations = np.where(np.isnan(autocorrelations), nan, autocorrelations)[has_nan]
        lpc, residual = _predict_linearly(autocorrelations.view(_SignedNans))
        higher_cepstra[has_nan] = _compute_cepstra(lpc)
        c0[has_nan] = np.where(np.isnan(residual), -residual, c0[has_nan])
    cepstra = np.concatenate((_take_maximum(c0, np.finfo(F32).tiny)[:, None], higher_cepstra), -1)
    return scale_vector(cepstra[:, : plan.num_ceps] * plan.lifter, plan.cepstral_scale)


class _SignedNans(np.ndarray[Any, Any]):
    """Arrays with x86's signs of NaN: a NaN has the sign of the first operand that is NaN. A new NaN is negative."""

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, out: Any = (), **parameters: Any) -> Any:
        """Call ``ufunc`` on plain arrays, and set the signs of NaN in the result of an operation on two arrays."""
        operands = list(map(np.asarray, inputs))
        result = np.asarray(getattr(ufunc, method)(*operands, **parameters))
        if len(operands) == 2 and result.dtype.kind == "f":
            first, second = operands
            # The first NaN operand gives the sign. A NaN from two numbers is negative on x86.
            sign = np.where(np.isnan(first), first, np.where(np.isnan(second), second, -1.0)).astype(result.dtype)
            result = np.where(np.isnan(result), np.copysign(result, sign), result)
        if not out:
            return result.view(_SignedNans)
        out[0][...] = result
        return out[0]


def _raise_to_power(x: float, exponent: float) -> float:
    """Return ``x ** exponent`` as C's ``pow`` does, with infinity or NaN where Python raises an error."""
    try:
        return math.pow(x, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


def _compute_log_of_residual(x: float) -> float:
    """Return ``-log(1 / x)`` as C does, with infinity or NaN where Python raises an error."""
    if not x > 0 or x == math.inf:
        return float(-np.log(np.float64(1) / np.float64(x)))
    return -math.log(1.0 / x)


def _predict_linearly(autocorrelations: Floats) -> tuple[Floats, Floats]:
    """Return linear prediction coefficients (rows, order) and residual energies (rows,) by Durbin's recursion.

    ``autocorrelations`` are (rows, order + 1), from lag 0 to lag ``order``.
    """
    residual = autocorrelations[:, 0]
    lpc = autocorrelations[:, :0]
    for i in range(autocorrelations.shape[1] - 1):
        reflection = autocorrelations[:, i + 1]
        for j in range(i):
            reflection = reflection + lpc[:, j] * autocorrelations[:, i - j]
        reflection = reflection / residual
        # Kaldi's floor keeps the residual energy positive.
        residual = residual * _take_maximum(F32(1) - reflection * reflection, F32(1.0e-5))
        lpc = np.concatenate((lpc - reflection[:, None] * lpc[:, ::-1], -reflection[:, None]), -1)
    return lpc, residual


def _compute_cepstra(lpc: Floats) -> Floats:
    """Return the cepstra C1, C2 ... (rows, order) of the all-pole model with the coefficients ``lpc`` (rows, order)."""
    cepstra = np.empty_like(lpc)
    for i in range(lpc.shape[1]):
        total = np.zeros(len(lpc))
        for j in range(i):
            total += F32(i - j) * lpc[:, j] * cepstra[:, i - j - 1]
        cepstra[:, i] = -lpc[:, i].astype(np.float64) - total / (i + 1)
    return cepstra


def _place_energy(plan: Plan, cepstra: Floats, log_energy: Floats) -> Floats:
    """Return cepstra (rows, num_ceps), in which the log energy (rows,) replaces C0 if ``use_energy`` is set.

    For ``htk_compat``, the column of C0 or the log energy is moved to the end, and C0 of MFCC is scaled by sqrt(2).
    """
    first_column = log_energy if plan.use_energy else cepstra[:, 0]
    if plan.htk_compat and plan.kind == "mfcc" and not plan.use_energy:
        # HTK scales C0 like the other coefficients.
        first_column = (first_column.astype(np.float64) * math.sqrt(2.0)).astype(F32)
    higher = cepstra[:, 1:]
    return np.concatenate((higher, first_column[:, None]) if plan.htk_compat else (first_column[:, None], higher), -1)
