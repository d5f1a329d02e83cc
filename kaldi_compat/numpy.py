"""Spectral features of NumPy arrays, without torch. The exact engine computes Kaldi's bits.

The classes have the same options and are called like the torch modules of the same names::

    from kaldi_compat.numpy import Fbank

    fbank = Fbank(num_mel_bins=80, dither=0.0)
    features = fbank(samples)                       # (T,) -> (frames, 80)
    features, counts = fbank(batch, lengths)        # (B, T) -> (B, frames, 80), (B,)
    features = fbank([samples, others])             # a list of (frames, 80)
    stream = fbank.stream()                         # takes audio in chunks
    online = OnlineCmvn(statistics)                 # normalizes frames as they arrive, like apply-cmvn-online
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Union, overload

import numpy as np
import numpy.typing as npt

from io_ark.blocks import Wave
from io_ark.text import format_count, quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.engine import SeedSource, compute_list_features, compute_row_features
from kaldi_compat.exact.plan import make_plan
from kaldi_compat.exact.rand import NUMPY_GENERATOR, NoiseSource, get_seed_source
from kaldi_compat.exact.stream import ChunkStream
from kaldi_compat.functional.checks import AudioFeature, CheckedAudio, make_chunk_error, refuse_lengths
from kaldi_compat.options import constructors
from kaldi_compat.options.base import ConstructorSignature, OptionsDocumentation, format_changes, make_options
from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

if TYPE_CHECKING:
    from kaldi_compat.functional.online_cmvn import OnlineCmvn

__all__ = ["ArrayFeature", "ArrayStream", "Fbank", "Generator", "Mfcc", "OnlineCmvn", "Plp", "Spectrogram"]

# numpy.random and OnlineCmvn are imported only on use, because importing them takes 10 ms and 4 MB.
Generator = Union["np.random.Generator", NoiseSource, None]


def __getattr__(name: str) -> Any:
    """Import and return OnlineCmvn. Raise AttributeError for any other name."""
    if name == "OnlineCmvn":
        from kaldi_compat.functional.online_cmvn import OnlineCmvn

        return OnlineCmvn
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ArrayFeature(AudioFeature):
    """Base class of the spectral features on NumPy arrays. Use Fbank, Mfcc, Plp or Spectrogram.

    Args:
        options: options of the feature, or None for Kaldi's defaults.
        engine: "auto" or "exact", which mean the same for arrays, or "accurate", which replaces Kaldi's FFT with an FFT
            in double precision, for models that were trained with such features.
        dft: "fft", the only algorithm for arrays.
        changes: options by name, which replace values in ``options``.

    Raises:
        OptionError: ``engine`` or ``dft`` is not available for arrays, or Kaldi's program would refuse the options.
    """

    Options: ClassVar[type[FrameOptions]]
    _kind = np.ndarray
    __signature__ = ConstructorSignature()

    def __init_subclass__(cls) -> None:
        setattr(cls, "__doc__", OptionsDocumentation(cls.__doc__))  # noqa: B010  mypy wants a str

    def __init__(
        self, options: FrameOptions | None = None, *, engine: str = "auto", dft: str = "fft", **changes: Any
    ) -> None:
        if engine not in ("auto", "exact", "accurate"):
            choices = "must be 'auto', 'exact' or 'accurate' for NumPy arrays"
            name = f"kaldi_compat.{type(self).__name__}"
            raise OptionError(f"engine={quote_value(engine)} {choices}: pass tensors to {name} for other engines")
        if dft != "fft":
            name = f"kaldi_compat.{type(self).__name__}"
            raise OptionError(f"dft={quote_value(dft)} must be 'fft' for NumPy arrays: pass tensors to {name} instead")
        self.options: FrameOptions = make_options(type(self).__name__, self.Options, options, changes)
        self.plan = make_plan(self.options, accurate_fft=engine == "accurate")
        self.size = self.plan.size

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({format_changes(self.options)})"

    def _repr_html_(self) -> str:
        from kaldi_compat.options import describe

        return describe.render_html(f"{type(self).__name__} (NumPy)", self.options, engine="exact")

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self.plan.dim

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        samples: npt.NDArray[Any] | Wave,
        lengths: None = None,
        *,
        vtln_warp: Any = 1.0,
        generator: Generator = None,
    ) -> Floats: ...
    @overload
    def __call__(
        self, samples: npt.NDArray[Any], lengths: npt.ArrayLike, *, vtln_warp: Any = 1.0, generator: Generator = None
    ) -> tuple[Floats, npt.NDArray[np.int64]]: ...
    @overload
    def __call__(
        self,
        samples: Sequence[npt.NDArray[Any]],
        lengths: None = None,
        *,
        vtln_warp: Any = 1.0,
        generator: Generator = None,
    ) -> list[Floats]: ...
    def __call__(
        self,
        samples: npt.NDArray[Any] | Wave | Sequence[npt.NDArray[Any]],
        lengths: npt.ArrayLike | None = None,
        *,
        vtln_warp: Any = 1.0,
        generator: Generator = None,
    ) -> Any:
        """Compute the features of audio.

        Args:
            samples: audio at ``options.sample_frequency``, on the scale of 16-bit integers as in Kaldi: an array (T,)
                or (B, T), a list of arrays (T,), or a :class:`io_ark.Wave` such as ``io_ark.load("a.wav")``. The rate
                of a Wave is checked. Samples other than int16 are converted to float32.
            lengths: (B,): number of valid samples in each row of (B, T). None if all samples are valid.
            vtln_warp: VTLN factor, or a factor for each utterance. The spectrogram ignores it, as in Kaldi.
            generator: source of the noise for dithering: a ``numpy.random.Generator``, or a
                :class:`~kaldi_compat.KaldiRandom`, which gives Kaldi's noise. If None, use a generator of this object.

        Returns:
            float32 features, (frames, dim) or (B, frames, dim), or a list of (frames, dim) for a list. With
            ``lengths``, also the number of frames of each row, (B,); features after the last frame of a row are zero.

        Raises:
            AudioError: samples have a wrong shape, type or sampling rate, or lengths or VTLN factors do not match them.
            OptionError: a VTLN factor is not a number, or moves mel bins out of their range.
        """
        if isinstance(samples, np.ndarray):
            return self._compute(self._check_audio(samples, lengths, vtln_warp), generator)
        return self._compute_wave_or_list(samples, lengths, vtln_warp, generator)

    def stream(self) -> ArrayStream:
        """Return a stream that takes audio in chunks and computes the features of complete frames."""
        return ArrayStream(self)

    def _compute(self, audio: CheckedAudio, generator: Generator) -> Any:
        """Compute features (frames, dim) or (B, frames, dim). With lengths, also return the numbers of frames, (B,)."""
        seeds = self._get_seeds(generator) if self.options.dither != 0 else None
        features, counts = compute_row_features(self.plan, audio.samples, audio.lengths, audio.warps, seeds)
        return features if counts is None else (features, counts)

    def _compute_list(self, utterances: list[CheckedAudio], generator: Generator) -> list[Floats]:
        """Compute the features of several utterances (T,) in one batch. Return a list of arrays (frames, dim)."""
        samples, _, warps, _ = zip(*utterances, strict=True) if utterances else ((), (), (), ())
        seeds = self._get_seeds(generator) if self.options.dither != 0 else None
        return compute_list_features(self.plan, samples, warps, seeds)

    def _get_seeds(self, generator: Generator) -> SeedSource:
        """Return a function that draws seeds (``rand_r()`` states) for a given number of frames: int32 (frames,)."""
        if generator is not None and not isinstance(generator, np.random.Generator):
            return get_seed_source(generator, NUMPY_GENERATOR)
        return lambda count: (generator or self._random).integers(-(2**31), 2**31, count).astype(np.int32)


class ArrayStream:
    """Stream of a spectral feature, which takes audio in chunks and returns the frames of the whole utterance.

    Call :meth:`ArrayFeature.stream` to make a stream of a feature. With ``snip_edges=False``, the first frame is
    returned when the right half of its window has arrived. Frames that extend beyond the end of the audio, which is
    reflected there, are returned with the final chunk (Kaldi: OnlineGenericBaseFeature).

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> stream = Fbank(dither=0.0).stream()
    >>> stream(np.zeros(500, np.int16)).shape, stream(np.zeros(300, np.int16), final=True).shape
    ((1, 23), (2, 23))
    """

    def __init__(self, feature: ArrayFeature) -> None:
        self.feature = feature
        self._chunks = ChunkStream(feature.plan)

    def __repr__(self) -> str:
        return f"<ArrayStream of {self.feature!r}, {format_count(self._chunks.done, 'frame')} so far>"

    def reset(self) -> None:
        """Discard the audio received so far and begin a new utterance."""
        self._chunks.reset()

    def flush(self, *, vtln_warp: float = 1.0, generator: Generator = None) -> Floats:
        """End the utterance, return its last frames, and reset the stream.

        With ``snip_edges=True``, all frames have been returned before, so the result has no rows.

        Args:
            vtln_warp: VTLN factor, the same as for the chunks.
            generator: source of the noise for dithering, the same as for the chunks.

        Returns:
            float32 features, (frames, dim).
        """
        return self(np.empty(0, np.int16), final=True, vtln_warp=vtln_warp, generator=generator)

    def __call__(
        self,
        samples: npt.NDArray[Any],
        lengths: None = None,
        *,
        final: bool = False,
        vtln_warp: float = 1.0,
        generator: Generator = None,
    ) -> Floats:
        """Return the features of the frames that a chunk completes.

        Args:
            samples: the next chunk of audio, (T,). T may be 0.
            lengths: must be None, because a stream takes one utterance.
            final: True if the utterance ends with this chunk: return the last frames as well, and reset the stream.
            vtln_warp: VTLN factor.
            generator: source of the noise for dithering: see :meth:`ArrayFeature.__call__`.

        Returns:
            float32 features, (frames, dim).

        Raises:
            AudioError: the chunk is not an array (T,) of real numbers, or ``lengths`` is not None.
            OptionError: the VTLN factor is not a number, or moves mel bins out of their range.
        """
        if not isinstance(samples, np.ndarray) or samples.ndim != 1:
            raise make_chunk_error(samples, expects_tensor=False)
        refuse_lengths(lengths)
        feature = self.feature
        seeds = feature._get_seeds(generator) if feature.options.dither != 0 else None
        return self._chunks.advance(feature._check_audio(samples).samples, final, vtln_warp, seeds)


class Fbank(constructors.FbankConstructor, ArrayFeature):
    """Log-mel filter bank features of NumPy arrays (Kaldi: compute-fbank-feats).

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> Fbank(num_mel_bins=80, dither=0.0)(np.zeros(16000, np.int16)).shape
    (98, 80)
    """

    Options = FbankOptions


class Mfcc(constructors.MfccConstructor, ArrayFeature):
    """Mel-frequency cepstral coefficients of NumPy arrays (Kaldi: compute-mfcc-feats).

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Mfcc
    >>> Mfcc(dither=0.0)([np.zeros(16000, np.int16), np.zeros(800, np.int16)])[1].shape
    (3, 13)
    """

    Options = MfccOptions


class Plp(constructors.PlpConstructor, ArrayFeature):
    """Perceptual linear prediction cepstra of NumPy arrays (Kaldi: compute-plp-feats).

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Plp
    >>> Plp(dither=0.0)(np.ones((2, 800), np.int16), [800, 400])[1]
    array([3, 1])
    """

    Options = PlpOptions


class Spectrogram(constructors.SpectrogramConstructor, ArrayFeature):
    """Log power spectra of NumPy arrays (Kaldi: compute-spectrogram-feats).

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Spectrogram
    >>> Spectrogram(dither=0.0)(np.zeros(16000, np.int16)).shape
    (98, 257)
    """

    Options = SpectrogramOptions
