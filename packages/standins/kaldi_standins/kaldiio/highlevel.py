"""kaldiio's ``highlevel``: read and write tables that Kaldi's specifiers name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from io import TextIOWrapper
from types import TracebackType
from typing import Any

from io_ark.errors import SpecifierError
from io_ark.specifier import classify_rspecifier, parse_wspecifier
from io_ark.tables.readers import SequentialReader
from io_ark.tables.writers import Writer
from kaldi_standins.file_objects import SinkFile
from kaldi_standins.kaldiio.matio import load_ark, load_scp_sequential, save_ark
from kaldi_standins.kaldiio.utils import open_like_kaldi, parse_specifier, put_archive_first
from kaldi_standins.kaldiio.values import KaldiioCodec, get_codec

__all__ = ["ReadHelper", "WriteHelper", "load_ark", "open_like_kaldi", "parse_specifier", "save_ark"]


class WriteHelper:
    """Writes a table: ``with WriteHelper("ark,scp:a.ark,a.scp") as writer: writer(key, array)``.

    Derived classes may write entries themselves, using kaldiio's attributes.

    Args:
        wspecifier: name of the table, such as ``ark,scp:a.ark,a.scp``.
        compression_method: compression method of matrices, from 1 to 7. None for no compression.
        write_function: "soundfile", "numpy" or "pickle": see :func:`~kaldi_standins.kaldiio.matio.save_ark`.
        pipes, network: False to refuse commands and URLs, respectively.

    Attributes:
        compression_method, write_function: the arguments.
        text: True if entries are written in text.
        flush: True if outputs are flushed after each entry.
        closed: True after :meth:`close`.

    Raises:
        ArkError: the table cannot be opened, an argument is invalid, or a key or value cannot be written.

    >>> import tempfile, numpy as np
    >>> from kaldi_standins.kaldiio import WriteHelper
    >>> with WriteHelper(f"ark:{tempfile.mkdtemp()}/feats.ark") as writer:
    ...     writer("utt1", np.zeros((5, 2), np.float32))
    """

    def __init__(
        self,
        wspecifier: str,
        compression_method: int | None = None,
        write_function: str | None = None,
        *,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        self.compression_method, self.write_function, self.closed = compression_method, write_function, False
        codec = KaldiioCodec(compression_method, write_function=write_function)
        table = parse_wspecifier(put_archive_first(wspecifier))
        self.text, self.flush = not table.binary, table.flush
        self._writer: Writer[Any] = Writer(table, kind=codec, pipes=pipes, network=network)

    @cached_property
    def fark(self) -> Any:
        """The archive, as a file object. Raise ArkError if the specifier names no archive, or the writer is closed."""
        return SinkFile(self._writer.get_outputs()[0])

    @cached_property
    def fscp(self) -> Any:
        """The script file, as a text file, or None if the specifier names none. Raise ArkError where ``fark`` does."""
        script = self._writer.get_outputs()[1]
        return None if script is None else TextIOWrapper(SinkFile(script), "utf-8", write_through=True)

    def __call__(self, key: str, array: Any) -> None:
        """Write an entry. ``array`` is a vector, a matrix, audio ``(rate, samples)`` or another Kaldi object.

        With ``write_function``, the value has the type that the function writes. Raise ArkError if the key or value
        cannot be written.
        """
        self._writer[key] = array

    __setitem__ = __call__

    def close(self) -> None:
        """Finish the table. Raise ArkError if not all entries were written."""
        self.closed = True
        self._writer.close()

    def __enter__(self) -> WriteHelper:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.closed = True
        self._writer.__exit__(kind, error, traceback)


class ReadHelper:
    """Reads a table: ``for key, array in ReadHelper("scp:a.scp")``.

    Args:
        wspecifier: an rspecifier, which kaldiio calls ``wspecifier``.
        segments: a segments file that cuts the recordings of a script file. None reads whole objects.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the table cannot be opened or is not a script file, although ``segments`` is given, or an entry cannot
            be read.

    >>> from kaldi_standins.kaldiio import ReadHelper
    >>> [(key, array.tolist()) for key, array in ReadHelper("ark:echo utt1 1 2 3 |")]
    [('utt1', [1, 2, 3])]
    """

    def __init__(
        self, wspecifier: str, segments: str | None = None, *, pipes: bool = True, network: bool = True
    ) -> None:
        self._close: Callable[[], None] = lambda: None
        table = classify_rspecifier(wspecifier)
        is_script = table is not None and table.kind == "scp"
        if segments is not None and not is_script:
            raise SpecifierError(f"{wspecifier!r}: segments need a script file of recordings: pass 'scp:FILE'")
        # Only SequentialReader has the option p, which skips entries that cannot be read.
        if table is not None and is_script and (segments is not None or not table.permissive):
            self._entries = load_scp_sequential(table.rxfilename, segments=segments, pipes=pipes, network=network)
            return
        reader: SequentialReader[Any] = SequentialReader(
            table or wspecifier, kind=get_codec("<"), pipes=pipes, network=network
        )
        self._close = reader.close
        self._entries = iter(reader)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._entries

    def close(self) -> None:
        """Close the archive, or the script file if it has the option ``p``. Do nothing for other script files."""
        self._close()

    def __enter__(self) -> ReadHelper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
