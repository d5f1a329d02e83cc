"""Base classes of the spectral features, which cut audio into frames and compute the spectra of the windowed frames."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor, get_num_threads

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact import tables
from kaldi_compat.exact.engine import compute_list_features, compute_row_features
from kaldi_compat.exact.mel import compute_mel_banks
from kaldi_compat.exact.plan import Plan, make_plan
from kaldi_compat.functional.array_api import (
    Tracing,
    ask_compiler,
    detect_tracing,
    is_exporting,
    is_traced,
    is_traced_or_differentiated,
    matmul,
)
from kaldi_compat.functional.batches import check_lengths, zero_padding
from kaldi_compat.functional.checks import AudioFeature, CheckedAudio, Warps, warn_user
from kaldi_compat.options.spectral import Dft, Engine, FrameOptions, MelFeatureOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.calls import SpectralCall, Warp
from kaldi_compat.torch.features.engines import ENGINES, check_choice, choose_engine, is_exact, view_in_numpy
from kaldi_compat.torch.features.module import ConfiguredModule, refuse_old_compilers
from kaldi_compat.torch.streaming.features import FeatureStream
from kaldi_compat.torch.tensors.constants import Constants
from kaldi_compat.torch.tensors.copies import to_device
from kaldi_compat.torch.tensors.dft import compute_spectrum, make_dft_matrix
from kaldi_compat.torch.tensors.dither import FrameNoise, Generator, make_frame_noise, make_seed_source
from kaldi_compat.torch.tensors.energies import compute_power_spectrum, group_bands, sum_mel_bands
from kaldi_compat.torch.tensors.frames import EPSILON, compute_log_energy, count_frames, cut_frames, preemphasize

# Number of frames that a thread of a CPU computes together, so that the frames and their spectra fit into the
# second-level cache.
BLOCK = 1024
# Number of frames that other devices compute together, which limits the memory. With an FFT of 512 points, a block
# takes about 1 GiB, or 2 GiB with noise.
DEVICE_BLOCK = 1 << 17
ALL = slice(None)


class SpectralFeature(AudioFeature, SpectralCall, ConfiguredModule):
    """Base class of the features computed from the spectra of frames: Fbank, Mfcc, Plp and Spectrogram.

    A new feature overrides :meth:`energies` and :meth:`features_of_energies`. Its options need a property ``dim``.

    Args:
        options: the options; Kaldi's defaults if None.
        engine: the engine that computes the features: "auto", "exact" (Kaldi's bits), "torch" or "triton".
        dft: algorithm of the torch engine: "fft", or "matmul" (a matrix product) for devices and runtimes without FFT.
        changes: single options by name, which replace values in ``options``.

    Raises:
        OptionError: ``engine`` or ``dft`` is unknown, or Kaldi's program would refuse the options.
    """

    Options: ClassVar[type[FrameOptions]]
    # True for presets whose models compute spectra in double precision instead of with Kaldi's FFT.
    _has_accurate_fft = False
    _windowed_energy_floor: ClassVar[float] = EPSILON
    _kind = Tensor
    _stream = FeatureStream
    options: FrameOptions
    window: Tensor
    dft_rounded: Tensor
    dft_remainder: Tensor

    def __init__(
        self, options: FrameOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", **changes: Any
    ) -> None:
        super().__init__(options, **changes)
        check_choice("engine", engine, ENGINES)
        check_choice("dft", dft, get_args(Dft))
        self.engine, self.dft = engine, dft
        if dft == "matmul":
            rounded, remainder = make_dft_matrix(self.size, self.points)
            self._register_constant("dft_rounded", rounded)
            self._register_constant("dft_remainder", remainder)

    def setup(self) -> None:
        """Compute the constants that depend on the options. A subclass that adds constants calls this method first.

        Raise OptionError if the FFT has an odd number of points.
        """
        # The frame length and the frame shift in samples, and the number of points of the FFT are stored as integers,
        # so that torch.compile does not trace the code that computes them.
        self.size, self.shift = self.options.window_size, self.options.window_shift
        self.points = self.options.padded_window_size
        if self.points % 2:
            raise OptionError(
                f"frame_length={self.options.frame_length:g} gives an FFT of {self.points} points, but the number "
                "must be even: change frame_length or pass round_to_power_of_two=True"
            )
        self._register_table(
            "window", tables.make_window(self.options.window_type, self.size, self.options.blackman_coeff)
        )

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self.options.dim

    @property
    def _are_log_energies(self) -> bool:
        """True if the features are the logs of the floored energies and nothing else."""
        return False

    def _get_filter_bank(self, vtln_warp: float) -> Tensor | None:
        """Return the filter bank (fft_bins, bands) for a VTLN factor, or None if the feature has no filter bank."""
        return None

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute energies from spectra, the first step of a feature.

        Args:
            spectrum: real and imaginary parts of the spectra, shape (..., fft_bins, 2), which may be overwritten.
            filter_bank: weights for VTLN; None for the weights of the module, ``_get_filter_bank(1.0)``.

        Returns:
            Energies of shape (..., bands).
        """
        raise NotImplementedError

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute features from energies, the second step of a feature.

        Args:
            energies: result of :meth:`energies`, shape (..., bands).
            log_energy: log energies of the frames, shape (...); None if the options do not require the energy.

        Returns:
            Features of shape (..., dim).
        """
        raise NotImplementedError

    def _make_example(self) -> Tensor:
        return torch.ones(2, self.size + 4 * self.shift)

    def _needs_energy(self, raw: bool) -> bool:
        """Return True if the features use the energy before preemphasis (``raw``) or after windowing."""
        return getattr(self.options, "use_energy", False) and getattr(self.options, "raw_energy", True) == raw

    @refuse_old_compilers
    def forward(
        self,
        samples: Tensor | Sequence[Tensor],
        lengths: Tensor | Sequence[int] | None = None,
        *,
        vtln_warp: Warp = 1.0,
        generator: Generator = None,
    ) -> Any:
        """Compute the features of audio.

        Args:
            samples: audio at ``options.sample_frequency`` on Kaldi's scale (16-bit integers): (T,), (B, T), an
                :class:`io_ark.Wave`, or a list of 1-D tensors of any lengths or of waves. float64 samples are
                computed in float64, and all other types in float32.
            lengths: number of samples in each row of (B, T), a tensor or a list. Later samples are ignored. For a GPU,
                pass a list or a tensor on the CPU, because Kaldi's noise waits for lengths on the GPU.
            vtln_warp: VTLN factor, or one per utterance: a tensor (B,) or a list. The spectrogram ignores it.
            generator: source of the dithering noise: torch's global generator if None, a ``torch.Generator``, or a
                :class:`~kaldi_compat.KaldiRandom`, which gives Kaldi's own noise.

        Returns:
            Features of shape (frames, dim) or (B, frames, dim). With ``lengths``, also the number of frames of each
            row, shape (B,). Frames beyond this number are zero. For a list of utterances, a list of features.

        Raises:
            AudioError: the samples have a wrong shape or type, a wave has a different sampling rate, or lengths or VTLN
                factors do not match the samples.
            OptionError: a VTLN factor is not a number, or moves mel bins out of their range, ``generator`` has a wrong
                type or is a :class:`~kaldi_compat.KaldiRandom` during an export, or the requested engine cannot compute
                the features.
        """
        if not isinstance(samples, Tensor):
            return self._compute_wave_or_list(samples, lengths, vtln_warp, generator)
        tracing = detect_tracing(samples)
        if is_exact(self) and (array := view_in_numpy(samples, tracing)) is not None:
            return self._compute(self._check_audio(array, lengths, vtln_warp), generator)
        return self._compute(self._check_audio(samples, lengths, vtln_warp, tracing), generator)

    def _compute_frames(self, frames: Tensor, noise: Tensor | None = None, filter_bank: Tensor | None = None) -> Tensor:
        """Compute the features (..., dim) of frames of audio. The features of a frame do not depend on other frames.

        Args:
            frames: samples on Kaldi's scale, shape (..., window_size).
            noise: standard normal noise of the shape of ``frames``, which ``options.dither`` scales; None for no noise.
            filter_bank: mel weights (..., fft_bins, num_mel_bins) for VTLN; None for the weights of the module.
        """
        options, log_energy = self.options, None
        if noise is not None:
            frames = frames + options.dither * noise
        if options.remove_dc_offset:
            frames = frames - frames.mean(-1, keepdim=True)
        if self._needs_energy(raw=True):
            log_energy = compute_log_energy(frames)
        if options.preemphasis_coefficient != 0:
            frames = preemphasize(frames, options.preemphasis_coefficient)
        frames = frames * self.window.to(frames.dtype)
        if self._needs_energy(raw=False):
            log_energy = compute_log_energy(frames, self._windowed_energy_floor)
        matrix = (self.dft_rounded, self.dft_remainder) if self.dft == "matmul" else None
        spectrum = compute_spectrum(frames, self.points, matrix)
        return self.features_of_energies(self.energies(spectrum, filter_bank), log_energy)

    def _make_exact_plan(self) -> Plan | None:
        """Return the plan of the exact engine, or None if the engine does not compute the features: see is_exact."""
        return make_plan(self.options, accurate_fft=self._has_accurate_fft) if is_exact(self) else None

    def _count_frames(self, num_samples: Any) -> Any:
        """Return the number of frames of ``num_samples`` samples, an int, or a tensor or array of integers."""
        return count_frames(num_samples, self.size, self.shift, self.options.snip_edges)

    def _compute(self, audio: CheckedAudio, generator: Generator) -> Any:
        """Compute the features of checked audio. With lengths, also return the number of frames of each row.

        If the samples are an array, the exact engine computes the features.
        """
        samples, lengths, warps, tracing = audio
        if isinstance(samples, Tensor):
            engine = choose_engine(self, samples, lengths, tracing, warps, generator)
            if engine == "torch":
                return self._compute_in_torch(audio, generator)
            if engine == "triton":
                return kernels.compute_features(self, samples, lengths, warps, generator)
            samples, lengths = _to_array(samples), None if lengths is None else lengths.numpy()
        seeds = make_seed_source(generator) if self.options.dither != 0 else None
        features, counts = compute_row_features(
            make_plan(self.options, accurate_fft=self._has_accurate_fft), samples, lengths, warps, seeds,
            get_num_threads(),
        )  # fmt: skip
        computed = torch.from_numpy(features)
        return computed if counts is None else (computed, torch.from_numpy(counts))

    def _compute_list(self, utterances: list[CheckedAudio], generator: Generator) -> list[Tensor]:
        """Compute features (frames, dim) of utterances (T,), as one batch if the exact engine computes all of them."""
        engines = {choose_engine(self, audio.samples, None, audio.tracing, 1.0, generator) for audio in utterances}
        if engines != {"exact"}:
            return [self._compute(utterance, generator) for utterance in utterances]
        arrays = [_to_array(utterance.samples) for utterance in utterances]
        warps: Any = [utterance.warps for utterance in utterances]
        seeds = make_seed_source(generator) if self.options.dither != 0 else None
        plan = make_plan(self.options, accurate_fft=self._has_accurate_fft)
        features = compute_list_features(plan, arrays, warps, seeds, get_num_threads())
        return [torch.from_numpy(utterance) for utterance in features]

    def _compute_in_torch(self, audio: CheckedAudio, generator: Generator) -> Any:
        """Compute the features of checked audio like :meth:`_compute`, with torch's operations."""
        samples, lengths, warps, tracing = audio
        if samples.is_meta != self.window.is_meta:
            raise AudioError(
                f"the samples are on the device {samples.device}, but the module is on {self.window.device}, and the "
                "device meta has no data: move samples and module to one device"
            )
        if tracing.traced and self.options.dither != 0 and _is_exporting_without_dynamo():
            warn_user(
                f"{type(self).__name__} is exported with dither={self.options.dither:g}, so the exported model "
                f"adds random noise to its input: for deployment, export {type(self).__name__}(dither=0.0)"
            )
        samples = samples if samples.dtype == torch.float64 else samples.float()
        if self.options.waveform_scale != 1:
            samples = samples * self.options.waveform_scale
        count, counts, host_counts = self._count_frames(samples.shape[-1]), None, None
        if lengths is not None:
            host_counts = self._count_frames(lengths)
            lengths, counts = to_device(lengths, samples.device), to_device(host_counts, samples.device)
            if tracing.traced_or_differentiated:
                # The padding does not affect the features, but NaN in the padding would make the gradient NaN.
                samples = zero_padding(samples.unsqueeze(-1), lengths).squeeze(-1)
        frames = cut_frames(samples, self.size, self.shift, self.options.snip_edges, lengths, tracing)
        frames = frames.flatten(0, -3) if samples.dim() > 1 else frames.unsqueeze(0)
        noise: FrameNoise | None = None
        if self.options.dither != 0:
            is_extended = tracing.traced and not isinstance(generator, torch.Generator | None)
            noise = make_frame_noise(frames, _mask_frames(frames, host_counts, count, is_extended), generator)
        features = self._compute_in_blocks(frames, noise, self._stack_filter_banks(warps, samples), tracing)
        features = features.reshape(*samples.shape[:-1], *features.shape[1:])
        if tracing.traced:
            # A slice would have the minimum of two symbols as its size, which exporters mishandle.
            features = features.index_select(-2, torch.arange(count).to(samples.device))
        return features if counts is None else (zero_padding(features, counts), counts)

    def _compute_in_blocks(
        self, frames: Tensor, noise: FrameNoise | None, banks: Tensor | None, tracing: Tracing
    ) -> Tensor:
        """Compute the features (rows, frames, dim) of frames (rows, frames, size) by :meth:`_compute_frames`.

        Long input is divided into blocks, which fit into the cache of a CPU or the memory of a device. For ``banks``,
        see :meth:`_stack_filter_banks`.
        """
        rows, count, _ = frames.shape
        if tracing.traced_or_differentiated or frames.numel() == 0:
            return self._compute_frames(frames, None if noise is None else noise(ALL), banks)
        if frames.device.type == "cpu":
            _keep_freed_memory()
            # Noise needs as much memory as the frames and spectra together, so the blocks are half as long.
            block_size = max(1, BLOCK // (1 if noise is None else 2) * torch.get_num_threads() // rows)
        else:
            block_size = max(1, DEVICE_BLOCK // rows)
        if block_size >= count:
            return self._compute_frames(frames, None if noise is None else noise(ALL), banks)
        blocks = [slice(start, start + block_size) for start in range(0, count, block_size)]
        features = [
            self._compute_frames(frames[:, block], None if noise is None else noise(block), banks) for block in blocks
        ]
        return torch.cat(features, 1)

    def _stack_filter_banks(self, warps: Warps, like: Tensor) -> Tensor | None:
        """Return the filter bank (fft_bins, num_mel_bins) for a VTLN factor, or (rows, ...) for one factor per row.

        The result has the type and device of ``like``. Return None for a single factor of 1, for which the module uses
        its own filter bank, or if the feature has no filter bank.
        """
        if isinstance(warps, float):
            bank = None if warps == 1 else self._get_filter_bank(warps)
            return None if bank is None else bank.to(like)
        banks = [bank for bank in map(self._get_filter_bank, warps) if bank is not None]
        return torch.stack(banks).to(like) if banks else None

    def _convert_array(self, samples: Any) -> Tensor:
        """Copy an array to a tensor."""
        return torch.tensor(samples)

    def _check_row_lengths(self, lengths: Any, samples: Any) -> Any:
        """Check lengths, and move them to the device of the samples. In eager mode, lengths on the CPU stay there."""
        if isinstance(samples, np.ndarray):
            return super()._check_row_lengths(lengths, samples)
        are_on_host = not isinstance(lengths, Tensor) or lengths.device.type == "cpu"
        if are_on_host and samples.device.type != "cpu" and not is_traced(samples):
            placeholder = torch.zeros((), device="cpu").expand(samples.shape)  # Its device keeps lengths on the CPU.
            return check_lengths(lengths, placeholder, -1, AudioError)
        checked_lengths: Any = check_lengths(lengths, samples, -1, AudioError)
        return checked_lengths.to(samples.device)


def _mask_frames(frames: Tensor, counts: Tensor | None, count: int, is_extended: bool) -> Tensor | None:
    """Return a mask (rows, frames) of the frames (rows, frames, size) that consume Kaldi's noise; None for all frames.

    ``counts`` (rows,) is the number of valid frames of each row, or None without lengths. The mask is on the device of
    ``counts``, because Kaldi's noise reads the mask on the CPU and would wait for a GPU. If ``is_extended``, a recorded
    call has cut additional frames after the ``count`` frames of the audio.
    """
    if counts is not None:
        return torch.arange(frames.shape[-2]).to(counts.device) < counts.unsqueeze(-1)
    return (torch.arange(frames.shape[-2]) < count).expand(frames.shape[:-1]) if is_extended else None


def _to_array(samples: Tensor) -> Any:
    """Convert audio to an int16 or float32 array on the CPU."""
    return (samples if samples.dtype == torch.int16 else samples.float()).numpy(force=True)


def _is_exporting_without_dynamo() -> bool:
    return is_exporting(torch) and not ask_compiler(torch, "is_dynamo_compiling")


@functools.cache
def _keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next block, instead of returning it to the system.

    glibc returns freed memory beyond twice the size of the largest block that was ever mapped and freed. So 16 MiB
    are allocated and freed here, without being written. This saves a third of the time of undithered features.
    """
    torch.empty(1 << 24, dtype=torch.uint8, device="cpu")


_warped_banks = Constants(256)


class MelFeature(SpectralFeature):
    """Base class of the spectral features on a mel filter bank."""

    options: MelFeatureOptions
    _filled_mel: Tensor

    def setup(self) -> None:
        """Compute the window and the filter bank without VTLN."""
        super().setup()
        self._set_mel(1.0)

    def _set_mel(self, vtln_warp: float) -> None:
        """Compute the filter bank for a VTLN factor, and make it the filter bank of the module."""
        filled, self._groups = group_bands(self._compute_mel_weights(vtln_warp).numpy())
        self._register_constant("_filled_mel", torch.from_numpy(filled).to(self.window.device))

    def _copy_for_warp(self, vtln_warp: float) -> MelFeature:
        """Return a copy that uses the torch engine and the filter bank for the VTLN factor ``vtln_warp``."""
        copied = copy.deepcopy(self)
        copied.engine = "torch"
        copied._set_mel(vtln_warp)
        return copied

    @property
    def mel(self) -> Tensor:
        """The weights of the filter bank: (fft_bins, num_mel_bins)."""
        return self._filled_mel[:, : self.options.num_mel_bins]

    def _compute_mel_weights(self, vtln_warp: float) -> Tensor:
        """Compute the filter bank (fft_bins, num_mel_bins) for a VTLN factor, on the CPU."""
        return torch.from_numpy(compute_mel_banks(self.options, vtln_warp).weights)

    def _get_filter_bank(self, vtln_warp: float) -> Tensor:
        """Return the filter bank (fft_bins, num_mel_bins) for a VTLN factor, on the device of the module."""
        if vtln_warp == 1:
            return self.mel
        return _warped_banks.get_tensor(
            (self.options, vtln_warp), self.window.device, lambda: self._compute_mel_weights(vtln_warp)
        )

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies (..., num_mel_bins) of the power spectrum."""
        return self._apply_filter_bank(
            compute_power_spectrum(spectrum, overwrite=not is_traced_or_differentiated(spectrum)), filter_bank
        )

    def _apply_filter_bank(self, power: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies (..., num_mel_bins) of power or magnitude spectra (..., fft_bins)."""
        if filter_bank is not None:
            return matmul(power, filter_bank)
        return sum_mel_bands(power, self._filled_mel.to(power.dtype), self._groups, self.options.num_mel_bins)
