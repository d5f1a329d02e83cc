"""Relative file names in a script file, resolved against the folder of the script file."""

from __future__ import annotations

import os
from os import PathLike
from typing import Literal

from io_ark.errors import SpecifierError
from io_ark.specifier import is_url, name_of, parse_rxfilename, split_range

RelativeTo = Literal["script"]


def folder_of(script: str | PathLike[str], relative_to: RelativeTo | None) -> str | None:
    """Return the folder that the names in a script file are relative to; None for the current folder.

    >>> folder_of("https://host/data/feats.scp?version=2", "script")
    'https://host/data'
    """
    if relative_to is None:
        return None
    if relative_to != "script":
        raise SpecifierError(f"relative_to={relative_to!r} is not known: pass 'script', or None for the current folder")
    target = parse_rxfilename(name_of(script))
    if target.kind != "file":
        raise SpecifierError(
            f"{script!r} is not a file, so it has no folder: relative_to='script' needs the name of a file"
        )
    if is_url(target.path):
        return target.path.partition("?")[0].rpartition("/")[0]
    return os.path.dirname(os.path.abspath(target.path))


def in_folder(rxfilename: str, folder: str) -> str:
    """Put the folder before a relative file name; commands, ``-``, URLs and absolute names are unchanged.

    >>> in_folder("feats.ark:123[0:9]", "/data"), in_folder("gunzip -c feats.gz |", "/data")
    ('/data/feats.ark:123[0:9]', 'gunzip -c feats.gz |')
    """
    name, _ = split_range(rxfilename)
    if name in ("", "-") or "|" in (name[0], name[-1]) or is_url(name) or os.path.isabs(name):
        return rxfilename
    return f"{folder}/{rxfilename}" if is_url(folder) else os.path.join(folder, rxfilename)
