"""Checks of the arguments of features, for arrays and tensors. Does not import torch."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from io_ark.blocks import Wave
from io_ark.text import quote_value
from kaldi_compat.errors import WRONG_NUMBERS, AudioError, KaldiCompatError, OptionError
from kaldi_compat.functional.array_api import UNTRACED, Tracing, check_plain, detect_tracing
from kaldi_compat.functional.batches import check_lengths

if TYPE_CHECKING:
    from typing_extensions import Self

# One VTLN factor, or one for each utterance.
Warps = float | tuple[float, ...]

MAX_INTEGER = 1 << 16  # Larger integers are not 16-bit audio. The limit leaves room for the sum of two signals.
_warned: set[str] = set()


def check_shape(shape: Sequence[int], window_size: int) -> None:
    """Raise AudioError if the shape of a batch looks like (T, channels) instead of (B, T).

    This is the case if the last axis is not empty and is shorter than a frame of ``window_size`` samples, but the axis
    before it is not shorter. Call this only without lengths, which confirm that the last axis is time.
    """
    if 0 < shape[-1] < window_size <= shape[-2]:
        samples = f"{shape[-1]} sample{'s' * (shape[-1] != 1)}"
        raise AudioError(
            f"samples of shape {tuple(shape)} are {shape[-2]} utterances of {samples}, and a frame has {window_size}: "
            "the last axis is time, so transpose audio of shape (T, channels) or take one channel; for a batch of such "
            "short audio, pass lengths"
        )


def check_samples(samples: Any) -> None:
    """Check that an array or tensor can hold audio: floating-point numbers, or signed integers of at least 16 bits.

    Raise AudioError if the samples are 8-bit or unsigned integers, are not plain real numbers, or have no dimension.
    """
    kind = samples.dtype.kind if type(samples) is np.ndarray else check_plain(samples, AudioError)
    if kind not in "iuf":
        raise AudioError(f"samples must be real numbers, not {samples.dtype}: convert them to int16 or float32")
    if samples.ndim < 1:
        raise AudioError(
            "samples must have the shape (T,) or (B, T), but are a single number: pass an array of samples"
        )
    if kind == "u" or samples.dtype.itemsize == 1:
        dtype = str(samples.dtype).removeprefix("torch.")
        conversion = _CONVERSIONS.get(dtype, "convert them to signed 16-bit integers")
        raise AudioError(f"samples must be int16 or floating point, not {dtype}: {conversion} (see {WRONG_NUMBERS})")


# Advice that converts 8-bit integers to Kaldi's scale. The samples of 8-bit WAV files are unsigned: silence is 128.
_CONVERSIONS = {
    "uint8": "for 8-bit audio, pass (samples.astype('int16') - 128) * 256, or in torch (samples.short() - 128) * 256",
    "int8": "for 8-bit audio, pass samples.astype('int16') * 256, or in torch samples.short() * 256",
}


ADVICE_ON_RATE = "For audio at {rate} Hz, make the module with sample_frequency={rate}"


def refuse_rate_as_lengths(lengths: Any, advice: str = ADVICE_ON_RATE) -> None:
    """Raise AudioError if ``lengths`` is a single number, because it is probably a sampling rate.

    Args:
        lengths: the second argument of a call.
        advice: advice on setting the sampling rate, in which ``lengths`` replaces ``{rate}``. Callers do not format the
            advice themselves, because formatting a tensor takes long and waits for a GPU.
    """
    if isinstance(lengths, (int, float, np.number)):
        raise AudioError(
            f"lengths={lengths:g} is a single number, but lengths are a list: the number of samples in each row of a "
            f"batch (B, T). {advice.format(rate=lengths)}"
        )


def name_conversion(samples: Any, *, to_tensor: bool) -> str:
    """Return the name of the function that converts ``samples`` to a tensor, or to an array if ``to_tensor`` is False.

    For bytes, which count as 16-bit samples, return the whole call. Strings and paths count as file names, which
    ``io_ark.load`` reads in both cases.
    """
    if isinstance(samples, (str, os.PathLike)):
        return "io_ark.load"
    if isinstance(samples, (bytes, bytearray, memoryview)):
        return "torch.frombuffer(bytearray(data), dtype=torch.int16)" if to_tensor else "np.frombuffer(data, np.int16)"
    return "torch.as_tensor" if to_tensor else "np.asarray"


def make_chunk_error(chunk: Any, *, expects_tensor: bool) -> AudioError:
    """Return the error for a chunk that should be a tensor, or an array ``(T,)`` if ``expects_tensor`` is False."""
    if isinstance(chunk, np.ndarray) and not expects_tensor:
        return AudioError(
            f"a chunk must be an array (T,), not an array of shape {chunk.shape}: make a stream for each utterance"
        )
    kind = "a tensor" if expects_tensor else "an array (T,)"
    conversion = name_conversion(chunk, to_tensor=expects_tensor)
    return AudioError(f"a chunk must be {kind}, not {type(chunk).__name__}: convert it with {conversion}")


def refuse_lengths(lengths: Any, advice: str = ADVICE_ON_RATE) -> None:
    """Raise AudioError unless ``lengths`` is None, because a stream of one utterance takes no lengths.

    If ``lengths`` is a single number, raise the error of :func:`refuse_rate_as_lengths` with ``advice``.
    """
    refuse_rate_as_lengths(lengths, advice)
    if lengths is not None:
        raise AudioError("a stream takes the chunks of one utterance and no lengths: make a stream for each utterance")


def normalize_warps(vtln_warp: Any, shape: Sequence[int]) -> Warps:
    """Convert VTLN factors to one float, or to a tuple of one float for each utterance, in row-major order.

    Args:
        vtln_warp: a number, or an array, tensor or sequence of the shape ``shape[:-1]``.
        shape: shape of the audio, (T,) or (..., T).

    Raises:
        AudioError: the shape of the factors is not ``shape[:-1]``.
        OptionError: the factors are not numbers.
    """
    try:
        if isinstance(vtln_warp, (float, int)):
            return float(vtln_warp)
        values = vtln_warp.tolist() if hasattr(vtln_warp, "tolist") else vtln_warp
        factors = np.asarray(values, np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise OptionError(
            f"vtln_warp must be a number, or one factor for each utterance, not {quote_value(vtln_warp)}"
        ) from None
    if factors.ndim == 0:
        return float(factors)
    batch = tuple(shape[:-1])
    if factors.shape != batch:
        if not batch:
            raise AudioError(f"vtln_warp has the shape {factors.shape}, but the audio is one utterance: pass a number")
        raise AudioError(
            f"vtln_warp has the shape {factors.shape}, but the batch of utterances has the shape {batch}: pass a "
            "number, or one factor for each utterance"
        )
    return tuple(factors.ravel().tolist())


# Iterables that are refused as a list of utterances, even if they are empty.
_NO_LISTS = (str, bytes, bytearray, memoryview, Mapping)


def check_list(
    items: Any, lengths: Any, axes: tuple[str, ...], kind: type[Any], error: type[KaldiCompatError]
) -> list[Any]:
    """Check the utterances of an iterable, and return them as a list.

    Args:
        items: first argument of a call, which should be an iterable of utterances.
        lengths: lengths in the same call, which must be None.
        axes: names of the axes of an utterance, for the message.
        kind: type of an utterance: ``np.ndarray`` or ``torch.Tensor``.
        error: the exception to raise.

    Raises:
        error: an utterance has a different type or number of axes, or lengths are passed.
    """
    shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
    is_single = not isinstance(items, Iterable) or isinstance(items, _NO_LISTS)
    is_single = is_single or getattr(items, "dtype", "O") != "O"  # A pandas Series of objects may hold arrays.
    utterances = [items] if is_single else list(items)
    noun, with_article = ("array", "an array") if kind is np.ndarray else ("tensor", "a tensor")
    for item in utterances:
        expected = f"expected {with_article}, or a list with {with_article} {shape} for each utterance"
        if not isinstance(item, kind):
            converted = "the input" if is_single or isinstance(item, (int, float, np.number)) else "each item"
            conversion = name_conversion(item, to_tensor=noun == "tensor")
            raise error(f"{expected}, not {type(item).__name__}: convert {converted} with {conversion}")
        if item.ndim != len(axes):
            raise error(f"{expected}, but an item has the shape {tuple(item.shape)}: pass one utterance in each item")
    if lengths is not None:
        raise error(f"lengths describe a padded batch: omit them for a list, whose {noun}s have their own lengths")
    return utterances


class CheckedAudio(NamedTuple):
    """Audio that has been checked, with its lengths and VTLN factors."""

    samples: Any  # (T,) or (B, T): an array or a tensor.
    lengths: Any = None  # Number of valid samples in each row; None if all samples are valid.
    warps: Warps = 1.0  # One VTLN factor, or one for each row.
    tracing: Tracing = UNTRACED  # Tools that record the operations on the samples.


class AudioFeature:
    """Base class of the features of arrays and of tensors, which checks their audio.

    The call of a subclass passes an array or tensor through :meth:`_check_audio` to its :meth:`_compute`, and anything
    else to :meth:`_compute_wave_or_list`.

    Attributes:
        _kind: class of the audio: an array or a tensor.
        size: number of samples in a frame.
        _warns_of_scale: False for a feature that takes audio on any scale.
    """

    _kind: ClassVar[type[Any]]
    options: Any
    size: int
    _warns_of_scale = True
    # True if the last checked audio was not silent. Tensors on a GPU are then not read, because that waits for the GPU.
    _scale_is_known = False

    def _compute(self, audio: CheckedAudio, generator: Any) -> Any:
        """Return features (..., frames, dim) of checked audio. With lengths, also return each row's number of frames.

        ``generator`` is the source of the dithering noise; None for the default source.
        """
        raise NotImplementedError

    def _compute_list(self, utterances: list[CheckedAudio], generator: Any) -> list[Any]:
        """Return a list of the features of several utterances (T,). Each utterance has one VTLN factor."""
        raise NotImplementedError

    def _check_audio(
        self, samples: Any, lengths: Any = None, vtln_warp: Any = 1.0, tracing: Tracing = UNTRACED
    ) -> CheckedAudio:
        """Check audio. Warn if it seems to lie on the scale -1 to 1 instead of Kaldi's scale of 16-bit integers.

        Args:
            samples: audio (T,) or (B, T).
            lengths: number of valid samples of each row; None if all samples are valid.
            vtln_warp: one VTLN factor, or one for each row.
            tracing: tools that record the operations on the samples.

        Raises:
            AudioError: the audio has a wrong shape or type, or lengths or VTLN factors do not match it.
            OptionError: a VTLN factor is not a number.
        """
        check_samples(samples)
        if not tracing.traced:
            if samples.ndim > 1 and lengths is None:
                check_shape(samples.shape, self.size)
            if self._warns_of_scale and not tracing.traced_or_differentiated:
                self._scale_is_known = check_scale(samples, self.options.waveform_scale, self._scale_is_known)
        if lengths is not None:
            refuse_rate_as_lengths(lengths)
            lengths = self._check_row_lengths(lengths, samples)
        warps = vtln_warp if isinstance(vtln_warp, float) else normalize_warps(vtln_warp, samples.shape)
        return CheckedAudio(samples, lengths, warps, tracing)

    def _check_row_lengths(self, lengths: Any, samples: Any) -> Any:
        """Check the numbers of valid samples in the rows of audio, and return them (see :func:`check_lengths`)."""
        return check_lengths(lengths, samples, -1, AudioError)

    def _trust_scale(self) -> Self:
        """Disable the warning about the scale of the audio, and return the feature."""
        self._warns_of_scale = False
        return self

    def _compute_wave_or_list(self, audio: Any, lengths: Any, vtln_warp: Any, generator: Any) -> Any:
        """Compute the features of a :class:`io_ark.Wave`, or a list of features for a list of utterances.

        An utterance in a list is a wave, or an array or a tensor (T,) according to ``_kind``. See :meth:`_check_audio`
        and :meth:`_compute` for the arguments.

        Raises:
            AudioError: an utterance has a wrong type, shape or sampling rate, or ``lengths`` come with a list.
        """
        refuse_rate_as_lengths(lengths)
        if isinstance(audio, Wave):
            samples = self._convert_array(get_wave_samples(audio, self.options.sample_frequency))
            return self._compute(self._check_audio(samples, lengths, vtln_warp, detect_tracing(samples)), generator)
        if isinstance(audio, (list, tuple)):
            rate = self.options.sample_frequency
            audio = [
                self._convert_array(get_wave_samples(item, rate)) if isinstance(item, Wave) else item for item in audio
            ]
        utterances = check_list(audio, lengths, ("T",), self._kind, AudioError)
        warps = normalize_warps(vtln_warp, (len(utterances), 0))
        factors = [warps] * len(utterances) if isinstance(warps, float) else warps
        checked = [
            self._check_audio(samples, None, warp, detect_tracing(samples))
            for samples, warp in zip(utterances, factors, strict=True)
        ]
        return self._compute_list(checked, generator)

    def _convert_array(self, samples: Any) -> Any:
        """Convert an array to the type of audio that this feature takes: an array or a tensor."""
        return samples


def get_wave_samples(audio: Any, sample_frequency: float) -> Any:
    """Return the samples (T,) of a :class:`io_ark.Wave`, or (channels, T) if it has several channels.

    Raise AudioError if the sampling rate of the audio differs from ``sample_frequency``.
    """
    rate = audio.sample_frequency
    if rate != sample_frequency:
        mismatch = f"the sampling rate of the audio is {rate:g} Hz, but sample_frequency={sample_frequency:g}"
        raise AudioError(f"{mismatch}: resample the audio, or pass sample_frequency={rate:g}")
    return audio.samples[0] if len(audio.samples) == 1 else audio.samples


def check_scale(samples: Any, scale: float, is_known: bool = False) -> bool:
    """Warn once per process if floating-point samples lie within -1 to 1 after multiplication by ``scale``.

    Args:
        samples: an array or a tensor.
        scale: factor on the samples that a feature applies.
        is_known: the result for earlier samples. If it is True, a tensor on a GPU is not read, to avoid a wait.

    Returns:
        True if a sample is not zero, so that the scale of the audio is known. ``is_known`` for a tensor that is not
        read, and False for integers of at most 16 bits and for audio without samples.

    Raises:
        AudioError: the magnitude of an integer sample times ``scale`` exceeds :data:`MAX_INTEGER`.
    """
    if not isinstance(samples, np.ndarray):
        import torch  # The samples are a tensor, so torch has been imported.

        if samples.is_meta or (samples.is_cuda and (is_known or torch.cuda.is_current_stream_capturing())):
            return is_known
        samples = samples.detach()
        if samples.device.type == "cpu" and samples.dtype in (torch.float32, torch.float64):
            samples = samples.numpy(force=True)  # NumPy reads a sample in a third of the time that torch takes.
    is_floating = samples.dtype.kind == "f" if isinstance(samples, np.ndarray) else samples.is_floating_point()
    if 0 in samples.shape or not (is_floating or samples.dtype.itemsize > 2):
        return False
    if not is_floating:
        largest: float = max(int(samples.max()), -int(samples.min())) * scale
        if largest > MAX_INTEGER:
            raise AudioError(
                f"the samples are integers up to {largest:.3g}, but Kaldi's features are defined on 16-bit integers: "
                f"pass samples >> 16 for audio of 32 bits, samples >> 8 for 24 bits (see {WRONG_NUMBERS})"
            )
        return largest > 0
    # On Kaldi's scale, nearly all samples are larger than 1, so the middle sample of a row usually suffices.
    middle = samples[..., samples.shape[-1] // 2]
    peak: float = (abs(float(middle)) if samples.ndim == 1 else float(abs(middle).max())) * scale
    if 0 <= peak <= 1:
        peak = float(abs(samples).max()) * scale
    if 0 < peak <= 1:
        warn_user_once(
            "scale",
            f"the samples lie within -1 to 1 (largest {peak:.3g}), but Kaldi's features are defined on 16-bit "
            "integers: pass waveform_scale=32768, or ignore this warning if the signal really is that quiet "
            f"(see {WRONG_NUMBERS})",
        )
    return peak > 0


def warn_user_once(reason: str, message: str) -> None:
    """Issue a warning (see :func:`warn_user`) once per process for each ``reason``, such as "scale"."""
    if reason not in _warned:
        _warned.add(reason)
        warn_user(message)


def warn_user(message: str) -> None:
    """Issue a warning that points to the line of the user's code that called torch or this package."""
    level, frame = 1, sys._getframe()
    skipped_packages = ("kaldi_compat", "torch", "")  # "" is code without a module name, which torch generates.
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in skipped_packages:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
