"""Stand-ins for the feature extractors of Hugging Face transformers that compute Kaldi's filter banks.

Code written for transformers runs after a change of one import::

    from kaldi_standins.transformers import SeamlessM4TFeatureExtractor
    extractor = SeamlessM4TFeatureExtractor.from_pretrained("facebook/w2v-bert-2.0")
    inputs = extractor(audio, sampling_rate=16000, return_tensors="pt")

:func:`drop_in` converts an existing extractor or processor. Every class is a subclass of the original class, with the
same arguments, outputs and files, so the original can load a directory that a stand-in has saved. Only the filter bank
is computed differently: for all utterances at once and, with ``device="cuda"``, on a GPU.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import transformers
from torch import Tensor

from kaldi_compat.errors import OptionError
from kaldi_compat.options.extractors import FbankSettings, read_fbank_settings
from kaldi_compat.torch.features.fbank import Fbank

__all__ = [
    "ASTFeatureExtractor", "LasrFeatureExtractor", "Phi4MultimodalFeatureExtractor", "SeamlessM4TFeatureExtractor",
    "Speech2TextFeatureExtractor", "drop_in",
]  # fmt: skip

Extractor = TypeVar("Extractor")
# Features of the current call's utterances, in the order in which the original requests them.
_computed_features: contextvars.ContextVar[Iterator[Any] | None] = contextvars.ContextVar(
    "computed_features", default=None
)


@functools.lru_cache(maxsize=16)
def _get_fbank(settings: FbankSettings, device: torch.device) -> Fbank:
    return Fbank._from_settings(settings).to(device)


def _list_utterances(raw_speech: Any) -> list[Any] | None:
    """Return the utterances of a call as float32 arrays (T,), with only the first channel of multichannel audio.

    ``raw_speech`` is one utterance, or a list or array of utterances. Return None if an utterance has a shape other
    than (T,) or (channels, T).
    """
    # Several utterances are an array or tensor with two or more axes, or a list of sequences.
    is_batch = getattr(raw_speech, "ndim", 1) > 1 or (
        isinstance(raw_speech, (list, tuple)) and len(raw_speech) > 0 and np.ndim(raw_speech[0]) > 0
    )
    utterances = [np.asarray(utterance, np.float32) for utterance in (raw_speech if is_batch else [raw_speech])]
    # Like the original, take the first channel of audio (channels, T).
    utterances = [utterance[0] if utterance.ndim == 2 and len(utterance) else utterance for utterance in utterances]
    return utterances if all(utterance.ndim == 1 for utterance in utterances) else None


class _Extractor:
    """Mixin that computes the filter banks of all utterances of a call before the original requests the first one."""

    dtype = torch.float32  # Type of the numbers with which the original computes.
    takes_first_channel = False  # True if the original accepts audio (channels, T).

    def __call__(self, raw_speech: Any, *arguments: Any, device: Any = None, **keywords: Any) -> Any:
        """Return the model's input for one or more utterances, a ``BatchFeature`` like the original's.

        Args:
            raw_speech: audio in -1 to 1: an array, a tensor or a list of numbers (T,), or a list of utterances.
            arguments, keywords: arguments of the original.
            device: device of the computation and of returned tensors, such as "cuda". None for the CPU.
        """
        utterances = _list_utterances(raw_speech)
        computed = (
            None if utterances is None else iter(self._compute_features(utterances, torch.device(device or "cpu")))
        )
        token = _computed_features.set(computed)
        try:
            result = super().__call__(raw_speech, *arguments, **keywords)  # type: ignore[misc]
        finally:
            _computed_features.reset(token)
        return result if device is None or keywords.get("return_tensors") != "pt" else result.to(device)

    def _compute_features(self, utterances: list[Any], device: torch.device) -> list[Any]:
        """Return the log-mel features of each utterance (T,), as float32 arrays (frames, num_mel_bins)."""
        fbank = _get_fbank(read_fbank_settings(self), device)
        tensors = [torch.from_numpy(utterance).to(device, self.dtype) for utterance in utterances]
        if device.type == "cpu":
            features_of_utterances = fbank(tensors)
        else:
            lengths = torch.tensor([len(utterance) for utterance in tensors])
            batch, counts = fbank(torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths)
            features_of_utterances = [padded[:count] for padded, count in zip(batch, counts.tolist(), strict=True)]
        return [features.float().cpu().numpy() for features in features_of_utterances]

    def _extract_fbank_features(self, waveform: Any, **parameters: Any) -> Any:
        """Return the features (frames, num_mel_bins) of the call's next utterance, which were computed before.

        Outside of a call, compute the features of ``waveform``. Within a call, leave waveforms that are not mono, not
        floats or too short to the original.
        """
        computed = _computed_features.get()
        if computed is None:
            return self._compute_features([np.asarray(waveform, np.float32).reshape(-1)], torch.device("cpu"))[0]
        features = next(computed)
        is_mono = np.ndim(waveform) == 1 or self.takes_first_channel
        if not is_mono or len(features) == 0 or np.asarray(waveform).dtype.kind != "f":
            # The original refuses most waveforms that are not mono, not floats or too short, so leave them to its code.
            return super()._extract_fbank_features(waveform, **parameters)  # type: ignore[misc]
        return features


class Speech2TextFeatureExtractor(_Extractor, transformers.Speech2TextFeatureExtractor):
    """``transformers.Speech2TextFeatureExtractor``: 80 log-mel bins, normalized over the utterance."""


class SeamlessM4TFeatureExtractor(_Extractor, transformers.SeamlessM4TFeatureExtractor):
    """``transformers.SeamlessM4TFeatureExtractor``, also for Wav2Vec2-BERT: pairs of frames of 80 log-mel bins."""

    dtype = torch.float64
    takes_first_channel = True


class ASTFeatureExtractor(_Extractor, transformers.ASTFeatureExtractor):
    """``transformers.ASTFeatureExtractor``: 1024 frames of 128 log-mel bins."""

    def _extract_fbank_features(self, waveform: Any, max_length: int) -> Any:  # type: ignore[override]
        """Return the log-mel features (max_length, num_mel_bins), cut or padded with zeros at the end."""
        features = super()._extract_fbank_features(waveform, max_length=max_length)[:max_length]
        return np.pad(features, ((0, max_length - len(features)), (0, 0)))


class Phi4MultimodalFeatureExtractor(transformers.Phi4MultimodalFeatureExtractor):
    """``transformers.Phi4MultimodalFeatureExtractor``: 80 log-mel bins up to 7690 Hz, floored at 0."""

    def _torch_extract_fbank_features(self, waveform: Tensor, audio_lengths: Tensor, device: Any = "cpu") -> Tensor:
        """Return the log-mel features (B, frames, 80) of padded audio (B, T) with lengths (B,)."""
        fbank = _get_fbank(read_fbank_settings(self), torch.device(device))
        frames = waveform.to(device, torch.float64).unfold(-1, self.win_length, self.hop_length)
        # The original sets frames that extend beyond the end of a shorter utterance to zero, except its last frames. It
        # leaves the longest utterances unchanged.
        lengths = audio_lengths.to(frames.device).unsqueeze(-1)
        first, end = (lengths - self.win_length) // self.hop_length + 1, lengths // self.hop_length - 1
        indices = torch.arange(frames.shape[1], device=frames.device)
        is_cleared = (indices >= first) & (indices < end) & (lengths != lengths.max())
        frames = frames.masked_fill(is_cleared.unsqueeze(-1), 0.0) * fbank.options.waveform_scale
        return fbank._compute_undithered_frames(frames, torch.from_numpy(self.mel_filters).to(frames)).float()


class LasrFeatureExtractor(transformers.LasrFeatureExtractor):
    """``transformers.LasrFeatureExtractor``, for MedASR: 128 log-mel bins."""

    def _torch_extract_fbank_features(self, waveform: Tensor, device: Any = "cpu") -> Tensor:
        """Return the log-mel features (..., frames, 128) of audio (..., T), in double precision."""
        fbank = _get_fbank(read_fbank_settings(self), torch.device(device))
        frames = waveform.to(device, torch.float64).unfold(-1, self.win_length, self.hop_length)
        return fbank._compute_undithered_frames(frames, self.mel_filters.to(frames))


_CLASSES: dict[str, type[Any]] = {
    extractor.__name__: extractor
    for extractor in (
        ASTFeatureExtractor,
        LasrFeatureExtractor,
        Phi4MultimodalFeatureExtractor,
        SeamlessM4TFeatureExtractor,
        Speech2TextFeatureExtractor,
    )
}


def drop_in(extractor: Extractor) -> Extractor:
    """Return the stand-in for a feature extractor of transformers, with the same settings.

    Args:
        extractor: a feature extractor, for example from ``AutoFeatureExtractor.from_pretrained``, or a processor from
            ``AutoProcessor``, whose feature extractor is replaced.

    Returns:
        A new feature extractor, or the changed processor itself.

    Raises:
        OptionError: the class does not have the name of a stand-in, for example because it is a subclass.

    >>> import transformers
    >>> from kaldi_standins.transformers import drop_in
    >>> type(drop_in(transformers.SeamlessM4TFeatureExtractor())).__module__
    'kaldi_standins.transformers'
    """
    inner: Any = getattr(extractor, "feature_extractor", None)
    if inner is not None:
        extractor.feature_extractor = drop_in(inner)  # type: ignore[attr-defined]
        return extractor
    stand_in_class = _CLASSES.get(type(extractor).__name__)
    if stand_in_class is None:
        raise OptionError(f"{type(extractor).__name__} has no stand-in: pass one of {', '.join(_CLASSES)}")
    settings = {name: value for name, value in vars(extractor).items() if name not in ("mel_filters", "window")}
    stand_in: Extractor = stand_in_class(**settings)
    # Also copy the mel filters, because only they contain Phi-4-multimodal's frequencies.
    vars(stand_in).update(vars(extractor))
    return stand_in
