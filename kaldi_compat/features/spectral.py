"""What the spectral features share: audio is framed, windowed and transformed, then each adds its own step."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from kaldi_compat import kernels
from kaldi_compat.array_api import is_followed, is_recorded
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact.fft import real_fft
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.features.module import OptionedModule, checked_list
from kaldi_compat.functional import frames as steps
from kaldi_compat.functional.batches import checked_lengths
from kaldi_compat.functional.dither import kaldi_noise, without_waiting
from kaldi_compat.functional.mel import in_groups, matmul, mel_banks, mel_sums, power_spectrum
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.spectral import FrameOptions, MelFeatureOptions

Generator = torch.Generator | KaldiRandom | None
Warp = float | Sequence[float] | Tensor
Noise = Callable[..., Tensor | None]

# How far one mel band may lie below another before float32's rounding shows in it. The FFT's rounding errors are about
# 1e-14 of the frame's power: in a band 80 dB below the loudest, a thousandth of the amplitude.
DELICATE = 1e-8
# Frames worked on at once on a CPU, per thread: a block and what is computed from it stay in the second-level cache.
BLOCK = 512


class SpectralFeature(OptionedModule):
    """Base of the features computed from a frame's spectrum. Use a subclass: Fbank, Mfcc, Plp or Spectrogram.

    Args:
        options: the options; Kaldi's defaults where none are given.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: where Kaldi's program would refuse the options.
    """

    Options: ClassVar[type[FrameOptions]]
    windowed_energy_floor: ClassVar[float] = steps.EPSILON
    options: FrameOptions
    window: Tensor

    def __init__(self, options: FrameOptions | None = None, **changes: Any) -> None:
        super().__init__(options, **changes)
        # Plain numbers: what they are computed by is not for compilers to follow.
        self.size, self.shift = self.options.window_size, self.options.window_shift
        self.points = self.options.padded_window_size
        if self.points % 2:
            raise OptionError(
                f"the FFT's {self.points} points (frame_length in samples) must be even: change frame_length"
            )
        self.constant(
            "window", steps.window(self.options.window_type, self.size, as_float32(self.options.blackman_coeff))
        )
        self._scale_is_known = False

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        raise NotImplementedError

    @property
    def are_log_energies(self) -> bool:
        """Whether the features are the logs of the energies, floored, and nothing more."""
        return False

    def bands(self, vtln_warp: float) -> Tensor | None:
        """What turns power spectra into energies, (fft_bins, bands), where the module lies; None: they are the same."""
        return None

    def energies_of_spectrum(self, spectrum: Tensor, mel: Tensor | None) -> Tensor:
        """A subclass's first step: complex spectra (..., fft_bins), which it may overwrite, to energies (..., bands).

        Energies are those of the bands, or whatever else the features are made of.
        """
        raise NotImplementedError

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """A subclass's second step: energies (..., bands) and the frames' log energies (...) to features (..., dim)."""
        raise NotImplementedError

    def is_delicate(self, energies: Tensor) -> Tensor:
        """For energies (..., bands), whether float32's rounding decides digits of the frame's features: bool (...)."""
        raise NotImplementedError

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
            samples: audio at ``options.sample_frequency`` in Kaldi's scale (16-bit integers): (T,), (B, T), or a list
                of 1-D tensors of any lengths. float64 is computed in float64, everything else in float32.
            lengths: how many samples count in each row of (B, T), a tensor or a list; what lies past them is ignored.
            vtln_warp: VTLN factor, or one per utterance, a tensor (B,) or a list. The spectrogram ignores it, as
                Kaldi's.
            generator: where the noise of dithering comes from: torch's global generator, a ``torch.Generator``, or a
                :class:`~kaldi_compat.exact.rand.KaldiRandom`, which gives Kaldi's own noise.

        Returns:
            (frames, dim) or (B, frames, dim); with ``lengths``, that and the number of frames of each row, shape (B,)
            (rows past it are zero); for a list, a list.

        Raises:
            AudioError: samples of a wrong shape or type, or lengths or VTLN factors that do not go with them.
            OptionError: a VTLN factor that is no number, or that the mel bins' range has no room for.
        """
        vtln_warp = _one_or_tensor(vtln_warp)
        if not isinstance(samples, Tensor):
            utterances = checked_list(samples, lengths, ("T",), AudioError)
            return self._of_list(utterances, vtln_warp, generator)
        lengths = checked_lengths(lengths, samples, -1, AudioError)
        return self._of_batch(samples, None if lengths is None else lengths.to(samples.device), vtln_warp, generator)

    def _of_batch(
        self, samples: Tensor, lengths: Tensor | None, vtln_warp: float | Tensor, generator: Generator
    ) -> Tensor | tuple[Tensor, Tensor]:
        if samples.device.type == kernels.DEVICE_TYPE and kernels.serves(self, samples, lengths, vtln_warp):
            if samples.dtype == torch.float32:
                self._warn_of_scale(samples)
            return kernels.features(self, samples, lengths, vtln_warp)
        options = self.options
        samples = self._checked(samples)
        if lengths is not None and is_followed(samples):
            # what lies past a length is no part of any result, but its gradient would be NaN where it is NaN itself
            inside = torch.arange(samples.shape[-1], device=samples.device) < lengths.unsqueeze(-1)
            samples = torch.where(inside, samples, 0.0)
        frames = steps.frames_of(samples, self.size, self.shift, options.snip_edges, lengths)
        counts = valid = None
        if lengths is not None:
            counts = steps.num_frames(lengths, self.size, self.shift, options.snip_edges)
            valid = torch.arange(frames.shape[-2], device=samples.device) < counts.unsqueeze(-1)
        mel = self._mel(vtln_warp, samples)
        leading = frames.shape[:-2]
        frames = frames.flatten(0, -3) if leading else frames.unsqueeze(0)
        noise = self._noise(frames, valid, generator)
        repeatable = options.dither == 0 or isinstance(generator, KaldiRandom)
        features = self._in_blocks(frames, noise, mel, repeatable)
        features = features.reshape(*leading, *features.shape[1:])
        if valid is not None:
            features = torch.where(valid.unsqueeze(-1), features, 0.0)
        if is_recorded(samples):
            count = steps.num_frames(samples.shape[-1], self.size, self.shift, options.snip_edges)
            # not a slice, whose size would be the least of two symbols, which exporters get wrong further on
            features = features.index_select(-2, torch.arange(count, device=samples.device))
        return features if counts is None else (features, counts)

    def features_of_frames(
        self, frames: Tensor, noise: Tensor | None = None, mel: Tensor | None = None, *, kaldi_order: bool = False
    ) -> Tensor:
        """Features of frames of audio: each row depends on its frame alone.

        Args:
            frames: (..., window_size).
            noise: standard normal noise of the same shape, which ``options.dither`` scales.
            mel: mel weights (..., fft_bins, num_mel_bins) in place of the module's own, for VTLN.
            kaldi_order: whether everything up to the spectrum is computed in Kaldi's order of operations, so that it
                rounds as Kaldi's (float32, on a CPU, without gradients): slow, and of use where rounding decides.

        Returns:
            (..., dim).
        """
        spectrum, log_energy = self.spectrum_of_frames(frames, noise, kaldi_order)
        return self.features_of_energies(self.energies_of_spectrum(spectrum, mel), log_energy)

    def spectrum_of_frames(
        self, frames: Tensor, noise: Tensor | None = None, kaldi_order: bool = False, room: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The complex spectra (..., fft_bins) and, if they are asked for, the log energies (...) of frames.

        ``room`` (..., points), zero past the frames' samples, is where the windowed frames are put; of use where many
        blocks of frames come one after the other.
        """
        options = self.options
        if noise is not None:
            frames = frames + options.dither * noise
        if options.remove_dc_offset:
            frames = frames - (steps.mean_in_kaldi_order(frames) if kaldi_order else frames.mean(-1, keepdim=True))
        log_energy = steps.log_energy(frames) if self.needs_energy(raw=True) else None
        place = None if room is None else room[..., : self.size]
        if options.preemphasis_coefficient != 0:
            frames = steps.preemphasize(frames, options.preemphasis_coefficient, place)
        frames = torch.mul(frames, self.window.to(frames.dtype), out=place)
        if self.needs_energy(raw=False):
            log_energy = steps.log_energy(frames, self.windowed_energy_floor)
        points = self.points
        if kaldi_order:
            padded = nn.functional.pad(frames, (0, points - self.size))
            return torch.from_numpy(real_fft(padded.numpy())), log_energy
        return (steps.spectrum(frames, points) if room is None else torch.fft.rfft(room)), log_energy

    def needs_energy(self, raw: bool) -> bool:
        """Whether the energy before (raw) or after preemphasis and windowing is asked for."""
        options: Any = self.options
        return bool(getattr(options, "use_energy", True)) and bool(options.raw_energy) == raw

    def _mel(self, vtln_warp: float | Tensor, like: Tensor) -> Tensor | None:
        """Mel weights for these VTLN factors; None stands for the module's own."""
        return None

    def _checked(self, samples: Tensor) -> Tensor:
        """The samples in the type that they are computed in and in Kaldi's scale."""
        if samples.dim() < 1 or samples.is_complex() or samples.dtype == torch.bool:
            raise AudioError(
                f"samples must be real numbers of shape (T,) or (B, T), not {samples.dtype} of shape "
                f"{tuple(samples.shape)}"
            )
        if samples.is_floating_point():
            self._warn_of_scale(samples)
        samples = samples if samples.dtype == torch.float64 else samples.float()
        return samples if self.options.waveform_scale == 1 else samples * self.options.waveform_scale

    def _warn_of_scale(self, samples: Tensor) -> None:
        """Say once where audio in -1 to 1 stands where Kaldi's 16-bit integers should; looks until it finds a sound."""
        if is_followed(samples) or self._scale_is_known:
            return
        if samples.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        peak = float(samples.detach().abs().max()) * self.options.waveform_scale if samples.numel() else 0.0
        self._scale_is_known = peak > 0
        if 0 < peak <= 1:
            warnings.warn(
                f"the samples never leave -1 to 1 (largest {peak:.3g}), but Kaldi's features are defined on 16-bit "
                "integers: give waveform_scale=32768, or ignore this warning if so quiet a signal is meant",
                stacklevel=5,
            )

    def _noise(self, frames: Tensor, valid: Tensor | None, generator: Generator) -> Noise:
        """What gives the noise of the frames that an index (rows, frames) selects, in Kaldi's rounding if asked for."""
        if self.options.dither == 0:
            return lambda index, kaldi_order=False: None
        if generator is None:
            return lambda index, kaldi_order=False: torch.randn_like(frames[index])
        if not isinstance(generator, KaldiRandom):
            return lambda index, kaldi_order=False: torch.randn(
                frames[index].shape, generator=generator, dtype=frames.dtype, device=frames.device
            )
        if valid is None:
            valid = torch.ones(frames.shape[:-1], dtype=torch.bool, device="cpu")
        valid = valid.reshape(frames.shape[:-1])
        seeds = torch.zeros(valid.shape, dtype=torch.int32, device="cpu")
        seeds[valid.cpu()] = torch.from_numpy(generator.frame_seeds(int(valid.sum())))
        seeds = without_waiting(seeds, frames.device)
        size = frames.shape[-1]
        return lambda index, kaldi_order=False: kaldi_noise(seeds[index], size, kaldi_order=kaldi_order)

    def _in_blocks(self, frames: Tensor, noise: Noise, mel: Tensor | None, repeatable: bool) -> Tensor:
        """:meth:`features_of_frames` of (rows, frames, size), a cacheful at a time where only the result is wanted.

        ``repeatable`` says whether the noise, if there is any, is Kaldi's: then the result is to be in its rounding.
        """
        rows, count, _ = frames.shape
        everything = (slice(None), slice(None))
        if frames.device.type != "cpu" or is_followed(frames) or frames.numel() == 0:
            return self.features_of_frames(frames, noise(everything), mel)
        _keep_freed_memory()
        at_once = BLOCK if self.options.dither else 2 * BLOCK  # noise takes as much room as all the rest
        block = min(count, max(1, at_once * torch.get_num_threads() // rows))
        room = frames.new_zeros(rows, block, self.points)
        rounds_as_kaldi = repeatable and frames.dtype == torch.float32
        blocks, delicate = [], []
        for start in range(0, count, block):
            part = (slice(None), slice(start, start + block))
            frames_here = frames[part]
            place = room[:, : frames_here.shape[1]]
            spectrum, log_energy = self.spectrum_of_frames(frames_here, noise(part), room=place)
            energies = self.energies_of_spectrum(spectrum, mel)
            if rounds_as_kaldi:
                delicate.append(self.is_delicate(energies))
            blocks.append(self.features_of_energies(energies, log_energy))
        features = torch.cat(blocks, 1)
        if rounds_as_kaldi:
            self._compute_again(features, frames, torch.cat(delicate, 1), noise, mel)
        return features

    def _compute_again(
        self, features: Tensor, frames: Tensor, delicate: Tensor, noise: Noise, mel: Tensor | None
    ) -> None:
        """Put features in Kaldi's rounding where it decides on digits."""
        if self.points & (self.points - 1):
            # Kaldi's FFT of other sizes than powers of two is inexact enough for it to show in every frame
            delicate = torch.ones_like(delicate)
        if not delicate.any():
            return
        for row in delicate.any(-1).nonzero().flatten().tolist():
            index = (row, delicate[row])
            weights = mel if mel is None or mel.dim() == 2 else mel[row]
            noise_here = noise(index, kaldi_order=True)
            features[index] = self.features_of_frames(frames[index], noise_here, weights, kaldi_order=True)

    def _of_list(self, utterances: Sequence[Tensor], vtln_warp: float | Tensor, generator: Generator) -> list[Tensor]:
        if isinstance(vtln_warp, Tensor) and vtln_warp.dim() > 0:
            warps: list[float | Tensor] = list(vtln_warp.tolist())
            if len(warps) != len(utterances):
                raise AudioError(f"{len(warps)} VTLN factors for {len(utterances)} utterances")
        else:
            warps = [vtln_warp] * len(utterances)
        return [self(u, vtln_warp=w, generator=generator) for u, w in zip(utterances, warps, strict=True)]


def _one_or_tensor(vtln_warp: Any) -> float | Tensor:
    """A VTLN factor, or those of a batch as a tensor, of whatever they are given as."""
    if isinstance(vtln_warp, (float, int, Tensor)):
        return vtln_warp
    try:
        return torch.as_tensor(vtln_warp, dtype=torch.float32, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise OptionError(f"vtln_warp is a number, or one for each utterance, not {vtln_warp!r}") from None


@functools.cache
def _keep_freed_memory() -> None:
    """Let the C library keep what a block frees for the next one, instead of having the system page it in anew.

    glibc gives back freed memory beyond twice the size of the largest piece that was ever mapped and freed: so one
    large piece is, without being touched. This is a third of the time of undithered features.
    """
    torch.empty(1 << 24, dtype=torch.uint8, device="cpu")


class MelFeature(SpectralFeature):
    """A spectral feature on a mel filter bank."""

    options: MelFeatureOptions
    filled_mel: Tensor
    relative: Tensor

    def __init__(self, options: FrameOptions | None = None, **changes: Any) -> None:
        super().__init__(options, **changes)
        weights = self._mel_constant(1.0)
        filled, self._groups = in_groups(weights.numpy())
        self.constant("filled_mel", torch.from_numpy(filled))
        self.constant("relative", 1.0 / weights.sum(0))

    @property
    def mel(self) -> Tensor:
        """The filter bank: (fft_bins, num_mel_bins)."""
        return self.filled_mel[:, : self.options.num_mel_bins]

    def bands(self, vtln_warp: float) -> Tensor:
        """The filter bank for a VTLN factor."""
        return self.mel if vtln_warp == 1 else self._mel_constant(vtln_warp).to(self.window.device)

    def energies_of_spectrum(self, spectrum: Tensor, mel: Tensor | None) -> Tensor:
        """Mel energies (..., num_mel_bins) of the power spectrum."""
        return self._mel_sums(power_spectrum(spectrum, overwrite=not is_followed(spectrum)), mel)

    def _mel_sums(self, power: Tensor, mel: Tensor | None) -> Tensor:
        if mel is not None:
            return matmul(power, mel)
        return mel_sums(power, self.filled_mel.to(power.dtype), self._groups, self.options.num_mel_bins)

    def is_delicate(self, energies: Tensor) -> Tensor:
        """Whether one band's mean power is too far below another's."""
        level = energies * self.relative
        return level.amin(-1) < DELICATE * level.amax(-1)

    def _mel_constant(self, vtln_warp: float) -> Tensor:
        """What turns a power spectrum into this feature's mel energies, for a VTLN factor: (fft_bins, num_mel_bins)."""
        return torch.from_numpy(mel_banks(self.options, vtln_warp).weights)

    def _mel(self, vtln_warp: float | Tensor, like: Tensor) -> Tensor | None:
        if not isinstance(vtln_warp, Tensor):
            return None if vtln_warp == 1 else self._mel_constant(vtln_warp).to(like)
        if vtln_warp.dim() == 0:
            return self._mel_constant(float(vtln_warp)).to(like)
        if vtln_warp.shape != like.shape[:-1]:
            raise AudioError(f"vtln_warp of shape {tuple(vtln_warp.shape)} for audio of shape {tuple(like.shape)}")
        if len(vtln_warp) == 0:
            return None
        return torch.stack([self._mel_constant(warp) for warp in vtln_warp.tolist()]).to(like)
