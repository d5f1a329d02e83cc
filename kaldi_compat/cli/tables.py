"""The tables of a program, opened in Kaldi's order; and look-up of the keys of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from threading import Barrier
from typing import Any, TypeVar

import io_ark
from io_ark.blocks import BLOCK_BYTES, Block, Skip, block_of
from io_ark.codecs import Codec
from io_ark.errors import ArkError, PipeError
from io_ark.specifier import parse_rspecifier
from io_ark.tables import WholeReads
from kaldi_compat.cli.log import logger

Value = TypeVar("Value")
Result = TypeVar("Result")
Kind = io_ark.Kind | Codec[Any]

THREADS = 2


class Tables(ExitStack):
    """Opens the tables of a program, and closes them at the end of the context.

    A program opens them in the order of Kaldi's program of that name. If a table cannot be opened, an older output that
    Kaldi's program has opened by then is empty, and a recipe that ignores the exit status cannot take it for this
    run's output; one that it has not opened is still there.
    """

    def read(
        self, kind: Kind, rspecifier: str, is_needed: Callable[[str], bool] | None = None, size: int = BLOCK_BYTES
    ) -> Iterator[Any]:
        """Open a table and return its blocks. A script file's objects are read when the first block is needed.

        Args:
            kind: type of the objects.
            rspecifier: name of the table.
            is_needed: function of a key that returns False if its object need not be readable. Such objects of a script
                file are not read, and their value is None.
            size: bytes of a block of such a script file; 0 for blocks of one entry, if ``is_needed`` looks up keys.
        """
        reader = self.enter_context(io_ark.SequentialReader[Any](rspecifier, kind=kind))
        if is_needed is not None and parse_rspecifier(rspecifier).kind == "scp":
            return _read_needed_blocks(reader, is_needed, size)
        return reader.blocks()

    def open_lookup(self, kind: Kind, rspecifier: str, utt2spk: str = "") -> LookupReader[Any]:
        """Open a table to look up entries by key."""
        reader = LookupReader[Any](rspecifier, kind=kind, utt2spk=utt2spk)
        self.callback(reader.close)
        return reader

    def write(self, kind: Kind, wspecifier: str) -> io_ark.Writer[Any]:
        """Open a table to write."""
        return self.enter_context(io_ark.Writer[Any](wspecifier, kind=kind))

    def compute_ahead(self, items: Iterator[Value]) -> Iterator[Value]:
        """Return an iterator over items that are computed ahead in a thread if the process has a second core.

        This is the one queue of the programs. A chain of them makes a pipeline: one thread reads, one computes, and the
        main thread writes. The queue is bounded; an error is raised in place of the item that failed; and when the
        context ends, so does the thread.
        """
        if not has_second_core():
            return items
        from io_ark.tables.prefetch import ReadAhead  # slow to import, and not needed by most programs

        try:
            queue = ReadAhead(item for item in items)
        except RuntimeError:  # the system starts no more threads: ulimit -u, or the limit of a container
            return items
        self.callback(queue.close)
        return iter(queue)

    def map_in_threads(self, function: Callable[[Value], Result], items: Iterator[Value]) -> Iterator[Result]:
        """Return ``function(item)`` for each item, in order, computed in threads if the process has a second core."""
        if not has_second_core():
            return map(function, items)
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        pool = self.enter_context(ThreadPoolExecutor(THREADS))
        all_started = Barrier(THREADS)
        try:
            for _ in range(THREADS):
                pool.submit(all_started.wait)
        except RuntimeError:  # as above
            all_started.abort()
            return map(function, items)
        return (future.result() for future in self.compute_ahead(pool.submit(function, item) for item in items))


def _read_needed_blocks(
    reader: io_ark.SequentialReader[Any], is_needed: Callable[[str], bool], max_bytes: int
) -> Iterator[Block]:
    keys: list[str] = []
    values: list[Any] = []
    size = 0
    try:
        for key, read in reader.entries():
            value = read() if is_needed(key) else None
            keys.append(key)
            values.append(value)
            size += 1 if value is None else getattr(value, "nbytes", BLOCK_BYTES)
            if size >= max_bytes:
                yield block_of(keys, values)
                keys, values, size = [], [], 0
    except ArkError:
        if keys:
            yield block_of(keys, values)
        raise
    if keys:
        yield block_of(keys, values)


def has_second_core() -> bool:
    """Return True if this process may use more than one core."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


