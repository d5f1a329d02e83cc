"""Open the tables of a program, compute ahead in threads, and look up the keys of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from threading import Barrier
from typing import Any, TypeVar

import io_ark
from io_ark.blocks import BLOCK_BYTES, Block, Skip, create_block
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

    A program opens its tables in the same order as Kaldi's program. Therefore, if a table cannot be opened, the outputs
    of an earlier run are in the same state as with Kaldi: outputs that the program has opened before are empty, so that
    a recipe that ignores the exit status cannot use them, and other outputs are unchanged.
    """

    def read(
        self, kind: Kind, rspecifier: str, is_needed: Callable[[str], bool] | None = None, min_bytes: int = BLOCK_BYTES
    ) -> Iterator[Any]:
        """Open a table, and return an iterator that reads its blocks on demand.

        Args:
            kind: type of the objects.
            rspecifier: name of the table.
            is_needed: function of a key that returns False if the object is not needed. Such objects of a script file
                are not read, and have the value None. For archives, the function is never called.
            min_bytes: minimum size in bytes of a block of a script file if ``is_needed`` is given. Use 0, for blocks of
                one entry, if ``is_needed`` looks up keys in another table, so that both tables are read in step.
        """
        reader = self.enter_context(io_ark.SequentialReader[Any](rspecifier, kind=kind))
        if is_needed is not None and parse_rspecifier(rspecifier).kind == "scp":
            return _read_needed_blocks(reader, is_needed, min_bytes)
        return reader.blocks()

    def open_lookup(self, kind: Kind, rspecifier: str, utt2spk: str = "") -> LookupReader[Any]:
        """Open a table to look up entries by key, or by the speaker to which the table ``utt2spk`` maps the key."""
        reader = LookupReader[Any](rspecifier, kind=kind, utt2spk=utt2spk)
        self.callback(reader.close)
        return reader

    def open_writer(self, kind: Kind, wspecifier: str) -> io_ark.Writer[Any]:
        """Open the table ``wspecifier`` for writing objects of type ``kind``, and return its writer."""
        return self.enter_context(io_ark.Writer[Any](wspecifier, kind=kind))

    def compute_ahead(self, items: Iterator[Value]) -> Iterator[Value]:
        """Return an iterator over ``items`` that a thread computes ahead, if the process has a second core.

        A chain of such iterators makes a pipeline: one thread reads, one thread computes, and the main thread writes.
        The number of items computed ahead is bounded. An error is raised in place of the item that failed. The thread
        ends with the context.
        """
        if not has_second_core():
            return items
        from io_ark.tables.prefetch import ReadAhead  # This import is slow, and most programs do not need it.

        try:
            queue = ReadAhead(item for item in items)
        except RuntimeError:  # A limit such as ulimit -u forbids more threads, so do not read ahead.
            return items
        self.callback(queue.close)
        return iter(queue)

    def map_in_threads(self, function: Callable[[Value], Result], items: Iterator[Value]) -> Iterator[Result]:
        """Return an iterator over ``function(item)``, in order. With a second core, threads compute the results."""
        if not has_second_core():
            return map(function, items)
        from concurrent.futures import ThreadPoolExecutor  # An import at the top would delay every program.

        pool = self.enter_context(ThreadPoolExecutor(THREADS))
        all_started = Barrier(THREADS)  # All threads start now, so that an error occurs here.
        try:
            for _ in range(THREADS):
                pool.submit(all_started.wait)
        except RuntimeError:  # The system forbids more threads, so use only this thread.
            all_started.abort()
            return map(function, items)
        return (future.result() for future in self.compute_ahead(pool.submit(function, item) for item in items))


def _read_needed_blocks(
    reader: io_ark.SequentialReader[Any], is_needed: Callable[[str], bool], min_bytes: int
) -> Iterator[Block]:
    """Yield blocks in which objects that are not needed are None (see :meth:`Tables.read`).

    All blocks but the last have at least ``min_bytes`` bytes. An object that is not needed counts as one byte, and an
    object of unknown size as ``BLOCK_BYTES``. The entries before an error are yielded before the error is raised.
    """
    keys: list[str] = []
    values: list[Any] = []
    size = 0
    try:
        for key, read_value in reader.entries():
            value = read_value() if is_needed(key) else None
            keys.append(key)
            values.append(value)
            size += 1 if value is None else getattr(value, "nbytes", BLOCK_BYTES)
            if size >= min_bytes:
                yield create_block(keys, values)
                keys, values, size = [], [], 0
    except ArkError:
        if keys:
            yield create_block(keys, values)
        raise
    if keys:
        yield create_block(keys, values)


