"""API of omniio's ``kaldi``: replace ``from omniio import kaldi`` with ``from kaldi_standins.omniio import kaldi``.

The module has the names of :mod:`kaldi_standins.kaldiio` and additional functions of omniio. The classes of errors
come from :mod:`io_ark.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from io_ark import data_dir
from io_ark.errors import ArkError as ReadError
from io_ark.errors import FormatError, SpecifierError
from kaldi_standins.kaldiio.compression_header import (
    kAutomaticMethod,
    kOneByteAuto,
    kOneByteUnsignedInteger,
    kOneByteZeroOne,
    kSpeechFeature,
    kTwoByteAuto,
    kTwoByteSignedInteger,
)
from kaldi_standins.kaldiio.highlevel import ReadHelper, WriteHelper
from kaldi_standins.kaldiio.matio import (
    SegmentsExtractor as SegmentedLoader,
)
from kaldi_standins.kaldiio.matio import (
    load_ark,
    load_mat,
    load_scp,
    load_scp_sequential,
    load_wav_scp,
    read_matrix_or_vector,
    save_ark,
    save_mat,
)
from kaldi_standins.kaldiio.utils import LazyLoader, open_like_kaldi, parse_specifier
from kaldi_standins.kaldiio.values import is_audio

__all__ = [
    "LazyLoader", "ReadError", "ReadHelper", "SegmentedLoader", "WriteHelper", "kAutomaticMethod", "kOneByteAuto",
    "kOneByteUnsignedInteger", "kOneByteZeroOne", "kSpeechFeature", "kTwoByteAuto", "kTwoByteSignedInteger",
    "load_ark", "load_mat", "load_scp", "load_scp_sequential", "load_segments", "load_wav_scp", "open_like_kaldi",
    "parse_extended_filename", "parse_rspecifier", "parse_specifier", "parse_wspecifier", "read_object", "save_ark",
    "save_mat", "slice_segment",
]  # fmt: skip

read_object = read_matrix_or_vector


def load_segments(path: str | PathLike[str]) -> list[tuple[str, str, float, float]]:
    """Return the lines of a segments file: segment, recording, start time and end time in seconds.

    An end time of -1 means the end of the recording.

    Raises:
        ArkError: the file cannot be read, or is not a segments file.

    >>> import pathlib, tempfile
    >>> from kaldi_standins.omniio.kaldi import load_segments
    >>> path = pathlib.Path(tempfile.mkdtemp(), "segments")
    >>> path.write_text("utt1 call1 0.5 2\\n") and load_segments(path)
    [('utt1', 'call1', 0.5, 2.0)]
    """
    segments: Mapping[str, Any] = data_dir.load_segments(path)
    return [(key, segment.recording, segment.start, segment.end) for key, segment in segments.items()]


def slice_segment(value: Any, start: float, end: float) -> Any:
    """Cut a segment out of audio. Return the rate, and a view of the samples from ``start`` to ``end``.

    Times are in seconds, and are rounded down to samples. The sample at ``end`` is excluded.

    Args:
        value: audio as a pair (rate in Hz, samples). The first axis of the samples is time.
        start: start time.
        end: end time. A negative time means the end of the audio.

    Raises:
        FormatError: the value is not audio.

    >>> import numpy as np
    >>> from kaldi_standins.omniio.kaldi import slice_segment
    >>> slice_segment((10, np.arange(20)), 0.5, 1.0)
    (10, array([5, 6, 7, 8, 9]))
    """
    if not is_audio(value):
        raise FormatError(
            f"segments can only be cut out of audio, not out of {type(value).__name__}: pass (rate, samples)"
        )
    rate, samples = value
    return rate, samples[int(start * rate) : len(samples) if end < 0 else int(end * rate)]


def parse_extended_filename(name: Any) -> tuple[Any, int | None]:
    """Split a name such as ``feats.ark:123`` into a name and an offset in bytes, or None for a name without an offset.

    >>> from kaldi_standins.omniio.kaldi import parse_extended_filename
    >>> parse_extended_filename("feats.ark:123"), parse_extended_filename("cat a |")
    (('feats.ark', 123), ('cat a |', None))
    """
    head, _, offset = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    return (head, int(offset)) if head and offset.isascii() and offset.isdigit() else (name, None)


def parse_rspecifier(rspecifier: str) -> tuple[str, str]:
    """Return the kind of a table to read ("ark" or "scp") and the name of its file.

    Raises:
        SpecifierError: the string is not an rspecifier.

    >>> from kaldi_standins.omniio.kaldi import parse_rspecifier
    >>> parse_rspecifier("scp,p:feats.scp")
    ('scp', 'feats.scp')
    """
    parsed = parse_specifier(rspecifier)
    files = [(kind, parsed[kind]) for kind in ("ark", "scp") if parsed[kind] is not None]
    if len(files) != 1:
        raise SpecifierError(f"{rspecifier!r} names {len(files) or 'no'} files to read: write ark:FILE or scp:FILE")
    return files[0]


def parse_wspecifier(wspecifier: str) -> dict[str, str | None]:
    """Return a dictionary from "ark" and "scp" to the names of the files to write. A missing file has no key.

    The options "t" and "f", if they are present, are keys with the value None.

    Raises:
        SpecifierError: the string is not a wspecifier, or names no archive.

    >>> from kaldi_standins.omniio.kaldi import parse_wspecifier
    >>> parse_wspecifier("ark,t,scp:a.ark,a.scp")
    {'ark': 'a.ark', 'scp': 'a.scp', 't': None}
    """
    parsed = parse_specifier(wspecifier)
    if parsed["ark"] is None:
        raise SpecifierError(f"{wspecifier!r} names no archive: write ark:FILE or ark,scp:ARCHIVE,SCRIPT")
    names = {kind: parsed[kind] for kind in ("ark", "scp") if parsed[kind] is not None}
    return names | {flag: None for flag in ("t", "f") if parsed[flag]}
