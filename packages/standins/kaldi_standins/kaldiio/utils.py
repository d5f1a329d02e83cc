"""kaldiio's ``utils``: streams by Kaldi's names, specifiers, and lazily loaded mappings."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

from io_ark.errors import MissingKeyError, OrderError, SpecifierError
from io_ark.specifier import FileName, classify_rspecifier, classify_wspecifier, decode_file_name
from io_ark.streams.access import Access
from io_ark.tables.script import Script
from kaldi_standins.file_objects import FileOrName, find_position, open_input_file, open_output_file

__all__ = [
    "LazyLoader", "default_encoding", "my_popen", "open_like_kaldi", "open_or_fd", "parse_specifier",
    "seekable", "string_types", "text_type",
]  # fmt: skip

default_encoding, string_types, text_type = "utf-8", (str,), str


def open_like_kaldi(name: FileOrName, mode: str = "r", *, pipes: bool = True, network: bool = True) -> Any:
    """Open a file, ``-`` (standard input or output) or a command with ``|`` as a file object. Only a file can seek.

    Args:
        name: the name, or an open file, which is returned. With "b" in the mode, the buffer of a text file is returned.
        mode: "r", "w" or "a", with "b" for binary.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened.

    >>> from kaldi_standins.kaldiio.utils import open_like_kaldi
    >>> open_like_kaldi("echo hello |").read()
    'hello\\n'
    """
    if not isinstance(name, str | PathLike):
        return name.buffer if "b" in mode and isinstance(name, io.TextIOWrapper) else name
    name = name.strip() if type(name) is str else decode_file_name(name)
    if "r" in mode:
        file = open_input_file(name, Access(pipes, network))
    else:
        file = open_output_file(name, Access(pipes, network), append="a" in mode)
    return file if "b" in mode else io.TextIOWrapper(file, encoding="utf-8")


def my_popen(cmd: str, mode: str = "r", buffering: int = -1) -> Any:
    """Start a command. Return its output (mode "r" or "rb") or input ("w" or "wb") as a file. ``buffering`` is ignored.

    Raises:
        ArkError: the command cannot be started.

    >>> from kaldi_standins.kaldiio.utils import my_popen
    >>> my_popen("echo hello").read()
    'hello\\n'
    """
    return open_like_kaldi(f"{cmd} |" if "r" in mode else f"| {cmd}", mode)


@contextmanager
def open_or_fd(fname: FileOrName, mode: str) -> Iterator[Any]:
    """Open a file for a ``with`` statement. Yield the file object.

    Args:
        fname: name of the file, in which ``|`` has no special meaning; or an open file, which is yielded and not closed
            (with "b" in the mode, the buffer of a text file).
        mode: "r", "w" or "a", with "b" for binary.

    Raises:
        ArkError: the file cannot be opened.

    >>> import io
    >>> from kaldi_standins.kaldiio.utils import open_or_fd
    >>> with open_or_fd(io.BytesIO(b"hello"), "rb") as file:
    ...     file.read()
    b'hello'
    """
    if isinstance(fname, str | PathLike):
        with open_like_kaldi(FileName(fname), mode) as file:
            yield file
    else:
        yield open_like_kaldi(fname, mode)


def seekable(f: Any) -> bool:
    """Return True if an open file can seek.

    >>> import io
    >>> from kaldi_standins.kaldiio.utils import seekable
    >>> seekable(io.BytesIO())
    True
    """
    return find_position(f) is not None


def parse_specifier(specifier: str) -> dict[str, Any]:
    """Parse an rspecifier or wspecifier to a dictionary.

    ``ark`` and ``scp`` map to the name of the archive or script file, or to None if the specifier names no such file.
    The options ``t``, ``o``, ``p``, ``f``, ``s`` and ``cs`` map to True if they are present, and otherwise to False.

    Raises:
        SpecifierError: the string is not a specifier.

    >>> from kaldi_standins.kaldiio import parse_specifier
    >>> parse_specifier("ark,t,scp:a.ark,a.scp")["scp"]
    'a.scp'
    """
    specifier = put_archive_first(specifier)
    wspecifier, rspecifier = classify_wspecifier(specifier), classify_rspecifier(specifier)
    if wspecifier is None and rspecifier is None:
        raise SpecifierError(f"{specifier!r} is not a specifier: write ark:FILE, scp:FILE or ark,scp:ARCHIVE,SCRIPT")
    words = specifier.partition(":")[0].replace(" ", ",").split(",")
    if wspecifier is not None:
        names = {"ark": wspecifier.archive or None, "scp": wspecifier.script or None}
    else:
        assert rspecifier is not None
        names = {"ark": None, "scp": None, rspecifier.kind: rspecifier.rxfilename}
    return {**names, **{option: option in words for option in ("t", "o", "p", "f", "s", "cs")}}


def put_archive_first(specifier: str) -> str:
    """Convert ``scp,ark:a.scp,a.ark``, for example, to ``ark,scp:a.ark,a.scp``. Return other specifiers unchanged."""
    prefix, _, names = specifier.partition(":")
    words = prefix.split(",")
    if not {"ark", "scp"} <= set(words) or words.index("ark") < words.index("scp") or "," not in names:
        return specifier
    options = [word for word in words if word not in ("ark", "scp")]
    script, _, archive = names.partition(",")
    return f"{','.join(['ark', 'scp', *options])}:{archive},{script}"


class LazyLoader(MutableMapping[str, Any]):
    """Mapping from keys to objects that are loaded on access. Locations can be added, replaced and deleted.

    Args:
        loader: function that loads an object. It is called as ``loader(key, location)``, or as ``loader(location)`` if
            ``locations`` is None.
        locations: maps keys to locations, such as ``feats.ark:123``. A dictionary is changed in place. A
            :class:`Script` is copied before the first change. None starts with an empty mapping.

    Raises:
        MissingKeyError: on lookup or deletion, the key is not in the mapping.

    >>> from kaldi_standins.kaldiio.utils import LazyLoader
    >>> table = LazyLoader(str.upper)
    >>> table["utt1"] = "feats.ark:5"
    >>> table["utt1"]
    'FEATS.ARK:5'
    """

    def __init__(self, loader: Callable[..., Any], locations: Mapping[str, str] | None = None) -> None:
        self._loader = loader
        self._takes_key = locations is not None
        self._locations: Mapping[str, str] = {} if locations is None else locations

    def __getitem__(self, key: str) -> Any:
        try:
            location = self._locations[key]
        except MissingKeyError:  # A Script raises this error, which names the file.
            raise
        except KeyError:
            raise MissingKeyError("the key is not in the script file: `ark ls` lists the keys", key=str(key)) from None
        return self._loader(key, location) if self._takes_key else self._loader(location)

    def __setitem__(self, key: str, location: str) -> None:
        self._get_mutable_locations()[key] = location

    def __delitem__(self, key: str) -> None:
        try:
            del self._get_mutable_locations()[key]
        except KeyError:
            raise MissingKeyError("the key is not in the script file: `ark ls` lists the keys", key=str(key)) from None

    @property
    def _dict(self) -> dict[str, str]:
        """Locations by key, which the caller may change. Public recipes use this private name."""
        return self._get_mutable_locations()

    def _get_mutable_locations(self) -> dict[str, str]:
        """Return the dictionary of locations, which can be changed. Copy a :class:`Script` at the first call."""
        if not isinstance(self._locations, dict):
            self._locations = dict(self._locations.items())
        return self._locations

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)

    def __contains__(self, key: object) -> bool:
        return key in self._locations

    def __repr__(self) -> str:
        return f"LazyLoader [{len(self)} keys]"


def map_locations(script: Script) -> Mapping[str, str]:
    """Map the keys of a script file to locations. As in kaldiio, a duplicate key maps to its last line."""
    try:
        script.check_unique()
    except OrderError:
        return dict(script.iterate_lines())
    return script