def has_second_core() -> bool:
    """Return True if this process may use more than one core."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


class Missing(Skip):
    """Raised if a table lacks some entries of a block.

    Args:
        warnings: one item for each entry: a warning, or None if the entry is present.
    """

    def __init__(self, warnings: list[str | None]) -> None:
        super().__init__()
        self.warnings = warnings


class LookupReader(io_ark.RandomAccessReader[Value]):
    """Random-access reader of a table in which a program looks up keys.

    If the command of a pipe fails, keys that did not arrive count as missing, with a warning as in Kaldi. The program
    skips the utterances of these keys and continues.

    Args:
        rspecifier: name of the table.
        kind: type of the objects.
        utt2spk: rspecifier of the speakers of utterances, to look up the speaker of a key instead of the key; "" to
            look up keys.
    """

    def __init__(self, rspecifier: str, *, kind: Kind, utt2spk: str = "") -> None:
        super().__init__(rspecifier, kind=kind, utt2spk=utt2spk)
        table = parse_rspecifier(rspecifier)
        self.allows_one_lookup = table.once and table.kind == "ark"
        # Maps the keys of the last lookup to values, or to None for missing keys. The table may release the values.
        self._values_by_key: dict[str, Value | None] = {}
        self._failure: tuple[str, ArkError] | None = None  # A key whose value cannot be read, and the error.

    def __contains__(self, key: str) -> bool:
        """Return True if the table has a key. If the command of a pipe has failed, look among the keys that arrived."""
        try:
            return super().__contains__(key)
        except PipeError as error:
            self._ignore_pipe_error(error)
            return super().__contains__(key)

    def get_many(self, keys: Sequence[str]) -> list[Value] | None:
        """Return the values of the keys, or None if a key is missing or must be looked up alone, or if a pipe fails."""
        try:
            return super().get_many(keys)
        except PipeError as error:
            self._ignore_pipe_error(error)
            return None

    def _ignore_pipe_error(self, error: PipeError) -> None:
        """Log the error, and let later look-ups use the entries that arrived instead of raising the error again."""
        logger.warning("%s", error)
        for reader in filter(None, (self, self._speakers)):
            reader._lookup.reads = WholeReads()

    def require_values(self, block: Block, describe_missing: Callable[[str], str]) -> list[Value]:
        """Return the values under the keys of a block. Calls for parts of this block do not look up the keys again.

        ``describe_missing`` is a function from a missing key to the warning about the key.

        Raises:
            Skip: a key is missing. For a block of several entries, the exception is :class:`Missing`.
            ArkError: a value cannot be read.
        """
        keys = block.decode_keys()
        values = self.find_values(keys)
        present_values = [value for value in values if value is not None]
        if len(present_values) == len(values):
            return present_values
        if len(values) == 1:
            raise Skip(describe_missing(keys[0]))
        warnings = [describe_missing(key) if value is None else None for key, value in zip(keys, values, strict=True)]
        raise Missing(warnings)

    def find_values(self, keys: Sequence[str]) -> list[Value | None]:
        """Return the value under each key, or None for a missing key.

        Raises:
            Skip: there are several keys, but the table allows only one look-up of a key (option ``o``).
            ArkError: a value cannot be read.
        """
        if self.allows_one_lookup:
            if len(keys) > 1:
                raise Skip  # An empty Skip asks the caller to look up one key at a time.
            return [self.get(key) for key in keys]
        try:
            return [self._values_by_key[key] for key in keys]
        except KeyError:
            if self._failure is not None and self._failure[0] in keys:
                raise self._failure[1] from None
            self._look_up(list(dict.fromkeys(keys)))
        return [self._values_by_key[key] for key in keys]

    def has_key(self, key: str) -> bool:
        """Return True if the table has a key. The value stays in memory for the look-up that follows."""
        return key in self if self.allows_one_lookup else self.find_values([key])[0] is not None

    def prefetch(self, keys: Sequence[str]) -> None:
        """Look up several keys at once, before they are looked up one by one.

        An error is raised later, when its key is looked up. Do nothing if the table allows only one look-up of a key.
        """
        if not self.allows_one_lookup:
            with suppress(ArkError):
                self.find_values(keys)

    def _look_up(self, keys: Sequence[str]) -> None:
        """Store the value of each key, or None for a missing key. Store the first error with its key, and raise it."""
        self._values_by_key, self._failure = {}, None
        try:
            values = self.get_many(keys)
        except ArkError:  # Looking up single keys below raises the error for its key.
            values = None
        if values is not None:
            self._values_by_key = dict(zip(keys, values, strict=True))
            return
        for key in keys:
            try:
                is_present = key in self
                self._values_by_key[key] = self[key] if is_present else None
            except ArkError as error:
                self._failure = key, error
                raise

    def can_find_many(self, rspecifier: str) -> bool:
        """Return True if looking up many keys at once takes no more memory or time than looking them up one by one.

        This is the case for archives whose entries stay in memory. It is not the case for standard input and named
        pipes, from which the next entry may arrive much later.
        """
        if self.get_many([]) is None:
            return False
        name = parse_rspecifier(rspecifier).rxfilename
        return name.endswith("|") or os.path.isfile(name)
