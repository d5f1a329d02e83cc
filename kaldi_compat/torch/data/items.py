"""Creation of the items of data sets: the input of an utterance is read, combined with its targets and transformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

from torch import Tensor

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch.data.annotations import Annotations
from kaldi_compat.torch.data.arguments import check_functions, check_whole_number
from kaldi_compat.torch.data.batching import Posteriors, Utterance
from kaldi_compat.torch.data.seeds import Seeds, fork_seed
from kaldi_compat.torch.data.skipped import Skipped

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Items:
    """Factory of the items of a data set: reads, transforms and annotates utterances."""

    annotations: Annotations  # Targets of the utterances.
    seeds: Seeds  # Source of the seed of each utterance in each epoch.
    transform: Transform | None = None  # Function that is applied last to the input of an utterance, or None.
    # Maximum difference in frames between the lengths of input and targets. With None, the lengths are not compared.
    length_tolerance: int | None = None
    draws_numbers: bool = False  # True if reading an input draws torch's random numbers, which must then be seeded.

    def __post_init__(self) -> None:
        """Raise OptionError if the tolerance or the transform is invalid."""
        check_tolerance(self.length_tolerance)
        check_functions(transform=self.transform)

    def make_utterance(self, key: str, read: Callable[[int], Tensor]) -> Utterance:
        """Read an input, add its targets, cut both to one length (with ``length_tolerance``), and transform the input.

        Args:
            key: key of the utterance.
            read: function from the seed of the utterance to its input.

        Raises:
            KaldiCompatError: input and targets differ in length by more than the tolerance, ``read`` or the transform
                does not return a tensor, the utterance is empty, or a target is invalid.
            ArkError: the input or a target is missing or cannot be read.
        """
        seed = self.seeds.derive(key)
        seeding = fork_seed(seed) if self.draws_numbers or self.transform is not None else nullcontext()
        with seeding:
            utterance = self.annotations.annotate(key, _check_tensor(key, read(seed)), seed)
            if not len(utterance.input):
                cause = f"the utterance has no {'samples' if utterance.input.ndim == 1 else 'frames'}"
                raise KaldiCompatError(f"{key}: {cause}: remove the utterance, or pass on_error='skip' to the data set")
            if self.length_tolerance is not None:
                utterance = self._cut_to_match(utterance, self.length_tolerance)
            if self.transform is not None:
                utterance = replace(utterance, input=_check_tensor(key, self.transform(utterance.input)))
            return utterance

    def _cut_to_match(self, utterance: Utterance, tolerance: int) -> Utterance:
        """Cut input, alignment and posteriors to the shortest of their lengths, as Kaldi does with --length-tolerance.

        Raise KaldiCompatError if the lengths differ by more than ``tolerance`` frames.
        """
        alignment, posteriors = utterance.alignment, utterance.posteriors
        lengths = {"input": len(utterance.input)}
        if alignment is not None:
            lengths["alignment"] = len(alignment)
        if posteriors is not None:
            lengths["posteriors"] = len(posteriors.classes)
        shortest = min(lengths.values())
        if max(lengths.values()) == shortest:
            return utterance
        if max(lengths.values()) > shortest + tolerance:
            tables = {name: self.annotations.locate_target(name) for name in lengths}
            counts = {f"{name} of {tables[name]}" if tables[name] else name: length for name, length in lengths.items()}
            raise make_length_error(utterance.key, counts, tolerance)
        return replace(
            utterance,
            input=utterance.input[:shortest],
            alignment=None if alignment is None else alignment[:shortest],
            posteriors=None if posteriors is None else Posteriors(*(tensor[:shortest] for tensor in posteriors)),
        )


class ItemAttributes:
    """Attributes that all data sets share."""

    _items: Items
    _skipped: Skipped

    @property
    def skipped(self) -> list[str]:
        """Keys of the utterances that any worker has skipped."""
        return self._skipped.keys

    @property
    def speakers(self) -> list[str]:
        """Sorted names of the speakers. ``speaker_label`` of an utterance is an index into this list."""
        return self._items.annotations.speakers

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the random numbers of utterances, and the order of an ArchiveDataset.

        The new epoch takes effect in persistent workers as well.
        """
        self._items.seeds.epoch = epoch


def _check_tensor(key: str, value: object) -> Tensor:
    """Return the result of a user's function for an utterance. Raise KaldiCompatError unless the result is a tensor."""
    if not isinstance(value, Tensor):
        raise KaldiCompatError(f"{key}: augment, feature and transform must return tensors, not {type(value).__name__}")
    return value


def check_tolerance(length_tolerance: int | None) -> None:
    """Raise :class:`~kaldi_compat.errors.OptionError` unless the tolerance is None or a whole number >= 0."""
    if length_tolerance is not None:
        check_whole_number("length_tolerance", length_tolerance)


def make_length_error(key: str, lengths: Mapping[str, int], tolerance: int) -> KaldiCompatError:
    """Return the error for an utterance whose input and targets differ in length by more than ``tolerance`` frames.

    ``lengths`` maps "input" and the names of the targets to their numbers of frames.
    """
    described = ", ".join(f"{name} {length}" for name, length in lengths.items())
    return KaldiCompatError(
        f"{key}: the numbers of frames ({described}) differ by more than length_tolerance={tolerance}: "
        "pass targets of the same data and frame rate"
    )


def describe_items(items: Items) -> str:
    """Return the targets and the transform of a data set for its ``repr``, such as ", with speaker"."""
    targets = ", ".join(items.annotations)
    phrases = [f"with {targets}"] if targets else []
    if items.transform is not None:
        phrases.append(f"transform={getattr(items.transform, '__name__', repr(items.transform))}")
    return "".join(f", {phrase}" for phrase in phrases)