class Missing(Skip):
    """A table lacks some of the entries of a block.

    Args:
        warnings: a warning for each entry; None for an entry that is present.
    """

    def __init__(self, warnings: list[str | None]) -> None:
        super().__init__()
        self.warnings = warnings


class LookupReader(io_ark.RandomAccessReader[Value]):
    """Random-access reader of a program's second table.

    If the command of a pipe fails, keys that did not arrive are missing, with a warning, as in Kaldi: each costs its
    utterance, not the job.
    """

    def __init__(self, rspecifier: str, *, kind: Kind, utt2spk: str = "") -> None:
        super().__init__(rspecifier, kind=kind, utt2spk=utt2spk)
        table = parse_rspecifier(rspecifier)
        self.allows_one_lookup = table.once and table.kind == "ark"
        # Values of the keys of the last block, or None: a value may have been released since.
        self._found: dict[str, Value | None] = {}
        self._failed: tuple[str, ArkError] | None = None

    def __contains__(self, key: str) -> bool:
        try:
            return super().__contains__(key)
        except PipeError as error:
            self._use_what_arrived(error)
            return super().__contains__(key)

    def values_of(self, keys: Sequence[str]) -> list[Value] | None:
        try:
            return super().values_of(keys)
        except PipeError as error:
            self._use_what_arrived(error)
            return None

    def _use_what_arrived(self, error: PipeError) -> None:
        logger.warning("%s", error)
        for reader in filter(None, (self, self._speakers)):
            reader._lookup.reads = WholeReads()

    def find(self, block: Block, missing: Callable[[str], str]) -> list[Value]:
        """Return the values under the keys of a block.

        Further calls for parts of the block do not look up the keys again.

        Args:
            block: the block.
            missing: function of a missing key that returns its warning.

        Raises:
            Skip: the key is missing, or of several keys some are (:class:`Missing`).
            ArkError: a value cannot be read.
        """
        keys = block.names()
        values = self.find_each(keys)
        present = [value for value in values if value is not None]
        if len(present) == len(values):
            return present
        if len(values) == 1:
            raise Skip(missing(keys[0]))
        raise Missing([missing(key) if value is None else None for key, value in zip(keys, values, strict=True)])

    def find_each(self, keys: Sequence[str]) -> list[Value | None]:
        """Return the values under some keys, None where one is missing. See :meth:`find`.

        Raises:
            Skip: ``keys`` are several, but the table allows one look-up of a key (option ``o``).
            ArkError: a value cannot be read.
        """
        if self.allows_one_lookup:
            if len(keys) > 1:
                raise Skip
            return [self.get(key) for key in keys]
        try:
            return [self._found[key] for key in keys]
        except KeyError:
            if self._failed is not None and self._failed[0] in keys:
                raise self._failed[1] from None
            self._look_up(list(dict.fromkeys(keys)))
        return [self._found[key] for key in keys]

    def has(self, key: str) -> bool:
        """Return True if the table has a key. The value stays in memory, because a look-up of the key follows."""
        return key in self if self.allows_one_lookup else self.find_each([key])[0] is not None

    def prefetch(self, keys: Sequence[str]) -> None:
        """Look up keys at once that are then asked for one by one. An error is raised again at its key."""
        if not self.allows_one_lookup:
            with suppress(ArkError):
                self.find_each(keys)

    def _look_up(self, keys: Sequence[str]) -> None:
        self._found, self._failed = {}, None
        try:
            values = self.values_of(keys)
        except ArkError:  # raised again at its key
            values = None
        if values is not None:
            self._found = dict(zip(keys, values, strict=True))
            return
        for key in keys:
            try:
                present = key in self
                self._found[key] = self[key] if present else None
            except ArkError as error:
                self._failed = key, error
                raise

    def can_find_many(self, rspecifier: str) -> bool:
        """Return True if many keys of the table can be looked up at once without taking more memory or time.

        This holds for archives that keep what has been read. It does not hold for standard input and named pipes, from
        which the entries of one key may arrive long before those of the next.
        """
        if self.values_of([]) is None:
            return False
        name = parse_rspecifier(rspecifier).rxfilename
        return name.endswith("|") or os.path.isfile(name)
