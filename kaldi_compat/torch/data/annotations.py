"""Targets of utterances (speakers, labels, alignments, transcripts), which are looked up by the utterance's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import io_ark
from io_ark.blocks import PosteriorArrays
from io_ark.codecs import Codec, PosteriorArraysCodec, codec
from io_ark.errors import MissingKeyError
from io_ark.streams import Access, Source
from io_ark.tables import Script
from kaldi_compat.errors import KaldiCompatError, OptionError
from kaldi_compat.torch.data.arguments import check_functions, find_file
from kaldi_compat.torch.data.batching import Posteriors, Utterance
from kaldi_compat.torch.data.ctm import Ctm
from kaldi_compat.torch.data.each_process import InEachProcess

Path = str | PathLike[str]
Labels = Path | Mapping[str, object]
Tokenizer = Callable[[str], Sequence[int]]

# First byte of a binary integer. A key never starts with this byte, so if it follows a vector, the vector is the start
# of an object with more numbers.
_NUMBER = b"\x04"


class _Table(Protocol):
    """Mapping from the keys of utterances to values, of which only two methods are used."""

    def __contains__(self, key: str, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Any: ...


class _Archive:
    """Table that an rspecifier names. Each process opens its own reader, which reads objects with ``codec``."""

    def __init__(self, codec: Codec[Any], rspecifier: str, pipes: bool, network: bool) -> None:
        """Store the arguments of the reader. Set ``pipes`` or ``network`` to False to refuse commands or URLs."""
        reader = io_ark.RandomAccessReader[Any]
        self._reader = InEachProcess(reader, rspecifier, kind=codec, pipes=pipes, network=network)

    def __contains__(self, key: str) -> bool:
        return key in self._reader()

    def __getitem__(self, key: str) -> object:
        return self._reader()[key]


class _AlignmentCodec(Codec[Any]):
    """Codec of vectors of integers. Refuses posteriors, lists and pairs, whose binary form starts like a vector."""

    _vector = codec("int-vector")

    def read_body(self, source: Source, binary: bool) -> object:
        """Read a vector from text or binary form. Raise FormatError if more numbers follow a binary vector."""
        values = self._vector.read_body(source, binary)
        if binary and source.peek(1) == _NUMBER:
            source.fail("expected one integer per frame, found several: pass a table of posteriors as posteriors=")
        return values


@dataclass(frozen=True)
class _Target:
    """One kind of target, such as the alignments, for all utterances."""

    name: str
    table: _Table
    table_name: str  # File or rspecifier of the table, or "the mapping". Error messages contain this name.
    convert: Callable[[Any], object] | None  # Conversion of a value of the table, or None for no conversion.

    def look_up(self, key: str) -> Any:
        """Return the converted target of the utterance ``key``.

        Raises:
            MissingKeyError: the table has no target of the utterance.
            ArkError: the target cannot be read.
            KaldiCompatError: ``convert`` raises a TypeError or a ValueError for the target.
        """
        if key not in self.table:
            name = self.name.replace("_", " ")
            raise MissingKeyError(
                f"has no {name} in {self.table_name}: add an entry, or pass drop_incomplete=True to skip the utterance",
                key=key,
            )
        value = self.table[key]
        try:
            return value if self.convert is None else self.convert(value)
        except (TypeError, ValueError) as error:
            raise KaldiCompatError(
                f"{key}: the {self.name} {value!r} in {self.table_name} is invalid: {error}: correct this entry"
            ) from error


class Annotations:
    """Targets of the utterances of a data set.

    Args:
        utt2spk: path of a map from utterance to speaker, or of a data directory.
        labels: path of a file with lines ``<utterance> <label>``, such as ``utt2lang``; or a mapping.
        parse_label: function from the string after the key to a label, such as ``int``, importable by spawned workers.
        alignments: rspecifier of a table of integer vectors, such as ``scp:ali.scp`` or
            ``ark:gunzip -c ali.*.gz |``. An archive is read into the memory of each worker.
        posteriors: rspecifier of a table of posteriors, such as ``scp:post.scp``.
        text: path of transcripts, lines ``<utterance> <text>``; or a mapping.
        tokenizer: function from a transcript to integers, such as the ``encode`` of a SentencePiece model. For spawned
            workers, it must be importable by name.
        ctm: path of a CTM file of words and times by utterance (``get_train_ctm.sh --use-segments false``).
        pipes, network: False refuses to run commands, or to open URLs.

    Attributes:
        speakers: sorted names of all speakers in ``utt2spk``.

    Raises:
        OptionError: ``tokenizer`` is passed without ``text``, or is not a function.
        ArkError: a file cannot be read, or repeats a key.
    """

    def __init__(
        self,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], object] | None = None,
        alignments: str | None = None,
        pipes: bool = True,
        network: bool = True,
        *,
        posteriors: str | None = None,
        text: Labels | None = None,
        tokenizer: Tokenizer | None = None,
        ctm: Path | None = None,
    ) -> None:
        if tokenizer is not None and text is None:
            raise OptionError("tokenizer needs transcripts: also pass text='data/train/text'")
        check_functions(tokenizer=tokenizer)
        self.access = Access(pipes, network)
        self._targets: list[_Target] = []
        self._tokenizer = tokenizer
        self.speakers: list[str] = []
        if utt2spk is not None:
            script = self._add_lines("speaker", find_file(utt2spk, "utt2spk"))
            self.speakers = sorted({speaker for _, speaker in script.items()})
        self._speaker_labels = {speaker: index for index, speaker in enumerate(self.speakers)}
        if isinstance(labels, Mapping):
            self._add_target("label", labels, "the mapping")
        elif labels is not None:
            self._add_lines("label", labels, parse_label)
        if isinstance(text, Mapping):
            self._add_target("text", text, "the mapping", _check_string)
        elif text is not None:
            self._add_lines("text", find_file(text, "text"))
        if alignments is not None:
            self._add_archive("alignment", _AlignmentCodec(), fspath(alignments), _to_integers)
        if posteriors is not None:
            self._add_archive("posteriors", PosteriorArraysCodec(), fspath(posteriors), _pad_posteriors)
        if ctm is not None:
            words = Ctm(ctm, self.access)
            self._add_target("words", words, words.name)

    def _add_target(
        self, name: str, table: _Table, table_name: str, convert: Callable[[Any], object] | None = None
    ) -> None:
        """Add a target, such as "alignment". For the arguments, see :class:`_Target`."""
        self._targets.append(_Target(name, table, table_name, convert))

    def _add_archive(self, name: str, codec: Codec[Any], rspecifier: str, convert: Callable[[Any], object]) -> None:
        """Add a target whose values ``codec`` reads from the table of an rspecifier, and ``convert`` converts."""
        table = _Archive(codec, rspecifier, self.access.pipes, self.access.network)
        self._add_target(name, table, rspecifier, convert)

    def _add_lines(self, name: str, file: Path, convert: Callable[[str], object] | None = None) -> Script:
        """Add a target from a file of lines ``<key> <value>``, whose values ``convert`` converts. Return the lines."""
        # A label or transcript may be empty, but a speaker must have a name.
        script = Script.open(file, self.access, empty=name != "speaker")
        script.check_unique()
        self._add_target(name, script, script.name, convert)
        return script

    def locate_target(self, name: str) -> str:
        """Return the ``table_name`` of the target ``name``, or an empty string if the data set lacks the target."""
        return next((target.table_name for target in self._targets if target.name == name), "")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the targets, such as "speaker"."""
        return (target.name for target in self._targets)

    def has_all_targets(self, key: str) -> bool:
        """Return True if every table has a target of the utterance ``key``."""
        return all(key in target.table for target in self._targets)

    def annotate(self, key: str, value: Tensor, seed: int | None = None) -> Utterance:
        """Return an utterance with its targets.

        Args:
            key: key of the utterance.
            value: input of the utterance: audio ``(samples,)`` or features ``(frames, dim)``.
            seed: seed of the utterance for random changes, which is stored with the utterance.

        Raises:
            MissingKeyError: a target is missing.
            ArkError: a target cannot be read.
            KaldiCompatError: a label or transcript is invalid, or the tokenizer does not return a list of integers.
        """
        targets = {target.name: target.look_up(key) for target in self._targets}
        if "speaker" in targets:
            targets["speaker_label"] = self._speaker_labels[targets["speaker"]]
        if self._tokenizer is not None:
            targets["tokens"] = _check_tokens(key, self._tokenizer(targets["text"]))
        return Utterance(key, value, seed=seed, **targets)


