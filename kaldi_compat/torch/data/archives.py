"""Iterable data set of tables that are read from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

import io_ark
from io_ark.tables import repeat_errors
from io_ark.text import format_count
from kaldi_compat.torch.data.annotations import Annotations, Labels, Path, Tokenizer
from kaldi_compat.torch.data.arguments import check_whole_number
from kaldi_compat.torch.data.batching import Utterance
from kaldi_compat.torch.data.items import ItemAttributes, Items, Transform, describe_items
from kaldi_compat.torch.data.places import to_writable_tensor
from kaldi_compat.torch.data.sampling import find_rank_and_world_size
from kaldi_compat.torch.data.seeds import Seeds
from kaldi_compat.torch.data.skipped import OnError, Skipped


class ArchiveDataset(ItemAttributes, IterableDataset[Utterance]):
    """Iterable data set of tables read from start to end: archives, pipes, or very large script files.

    The readers are the workers of all ranks. Exactly one reader returns each utterance. If there are at least as many
    tables as readers, whole tables are distributed over the readers. Otherwise each of the n readers scans all tables,
    runs the commands of pipes, and returns every n-th utterance. From a script file, it reads only these utterances.

    Args:
        rspecifiers: one rspecifier or several, such as ``ark:gunzip -c feats.1.gz |``.
        utt2spk, labels, parse_label, alignments, posteriors, text, tokenizer, ctm, pipes, network: as for
            :class:`~kaldi_compat.torch.data.annotations.Annotations`.
        length_tolerance, transform, drop_incomplete: as for :class:`~kaldi_compat.torch.data.datasets.FeatureDataset`.
        on_error: "raise" stops at an utterance that cannot be read. "skip" warns once and adds the key to ``skipped``.
        shuffle_buffer: number of utterances in a buffer for shuffling; 0 or 1 keeps the order.
        seed: seed of the shuffling, and of random numbers in ``transform``.
        rank, world_size: index of this process and number of processes. By default, they are taken from
            ``torch.distributed`` if it is initialized; otherwise there is one process.

    Items are :class:`~kaldi_compat.torch.data.batching.Utterance` with matrices ``(frames, dim)`` as input.

    Ranks may get different numbers of utterances. If ranks synchronize, use ``torch.distributed.algorithms.Join``.

    Raises:
        ArkError: a file of targets cannot be read; in iteration, a table or an utterance cannot be read.
        KaldiCompatError: in iteration, an utterance is empty, a target is invalid, or lengths differ too much.
        OptionError: an argument is invalid.

    >>> from kaldi_compat import ArchiveDataset
    >>> [utterance] = ArchiveDataset("ark:echo utt1 [ 1 2 ] |")
    >>> utterance.key, utterance.input
    ('utt1', tensor([[1., 2.]]))
    """

    def __init__(
        self,
        rspecifiers: str | Sequence[str],
        *,
        utt2spk: Path | None = None,
        labels: Labels | None = None,
        parse_label: Callable[[str], object] | None = None,
        alignments: str | None = None,
        posteriors: str | None = None,
        text: Labels | None = None,
        tokenizer: Tokenizer | None = None,
        ctm: Path | None = None,
        length_tolerance: int | None = None,
        transform: Transform | None = None,
        drop_incomplete: bool = False,
        on_error: OnError = "raise",
        shuffle_buffer: int = 0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        super().__init__()
        self._rspecifiers = [rspecifiers] if isinstance(rspecifiers, str) else list(rspecifiers)
        annotations = Annotations(
            utt2spk, labels, parse_label, alignments, pipes, network,
            posteriors=posteriors, text=text, tokenizer=tokenizer, ctm=ctm,
        )  # fmt: skip
        self._items = Items(annotations, Seeds(seed), transform, length_tolerance)
        self._drop_incomplete, self._skipped = drop_incomplete, Skipped(on_error)
        self._shuffle_buffer = check_whole_number("shuffle_buffer", shuffle_buffer)
        self._rank, self._world_size = find_rank_and_world_size(rank, world_size)
        self._pipes, self._network = pipes, network

    def __repr__(self) -> str:
        first, *others = self._rspecifiers or ["nothing"]
        tables = f"{first} and {format_count(len(others), 'more table')}" if others else first
        return f"<ArchiveDataset of {tables}{describe_items(self._items)}>"

    def _repr_html_(self) -> str:
        from io_ark.text import FIRST, format_html_table

        rows = [(table,) for table in self._rspecifiers[:FIRST]]
        remark = f"... and {len(self._rspecifiers) - len(rows)} more" if len(rows) < len(self._rspecifiers) else ""
        return format_html_table(f"ArchiveDataset of {format_count(len(self._rspecifiers), 'table')}", rows, (), remark)

    def __iter__(self) -> Iterator[Utterance]:
        """Iterate over the utterances that this worker of this rank returns in the current epoch."""
        worker = get_worker_info()
        num_workers, worker_index = (1, 0) if worker is None else (worker.num_workers, worker.id)
        reader, num_readers = self._rank * num_workers + worker_index, self._world_size * num_workers
        utterances = self._read_utterances(reader, num_readers)
        return self._shuffle_utterances(utterances, reader) if self._shuffle_buffer > 1 else utterances

    @repeat_errors
    def _read_utterances(self, reader: int, num_readers: int) -> Iterator[Utterance]:
        """Yield the utterances of the reader with the index ``reader``, from 0 to ``num_readers - 1``.

        Each reader reads its own tables. If there are fewer tables than readers, each reader scans all tables, and
        reads every ``num_readers``-th entry. With ``on_error="skip"``, skip an unreadable utterance, or the rest of a
        damaged table. With ``drop_incomplete``, omit an utterance that lacks a target.
        """
        has_own_tables = len(self._rspecifiers) >= num_readers
        num_entries = 0  # Number of entries of all tables so far, including the entries of other readers.
        rspecifiers = self._rspecifiers[reader::num_readers] if has_own_tables else self._rspecifiers
        for rspecifier in rspecifiers:
            with io_ark.SequentialReader[npt.NDArray[np.generic]](
                rspecifier, kind="matrix", pipes=self._pipes, network=self._network
            ) as table:
                try:
                    for key, load in table.entries():
                        is_own = has_own_tables or num_entries % num_readers == reader
                        num_entries += 1
                        if is_own and (not self._drop_incomplete or self._items.annotations.has_all_targets(key)):
                            make = partial(self._items.make_utterance, key, partial(_load_tensor, load))
                            if (utterance := self._skipped.read_or_skip(key, make)) is not None:
                                yield utterance
                except io_ark.ArkError as error:  # Skip the rest of a damaged table.
                    self._skipped.record_skip(rspecifier, error)

    @repeat_errors
    def _shuffle_utterances(self, utterances: Iterable[Utterance], reader: int) -> Iterator[Utterance]:
        """Yield utterances in an order that the seed, the epoch and the index ``reader`` determine.

        Once a buffer holds ``shuffle_buffer`` utterances, each new utterance replaces a random utterance of the buffer,
        which is yielded. The utterances that remain in the buffer at the end follow in random order.
        """
        rng = np.random.default_rng((self._items.seeds.seed, self._items.seeds.epoch, reader))
        buffer: list[Utterance] = []
        for utterance in utterances:
            if len(buffer) < self._shuffle_buffer:
                buffer.append(utterance)
                continue
            position = int(rng.integers(len(buffer)))
            buffer[position], utterance = utterance, buffer[position]
            yield utterance
        for position in rng.permutation(len(buffer)):
            yield buffer[position]


def _load_tensor(load: Callable[[], npt.NDArray[np.generic]], seed: int) -> Tensor:
    return to_writable_tensor(load())
