"""The spectral features on NumPy arrays, without torch: Kaldi's bits, by the exact engine.

The classes have the options and the call of the torch modules of the same names::

    from kaldi_compat.numpy import Fbank

    fbank = Fbank(num_mel_bins=80, dither=0.0)
    features = fbank(samples)                       # (T,) -> (frames, 80)
    features, counts = fbank(batch, lengths)        # (B, T) -> (B, frames, 80), (B,)
    features = fbank([samples, others])             # a list of (frames, 80)
    stream = fbank.stream()                         # audio in chunks
    online = OnlineCmvn(statistics)                 # normalizes frames as they arrive, as apply-cmvn-online
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Union, overload

import numpy as np
import numpy.typing as npt

from io_ark.blocks import Wave
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.engine import Seeds, features_of_list, features_of_rows
from kaldi_compat.exact.plan import plan_of
from kaldi_compat.exact.rand import NoiseSource
from kaldi_compat.exact.stream import ChunkStream
from kaldi_compat.functional.checks import AudioFeature, CheckedAudio, rate_advice, refuse_lengths
from kaldi_compat.options import constructors
from kaldi_compat.options.base import ConstructorSignature, OptionsDocumentation, changes, make_options
from kaldi_compat.options.spectral import (
    FbankOptions,
    FrameOptions,
    MfccOptions,
    PlpOptions,
    SpectrogramOptions,
)

if TYPE_CHECKING:
    from kaldi_compat.functional.online_cmvn import OnlineCmvn

__all__ = ["ArrayFeature", "ArrayStream", "Fbank", "Generator", "Mfcc", "OnlineCmvn", "Plp", "Spectrogram"]

# numpy.random and OnlineCmvn are imported on demand, because this takes 10 ms and 4 MB.
Generator = Union["np.random.Generator", NoiseSource, None]


def __getattr__(name: str) -> Any:
    if name == "OnlineCmvn":
        from kaldi_compat.functional.online_cmvn import OnlineCmvn

        return OnlineCmvn
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ArrayFeature(AudioFeature):
    """Base class of the spectral features on NumPy arrays. Use Fbank, Mfcc, Plp or Spectrogram.

    Args:
        options: the options; Kaldi's defaults if None.
        engine: "auto" or "exact", which are the same here; or "accurate", with an FFT in double precision in place of
            Kaldi's, for models whose own code has one.
        dft: "fft", the only one here.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: Kaldi's program would refuse the options.
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
            raise OptionError(f"engine={engine!r} computes tensors: use kaldi_compat.{type(self).__name__}")
        if dft != "fft":
            raise OptionError(f"dft={dft!r} is for tensors: use kaldi_compat.{type(self).__name__}")
        self.options: FrameOptions = make_options(type(self).__name__, self.Options, options, changes)
        self.plan = plan_of(self.options, accurate_fft=engine == "accurate")
        self.size = self.plan.size

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({changes(self.options)})"

    def _repr_html_(self) -> str:
        from kaldi_compat.options import describe

        return describe.html(f"{type(self).__name__} (NumPy)", self.options, engine="exact")

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
            samples: audio at ``options.sample_frequency`` on Kaldi's scale (16-bit integers): an array (T,) or (B, T),
                a list of arrays (T,), or a :class:`io_ark.Wave` such as ``io_ark.load("a.wav")``, whose rate is
                checked. int16 is not converted; everything else is computed in float32.
            lengths: number of samples in each row of (B, T); the samples after them are ignored.
            vtln_warp: VTLN factor, or one per utterance. The spectrogram ignores it, as in Kaldi.
            generator: source of the noise of dithering: a generator of this object if None, a
                ``numpy.random.Generator``, or a :class:`~kaldi_compat.KaldiRandom`, which gives Kaldi's own noise.

        Returns:
            float32 (frames, dim) or (B, frames, dim); with ``lengths``, that and the number of frames of each row, (B,)
            (the rows after it are zero); for a list, a list.

        Raises:
            AudioError: samples of a wrong shape or type, or lengths or VTLN factors that do not match them.
            OptionError: a VTLN factor that is not a number, or that moves mel bins out of their range.
        """
        if isinstance(samples, np.ndarray):
            return self._compute(self._check_audio(samples, lengths, vtln_warp), generator)
        return self._compute_wave_or_list(samples, lengths, vtln_warp, generator)

    def stream(self) -> ArrayStream:
        """Return a stream of these features, which takes audio in chunks."""
        return ArrayStream(self)

    def _compute(self, audio: CheckedAudio, generator: Generator) -> Any:
        """Compute the features of checked audio, and with lengths their numbers of frames."""
        seeds = self._seeds(generator) if self.options.dither != 0 else None
        features, counts = features_of_rows(self.plan, audio.samples, audio.lengths, audio.warps, seeds)
        return features if counts is None else (features, counts)

    def _compute_list(self, utterances: list[CheckedAudio], generator: Generator) -> list[Floats]:
        """Compute the features of utterances (T,), all at once."""
        samples, _, warps, _ = zip(*utterances, strict=True) if utterances else ((), (), (), ())
        seeds = self._seeds(generator) if self.options.dither != 0 else None
        return features_of_list(self.plan, samples, warps, seeds)

    def _seeds(self, generator: Generator) -> Seeds:
        """Return the source of the noise states of frames."""
        if generator is not None and not isinstance(generator, np.random.Generator):
            return generator.frame_seeds
        return lambda count: (generator or self._random).integers(-(2**31), 2**31, count).astype(np.int32)


class ArrayStream:
    """Stream of a spectral feature: takes audio in chunks, and returns the frames of the whole utterance.

    With ``snip_edges=False`` the first frame waits for its right half, and the frames that extend beyond the end of the
    audio are returned with the final chunk, where the audio is reflected (Kaldi: OnlineGenericBaseFeature).

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
        return f"<ArrayStream of {self.feature!r}, {self._chunks.done} frames so far>"

    def reset(self) -> None:
        """Discard everything received so far, for the next utterance."""
        self._chunks.reset()

    def flush(self, *, vtln_warp: float = 1.0, generator: Generator = None) -> Floats:
        """End the audio, return its last frames, and reset.

        With ``snip_edges=False`` there are such frames: pass the same factor and generator as for the chunks.

        Args:
            vtln_warp, generator: see :meth:`__call__`.

        Returns:
            (frames, dim), float32.
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
        """Return the frames that are complete with a chunk.

        Args:
            samples: the next chunk, (T,); T may be 0.
            lengths: must be None, because a stream takes one utterance.
            final: True if the utterance ends with this chunk. Its last frames are returned, and the stream is reset.
            vtln_warp, generator: see the feature.

        Returns:
            (frames, dim), float32.

        Raises:
            AudioError: the chunk is not an array (T,) of real numbers.
        """
        if not isinstance(samples, np.ndarray) or samples.ndim != 1:
            raise AudioError(f"a chunk must be an array (T,), not {getattr(samples, 'shape', type(samples).__name__)}")
        refuse_lengths(lengths, rate_advice(lengths))
        feature = self.feature
        seeds = feature._seeds(generator) if feature.options.dither != 0 else None
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
