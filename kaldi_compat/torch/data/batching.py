"""Batches of utterances of unequal length: padding and collation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.array_api import check_plain
from kaldi_compat.functional.batches import check_lengths
from kaldi_compat.options.base import convert_number
from kaldi_compat.torch.data.ctm import Word

ALIGNMENT_PADDING = -100
"""Padding of labels, alignments and tokens; the default ``ignore_index`` of torch's losses."""

Item = TypeVar("Item")


def pad(items: Sequence[Tensor], value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Pad tensors of unequal length to one batch.

    Args:
        items: tensors ``(n_i, ...)``, whose shapes differ only in the first axis.
        value: value of the padding.

    Returns:
        The batch ``(items, longest, ...)`` and the lengths ``(items,)``.

    Raises:
        FeatureError: ``items`` is empty, or is not a list of tensors that differ only in the size of the first axis.
        OptionError: ``value`` cannot be stored in the items' data type.

    >>> import torch
    >>> from kaldi_compat import pad
    >>> pad([torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    # The kind of a tensor is its data type and its shape after the first axis. The kind of another object is its class.
    kinds = {(item.dtype, *item.shape[1:]) if isinstance(item, Tensor) and item.ndim else type(item) for item in items}
    if len(kinds) != 1 or not isinstance(next(iter(kinds)), tuple):
        described = " and ".join(sorted(map(str, kinds))) or "nothing"
        raise FeatureError(
            f"cannot pad {described} into a batch: pass tensors of one data type whose shapes differ only in the first "
            "axis"
        )
    lengths = torch.tensor([len(item) for item in items], dtype=torch.int64)
    padding = convert_number("value", value)
    pad_sequence = torch.nn.utils.rnn.pad_sequence
    try:
        return pad_sequence(list(items), batch_first=True, padding_value=padding), lengths
    except RuntimeError:
        # The value is the cause if tensors of the same type that certainly fit into memory cannot be padded either.
        small_tensors = [torch.zeros(size, dtype=items[0].dtype) for size in (1, 2)]
        try:
            pad_sequence(small_tensors, padding_value=padding)
        except RuntimeError:
            raise OptionError(
                f"value={padding:g} cannot be stored in {items[0].dtype}: pass a value of this type"
            ) from None
        raise  # The value is valid, so the error has a different cause.


def unpad(batch: Tensor, lengths: Tensor) -> list[Tensor]:
    """Split a padded batch into its items without padding. This is the inverse of :func:`pad`.

    Args:
        batch: padded tensors, shape ``(items, longest, ...)``.
        lengths: length of each item, shape ``(items,)``.

    Returns:
        Views of the batch without padding, shapes ``(lengths[i], ...)``.

    Raises:
        FeatureError: the lengths do not match the batch.

    >>> import torch
    >>> from kaldi_compat import unpad
    >>> unpad(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([2, 1]))
    [tensor([1., 2.]), tensor([3.])]
    """
    checked: Tensor | None = check_lengths(lengths, batch, 1 - batch.ndim)  # Axis 1, counted from the end.
    if checked is None:
        raise FeatureError("lengths must not be None: pass the length of each item as a tensor of shape (items,)")
    return [row[:length] for row, length in zip(batch, checked.tolist(), strict=True)]


class Posteriors(NamedTuple):
    """Classes of frames with their weights, such as pdfs with their probabilities.

    Frames with fewer classes than other frames are padded with class 0 of weight 0.

    Attributes:
        classes: ``(..., frames, max_classes)`` int64.
        weights: ``(..., frames, max_classes)`` float32.

    The example computes the cross-entropy of the log-probabilities of a network, ``(..., frames, num_classes)``:

    >>> import torch
    >>> from kaldi_compat import Posteriors
    >>> posteriors = Posteriors(torch.tensor([[2, 1], [0, 0]]), torch.tensor([[0.75, 0.25], [1.0, 0.0]]))
    >>> log_probabilities = torch.zeros(2, 3).log_softmax(-1)
    >>> -(posteriors.weights * log_probabilities.gather(-1, posteriors.classes)).sum()
    tensor(2.1972)
    """

    classes: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Utterance:
    """Utterance of a data set (example: :func:`collate`). A target is None if the data set does not have this target.

    Attributes:
        key: name of the utterance.
        input: features ``(frames, dim)``, or audio ``(samples,)``.
        speaker: name of the speaker.
        label: label of the utterance.
        alignment: integers ``(frames,)``.
        speaker_label: number of the speaker in the data set's ``speakers``.
        posteriors: classes of the frames with their weights, ``(frames, max_classes)``.
        text: the transcript.
        tokens: integers ``(tokens,)`` from the tokenizer.
        words: the words with their times in seconds.
        seed: seed of the utterance in this epoch.
        sample_frequency: sampling rate of the audio in Hz; None if it is unknown.
    """

    key: str
    input: Tensor
    speaker: str | None = None
    label: object = None
    alignment: Tensor | None = None
    speaker_label: int | None = None
    posteriors: Posteriors | None = None
    text: str | None = None
    tokens: Tensor | None = None
    words: tuple[Word, ...] | None = None
    seed: int | None = None
    sample_frequency: float | None = None

    @property
    def target_frames(self) -> int | None:
        """Number of frames of the alignment or posteriors: the smaller number if both are set, None if neither is."""
        targets = [self.alignment, self.posteriors and self.posteriors.classes]
        return min((len(target) for target in targets if target is not None), default=None)


@dataclass(frozen=True)
class Batch:
    """Batch of utterances, padded by :func:`collate`. A target other than labels is None unless all utterances have it.

    Attributes:
        keys: names of the utterances.
        inputs: ``(B, longest, dim)`` features, or ``(B, longest)`` audio.
        lengths: ``(B,)``: number of frames or samples of each utterance.
        speakers: names of the speakers.
        labels: for integers ``(B,)``; for sequences of integers ``(B, longest)``, padded with
            :data:`ALIGNMENT_PADDING`; for other labels, or if an utterance has no label, a list. None without labels.
        alignments: ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`.
        speaker_labels: ``(B,)``: numbers of the speakers.
        posteriors: ``(B, longest, max_classes)``, padded with class 0 of weight 0.
        texts: the transcripts.
        tokens: ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`.
        token_lengths: ``(B,)``: number of tokens of each utterance.
        words: the words with their times in seconds.
        target_lengths: ``(B,)``: number of frames of the alignment or the posteriors of each utterance.
        seeds: ``(B,)``: seeds of the utterances in this epoch.
        sample_frequencies: sampling rates of the audio in Hz.
    """

    keys: list[str]
    inputs: Tensor
    lengths: Tensor
    speakers: list[str] | None = None
    labels: Tensor | list[object] | None = None
    alignments: Tensor | None = None
    speaker_labels: Tensor | None = None
    posteriors: Posteriors | None = None
    texts: list[str] | None = None
    tokens: Tensor | None = None
    token_lengths: Tensor | None = None
    words: list[tuple[Word, ...]] | None = None
    target_lengths: Tensor | None = None
    seeds: Tensor | None = None
    sample_frequencies: list[float] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def _map_tensors(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Return a copy of the batch with ``function`` applied to every tensor."""
        results: dict[str, Tensor | Posteriors] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                results[field.name] = function(value)
            elif isinstance(value, Posteriors):
                results[field.name] = Posteriors(*map(function, value))
        return dataclasses.replace(self, **results)  # type: ignore[arg-type]

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory. ``DataLoader(pin_memory=True)`` calls this method."""
        return self._map_tensors(Tensor.pin_memory)

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device. A copy from pinned memory is asynchronous."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))


def collate(utterances: Sequence[Utterance], padding: float = 0.0) -> Batch:
    """Collate utterances into a :class:`Batch`. Pass this function to a ``DataLoader`` as ``collate_fn``.

    A ``DataLoader`` without ``collate_fn`` collates in the same way.

    Args:
        utterances: utterances of a data set.
        padding: value of the inputs after the end of an utterance.

    Raises:
        FeatureError: an item is not an :class:`Utterance`, or the inputs or targets cannot be padded (see :func:`pad`).

    >>> import torch
    >>> from kaldi_compat import Utterance, collate
    >>> batch = collate([Utterance("a", torch.zeros(3, 2), label=1), Utterance("b", torch.zeros(5, 2), label=0)])
    >>> batch.inputs.shape, batch.lengths.tolist(), batch.labels.tolist()
    (torch.Size([2, 5, 2]), [3, 5], [1, 0])
    """
    for utterance in utterances:
        if not isinstance(utterance, Utterance):
            raise FeatureError(
                f"collate takes a list of Utterance, which the data sets return, not of {type(utterance).__name__}: "
                "pass Utterance(key, tensor), or call pad() for tensors"
            )
    inputs, lengths = pad([utterance.input for utterance in utterances], padding)
    alignments = _require_all([utterance.alignment for utterance in utterances])
    posteriors = _require_all([utterance.posteriors for utterance in utterances])
    tokens = _require_all([utterance.tokens for utterance in utterances])
    padded_tokens, token_lengths = (None, None) if tokens is None else pad(tokens, ALIGNMENT_PADDING)
    return Batch(
        [utterance.key for utterance in utterances],
        inputs,
        lengths,
        speakers=_require_all([utterance.speaker for utterance in utterances]),
        labels=_collate_labels([utterance.label for utterance in utterances]),
        alignments=None if alignments is None else pad(alignments, ALIGNMENT_PADDING)[0],
        speaker_labels=_stack_numbers([utterance.speaker_label for utterance in utterances]),
        posteriors=None if posteriors is None else _pad_posteriors(posteriors),
        texts=_require_all([utterance.text for utterance in utterances]),
        tokens=padded_tokens,
        token_lengths=token_lengths,
        words=_require_all([utterance.words for utterance in utterances]),
        target_lengths=_stack_numbers([utterance.target_frames for utterance in utterances]),
        seeds=_stack_numbers([utterance.seed for utterance in utterances]),
        sample_frequencies=_require_all([utterance.sample_frequency for utterance in utterances]),
    )


def _require_all(values: list[Item | None]) -> list[Item] | None:
    """Return the list of the values, or None if any value is None."""
    present = [value for value in values if value is not None]
    return present if len(present) == len(values) else None


def _stack_numbers(values: list[int | None]) -> Tensor | None:
    """Return the numbers of all utterances as a tensor ``(B,)``, or None if an utterance has no number."""
    numbers = _require_all(values)
    return None if numbers is None else torch.tensor(numbers)


def _pad_posteriors(posteriors: Sequence[Posteriors]) -> Posteriors:
    """Pad posteriors of ``B`` utterances to ``(B, longest, max_classes)`` with class 0 of weight 0."""
    max_classes = max(posterior.classes.shape[1] for posterior in posteriors)
    classes, weights = (
        pad([torch.nn.functional.pad(tensor, (0, max_classes - tensor.shape[1])) for tensor in tensors])[0]
        for tensors in zip(*posteriors, strict=True)
    )
    return Posteriors(classes, weights)


def _collate_by_default(utterances: Sequence[Utterance], *, collate_fn_map: object = None) -> Batch:
    """Collate utterances for ``default_collate``, which also passes ``collate_fn_map``. The map is not used."""
    return collate(utterances)


# default_collate looks up custom types in this mapping, as its documentation describes.
default_collate_fn_map[Utterance] = _collate_by_default


def _collate_labels(labels: list[object]) -> Tensor | list[object] | None:
    """Convert the labels of ``B`` utterances.

    Returns:
        None if no utterance has a label. For integers that int64 can store, a tensor ``(B,)``. For sequences of such
        integers, an int64 tensor ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`. Otherwise, for example if
        only some utterances have a label, the list ``labels`` itself.
    """
    if all(label is None for label in labels):
        return None
    if all(isinstance(label, (int, np.integer)) and -(1 << 63) <= label < 1 << 63 for label in labels):
        # torch converts no NumPy uint64, and combines unsigned integers of more than 8 bits with no other type.
        return torch.tensor([int(i) if isinstance(i, np.unsignedinteger) and i.itemsize > 1 else i for i in labels])
    sequences = [_convert_integers(label) for label in labels]
    present = _require_all(sequences)
    return labels if present is None else pad(present, ALIGNMENT_PADDING)[0]


def _convert_integers(label: object) -> Tensor | None:
    """Convert a tensor, list, tuple or array (n,) of integers or Booleans to int64. Return None for other labels.

    An empty sequence of any type is converted. Integers beyond int64 give None. A masked array raises FeatureError.
    """
    if isinstance(label, Tensor):
        is_integer = not (label.is_floating_point() or label.is_complex()) or label.numel() == 0
        integers = label.to(torch.int64) if label.ndim == 1 and is_integer else None
        has_wrapped = integers is not None and not label.dtype.is_signed and bool((integers < 0).any())
        return None if has_wrapped else integers
    if not isinstance(label, (list, tuple, np.ndarray)):
        return None
    if isinstance(label, np.ndarray):
        check_plain(label, FeatureError)
    try:
        array = np.asarray(label)
    except ValueError:  # NumPy cannot make an array of a ragged list.
        return None
    if array.size == 0:  # NumPy gives an empty list the type float64, and torch float32.
        array = array.astype(np.int64)
    fits_int64 = array.dtype.kind in "bi" or (array.dtype.kind == "u" and array.max(initial=0) < 1 << 63)
    return torch.from_numpy(array.astype(np.int64)) if array.ndim == 1 and fits_int64 else None
