"""Launch of the kernels for the features of a module."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.mel import mel_banks
from kaldi_compat.functional.frames import EPSILON, num_frames
from kaldi_compat.kernels import SHAPES, Feature
from kaldi_compat.kernels.bands import BANDS, bands_kernel
from kaldi_compat.kernels.spectrum import half_of_bins, power_kernel

__all__ = ["bands_options", "features_of", "power_options"]

# Frames whose power spectra are in memory at once: 264 floats each at 512 points, a quarter of a GiB.
FRAMES_AT_ONCE = 1 << 18
PADDING = 8
LANES_IN_WARP = 32


def features_of(
    module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: float
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute features that the kernels support: see :func:`kaldi_compat.kernels.features`."""
    options: Any = module.options
    rows = samples.reshape(-1, samples.shape[-1])
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    count = num_frames(rows.shape[-1], module.size, module.shift, options.snip_edges)
    mel = module.filter_bank(vtln_warp)
    width = module.points // 2 + 1 if mel is None else mel.shape[1]
    energies = samples.new_empty((len(rows) * count, width), dtype=torch.float32)
    with_energy = module.needs_energy(raw=True) or module.needs_energy(raw=False)
    log_energy = energies.new_empty(len(energies)) if with_energy else None
    logs = module.are_log_energies
    with torch.cuda.device_of(samples):  # type: ignore[no-untyped-call]
        for first in range(0, len(energies), FRAMES_AT_ONCE):
            end = min(first + FRAMES_AT_ONCE, len(energies))
            power = _power(module, rows, lengths, count, first, end, log_energy)
            if mel is None:
                energies[first:end] = power[:, :width]
            else:
                _bands(power, mel, _ranges(options, vtln_warp, samples.device), energies, first, end, logs)
    features = energies if logs else module.features_of_energies(energies, log_energy)
    features = features.reshape(*samples.shape[:-1], count, module.dim)
    if lengths is None:
        return features
    counts = num_frames(lengths, module.size, module.shift, options.snip_edges)
    valid = torch.arange(count, device=samples.device) < counts.unsqueeze(-1)
    return torch.where(valid.unsqueeze(-1), features, 0.0), counts


def _power(
    module: Feature,
    rows: Tensor,
    lengths: Tensor | None,
    count: int,
    first: int,
    end: int,
    log_energy: Tensor | None,
) -> Tensor:
    """Compute power (or magnitude) spectra of frames ``first`` to ``end - 1``, in padded rows; set the log energies."""
    raw = module.needs_energy(raw=True)
    constants = power_options(module, lengths is not None, 0 if log_energy is None else 1 if raw else 2)
    power = torch.empty((end - first, _row(module.points)), dtype=torch.float32, device=rows.device)
    factors, bins = _tables(module.points, rows.device)
    power_kernel[(-(-len(power) // constants["FRAMES"]),)](
        rows,
        lengths if constants["RAGGED"] else rows,
        module.window,
        factors,
        bins,
        power,
        power if log_energy is None else log_energy[first:],
        rows.stride(0),
        rows.shape[1],
        count,
        first,
        end,
        module.options.preemphasis_coefficient,
        module.options.waveform_scale,
        EPSILON if raw else module.windowed_energy_floor,
        **constants,
    )
    return power


def power_options(module: Feature, ragged: bool, energy: int) -> dict[str, Any]:
    """Return the compile-time constants of the first kernel. ``energy``: 0 for none, 1 for raw, 2 for windowed."""
    options: Any = module.options
    a, lanes = SHAPES[module.points]
    return {
        "SIZE": module.size,
        "SHIFT": module.shift,
        "FIRST": 0 if options.snip_edges else module.shift // 2 - module.size // 2,
        "A": a,
        "LOG_A": a.bit_length() - 1,
        "LANES": lanes,
        "LOG_LANES": lanes.bit_length() - 1,
        "FRAMES": max(1, LANES_IN_WARP // a),
        "ROW": _row(module.points),
        "REFLECTED": not options.snip_edges,
        "RAGGED": ragged and not options.snip_edges,
        "SCALED": options.waveform_scale != 1,
        "REMOVE_DC": options.remove_dc_offset,
        "PREEMPHASIZED": options.preemphasis_coefficient != 0,
        "ENERGY": energy,
        "MAGNITUDE": module.uses_magnitude,
        "num_warps": 1,  # no barriers needed
    }


def _bands(power: Tensor, mel: Tensor, ranges: Tensor, energies: Tensor, first: int, end: int, logs: bool) -> None:
    """Set the mel energies, or their logs, of frames ``first`` to ``end - 1``."""
    constants = bands_options(2 * (power.shape[1] - PADDING), logs)
    bands_kernel[(-(-len(power) // constants["FRAMES"]), len(ranges))](
        power,
        mel,
        ranges,
        energies,
        first,
        end,
        mel.shape[1],
        mel.stride(0),
        mel.stride(1),
        energies.stride(0),
        EPSILON,
        **constants,
    )


def bands_options(points: int, logs: bool) -> dict[str, Any]:
    """Return the compile-time constants of the second kernel."""
    tile = {"FRAMES": 64, "BANDS": BANDS, "BINS": 16}
    return {"ROW": _row(points), **tile, "LOG": logs, "num_warps": 4, "num_stages": 1}


def _row(points: int) -> int:
    """Return the row length of power spectra in floats: rows are aligned with memory transactions."""
    return points // 2 + PADDING


@functools.lru_cache(maxsize=32)
def _tables(points: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines between the two steps of the FFT, (A / 2 + 1, 2, L), and first bins of columns, (A,)."""
    a, lanes = SHAPES[points]
    bins = np.array(half_of_bins(a))
    angle = 2 * np.pi / points * np.outer(bins, np.arange(lanes))
    factors = np.stack((np.cos(angle), np.sin(angle)), 1).astype(np.float32)
    first = np.pad(bins, (0, a - len(bins))).astype(np.int32)
    return torch.from_numpy(factors).to(device), torch.from_numpy(first).to(device)


@functools.lru_cache(maxsize=256)
def _ranges(options: Any, vtln_warp: float, device: torch.device) -> Tensor:
    """Return the range of FFT bins, start and end, of the filters of each group of bands: int32 (groups, 2)."""
    weights = mel_banks(options, vtln_warp).weights
    used = [np.flatnonzero(weights[:, at : at + BANDS].any(1)) for at in range(0, weights.shape[1], BANDS)]
    ranges = [(each[0], each[-1] + 1) if len(each) else (0, 0) for each in used]
    return torch.tensor(ranges, dtype=torch.int32).to(device)
