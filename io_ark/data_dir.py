"""The tables of words and times in a Kaldi data directory: ``utt2spk``, ``spk2utt``, ``text``, ``segments``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np

from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, MissingKeyError, RangeError
from io_ark.tables.script import Script, ScriptTable
from io_ark.text import split_words

TO_THE_END = -1.0
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SEGMENT_FIELDS = "<segment> <recording> <start> <end> [<channel>]"


@dataclass(frozen=True)
class Segment:
    """A stretch of a recording: a line of a ``segments`` file.

    Attributes:
        key: the segment's name.
        recording: the key of the recording.
        start: where it starts, in seconds.
        end: where it ends, in seconds; :data:`TO_THE_END` (-1) is the recording's end.
        channel: the channel, from 0; None where the line names none.
    """

    key: str
    recording: str
    start: float
    end: float
    channel: int | None = None

    def cut(self, wave: Wave, *, min_length: float = 0.1, max_overshoot: float = 0.5) -> Wave:
        """The segment's audio. Times are rounded to samples as Kaldi's extract-segments does (src/featbin).

        Args:
            wave: the recording.
            min_length: the shortest segment that is cut, in seconds.
            max_overshoot: how far after the recording's end a segment may end, in seconds; it is cut there.

        Raises:
            RangeError: the segment lies outside the recording or is too short, or the recording has several channels
                and not the one named.

        >>> wave = Wave(8000.0, np.zeros((1, 8000), np.int16))
        >>> Segment("a", "r", 0.25, 0.5).cut(wave).samples.shape
        (1, 2000)
        """
        channels, count = wave.samples.shape
        # Kaldi keeps rate, length and limits in single precision, times in double, and compares in double: that decides
        # about the last sample. (NumPy would compare a Python float with a float32 in single precision.)
        rate = np.float32(wave.sample_frequency)
        length = np.float32(count) / rate
        latest = float(length + np.float32(max_overshoot))
        if self.start > float(length) or self.end > latest:
            self._refuse(f"lies outside the recording's {length:g} s")
        end = float(length) if self.end < 0 or self.end > float(length) else self.end
        if end - self.start < float(np.float32(min_length)):
            self._refuse(f"is shorter than {min_length:g} s")
        if self.channel is None and channels > 1:
            self._refuse(f"names no channel, and the recording has {channels}")
        channel = self.channel or 0
        if channel >= channels:
            self._refuse(f"is of channel {channel}, and the recording has {channels}, from 0")
        first, last = (int(time * float(rate) + 0.5) for time in (self.start, end))
        return Wave(wave.sample_frequency, wave.samples[channel : channel + 1, first:last])

    def _refuse(self, why: str) -> None:
        raise RangeError(f"the segment {self.start:g} to {self.end:g} s of {self.recording} {why}", key=self.key)


def parse_segment(line: str) -> Segment:
    """A line of a ``segments`` file: ``<segment> <recording> <start> <end> [<channel>]``.

    Raises:
        FormatError: it is something else, or the segment is empty.

    >>> parse_segment("call-1-a call-1 5.0 6.5")
    Segment(key='call-1-a', recording='call-1', start=5.0, end=6.5, channel=None)
    """
    fields = split_words(line)
    if len(fields) not in (4, 5):
        raise FormatError(f"a line of a segments file is {_SEGMENT_FIELDS}, not {line.strip()!r}")
    key = fields[0]
    if not (_REAL.fullmatch(fields[2]) and _REAL.fullmatch(fields[3])):
        raise FormatError(f"a segment has start and end in seconds, not {fields[2]!r} and {fields[3]!r}", key=key)
    if len(fields) == 5 and not re.fullmatch("[0-9]{1,9}", fields[4]):
        raise FormatError(f"a segment's channel is a number from 0, not {fields[4]!r}", key=key)
    start, end = float(fields[2]), float(fields[3])
    if not (start >= 0 and (end == TO_THE_END or start < end)):
        raise FormatError(f"a segment from {start:g} to {end:g} s is empty", key=key)
    return Segment(key, fields[1], start, end, int(fields[4]) if len(fields) == 5 else None)


def _segment(key: str, rest: str) -> Segment:
    return parse_segment(f"{key} {rest}")


def load_segments(
    segments: str | PathLike[str], wav_scp: str | PathLike[str] | None = None, *, pipes: bool = True
) -> Mapping[str, Segment | Wave]:
    """A ``segments`` file as a mapping from segment to times, or to audio.

    Args:
        segments: the file.
        wav_scp: a script file of recordings; if given, the mapping's values are the segments' audio.
        pipes: whether commands may be run.

    Returns:
        A mapping that reads a value when it is asked for: a :class:`Segment`, or with ``wav_scp`` a
        :class:`~io_ark.codecs.wave.Wave`.

    Raises:
        ArkError: a file cannot be opened or understood.
    """
    script = Script.open(segments, pipes=pipes)
    if wav_scp is None:
        return ScriptTable(script, _segment)
    from io_ark.api import load_scp

    return ScriptTable(script, _Cutter(load_scp(wav_scp, kind="wave", pipes=pipes)))


class _Cutter:
    """Cuts segments out of recordings. One recording is held: its segments follow each other in a segments file."""

    def __init__(self, recordings: Mapping[str, Wave]) -> None:
        self._recordings = recordings
        self._last: tuple[str, Wave] | None = None

    def __call__(self, key: str, rest: str) -> Wave:
        segment = _segment(key, rest)
        last = self._last
        if last is None or last[0] != segment.recording:
            if segment.recording not in self._recordings:
                raise MissingKeyError(f"its recording {segment.recording!r} is not in the script of recordings")
            last = self._last = (segment.recording, self._recordings[segment.recording])
        return segment.cut(last[1])

    def __getstate__(self) -> dict[str, object]:
        return {"_recordings": self._recordings, "_last": None}


def _whole(key: str, rest: str) -> str:
    return rest


def _words(key: str, rest: str) -> list[str]:
    return split_words(rest)


def load_utt2spk(path: str | PathLike[str], *, pipes: bool = True) -> Mapping[str, str]:
    """An ``utt2spk`` file as a mapping from utterance to speaker (any file of pairs of words).

    Args:
        path: the file: an rxfilename, or a path.
        pipes: whether ``path`` may be a command.

    Raises:
        ArkError: it cannot be opened, has a blank line, a key without a value, or a key twice.
    """
    return ScriptTable(Script.open(path, pipes=pipes), _whole)


def load_spk2utt(path: str | PathLike[str], *, pipes: bool = True) -> Mapping[str, list[str]]:
    """A ``spk2utt`` file as a mapping from speaker to a list of utterances.

    Args:
        path, pipes: see :func:`load_utt2spk`.

    Raises:
        ArkError: see :func:`load_utt2spk`.
    """
    return ScriptTable(Script.open(path, pipes=pipes), _words)


def load_text(path: str | PathLike[str], *, pipes: bool = True) -> Mapping[str, str]:
    """A ``text`` file as a mapping from utterance to transcript, which may be empty.

    Args:
        path, pipes: see :func:`load_utt2spk`.

    Raises:
        ArkError: it cannot be opened, has a blank line, or a key twice.
    """
    return ScriptTable(Script.open(path, empty=True, pipes=pipes), _whole)
