"""Text files of a Kaldi data directory: ``utt2spk``, ``spk2utt``, ``text``, ``segments``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, overload

import numpy as np

from io_ark.codecs.wave import Wave
from io_ark.data_dir.segment_times import TO_THE_END
from io_ark.errors import FormatError, MissingKeyError, RangeError
from io_ark.streams.access import Access
from io_ark.tables.script import Script, ScriptTable
from io_ark.text import split_words

_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SEGMENT_FIELDS = "<segment> <recording> <start> <end> [<channel>]"


@dataclass(frozen=True)
class Segment:
    """Segment of a recording: a line of a ``segments`` file.

    Attributes:
        key: key of the segment.
        recording: key of the recording.
        start: start time in seconds.
        end: end time in seconds, or :data:`TO_THE_END` (-1) for the end of the recording.
        channel: number of the channel, counted from 0, or None if the line has no channel.
    """

    key: str
    recording: str
    start: float
    end: float
    channel: int | None = None

    def cut(self, wave: Wave, *, min_length: float = 0.1, max_overshoot: float = 0.5) -> Wave:
        """Cut the segment's audio out of the recording.

        Times are rounded to samples as in Kaldi's extract-segments (src/featbin).

        Args:
            wave: audio of the recording, (channels, samples).
            min_length: minimum length of a segment in seconds.
            max_overshoot: maximum time in seconds by which a segment may end after its recording. The segment is then
                truncated.

        Returns:
            Audio of the segment, (1, samples).

        Raises:
            RangeError: the segment starts after the recording or ends more than ``max_overshoot`` after it, is shorter
                than ``min_length``, has a channel that the recording lacks, or has no channel although the recording
                has several.

        >>> import numpy as np
        >>> from io_ark import Segment, Wave
        >>> wave = Wave(8000.0, np.zeros((1, 8000), np.int16))
        >>> Segment("a", "r", 0.25, 0.5).cut(wave).samples.shape
        (1, 2000)
        """
        channels, count = wave.samples.shape
        # Kaldi keeps rate, length and limits in single precision, times in double precision, and compares in double
        # precision, which affects the last sample. (NumPy compares a Python float and a float32 in single precision.)
        rate = np.float32(wave.sample_frequency)
        length = np.float32(count) / rate
        latest = float(length + np.float32(max_overshoot))
        if self.start > float(length) or self.end > latest:
            self._raise_range_error(f"is outside the recording of {length:g} s: correct the times")
        end = float(length) if self.end == TO_THE_END or self.end > float(length) else self.end
        if end - self.start < float(np.float32(min_length)):
            self._raise_range_error(f"is shorter than {min_length:g} s: remove the segment, or reduce min_length")
        if self.channel is None and channels > 1:
            self._raise_range_error(
                f"has no channel, but the recording has {channels} channels: add the channel as a fifth field"
            )
        channel = self.channel or 0
        if channel >= channels:
            self._raise_range_error(
                f"has channel {channel}, but the last channel of the recording is {channels - 1}: correct the fifth field"
            )
        first_sample, end_sample = (int(time * float(rate) + 0.5) for time in (self.start, end))
        return Wave(wave.sample_frequency, wave.samples[channel : channel + 1, first_sample:end_sample])

    def _raise_range_error(self, problem: str) -> None:
        """Raise RangeError with the times of the segment, followed by ``problem``."""
        end = "the end" if self.end == TO_THE_END else f"{self.end:g} s"
        raise RangeError(f"the segment from {self.start:g} s to {end} of {self.recording} {problem}", key=self.key)


def parse_segment(line: str) -> Segment:
    """Parse a line of a ``segments`` file: ``<segment> <recording> <start> <end> [<channel>]``, with times in seconds.

    An end of -1 stands for the end of the recording. Channels count from 0, and have at most 9 digits.

    Raises:
        FormatError: the line is invalid, the segment starts before 0, or the end is neither after the start nor -1.

    >>> from io_ark.data_dir import parse_segment
    >>> parse_segment("call-1-a call-1 5.0 6.5")
    Segment(key='call-1-a', recording='call-1', start=5.0, end=6.5, channel=None)
    """
    fields = split_words(line)
    if len(fields) not in (4, 5):
        raise FormatError(f"should be {_SEGMENT_FIELDS}, not {line.strip()!r}: correct the line of segments")
    key, recording, *times = fields[:4]
    channel = fields[4] if len(fields) == 5 else None
    if not all(_REAL.fullmatch(time) and math.isfinite(float(time)) for time in times):
        message = f"has the times {times[0]!r} and {times[1]!r}: write start and end in seconds"
        raise FormatError(message, key=key)
    if channel is not None and not re.fullmatch("[0-9]{1,9}", channel):
        raise FormatError(f"has the channel {channel!r}: write a whole number of 0 or more", key=key)
    start, end = map(float, times)
    if not (start >= 0 and (end == TO_THE_END or start < end)):
        problem = f"the segment lasts from {start:g} to {end:g} s"
        raise FormatError(f"{problem}: the start must be 0 or later, and the end after the start, or -1", key=key)
    return Segment(key, recording, start, end, None if channel is None else int(channel))


def _parse_value(key: str, value: str) -> Segment:
    return parse_segment(f"{key} {value}")


@overload
def load_segments(
    segments: str | PathLike[str], wav_scp: None = None, *, pipes: bool = ..., network: bool = ...
) -> Mapping[str, Segment]: ...
@overload
def load_segments(
    segments: str | PathLike[str], wav_scp: str | PathLike[str], *, pipes: bool = ..., network: bool = ...
) -> Mapping[str, Wave]: ...
def load_segments(
    segments: str | PathLike[str],
    wav_scp: str | PathLike[str] | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> Mapping[str, Segment] | Mapping[str, Wave]:
    """Load a ``segments`` file as a mapping from keys to :class:`Segment`, or with ``wav_scp`` to the segments' audio.

    Args:
        segments: path or rxfilename of the file.
        wav_scp: path or rxfilename of the script file of the recordings. If None, no audio is read.
        pipes: False to refuse commands as ``segments``, as ``wav_scp``, and in the lines of ``wav_scp``.
        network: False to refuse URLs as ``segments``, as ``wav_scp``, and in the lines of ``wav_scp``.

    Returns:
        A mapping that reads a value on access: a :class:`Segment`, or with ``wav_scp`` a
        :class:`~io_ark.codecs.wave.Wave`. On access, errors of the segment are raised (see :func:`parse_segment` and
        :meth:`Segment.cut`), and ArkError if ``wav_scp`` lacks the recording or the audio cannot be read.

    Raises:
        ArkError: a file cannot be opened or is invalid.

    >>> import os, tempfile
    >>> from io_ark import load_segments
    >>> path = os.path.join(tempfile.mkdtemp(), "segments")
    >>> _ = open(path, "w").write("call-1-a call-1 0.0 2.5\\ncall-1-b call-1 3.0 4.5\\n")
    >>> segments = load_segments(path)
    >>> list(segments), segments["call-1-b"].start
    (['call-1-a', 'call-1-b'], 3.0)
    """
    script = Script.open(segments, Access(pipes, network))
    if wav_scp is None:
        return ScriptTable(script, _parse_value)
    from io_ark.api import load_scp

    return ScriptTable(script, _Cutter(load_scp(wav_scp, kind="wave", pipes=pipes, network=network)))


class _Cutter:
    """Cuts segments out of ``recordings``, a mapping from keys to audio.

    One recording is cached, because the segments of a recording are usually adjacent.
    """

    def __init__(self, recordings: Mapping[str, Wave]) -> None:
        self._recordings = recordings
        self._cached: tuple[str, Any] = ("", None)  # Key and audio of the last recording. No key is empty.

    def __call__(self, key: str, value: str) -> Wave:
        """Return the audio of the segment ``key value``, a line of ``segments``.

        Raise MissingKeyError if wav.scp lacks the recording, ArkError if the audio cannot be read, and the errors of
        :func:`parse_segment` and :meth:`Segment.cut`.
        """
        segment = _parse_value(key, value)
        cached_recording, wave = self._cached
        if cached_recording != segment.recording:
            if segment.recording not in self._recordings:
                raise MissingKeyError(f"the recording {segment.recording!r} is not in wav.scp: add the recording")
            wave = self._recordings[segment.recording]
            self._cached = segment.recording, wave
        return segment.cut(wave)

    def __getstate__(self) -> dict[str, object]:
        return {"_recordings": self._recordings, "_cached": ("", None)}


def _return_text(key: str, value: str) -> str:
    return value


def _split_value(key: str, value: str) -> list[str]:
    return split_words(value)


def load_utt2spk(path: str | PathLike[str], *, pipes: bool = True, network: bool = True) -> Mapping[str, str]:
    """Load an ``utt2spk`` file, or any file of two-word lines, as a mapping from utterances to speakers.

    Args:
        path: path or rxfilename of the file.
        pipes: False to refuse a command as ``path``.
        network: False to refuse a URL as ``path``.

    Returns:
        A mapping that reads a speaker on access.

    Raises:
        ArkError: the file cannot be opened, or has a blank line, a key without a value, or a duplicate key.

    >>> import os, tempfile
    >>> from io_ark import load_utt2spk
    >>> path = os.path.join(tempfile.mkdtemp(), "utt2spk")
    >>> _ = open(path, "w").write("ann-1 ann\\nbob-1 bob\\n")
    >>> load_utt2spk(path)["bob-1"]
    'bob'
    """
    return ScriptTable(Script.open(path, Access(pipes, network)), _return_text)


def load_spk2utt(path: str | PathLike[str], *, pipes: bool = True, network: bool = True) -> Mapping[str, list[str]]:
    """Load a ``spk2utt`` file as a mapping from speakers to lists of utterances.

    Args:
        path: path or rxfilename of the file.
        pipes: False to refuse a command as ``path``.
        network: False to refuse a URL as ``path``.

    Returns:
        A mapping that reads a list of utterances on access.

    Raises:
        ArkError: the file cannot be opened, or has a blank line, a speaker without utterances, or a duplicate speaker.

    >>> import os, tempfile
    >>> from io_ark import load_spk2utt
    >>> path = os.path.join(tempfile.mkdtemp(), "spk2utt")
    >>> _ = open(path, "w").write("ann ann-1 ann-2\\nbob bob-1\\n")
    >>> load_spk2utt(path)["ann"]
    ['ann-1', 'ann-2']
    """
    return ScriptTable(Script.open(path, Access(pipes, network)), _split_value)


def load_text(path: str | PathLike[str], *, pipes: bool = True, network: bool = True) -> Mapping[str, str]:
    """Load a ``text`` file as a mapping from utterances to transcripts. Transcripts may be empty.

    Args:
        path: path or rxfilename of the file.
        pipes: False to refuse a command as ``path``.
        network: False to refuse a URL as ``path``.

    Returns:
        A mapping that reads a transcript on access.

    Raises:
        ArkError: the file cannot be opened, or has a blank line or a duplicate key.

    >>> import os, tempfile
    >>> from io_ark import load_text
    >>> path = os.path.join(tempfile.mkdtemp(), "text")
    >>> _ = open(path, "w").write("ann-1 good morning\\nann-2\\n")
    >>> transcripts = load_text(path)
    >>> transcripts["ann-1"], transcripts["ann-2"]
    ('good morning', '')
    """
    return ScriptTable(Script.open(path, Access(pipes, network), empty=True), _return_text)
