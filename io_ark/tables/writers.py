"""Write tables to an archive, or to one file per object (Kaldi: src/util/kaldi-table-inl.h)."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, PackedBlock, format_script_lines, pack_arrays
from io_ark.codecs import Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import ArkError, ClosedError, SpecifierError, WriteError
from io_ark.logs import logger
from io_ark.specifier import Wspecifier, parse_wspecifier, parse_wxfilename
from io_ark.streams import process
from io_ark.streams.access import Access
from io_ark.streams.output import ClosedOnExit, Output, WholeWrites, open_output
from io_ark.tables.keys import encode_valid_key
from io_ark.tables.loader import name_key, resolve_codec
from io_ark.tables.overwriting import refuse_sharing
from io_ark.tables.script import Script

# Bytes that a key of a table must not contain. The pattern lacks newlines, which separate the keys of a block.
_UNSAFE_IN_KEYS = re.compile(rb"[\0-\x09\x0b-\x20\x7f]")
# Minimum mean size in bytes of the arrays of a block that are written without a copy. Copying smaller arrays into one
# buffer is faster than writing each of them.
_MIN_UNCOPIED_BYTES = 1 << 15

Value = TypeVar("Value", contravariant=True)


class CollectedChunks(list[Any]):
    """Sink that collects the output of a codec, so that a refused value leaves no partial object in the table."""

    write = list.append


class ArchiveTarget:
    """Writes all objects to the archive of a parsed wspecifier, and optionally their locations to its script file."""

    def __init__(self, table: Wspecifier, access: Access) -> None:
        self._table = table
        if table.kind == "both" and "\n" in table.archive:
            problem = "has a line break, which a script file cannot contain: rename the archive, or write 'ark:' only"
            raise SpecifierError(problem, file=table.archive)
        if os.path.basename(table.archive) == os.path.basename(table.script):
            refuse_sharing([f"ark,scp:{table.archive},{table.script}"])
        target = parse_wxfilename(table.archive)
        self.archive = open_output(target, access=access)
        self.entry = self.archive.entry
        self._location = f"{table.archive}:".encode("utf-8", "surrogateescape")
        self.script: Output | None = None
        if table.kind == "both":
            if target.kind != "file":
                logger.warning("%s: is not a file, so the locations in the script file cannot be read: name a file as "
                               "the archive", self.archive.name)  # fmt: skip
            try:
                self.script = open_output(table.script, access=access)
                self.script.archive = self.archive
            except ArkError:
                self.archive.close()
                raise

    def write(self, key: str, chunks: list[Any]) -> None:
        """Write an entry. The first chunk is the key and a space, and the other chunks are the object."""
        entry = self.entry
        if entry.is_broken:
            entry.raise_error()
        entry.is_broken = True  # `with entry` would add 10% to the time of a small entry.
        if self.script is None:
            self.archive.write_all(chunks)
        else:
            line = b"%b%b%d\n" % (chunks[0], self._location, self.archive.tell() + len(chunks[0]))
            self.archive.write_all(chunks)
            self.script.write_all((line,))
        if self._table.flush:
            self.flush()
        entry.is_broken = False

    def write_block(self, block: ArrayBlock | PackedBlock) -> bool:
        """Write a block and return True, or write nothing and return False if an ArrayBlock has an invalid key."""
        if isinstance(block, PackedBlock):
            buffers, starts = [block.data.data], block.objects
        elif _UNSAFE_IN_KEYS.search(block.keys):
            return False
        else:
            buffers, starts = _encode_arrays(block)
        offsets = starts + self.archive.tell()
        with self.entry:
            self.archive.write_all(buffers)
            if self.script is not None:
                self.script.write_all((format_script_lines(block.keys, offsets, self._location[:-1]).data,))
            if self._table.flush:
                self.flush()
        return True

    def flush(self) -> None:
        """Pass the buffered entries of both files to the operating system."""
        self.archive.flush()
        if self.script is not None:
            self.script.flush()

    def close(self) -> None:
        """Close the archive, and then the script file, which counts as incomplete if the archive is incomplete."""
        try:
            self.archive.close()
        except BaseException:
            if self.script is not None:
                self.script.entry.is_broken = True  # The script file may list entries that the archive lacks.
                with suppress(WriteError):
                    self.script.close()
            raise
        if self.script is not None:
            self.script.close()


def _encode_arrays(block: ArrayBlock) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Return the entries of a block as buffers to write, and the offset in bytes of each object in the joined buffers.

    Small arrays are copied to one buffer. Larger arrays are not copied: their buffers are views.
    """
    if block.values.nbytes < _MIN_UNCOPIED_BYTES * len(block.shapes):
        packed, starts, _ = pack_arrays(block.keys, block.shapes, block.dimensions, block.values)
        return [packed.data], starts
    packed, starts, ends = pack_arrays(block.keys, block.shapes, block.dimensions, block.values, with_values=False)
    sizes = block.count_elements() * block.values.itemsize
    value_ends = np.cumsum(sizes)
    headers, values = packed.data, block.values.view(np.uint8).data
    buffers: list[Any] = []
    begin = value_begin = 0
    for end, value_end in zip(ends.tolist(), value_ends.tolist(), strict=True):
        buffers += headers[begin:end], values[value_begin:value_end]
        begin, value_begin = end, value_end
    return buffers, starts + value_ends - sizes  # `starts` has the offsets without the arrays of earlier entries.


