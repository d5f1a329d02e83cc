"""The plan of a spectral feature: all that does not depend on the audio. NumPy and C compute from the same plan."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat.exact import fft as kaldi_fft
from kaldi_compat.exact import tables
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.mel import compute_mel_banks, count_fft_points
from kaldi_compat.options.spectral import (
    FbankOptions,
    FrameOptions,
    MelFeatureOptions,
    MfccOptions,
    PlpOptions,
    SpectrogramOptions,
)

F32 = np.float32

KINDS: dict[type[FrameOptions], str] = {
    SpectrogramOptions: "spectrogram",
    FbankOptions: "fbank",
    MfccOptions: "mfcc",
    PlpOptions: "plp",
}


@dataclass(frozen=True, eq=False)
class Plan:
    """Tables and sizes that the exact engine needs to compute one spectral feature.

    Attributes:
        kind: "spectrogram", "fbank", "mfcc" or "plp"; or "frames" for the windowed frames themselves.
        options: options of the feature.
        size, shift, points: numbers of samples in a frame, of samples between the starts of frames, and of points of
            the FFT.
        dim: number of columns of the features.
        energy_minimum: floor under energies after windowing.
        log_energy_floor: floor under log energies; minus infinity for none.
        window: weights of the samples of a frame, (size,).
        matrix: cosines of the DCT (num_ceps, num_mel_bins) or, for PLP, of the inverse DFT (lpc_order + 1, num_mel_bins
            + 2); None for other features.
        lifter: factors (num_ceps,); None for features without cepstra.
        use_energy ... cepstral_scale: options of some features; neutral values for other features.
        accurate_fft: True for an FFT in double precision in place of Kaldi's.
        debug_mel: True to print the mel energies of each frame to standard error, and to compute everything in NumPy.
        mel: mel filters in place of Kaldi's, for audio without a VTLN factor.
    """

    kind: str
    options: Any
    size: int
    shift: int
    points: int
    dim: int
    energy_minimum: np.float32
    log_energy_floor: np.float32
    window: Floats
    matrix: Floats | None
    lifter: Floats | None
    use_energy: bool = True
    use_log_fbank: bool = True
    use_power: bool = True
    htk_compat: bool = False
    return_raw_fft: bool = False
    num_mel_bins: int = 0
    num_ceps: int = 0
    lpc_order: int = 0
    compress_factor: float = 0.0
    cepstral_scale: float = 1.0
    accurate_fft: bool = False
    debug_mel: bool = False
    mel: MelTable | None = None

    @functools.cached_property
    def is_in_c(self) -> bool:
        """True if the C library can compute the plan.

        The library does not print mel energies, and computes the accurate FFT only for powers of two.
        """
        return not self.debug_mel and not (self.accurate_fft and self.points & (self.points - 1))

    @functools.cached_property
    def first(self) -> int:
        """Index of the first sample of the first frame: 0 with ``snip_edges``, otherwise usually negative."""
        return 0 if self.options.snip_edges else self.shift // 2 - self.size // 2

    def compute_mel_table(self, vtln_warp: float) -> MelTable:
        """Return the mel filters for a VTLN factor, or :attr:`mel` for any factor if the plan has it."""
        return self.mel or compute_mel_table(self.options, vtln_warp)


@dataclass(frozen=True)
class MelTable:
    """The mel filters of one VTLN factor."""

    first: tuple[int, ...]  # Index of the first FFT bin of each filter.
    weights: tuple[Floats, ...]  # Weights of each filter for its first FFT bin and the bins after it.
    loudness: Floats  # (num_mel_bins,): PLP's factor on each filter's energy, for equal loudness.


@functools.lru_cache(maxsize=64)
def make_plan(options: FrameOptions, *, accurate_fft: bool = False) -> Plan:
    """Return the plan of a spectral feature.

    Args:
        options: options of the feature.
        accurate_fft: True for an FFT in double precision, False for Kaldi's FFT.

    Raises:
        TypeError: the options do not belong to a spectral feature.
        OptionError: the options of the mel filters are invalid, or the number of FFT points is odd.
    """
    kind = KINDS.get(type(options))
    if kind is None:
        raise TypeError(f"the exact engine computes fbank, MFCC, PLP and spectrograms, not {type(options).__name__}")
    energy_floor = F32(options.energy_floor)  # type: ignore[attr-defined]
    matrix = lifter = None
    if isinstance(options, MfccOptions):
        matrix = tables.compute_dct(options.num_ceps, options.num_mel_bins)
        lifter = tables.compute_lifter(options.num_ceps, options.cepstral_lifter)
    if isinstance(options, PlpOptions):
        matrix = tables.compute_inverse_dft(options.lpc_order + 1, options.num_mel_bins + 2)
        lifter = tables.compute_lifter(options.num_ceps, options.cepstral_lifter)
    if isinstance(options, MelFeatureOptions):
        compute_mel_table(options, 1.0)  # Invalid mel options raise an error now, not when audio arrives.
    # Options that have the name of an attribute of the plan are copied to the plan.
    plan_names = {field.name for field in dataclasses.fields(Plan)}
    shared_names = plan_names & {field.name for field in dataclasses.fields(options)}
    return Plan(
        kind=kind,
        options=options,
        size=options.window_size,
        shift=options.window_shift,
        points=count_fft_points(options),
        dim=options.dim,
        # Kaldi's PLP floors energies at the smallest normal float32 instead of the machine epsilon.
        energy_minimum=np.finfo(F32).tiny if kind == "plp" else np.finfo(F32).eps,
        log_energy_floor=F32(logf(energy_floor)) if energy_floor > 0 else F32(-np.inf),
        window=tables.make_window(options.window_type, options.window_size, options.blackman_coeff),
        matrix=matrix,
        lifter=lifter,
        accurate_fft=accurate_fft,
        **{name: getattr(options, name) for name in shared_names},
    )


@functools.lru_cache(maxsize=256)
def compute_mel_table(options: MelFeatureOptions, vtln_warp: float) -> MelTable:
    """Return the mel filters of a feature for a VTLN factor, as a table. The factor 1 means no warp.

    Raise OptionError if Kaldi refuses the edges, the factor or the cutoffs, or if a mel bin has no FFT bin.
    """
    banks = compute_mel_banks(options, vtln_warp)
    return make_mel_table(banks.weights, tables.compute_equal_loudness(banks.centers))


def make_mel_table(weights: Floats, loudness: Floats) -> MelTable:
    """Return a table of mel filters ``weights``, float32 (fft_bins, num_mel_bins).

    The table has the weights of each filter from the first to the last nonzero weight. ``loudness`` (num_mel_bins,) are
    the equal-loudness factors by which PLP multiplies the mel energies.
    """
    is_nonzero = weights != 0
    first_bins = is_nonzero.argmax(0)
    # A filter whose weights are all zero gets one weight of zero, so that no filter is empty.
    end_bins = np.where(is_nonzero.any(0), len(weights) - is_nonzero[::-1].argmax(0), 1)
    columns = np.ascontiguousarray(weights.T)
    bounds = list(zip(first_bins.tolist(), end_bins.tolist(), strict=True))
    nonzero_weights = tuple(column[first:end] for column, (first, end) in zip(columns, bounds, strict=True))
    return MelTable(tuple(first for first, _ in bounds), nonzero_weights, loudness)


def compute_split_radix_tables(log_points: int) -> list[Floats]:
    """Return the twiddle factors of the split-radix FFT for all blocks of 1 to ``2**log_points`` points.

    Element ``k`` of the list is for blocks of ``2**k`` points and has the shape ``(2**k / 4, 6)``: the results of
    :func:`kaldi_compat.exact.fft.compute_twiddles` for steps 1 and 3. Elements 0 to 2 are empty.
    """
    tables = [np.empty((0, 6), F32)] * 3
    for k in range(3, log_points + 1):
        columns = [column for step in (1, 3) for column in kaldi_fft.compute_twiddles(1 << k, step)]
        tables.append(np.ascontiguousarray(np.stack(columns, -1), F32))
    return tables


def compute_mixed_radix_tables(n: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the prime factors of ``n``, and the roots of unity of all steps of a mixed-radix FFT with ``n`` points.

    The roots are real and imaginary parts, (rows, 2). The first step has ``n`` rows. The number of rows of each further
    step is ``n`` divided by the factors of the previous steps.
    """
    factors = kaldi_fft.factor_into_primes(n)
    roots = [np.empty((0, 2), F32)]
    points = n  # Number of points that a step transforms.
    for factor in factors:
        roots.append(np.stack([part.ravel() for part in kaldi_fft.compute_mixed_radix_roots(points, factor)], -1))
        points //= factor
    return np.array(factors, np.int32), np.ascontiguousarray(np.concatenate(roots), F32)
