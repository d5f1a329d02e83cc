"""Base classes of the spectral features: audio is framed, windowed and transformed; each feature adds its last step."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, get_args

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
    is_traced,
    is_traced_or_differentiated,
    matmul,
)
from kaldi_compat.functional.batches import check_lengths, zero_past
from kaldi_compat.functional.checks import AudioFeature, CheckedAudio, Warps, warn_user
from kaldi_compat.options.spectral import Dft, Engine, FrameOptions, MelFeatureOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.calls import SpectralCall, Warp
from kaldi_compat.torch.features.engines import ENGINES, check_choice, engine_for, is_exact
from kaldi_compat.torch.features.module import ConfiguredModule, eager_with_old_compilers
from kaldi_compat.torch.streaming.features import FeatureStream
from kaldi_compat.torch.tensors.constants import Constants
from kaldi_compat.torch.tensors.copies import to_device
from kaldi_compat.torch.tensors.dft import dft_matrix, spectrum
from kaldi_compat.torch.tensors.dither import FrameNoise, Generator, frame_seeds, noise_of_frames
from kaldi_compat.torch.tensors.energies import in_groups, mel_sums, power_spectrum
from kaldi_compat.torch.tensors.frames import EPSILON, frames_of, log_energy, num_frames, preemphasize

# Frames computed together on a CPU, per thread, so that the block and its spectra stay in the second-level cache.
BLOCK = 1024
# Frames computed together on other devices. With an FFT of 512 points they take about 1 GiB, or 2 GiB with noise.
DEVICE_BLOCK = 1 << 17
ALL = slice(None)


class SpectralFeature(AudioFeature, SpectralCall, ConfiguredModule):
    """Base class of the features computed from a frame's spectrum. Use Fbank, Mfcc, Plp or Spectrogram.

    A new feature overrides :meth:`energies` and :meth:`features_of_energies`; its options have ``dim``.

    Args:
        options: the options; Kaldi's defaults if None.
        engine: the engine that computes the features: "auto", "exact" (Kaldi's bits), "torch" or "triton".
        dft: algorithm of the torch engine: "fft", or "matmul" (a matrix product) for devices, and for runtimes of
            exported models, without an FFT.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: Kaldi's program would refuse the options.
    """

    Options: ClassVar[type[FrameOptions]]
    # True for presets whose models compute the spectrum in double precision, not with Kaldi's FFT.
    _has_accurate_fft = False
    _windowed_energy_floor: ClassVar[float] = EPSILON
    _kind = Tensor
    _stream = FeatureStream
    options: FrameOptions
    window: Tensor
    dft_rounded: Tensor
    dft_rest: Tensor

    def __init__(
        self, options: FrameOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", **changes: Any
    ) -> None:
        super().__init__(options, **changes)
        check_choice("engine", engine, ENGINES)
        check_choice("dft", dft, get_args(Dft))
        self.engine, self.dft = engine, dft
        if dft == "matmul":
            rounded, remainder = dft_matrix(self.size, self.points)
            self._constant("dft_rounded", rounded)
            self._constant("dft_rest", remainder)

    def setup(self) -> None:
        """Compute the constants. Subclasses with further constants override this and call it first."""
        # Plain integers, so that torch.compile does not trace their computation.
        self.size, self.shift = self.options.window_size, self.options.window_shift
        self.points = self.options.padded_window_size
        if self.points % 2:
            raise OptionError(
                f"frame_length={self.options.frame_length:g} gives an FFT of {self.points} points, which must be even: "
                "change frame_length or pass round_to_power_of_two=True"
            )
        self._table("window", tables.make_window(self.options.window_type, self.size, self.options.blackman_coeff))

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self.options.dim

    @property
    def _are_log_energies(self) -> bool:
        """True if the features are the logs of the floored energies and nothing else."""
        return False

    def _filter_bank(self, vtln_warp: float) -> Tensor | None:
        """Return the weights (fft_bins, bands) from power spectra to energies; None if the spectra are the energies."""
        return None

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute the first step of a feature: spectra (..., fft_bins, 2) -> energies (..., bands).

        Args:
            spectrum: real and imaginary parts of the spectra; may be overwritten.
            filter_bank: weights in place of ``_filter_bank(1.0)``, for VTLN; None for the module's own.
        """
        raise NotImplementedError

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the second step: energies (..., bands) and log energies of frames (...) -> features (..., dim)."""
        raise NotImplementedError

    def _example(self) -> Tensor:
        """Return audio of a few frames."""
        return torch.ones(2, self.size + 4 * self.shift)

    def _needs_energy(self, raw: bool) -> bool:
        """True if the features use the energy before (``raw``) or after preemphasis and windowing."""
        return getattr(self.options, "use_energy", False) and getattr(self.options, "raw_energy", True) == raw

    @eager_with_old_compilers
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
            samples: audio at ``options.sample_frequency`` on Kaldi's scale (16-bit integers): (T,), (B, T), or a list
                of 1-D tensors of any lengths. float64 is computed in float64, everything else in float32.
            lengths: number of samples in each row of (B, T), a tensor or a list; the samples after them are ignored.
                On a GPU, a list or a tensor on the CPU is better: Kaldi's noise waits for a tensor on the GPU.
            vtln_warp: VTLN factor, or one per utterance, a tensor (B,) or a list. The spectrogram ignores it, as in
                Kaldi.
            generator: source of the noise of dithering: torch's global generator if None, a ``torch.Generator``, or a
                :class:`~kaldi_compat.KaldiRandom`, which gives Kaldi's own noise.

        Returns:
            (frames, dim) or (B, frames, dim); with ``lengths``, that and the number of frames of each row, shape (B,)
            (the rows after it are zero); for a list, a list.

        Raises:
            AudioError: samples of a wrong shape or type, or lengths or VTLN factors that do not match them.
            OptionError: a VTLN factor that is not a number, or that moves mel bins out of their range.
        """
        if not isinstance(samples, Tensor):
            return self._compute_wave_or_list(samples, lengths, vtln_warp, generator)
        return self._compute(self._check_audio(samples, lengths, vtln_warp, detect_tracing(samples)), generator)

    def _features_of_frames(
        self, frames: Tensor, noise: Tensor | None = None, filter_bank: Tensor | None = None
    ) -> Tensor:
        """Compute the features of frames of audio. Each row depends on its frame alone.

        Args:
            frames: samples on Kaldi's scale, (..., window_size).
            noise: standard normal noise of the same shape, which ``options.dither`` scales.
            filter_bank: mel weights (..., fft_bins, num_mel_bins) in place of the module's own, for VTLN.

        Returns:
            (..., dim).
        """
        options, energy = self.options, None
        if noise is not None:
            frames = frames + options.dither * noise
        if options.remove_dc_offset:
            frames = frames - frames.mean(-1, keepdim=True)
        if self._needs_energy(raw=True):
            energy = log_energy(frames)
        if options.preemphasis_coefficient != 0:
            frames = preemphasize(frames, options.preemphasis_coefficient)
        frames = frames * self.window.to(frames.dtype)
        if self._needs_energy(raw=False):
            energy = log_energy(frames, self._windowed_energy_floor)
        matrix = (self.dft_rounded, self.dft_rest) if self.dft == "matmul" else None
        transformed = spectrum(frames, self.points, matrix)
        return self.features_of_energies(self.energies(transformed, filter_bank), energy)

    def _exact_plan(self) -> Plan | None:
        """Return the plan of the exact engine, if it computes plain audio on a CPU."""
        return self._plan() if is_exact(self) else None

    def _plan(self) -> Plan:
        return make_plan(self.options, accurate_fft=self._has_accurate_fft)

    def _num_frames(self, num_samples: Any) -> Any:
        return num_frames(num_samples, self.size, self.shift, self.options.snip_edges)

    def _compute(self, audio: CheckedAudio, generator: Generator) -> Any:
        """Compute the features of checked audio, and with lengths their numbers of frames."""
        samples, lengths, warps, recorded = audio
        engine = engine_for(self, samples, lengths, recorded, warps, generator)
        if engine == "torch":
            return self._by_torch(audio, generator)
        if engine == "triton":
            return kernels.features(self, samples, lengths, warps, generator)
        ends = None if lengths is None else lengths.numpy()
        seeds = frame_seeds(generator) if self.options.dither != 0 else None
        features, counts = compute_row_features(self._plan(), _as_array(samples), ends, warps, seeds, get_num_threads())
        computed = torch.from_numpy(features)
        return computed if counts is None else (computed, torch.from_numpy(counts))

    def _compute_list(self, utterances: list[CheckedAudio], generator: Generator) -> list[Tensor]:
        """Compute the features of utterances (T,), in one batch with the exact engine."""
        if {
            engine_for(self, utterance.samples, None, utterance.tracing, 1.0, generator) for utterance in utterances
        } != {"exact"}:
            return [self._compute(utterance, generator) for utterance in utterances]
        arrays = [_as_array(utterance.samples) for utterance in utterances]
        warps: Any = [utterance.warps for utterance in utterances]
        seeds = frame_seeds(generator) if self.options.dither != 0 else None
        features = compute_list_features(self._plan(), arrays, warps, seeds, get_num_threads())
        return [torch.from_numpy(utterance) for utterance in features]

    def _by_torch(self, audio: CheckedAudio, generator: Generator) -> Any:
        samples, lengths, warps, recorded = audio
        if samples.is_meta != self.window.is_meta:
            raise AudioError(
                f"the samples are on the device {samples.device}, but the module is on {self.window.device}, and one "
                "of them is without data (meta): move it to the other's device"
            )
        if recorded.traced and self.options.dither != 0 and _is_exported():
            warn_user(
                f"{type(self).__name__} is exported with dither={self.options.dither:g}, so the exported model "
                "adds random noise to its input: make it with dither=0.0 for deployment"
            )
        samples = samples if samples.dtype == torch.float64 else samples.float()
        if self.options.waveform_scale != 1:
            samples = samples * self.options.waveform_scale
        count, counts = self._num_frames(samples.shape[-1]), None
        if lengths is not None:
            host = self._num_frames(lengths)
            lengths, counts = to_device(lengths, samples.device), to_device(host, samples.device)
            if recorded.traced_or_differentiated:
                # The padding does not affect the result, but NaN in it would make its gradient NaN.
                samples = zero_past(samples.unsqueeze(-1), lengths).squeeze(-1)
        frames = frames_of(samples, self.size, self.shift, self.options.snip_edges, lengths, recorded)
        frames = frames.flatten(0, -3) if samples.dim() > 1 else frames.unsqueeze(0)
        noise: FrameNoise | None = None
        if self.options.dither != 0:
            # Kaldi's noise waits for counts that are not on the CPU.
            exist = None if lengths is None else torch.arange(frames.shape[-2]).to(host.device) < host.unsqueeze(-1)
            noise = noise_of_frames(frames, exist, generator)
        features = self._in_blocks(frames, noise, self._filter_banks(warps, samples), recorded)
        features = features.reshape(*samples.shape[:-1], *features.shape[1:])
        if recorded.traced:
            # The size of a slice would be a minimum of two symbols, which exporters mishandle.
            features = features.index_select(-2, torch.arange(count).to(samples.device))
        return features if counts is None else (zero_past(features, counts), counts)

    def _in_blocks(self, frames: Tensor, noise: FrameNoise | None, banks: Tensor | None, recorded: Tracing) -> Tensor:
        """Compute :meth:`_features_of_frames` of (rows, frames, size) in blocks that fit the cache or the device."""
        rows, count, _ = frames.shape
        if recorded.traced_or_differentiated or frames.numel() == 0:
            return self._features_of_frames(frames, None if noise is None else noise(ALL), banks)
        if frames.device.type == "cpu":
            _keep_freed_memory()
            # Noise needs as much memory as everything else.
            block = max(1, BLOCK // (1 if noise is None else 2) * torch.get_num_threads() // rows)
        else:
            block = max(1, DEVICE_BLOCK // rows)
        if block >= count:
            return self._features_of_frames(frames, None if noise is None else noise(ALL), banks)
        parts = [slice(start, start + block) for start in range(0, count, block)]
        features = [self._features_of_frames(frames[:, p], None if noise is None else noise(p), banks) for p in parts]
        return torch.cat(features, 1)

    def _filter_banks(self, warps: Warps, like: Tensor) -> Tensor | None:
        """Return filter banks for one VTLN factor, or one for each row; None for the module's own."""
        if isinstance(warps, float):
            bank = None if warps == 1 else self._filter_bank(warps)
            return None if bank is None else bank.to(like)
        banks = [bank for bank in map(self._filter_bank, warps) if bank is not None]
        return torch.stack(banks).to(like) if banks else None

    def _from_array(self, samples: Any) -> Tensor:
        """Return an array as a tensor."""
        return torch.tensor(samples)

    def _check_row_lengths(self, lengths: Any, samples: Tensor) -> Any:
        """Return the checked lengths, on the CPU for a list or a tensor there, else on the samples' device."""
        are_on_host = not isinstance(lengths, Tensor) or lengths.device.type == "cpu"
        if are_on_host and samples.device.type != "cpu" and not is_traced(samples):
            return check_lengths(lengths, torch.zeros((), device="cpu").expand(samples.shape), -1, AudioError)
        counts: Any = check_lengths(lengths, samples, -1, AudioError)
        return counts.to(samples.device)


def _as_array(samples: Tensor) -> Any:
    return (samples if samples.dtype in (torch.int16, torch.float32) else samples.float()).numpy(force=True)


def _is_exported() -> bool:
    tracing: Any = torch.jit.is_tracing  # type: ignore[attr-defined]
    is_recorded = bool(tracing()) or ask_compiler(torch, "is_exporting")
    return is_recorded and not ask_compiler(torch, "is_dynamo_compiling")


@functools.cache
def _keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next block, instead of returning it to the system.

    glibc returns freed memory beyond twice the size of the largest block that was ever mapped and freed. One large
    block is mapped and freed here, without being touched. This is a third of the time of undithered features.
    """
    torch.empty(1 << 24, dtype=torch.uint8, device="cpu")


_warped_banks = Constants(256)


class MelFeature(SpectralFeature):
    """Base class of the spectral features on a mel filter bank."""

    options: MelFeatureOptions
    _filled_mel: Tensor

    def setup(self) -> None:
        super().setup()
        self._set_mel(1.0)

    def _set_mel(self, vtln_warp: float) -> None:
        filled, self._groups = in_groups(self._mel_weights(vtln_warp).numpy())
        self._constant("_filled_mel", torch.from_numpy(filled).to(self.window.device))

    def _warped(self, vtln_warp: float) -> MelFeature:
        """Return a copy for one VTLN factor, which the torch engine computes without a factor as an argument."""
        copied = copy.deepcopy(self)
        copied.engine = "torch"
        copied._set_mel(vtln_warp)
        return copied

    @property
    def mel(self) -> Tensor:
        """The filter bank: (fft_bins, num_mel_bins)."""
        return self._filled_mel[:, : self.options.num_mel_bins]

    def _mel_weights(self, vtln_warp: float) -> Tensor:
        """Compute the filter bank for a VTLN factor, on the CPU: (fft_bins, num_mel_bins)."""
        return torch.from_numpy(compute_mel_banks(self.options, vtln_warp).weights)

    def _filter_bank(self, vtln_warp: float) -> Tensor:
        """Return the filter bank for a VTLN factor, on the module's device: (fft_bins, num_mel_bins)."""
        if vtln_warp == 1:
            return self.mel
        return _warped_banks.get((self.options, vtln_warp), self.window.device, lambda: self._mel_weights(vtln_warp))

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies (..., num_mel_bins) of the power spectrum."""
        return self._mel_energies(
            power_spectrum(spectrum, overwrite=not is_traced_or_differentiated(spectrum)), filter_bank
        )

    def _mel_energies(self, power: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Apply the filter bank to spectra (..., fft_bins)."""
        if filter_bank is not None:
            return matmul(power, filter_bank)
        return mel_sums(power, self._filled_mel.to(power.dtype), self._groups, self.options.num_mel_bins)