class ScriptTarget:
    """Writes every object to the file or command that the script file of a parsed wspecifier names for its key."""

    def __init__(self, table: Wspecifier, access: Access) -> None:
        self._table = table
        self._access = access
        self._script = Script.open(table.script, access)
        self._script.check_unique()
        self.entry = WholeWrites(table.script)

    def write(self, key: str, chunks: list[Any]) -> None:
        """Write the object ``chunks[1:]`` to the file of ``key``.

        If the script file lacks the key, skip the object with the option ``p``, and raise WriteError otherwise.
        """
        wxfilename = self._script.get(key)
        if wxfilename is None:
            if self._table.permissive:
                return
            raise WriteError("the key is not in the script file, so the output file is unknown: add a line for the key",
                             file=self._table.script)  # fmt: skip
        if self.entry.is_broken:
            self.entry.raise_error()
        output = open_output(wxfilename, access=self._access)
        with self.entry, output:
            output.write_all(chunks[1:])

    def write_block(self, block: ArrayBlock | PackedBlock) -> bool:
        """Return False without writing, because every entry is written to a separate file."""
        return False

    def flush(self) -> None:
        """Do nothing, because every object is written at once."""

    def close(self) -> None:
        """Raise :class:`WriteError` if an object was not written. Every output is closed already."""
        if self.entry.is_broken:
            self.entry.raise_error()


