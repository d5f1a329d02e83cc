"""Features of batches of audio, computed on the device of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch.data.arguments import check_rate, find_rate
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING, Batch, Posteriors
from kaldi_compat.torch.data.items import check_tolerance, make_length_error
from kaldi_compat.torch.data.seeds import fork_seed


class FeaturesOnDevice:
    """Iterable over batches of features, which are computed on a device from batches of audio.

    Workers read and pad audio. The process of the model computes the features on the device of the model. If the batch
    has seeds, the random numbers for dithering and masks depend on the seeds of its utterances.

    Args:
        loader: batches of audio, such as a ``DataLoader`` of a :class:`~kaldi_compat.torch.data.datasets.WaveDataset`.
        feature: a module such as ``Fbank``, or a function from audio ``(B, T)`` and lengths ``(B,)`` to features
            ``(B, frames, dim)`` and their numbers of frames ``(B,)``.
        device: the device. ``feature`` and ``augment`` are moved to the device if they are modules.
        augment: function from features ``(B, frames, dim)`` and numbers of frames to features, such as
            :class:`~kaldi_compat.torch.data.spec_augment.SpecAugment`.
        length_tolerance: maximum difference in frames between the lengths of features and targets. With None, the
            lengths are not compared. See :class:`~kaldi_compat.torch.data.datasets.FeatureDataset`.

    Raises:
        AudioError: the sampling rate of the audio differs from the rate that ``feature`` expects.
        KaldiCompatError: a batch is not audio, or features and targets differ in length by more than the tolerance.
        OptionError: ``length_tolerance`` is not a whole number, or is negative.

    >>> import torch
    >>> from kaldi_compat import Fbank, FeaturesOnDevice, Utterance, collate
    >>> audio = [collate([Utterance("a", torch.zeros(16000)), Utterance("b", torch.zeros(8000))])]
    >>> [batch] = FeaturesOnDevice(audio, Fbank(num_mel_bins=80), "cpu")
    >>> batch.inputs.shape, batch.lengths.tolist()
    (torch.Size([2, 98, 80]), [98, 48])
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        feature: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        device: torch.device | str,
        augment: Callable[[Tensor, Tensor], Tensor] | None = None,
        length_tolerance: int | None = None,
    ) -> None:
        check_tolerance(length_tolerance)
        self._length_tolerance = length_tolerance
        self._loader, self._device = loader, torch.device(device)
        self._feature = feature.to(device) if isinstance(feature, torch.nn.Module) else feature
        self._expected_rate = find_rate(feature)  # Sampling rate in Hz, or None if any rate is valid.
        self._augment = augment.to(device) if isinstance(augment, torch.nn.Module) else augment

    def __repr__(self) -> str:
        augmented = "" if self._augment is None else f", {self._augment!r}"
        return f"<FeaturesOnDevice: {self._feature!r}{augmented} on {self._device}>"

    def __len__(self) -> int:
        """Return the number of batches of the loader. Raise TypeError if the loader has no length."""
        if not isinstance(self._loader, Sized):
            raise TypeError(
                f"the number of batches is unknown, because {self._loader!r} has no length: "
                "count the batches in your loop"
            )
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        """Yield a batch of features on the device for each batch of audio. For errors, see the class."""
        for batch in self._loader:
            if batch.inputs.ndim != 2:
                raise KaldiCompatError(
                    f"batches of audio must have the shape (B, T), not {tuple(batch.inputs.shape)}: "
                    "pass a loader of audio, such as a WaveDataset without feature="
                )
            for key, rate in zip(batch.keys, batch.sample_frequencies or (), strict=False):
                check_rate(key, rate, self._expected_rate)
            audio = batch.to(self._device)
            # One generator draws the numbers of the whole batch, so all seeds of the batch determine its seed.
            seeding = nullcontext() if batch.seeds is None else fork_seed(int(batch.seeds.sum()), self._device)
            with torch.no_grad(), seeding:
                features, frame_counts = self._feature(audio.inputs, audio.lengths)
                result = replace(audio, inputs=features, lengths=frame_counts)
                if self._length_tolerance is not None and result.target_lengths is not None:
                    result = _cut_to_match(result, result.target_lengths, self._length_tolerance)
                if self._augment is not None:
                    result = replace(result, inputs=self._augment(result.inputs, result.lengths))
            yield result


def _cut_to_match(batch: Batch, target_lengths: Tensor, tolerance: int) -> Batch:
    """Cut the features and targets of each utterance to the smaller of their two lengths.

    Raise KaldiCompatError if ``batch.lengths`` and ``target_lengths`` (B,) differ by more than ``tolerance`` frames.
    """
    counts = torch.minimum(batch.lengths, target_lengths)
    longest = int(counts.max())
    for key, *lengths in zip(batch.keys, batch.lengths.tolist(), target_lengths.tolist(), strict=True):
        if max(lengths) > min(lengths) + tolerance:
            raise make_length_error(key, dict(zip(("input", "targets"), lengths, strict=True)), tolerance)
    is_padding = torch.arange(longest, device=counts.device) >= counts[:, None]
    alignments, posteriors = batch.alignments, batch.posteriors
    if alignments is not None:
        alignments = alignments[:, :longest].masked_fill(is_padding, ALIGNMENT_PADDING)
    if posteriors is not None:
        posteriors = Posteriors(*(tensor[:, :longest].masked_fill(is_padding[..., None], 0) for tensor in posteriors))
    inputs = batch.inputs[:, :longest].masked_fill(is_padding[..., None], 0.0)
    return replace(
        batch, inputs=inputs, lengths=counts, alignments=alignments, posteriors=posteriors, target_lengths=counts
    )
