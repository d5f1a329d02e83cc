"""Read and write Kaldi's archives and script files with NumPy.

:func:`load` and :func:`save` handle one object, :func:`load_scp`, :func:`read` and :func:`writer` tables. They detect
the type from the data, or enforce the type that ``kind`` names (see :mod:`io_ark.codecs`), as
:class:`SequentialReader`, :class:`RandomAccessReader` and :class:`Writer` always do. The name of the file or table
comes first everywhere.

The names below are imported when they are first used. The scripts of :mod:`io_ark.data_dir` thus start without NumPy.
"""

import sys

__version__ = "1.0.0rc1"

if sys.byteorder != "little":
    raise ImportError(
        "io_ark supports little-endian processors only, because it would read and write wrong numbers here"
    )

# Maps modules to their public names. A module is imported when one of its names is first used.
_NAMES = {
    "api": "load load_scp read save writer",
    "codecs.kinds": "Kind",
    "codecs.wave": "Wave WaveInfo",
    "data_dir": "DataDir DataDirError Segment load_segments load_spk2utt load_text load_utt2spk",
    "errors": "ArkError",
    "specifier": "classify_rspecifier classify_wspecifier is_table_rspecifier is_table_wspecifier",
    "tables.random_access": "RandomAccessReader",
    "tables.readers": "SequentialReader",
    "tables.writers": "Writer",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = "api blocks codecs data_dir errors extras models native specifier streams tables text"

__all__ = [
    "ArkError",
    "DataDir",
    "DataDirError",
    "Kind",
    "RandomAccessReader",
    "Segment",
    "SequentialReader",
    "Wave",
    "WaveInfo",
    "Writer",
    "__version__",
    "classify_rspecifier",
    "classify_wspecifier",
    "is_table_rspecifier",
    "is_table_wspecifier",
    "load",
    "load_scp",
    "load_segments",
    "load_spk2utt",
    "load_text",
    "load_utt2spk",
    "read",
    "save",
    "writer",
]


def __getattr__(name: str) -> object:
    """Import and return a public name or a submodule on its first use. Raise AttributeError for any other name."""
    if name not in _MODULE_OF and name not in _MODULES.split():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_MODULE_OF.get(name, name)}")
    value: object = getattr(module, name) if name in _MODULE_OF else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
