"""Launch of the feature kernel: its arguments, tables and filter banks."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.exact.rand import compute_rand_r_starts
from kaldi_compat.torch.kernels import SHAPES, Feature
from kaldi_compat.torch.kernels.fused import feature_kernel
from kaldi_compat.torch.kernels.noise import KALDI, PHILOX
from kaldi_compat.torch.kernels.spectrum import list_half_of_bins
from kaldi_compat.torch.tensors.copies import is_capturing, to_device
from kaldi_compat.torch.tensors.dither import Generator, draw_frame_states
from kaldi_compat.torch.tensors.frames import EPSILON, count_frames

# Number of float32 elements of a row of spectra in addition to half of the FFT points. They hold the Nyquist bin, and
# align the rows with memory transactions of 32 bytes.
PADDING = 8
LANES_IN_WARP = 32
GROUP = 32  # Number of bands that the kernel computes at a time. Each lane of a warp computes one band.
# Number of registers of a lane, by compute capability. Few registers let many programs run at the same time, but too
# few registers spill to memory. A GPU that runs at most 16 programs has 128 registers for each lane.
REGISTERS = {(7, 5): 128, (8, 0): 96, (8, 6): 128}
# Number of registers of a lane on other GPUs than REGISTERS names, by number of FFT points.
USUAL_REGISTERS = {128: 80, 256: 88, 512: 80, 1024: 80}
MULTIPROCESSOR_REGISTERS = 1 << 16  # Number of 32-bit registers of a multiprocessor.
# Maximum number of programs on a multiprocessor, by compute capability (CUDA C Programming Guide, technical
# specifications: resident blocks). USUAL_BLOCKS is for all other GPUs.
BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
USUAL_BLOCKS = 32
# Maximum number of filter banks for VTLN factors in a FilterTable. A bank takes about 20 KB, so a table takes at most
# about 40 MB on the device.
MAX_BANKS = 2048
# Maximum number of samples of a row with 32-bit indices. Reflection at the ends of a row computes with twice its
# length, which must be below 2^31 with a margin for frames beyond the ends.
WIDE = 1 << 29
RAW_ENERGY, WINDOWED_ENERGY = 1, 2  # Kinds of energy: before preemphasis and after windowing. 0 stands for no energy.
# Tensors that captured CUDA graphs read at each replay. This list keeps the tensors when caches drop them.
_captured: list[object] = []


class Noise(NamedTuple):
    """Source of the dithering noise in the kernel."""

    kind: int = 0  # KALDI, PHILOX, or 0 for no noise.
    # For KALDI, ``rand_r()`` states of all frames, int32 (frames,). For PHILOX, the seed of the generator, int64 (1,).
    seeds: Tensor | None = None


class Spans(NamedTuple):
    """Spans of consecutive frames with the same VTLN factor. A span ends at the first frame of the next span."""

    firsts: npt.NDArray[np.int64]  # (spans,): first frame of each span, counted over all rows. They ascend from 0.
    warps: Sequence[float]  # (spans,): VTLN factor of each span.


def launch_features(
    module: Feature,
    samples: Tensor,
    lengths: Tensor | None,
    vtln_warp: float | Sequence[float],
    generator: Generator = None,
    *,
    is_wide: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute features with the kernel.

    For the arguments and the result, see :func:`~kaldi_compat.torch.kernels.compute_features`. With
    ``is_wide``, indices have 64 bits even if 32 bits would be enough.
    """
    options: Any = module.options
    rows = samples.reshape(-1, samples.shape[-1])
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    count = count_frames(rows.shape[-1], module.size, module.shift, options.snip_edges)
    counts = None
    if lengths is not None:
        clamped = lengths.clamp(0, rows.shape[-1])
        counts = count_frames(clamped, module.size, module.shift, options.snip_edges)
    if isinstance(vtln_warp, float):
        spans = Spans(np.zeros(1, np.int64), [vtln_warp])
    else:
        spans = Spans(np.arange(len(rows)) * count, vtln_warp)
    noise = _make_noise(options.dither, len(rows), count, counts, generator, samples.device)
    if lengths is not None and counts is not None:
        # The kernel requires contiguous 64-bit lengths.
        lengths, counts = to_device(lengths.long().contiguous(), samples.device), to_device(counts, samples.device)
    features = _launch_kernel(module, rows, lengths, count, spans, noise, is_wide or rows.shape[1] > WIDE)
    features = features.reshape(*samples.shape[:-1], count, module.dim)
    if counts is None:
        return features
    is_valid = torch.arange(count, device=samples.device) < counts.unsqueeze(-1)
    return torch.where(is_valid.unsqueeze(-1), features, 0.0), counts


