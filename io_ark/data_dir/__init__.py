"""Kaldi's data directories, and the text files in them: ``utt2spk``, ``spk2utt``, ``text``, ``segments``.

:class:`DataDir` represents a directory. Files are read and written as bytes, so names that are not UTF-8 are preserved.
The scripts of Kaldi's ``utils`` folder are in :mod:`io_ark.data_dir.scripts`. The names below are imported on first
use, so that the scripts start without NumPy.
"""

from __future__ import annotations

_MODULES = {
    "directory": "DataDir",
    "segment_times": "TO_THE_END",
    "segments": "Segment load_segments load_spk2utt load_text load_utt2spk parse_segment",
    "audio_commands": "split_speed",
    "stage": "DATA_FILES DataDirError decode_key",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io_ark.data_dir.audio_commands import split_speed as split_speed
    from io_ark.data_dir.directory import DataDir as DataDir
    from io_ark.data_dir.segment_times import TO_THE_END as TO_THE_END
    from io_ark.data_dir.segments import Segment as Segment
    from io_ark.data_dir.segments import load_segments as load_segments
    from io_ark.data_dir.segments import load_spk2utt as load_spk2utt
    from io_ark.data_dir.segments import load_text as load_text
    from io_ark.data_dir.segments import load_utt2spk as load_utt2spk
    from io_ark.data_dir.segments import parse_segment as parse_segment
    from io_ark.data_dir.stage import DATA_FILES as DATA_FILES
    from io_ark.data_dir.stage import DataDirError as DataDirError
    from io_ark.data_dir.stage import decode_key as decode_key


def __getattr__(name: str) -> object:
    """Import and return a name of :data:`_MODULES` on its first use. Raise AttributeError for any other name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
