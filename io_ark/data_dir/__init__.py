"""Kaldi's data directories, and the text files in them: ``utt2spk``, ``spk2utt``, ``text``, ``segments``.

:class:`DataDir` is a directory as an object. Its files are bytes, one line for each key, and stay what they are: names that
are not UTF-8 survive. The scripts of Kaldi's ``utils`` folder are in :mod:`io_ark.data_dir.scripts`. They start without
NumPy: the names below are imported when they are first used.
"""

from __future__ import annotations

_MODULES = {
    "directory": ("DataDir",),
    "segments": (
        "TO_THE_END",
        "Segment",
        "load_segments",
        "load_spk2utt",
        "load_text",
        "load_utt2spk",
        "parse_segment",
    ),
    "stage": ("DataDirError",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io_ark.data_dir.directory import DataDir
    from io_ark.data_dir.segments import (
        TO_THE_END,
        Segment,
        load_segments,
        load_spk2utt,
        load_text,
        load_utt2spk,
        parse_segment,
    )
    from io_ark.data_dir.stage import DataDirError

__all__ = [
    "TO_THE_END",
    "DataDir",
    "DataDirError",
    "Segment",
    "load_segments",
    "load_spk2utt",
    "load_text",
    "load_utt2spk",
    "parse_segment",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