def launch_row(module: Feature, row: Tensor, spans: Spans, generator: Generator) -> Tensor:
    """Compute the features (frames, dim) of a row of audio (T,), int16 or float32 on a GPU.

    The feature must have ``snip_edges``. ``spans`` has the VTLN factors, and ``generator`` draws the dithering noise.
    """
    count = count_frames(len(row), module.size, module.shift)
    noise = _make_noise(module.options.dither, 1, count, None, generator, row.device)
    return _launch_kernel(module, row.unsqueeze(0), None, count, spans, noise, len(row) > WIDE)


def _make_noise(
    dither: float, rows: int, max_frames: int, frame_counts: Tensor | None, generator: Generator, device: torch.device
) -> Noise:
    """Return the source of the noise for ``rows`` rows of ``max_frames`` frames. If ``dither`` is 0, there is no noise.

    A torch generator or None gives Philox noise. Any other generator gives Kaldi's noise, and draws a ``rand_r()``
    state for each valid frame: the first ``frame_counts`` (rows,) frames of each row, or all frames if None.
    """
    if dither == 0:
        return Noise()
    if generator is None or isinstance(generator, torch.Generator):
        generator_device = device if generator is None else generator.device
        seed = torch.randint(-(2**63), 2**63 - 1, (1,), generator=generator, device=generator_device)
        return Noise(PHILOX, to_device(seed, device))
    is_valid = None
    if frame_counts is not None:
        is_valid = torch.arange(max_frames, device=frame_counts.device) < frame_counts.unsqueeze(-1)
    return Noise(KALDI, to_device(draw_frame_states((rows, max_frames), is_valid, generator), device).reshape(-1))


