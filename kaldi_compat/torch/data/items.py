"""Items of data sets: an utterance's input with its targets, checked against each other and transformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

from torch import Tensor

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch.data.annotations import Annotations
from kaldi_compat.torch.data.arguments import whole_number
from kaldi_compat.torch.data.batching import Posteriors, Utterance
from kaldi_compat.torch.data.seeds import Seeds, fork_seed
from kaldi_compat.torch.data.skipped import Skipped

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Items:
    """Makes the items of a data set."""

    annotations: Annotations  # the targets
    seeds: Seeds  # seeds of the utterances
    transform: Transform | None = None  # function applied to the input last
    # largest difference of the lengths of input and targets in frames; None does not compare them
    length_tolerance: int | None = None
    draws: bool = False  # True if reading an input draws torch's random numbers

    def __post_init__(self) -> None:
        check_tolerance(self.length_tolerance)

    def make(self, key: str, read: Callable[[int], Tensor]) -> Utterance:
        """Return an utterance whose input a function reads, which is given the utterance's seed.

        Raises:
            KaldiCompatError: input and targets differ in length by more than the tolerance, a function returned no
                tensor, or the utterance is empty.
            MissingKeyError: a target is missing.
        """
        seed = self.seeds.of(key)
        with fork_seed(seed) if self.draws or self.transform is not None else nullcontext():
            utterance = self.annotations.annotate(key, _tensor(key, read(seed)), seed)
            if not len(utterance.input):
                lacks = "samples" if utterance.input.ndim == 1 else "frames"
                raise KaldiCompatError(f"{key}: has no {lacks}: remove it, or pass on_error='skip' to the data set")
            if self.length_tolerance is not None:
                utterance = self._cut_to_match(utterance, self.length_tolerance)
            if self.transform is not None:
                utterance = replace(utterance, input=_tensor(key, self.transform(utterance.input)))
            return utterance

    def _cut_to_match(self, utterance: Utterance, tolerance: int) -> Utterance:
        """Cut the input and the targets of its frames to the shortest, as Kaldi does with --length-tolerance."""
        alignment, posteriors = utterance.alignment, utterance.posteriors
        lengths = {"input": len(utterance.input)}
        if alignment is not None:
            lengths["alignment"] = len(alignment)
        if posteriors is not None:
            lengths["posteriors"] = len(posteriors.classes)
        frames = min(lengths.values())
        if max(lengths.values()) == frames:
            return utterance
        if max(lengths.values()) > frames + tolerance:
            places = {name: self.annotations.where(name) for name in lengths}
            named = {f"{name} of {places[name]}" if places[name] else name: n for name, n in lengths.items()}
            raise unequal_lengths(utterance.key, named, tolerance)
        return replace(
            utterance,
            input=utterance.input[:frames],
            alignment=None if alignment is None else alignment[:frames],
            posteriors=None if posteriors is None else Posteriors(*(part[:frames] for part in posteriors)),
        )


class OfItems:
    """Attributes that all data sets share."""

    _items: Items
    _skipped: Skipped

    @property
    def skipped(self) -> list[str]:
        """Keys of the utterances that were skipped, by all workers."""
        return self._skipped.keys

    @property
    def speakers(self) -> list[str]:
        """Sorted names of the speakers, which ``speaker_label`` counts."""
        return self._items.annotations.speakers

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the random numbers of utterances, and the order of an ArchiveDataset.

        Reaches workers that persist.
        """
        self._items.seeds.epoch = epoch


def _tensor(key: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise KaldiCompatError(f"{key}: augment, feature and transform must return tensors, not {type(value).__name__}")
    return value


def check_tolerance(length_tolerance: int | None) -> None:
    """Raise :class:`OptionError` unless this is a number of frames, or None."""
    if length_tolerance is not None:
        whole_number("length_tolerance", length_tolerance)


def unequal_lengths(key: str, lengths: Mapping[str, int], tolerance: int) -> KaldiCompatError:
    """Return the error of an utterance whose input and targets differ in length."""
    counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
    return KaldiCompatError(
        f"{key}: numbers of frames ({counts}) that differ by more than length_tolerance={tolerance}: "
        "are they of the same data and frame rate?"
    )


def describe(items: Items) -> str:
    """Describe the targets of a data set and the transform of its inputs, for its ``repr``."""
    targets = ", ".join(items.annotations)
    parts = [f"with {targets}"] if targets else []
    if items.transform is not None:
        parts.append(f"transform={getattr(items.transform, '__name__', repr(items.transform))}")
    return "".join(f", {part}" for part in parts)