def _to_integers(values: npt.ArrayLike) -> Tensor:
    """Convert integers to an int64 tensor of the same shape."""
    return torch.from_numpy(np.asarray(values, np.int64))


def _check_string(value: object) -> str:
    """Return a string unchanged. Raise TypeError for other values."""
    if not isinstance(value, str):
        raise TypeError("it is not a string")
    return value


def _check_tokens(key: str, values: Sequence[int]) -> Tensor:
    """Convert a tokenizer's list of integers to an int64 tensor (tokens,). Raise KaldiCompatError for other values."""
    with suppress(ValueError, TypeError):  # NumPy cannot make an array of ragged lists.
        tokens = np.asarray(values)
        are_integers = tokens.dtype.kind in "iu" or not len(tokens)  # NumPy gives an empty list the type float64.
        if tokens.ndim == 1 and are_integers and not np.ma.is_masked(values) and (tokens < 1 << 63).all():
            return _to_integers(tokens)
    described = " ".join(repr(values).split())
    raise KaldiCompatError(f"{key}: the tokenizer must return a list of integers, not {described}")


def _pad_posteriors(arrays: PosteriorArrays) -> Posteriors:
    """Convert the posteriors of an utterance to tensors ``(frames, max_classes)``, padded with class 0 of weight 0."""
    frames = np.repeat(np.arange(len(arrays.counts)), arrays.counts)  # Index of the frame of each class.
    # Index of each class among the classes of its frame.
    columns = np.arange(len(frames)) - np.repeat(np.cumsum(arrays.counts) - arrays.counts, arrays.counts)
    shape = len(arrays.counts), int(arrays.counts.max(initial=0))
    classes, weights = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    classes[frames, columns], weights[frames, columns] = arrays.integers, arrays.weights
    return Posteriors(torch.from_numpy(classes), torch.from_numpy(weights))