def _launch_kernel(
    module: Feature, rows: Tensor, lengths: Tensor | None, count: int, spans: Spans, noise: Noise, is_wide: bool
) -> Tensor:
    """Launch the kernel for rows of audio (B, T). Return the features of ``count`` frames per row, (B * count, dim).

    ``lengths`` are the numbers of valid samples, int64 (B,), or None. ``spans`` have the VTLN factors of the
    frames, and ``noise`` dithers the audio. With ``is_wide``, indices have 64 bits.
    """
    device, total_frames = rows.device, len(rows) * count
    mel = module._get_filter_bank(1.0)
    num_columns = module.points // 2 + 1 if mel is None else mel.shape[1]
    energies = rows.new_empty((total_frames, num_columns), dtype=torch.float32)  # Power spectra or mel energies.
    energy_kind = RAW_ENERGY if module._needs_energy(raw=True) else 0
    if module._needs_energy(raw=False):
        energy_kind = WINDOWED_ENERGY
    log_energy = energies.new_empty(total_frames) if energy_kind else None
    factors, bins = _make_tables(module.points, device)
    no_filters = BandFilters(bins, energies, bins), None
    filters, banks = no_filters if mel is None else _select_filters(module, spans, total_frames, device)
    if is_capturing(device):  # The captured graph reads these tensors at each replay.
        _captured.append((factors, bins, filters))
    constants = make_kernel_options(
        module, lengths is not None, energy_kind, noise.kind, is_wide=is_wide, has_banks=banks is not None
    )
    num_programs = min(-(-total_frames // constants["FRAMES"]), _count_programs(device, module.points))
    scratch = torch.empty((num_programs * constants["FRAMES"], constants["ROW"]), dtype=torch.float32, device=device)
    # The kernel does not read arguments that the constants disable, so any tensor can take their place.
    with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
        if total_frames:
            feature_kernel[(num_programs,)](
                rows,
                lengths if constants["RAGGED"] else rows,
                module.window,
                factors,
                bins,
                scratch,
                *filters,
                bins if banks is None else banks,
                energies,
                energies if log_energy is None else log_energy,
                bins if noise.seeds is None else noise.seeds,
                _make_jumps(module.size, device) if noise.kind == KALDI else bins,
                rows.stride(0),
                rows.shape[1],
                count,
                total_frames,
                num_columns,
                len(filters.group_rows) - 1,
                filters.weights.shape[1],
                module.options.preemphasis_coefficient,
                module.options.waveform_scale,
                module.options.dither,
                EPSILON if energy_kind == RAW_ENERGY else module._windowed_energy_floor,
                EPSILON,
                **constants,
                maxnreg=_choose_registers(device, module.points),
            )
    return energies if module._are_log_energies else module.features_of_energies(energies, log_energy)


def make_kernel_options(
    module: Feature, is_ragged: bool, energy_kind: int, noise_kind: int, *, is_wide: bool, has_banks: bool
) -> dict[str, Any]:
    """Return the compile-time constants of :func:`~.fused.feature_kernel`, by name.

    Args:
        is_ragged: True for rows of different lengths.
        energy_kind: RAW_ENERGY, WINDOWED_ENERGY, or 0 for no energy.
        noise_kind: the attribute ``kind`` of :class:`Noise`.
        is_wide: True for 64-bit indices.
        has_banks: True for several filter banks.

    Returns:
        SIZE, SHIFT and FIRST are the length of a frame, the distance between frames, and the start of the first frame,
        in samples. A and LANES are the numbers in ``SHAPES``. FRAMES is the number of frames that a program computes at
        a time, ROW the length of a row of spectra, and GROUP the number of bands in a group. The other constants select
        the steps, such as MAGNITUDE for magnitudes instead of powers, MEL for mel energies, and LOG for their logs.
    """
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
        "ROW": _compute_row_length(module.points),
        "GROUP": GROUP,
        "REFLECTED": not options.snip_edges,
        "RAGGED": is_ragged and not options.snip_edges,
        "WIDE": is_wide,
        "SCALED": options.waveform_scale != 1,
        "NOISE": noise_kind,
        "REMOVE_DC": options.remove_dc_offset,
        "PREEMPHASIZED": options.preemphasis_coefficient != 0,
        "ENERGY": energy_kind,
        "MAGNITUDE": not getattr(module.options, "use_power", True),
        "MEL": module._get_filter_bank(1.0) is not None,
        "LOG": module._are_log_energies,
        "BANKS": has_banks,
        "num_warps": 1,  # With a single warp, the barriers of the kernel cost nothing.
        "num_stages": 1,
    }


@functools.cache
def _count_programs(device: torch.device, points: int) -> int:
    """Return the number of programs that a device runs at the same time if the FFT has ``points`` points.

    Additional programs would start when the first programs end, and would run on a mostly idle device.
    """
    if device.type == "cpu":  # In Triton's interpreter, any number gives the same results.
        return 3
    multiprocessors = int(torch.cuda.get_device_properties(device).multi_processor_count)
    return multiprocessors * count_resident_programs(torch.cuda.get_device_capability(device), points)


def count_resident_programs(capability: tuple[int, int], points: int) -> int:
    """Return the number of programs of one warp that a multiprocessor can run at the same time.

    The number depends on the GPU's compute capability, and on the registers that an FFT of ``points`` points needs.
    """
    registers = REGISTERS.get(capability, USUAL_REGISTERS[points])
    return min(BLOCKS.get(capability, USUAL_BLOCKS), MULTIPROCESSOR_REGISTERS // (LANES_IN_WARP * registers))


@functools.cache
def _choose_registers(device: torch.device, points: int) -> int:
    """Return the number of registers of a lane for an FFT of ``points`` points on a device."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    return REGISTERS.get(capability, USUAL_REGISTERS[points])


class BandFilters(NamedTuple):
    """Filter banks without most of their zeros.

    Attributes:
        first_bins: int32 (banks, groups * GROUP): first FFT bin of the filter of each band, a multiple of 4.
        weights: (banks, rows, GROUP, 4): mel weights. A row has the weights of four bins for each band of a group.
        group_rows: int32 (groups + 1,): first row of each group of bands, and the total number of rows.
    """

    first_bins: Tensor
    weights: Tensor
    group_rows: Tensor


def make_band_filters(weights: npt.NDArray[np.float32], width: int, min_rows: Sequence[int] = ()) -> BandFilters:
    """Convert dense filter banks to band filters.

    Args:
        weights: dense filter banks, shape (banks, fft_bins, bands).
        width: length of a row of spectra, whose numbers after the FFT bins are 0.
        min_rows: minimum number of rows of weights of each group, for the layout of earlier filters; empty for none.
    """
    banks, _, bands = weights.shape
    groups = -(-bands // GROUP)
    dense = np.zeros((banks, width, groups * GROUP), np.float32)
    dense[:, : weights.shape[1], :bands] = weights
    is_nonzero = dense != 0
    first_bins = is_nonzero.argmax(1) // 4 * 4  # (banks, groups * GROUP): first bin of each filter, rounded down.
    end_bins = np.where(is_nonzero.any(1), width - is_nonzero[:, ::-1].argmax(1), first_bins)
    rows_of_band = (-(-(end_bins - first_bins) // 4)).reshape(banks, groups, GROUP)
    rows = np.maximum(rows_of_band.max((0, 2)), min_rows or 0)  # (groups,): number of rows of weights of each group.
    first_bins = np.minimum(first_bins, width - 4 * np.repeat(rows, GROUP))  # All bins of a filter lie in the row.
    group_rows = np.concatenate(([0], np.cumsum(rows)))
    packed = np.zeros((banks, group_rows[-1], GROUP, 4), np.float32)
    for group, (begin, stop) in enumerate(itertools.pairwise(group_rows)):
        group_bands = slice(group * GROUP, (group + 1) * GROUP)
        bins = first_bins[:, None, group_bands] + np.arange(4 * (stop - begin))[:, None]
        values = np.take_along_axis(dense[:, :, group_bands], bins, 1)
        packed[:, begin:stop] = values.reshape(banks, stop - begin, 4, GROUP).swapaxes(2, 3)
    arrays = first_bins.astype(np.int32), packed, group_rows.astype(np.int32)
    return BandFilters(*map(torch.from_numpy, arrays))


def _make_filters(feature_class: Any, options: Any, warps: list[float], min_rows: Sequence[int] = ()) -> BandFilters:
    """Return filter banks of ``feature_class(options)`` for VTLN factors. For ``min_rows``, see make_band_filters."""
    module = feature_class(options)
    weights = np.stack([module._compute_mel_weights(warp).numpy() for warp in warps])
    return make_band_filters(weights, _compute_row_length(2 * (weights.shape[1] - 1)), min_rows)


@functools.lru_cache(maxsize=256)
def _get_filters(feature_class: Any, options: Any, warp: float, device: torch.device) -> BandFilters:
    """Return the filter bank of the feature ``feature_class(options)`` for one VTLN factor, on a device."""
    return BandFilters(*(to_device(array, device) for array in _make_filters(feature_class, options, [warp])))


class FilterTable:
    """Filter banks of the feature ``feature_class(options)`` on a device, for all VTLN factors that have been used.

    All banks have the same layout, so that a batch can select its banks.
    """

    def __init__(self, feature_class: Any, options: Any, device: torch.device) -> None:
        self._feature, self._device = (feature_class, options), device
        self._bank_indices: dict[float, int] = {}  # Maps VTLN factors to the indices of their banks.
        self._host: BandFilters | None = None  # All banks in host memory, or None before the first call.
        self._filters: BandFilters | None = None  # All banks in device memory.
        self._lock = threading.Lock()

    def find_banks(self, warps: Sequence[float]) -> tuple[BandFilters, npt.NDArray[np.int32]]:
        """Return the filters on the device, and the index of the bank of each VTLN factor. Compute missing banks."""
        with self._lock:
            new_warps = sorted(set(warps) - self._bank_indices.keys())
            if self._filters is None or new_warps:
                if len(self._bank_indices) + len(new_warps) > MAX_BANKS:  # Drop the banks of earlier calls.
                    self._bank_indices, self._host, new_warps = {}, None, sorted(set(warps))
                self._host = self._add_banks(new_warps)
                self._bank_indices |= {warp: len(self._bank_indices) + i for i, warp in enumerate(new_warps)}
                self._filters = BandFilters(*(to_device(array, self._device) for array in self._host))
            return self._filters, np.array([self._bank_indices[warp] for warp in warps], np.int32)

    def _add_banks(self, warps: list[float]) -> BandFilters:
        """Return the filter banks on the host, followed by the banks of the new VTLN factors ``warps``."""
        if self._host is None:
            return _make_filters(*self._feature, warps)
        rows = self._host.group_rows.diff().tolist()
        added = _make_filters(*self._feature, warps, rows)
        # All banks share one layout. If a new filter needs more rows than the layout has, all banks are computed again.
        if not torch.equal(added.group_rows, self._host.group_rows):
            return _make_filters(*self._feature, [*self._bank_indices, *warps], rows)
        first_bins, weights = (torch.cat(pair) for pair in zip(self._host[:2], added[:2], strict=True))
        return BandFilters(first_bins, weights, added.group_rows)


@functools.lru_cache(maxsize=32)
def _get_filter_table(feature_class: Any, options: Any, device: torch.device) -> FilterTable:
    """Return the table of filter banks that all calls with the same feature, options and device share."""
    return FilterTable(feature_class, options, device)


def _select_filters(
    module: Feature, spans: Spans, frames: int, device: torch.device
) -> tuple[BandFilters, Tensor | None]:
    """Return the filter banks of ``spans``, and each frame's bank index, int32 (frames,), or None for one bank."""
    if len(set(spans.warps)) == 1:
        return _get_filters(type(module), module.options, spans.warps[0], device), None
    filters, span_banks = _get_filter_table(type(module), module.options, device).find_banks(spans.warps)
    banks = np.repeat(span_banks, np.diff(spans.firsts, append=frames))
    return filters, to_device(torch.from_numpy(banks), device)


def _compute_row_length(points: int) -> int:
    """Return the length of a row in the scratch buffer, which holds a power spectrum of an FFT of ``points`` points."""
    return points // 2 + PADDING


@functools.lru_cache(maxsize=32)
def _make_tables(points: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the tables for an FFT of ``points`` points on a device. A and LANES are the numbers in ``SHAPES``.

    Returns:
        The twiddle factors (cosine and sine), float32 (A / 2 + 1, 2, LANES), and ``bins`` of store_power, int32 (A,).
    """
    a, lanes = SHAPES[points]
    bins = np.array(list_half_of_bins(a))
    angle = 2 * np.pi / points * np.outer(bins, np.arange(lanes))
    factors = np.stack((np.cos(angle), np.sin(angle)), 1).astype(np.float32)
    padded_bins = np.pad(bins, (0, a - len(bins))).astype(np.int32)
    return to_device(torch.from_numpy(factors), device), to_device(torch.from_numpy(padded_bins), device)


@functools.lru_cache(maxsize=32)
def _make_jumps(size: int, device: torch.device) -> Tensor:
    """Return multipliers and increments, int32 (2, size), of the jumps from a frame's state to its samples' states."""
    return to_device(torch.from_numpy(compute_rand_r_starts(size)), device)