class Writer(ClosedOnExit, Generic[Value]):
    """Writes a table. Threads may share a writer. A forked process cannot use the writer of its parent.

    After :meth:`close` has returned, exactly the accepted entries have been passed to the system. If a write fails or
    is interrupted (Ctrl-C) within an entry, the table is incomplete: the writer accepts no more entries, and
    :meth:`close` raises an error.

    Args:
        wspecifier: the table, such as ``ark:a.ark``, ``ark,t:-`` or ``ark,scp:a.ark,a.scp``, or its parsed form.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        options: arguments of the codec, such as ``method`` for "compressed-matrix".

    Raises:
        ArkError: the table cannot be opened or written, or cannot hold a key or value.
        ClosedError: the writer is used after it was closed, or in a forked process.

    >>> import io_ark, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with io_ark.Writer(f"ark,scp:{folder}/feats.ark,{folder}/feats.scp", kind="matrix") as writer:
    ...     writer["utt1"] = np.zeros((98, 40), np.float32)
    >>> list(io_ark.load_scp(f"{folder}/feats.scp"))
    ['utt1']
    """

    def __init__(
        self,
        wspecifier: str | Wspecifier,
        *,
        kind: Kind | Codec[Any],
        pipes: bool = True,
        network: bool = True,
        **options: Any,
    ) -> None:
        self._encoder = resolve_codec(kind, options)
        self._table = parse_wspecifier(wspecifier) if isinstance(wspecifier, str) else wspecifier
        target_class = ScriptTarget if self._table.kind == "scp" else ArchiveTarget
        self._target: ScriptTarget | ArchiveTarget = target_class(self._table, Access(pipes, network))
        self._pack = self._encoder.create_pack(self._table.binary)  # This refuses kinds that a table cannot hold.
        self._closed = False
        self._process = process.current
        # The lock is reentrant, so that a signal handler may close the writer.
        self._lock = threading.RLock()

    def write(self, key: str, value: Value) -> None:
        """Write a key and its value to the table.

        Raises:
            ArkError: the key is invalid, the value cannot be encoded, the output cannot be written, or the writer is
                closed.
        """
        if process.current is not self._process:
            self._refuse_process(key)
        chunks = CollectedChunks((encode_valid_key(key) + b" ",))
        try:
            self._encoder.write(chunks, value, binary=self._table.binary)
            with self._lock:
                if self._closed:
                    raise ClosedError("the writer is closed: open a new writer")
                self._target.write(key, chunks)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    def takes_packed(self, keys: bytes) -> bool:
        """Return True if :meth:`write_block` accepts a PackedBlock with the keys ``keys`` and objects of this kind."""
        return self._table.binary and self._takes_entries(keys)

    def _takes_entries(self, keys: bytes) -> bool:
        return isinstance(self._target, ArchiveTarget) and not _UNSAFE_IN_KEYS.search(keys)

    def write_block(self, block: Block) -> None:
        """Write the entries of a block to the table, in one write if the kind and the table allow this.

        Raises:
            ArkError: an entry cannot be encoded, the output cannot be written, or the writer is closed.
            TypeError: the block is a PackedBlock, and the table or its kind needs values (see :meth:`takes_packed`).
        """
        if process.current is not self._process:
            self._refuse_process(None)
        with self._lock:
            encodable: ArrayBlock | PackedBlock | None = None
            if isinstance(block, PackedBlock):
                encodable = block if self.takes_packed(block.keys) else None
            elif isinstance(block, ArrayBlock) and (block.values.dtype, block.dimensions) == self._pack.arrays:
                encodable = block
            elif len(block) > 1 and self._takes_entries(block.keys):
                encodable = self._pack.encode_block(block)
            if encodable is not None:
                if self._closed:
                    raise ClosedError("the writer is closed: open a new writer")
                if self._target.write_block(encodable):
                    return
            for key, value in block.entries():
                self.write(key, value)

    def _refuse_process(self, key: str | None) -> NoReturn:
        """Raise :class:`ClosedError` in a forked process. ``key`` is the key to be written, or None."""
        raise ClosedError("the writer was opened in the parent process: write in the parent, or open another table in "
                          "this process", key=key)  # fmt: skip

    __setitem__ = write

    def get_outputs(self) -> tuple[Output, Output | None]:
        """Flush the table, and return its outputs, to which other code can write entries.

        Returns:
            The output of the archive, and the output of the script file or None.

        Raises:
            ArkError: the writer is closed or has no archive, or cannot be flushed.
        """
        self.flush()
        if self._closed:
            raise ClosedError("the writer is closed: open a new writer")
        if not isinstance(self._target, ArchiveTarget):
            raise ClosedError("the writer has no archive: open an archive with 'ark:'")
        return self._target.archive, self._target.script

    def flush(self) -> None:
        """Pass all buffered entries to the operating system.

        Raises:
            WriteError: the entries cannot be written, or an earlier write failed.
            ClosedError: the writer was opened in the parent process.
        """
        if process.current is not self._process:
            self._refuse_process(None)
        with self._lock:
            self._target.flush()

    def close(self) -> None:
        """Finish the table. After a successful call, further calls do nothing.

        Raises:
            WriteError: not all entries were written, or an earlier write failed or was interrupted.
            PipeError: the command that reads the table failed.
        """
        if process.current is not self._process:
            # A thread of the parent may have held the lock at the fork, and nobody would release it in this process.
            # Output.close writes nothing in a forked process, so the lock is not needed.
            self._closed = True
            self._target.close()
            return
        with self._lock:
            self._closed = True
            self._target.close()
