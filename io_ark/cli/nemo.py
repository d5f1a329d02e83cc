"""Convert Kaldi's data directories to manifests of NeMo."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator
from glob import escape, glob
from pathlib import Path
from typing import Any

from io_ark.cli.formats import Settings, WriteArray, use_temporary_name
from io_ark.data_dir.directory import DataDir
from io_ark.data_dir.durations import measure_recordings, read_durations
from io_ark.data_dir.segment_times import TO_THE_END
from io_ark.data_dir.segments import Segment
from io_ark.data_dir.stage import DataFiles
from io_ark.errors import ArkError, FormatError, MissingFileError, SpecifierError
from io_ark.specifier import is_url, parse_rxfilename
from io_ark.tables.keys import encode_key
from io_ark.tables.overwriting import refuse_overwriting
from io_ark.tables.script import Script

# Time in seconds that a segment may end after its recording. The number is the default of Kaldi's extract-segments,
# which cuts off such a segment at the end of the recording, and skips segments that end later.
MAX_OVERSHOOT = 0.5


def refuse_overwriting_source(source: str, target: str) -> None:
    """Raise SpecifierError if ``target`` would overwrite a file of the data directory ``source``.

    This includes the recordings that ``wav.scp`` names, but not the manifests (.json, .jsonl) in the directory.
    """
    files = [path for path in glob(f"{escape(source)}/*") if not path.endswith((".json", ".jsonl"))]
    refuse_overwriting(target, [f"scp:{source}/wav.scp", *filter(os.path.isfile, files)])


def read_items(source: str) -> Iterator[tuple[str, dict[str, Any] | ArkError]]:
    """Yield the key of each utterance of a data directory, and the JSON object that describes it in NeMo's manifest.

    For an utterance without a readable recording, with times outside its recording, or without a line in an existing
    file ``text``, yield an error instead of an object. Raise MissingFileError if the directory has no ``wav.scp``, and
    FormatError if a recording is not a separate file, or a segment has a channel other than 0.
    """
    if not os.path.isfile(os.path.join(source, "wav.scp")):
        problem = "is a file" if os.path.isfile(source) else "has no wav.scp"
        raise MissingFileError(f"{problem}: a manifest of NeMo needs a data directory", file=source)
    directory = DataDir(Path(source))
    recordings = dict(Script.open(directory.file("wav.scp")).items())
    segments = directory.segments if "segments" in directory else None
    utterances = [_get_segment(segments, key) for key in (recordings if segments is None else segments)]
    for segment in utterances:
        if segment.channel:
            message = f"has channel {segment.channel}, which a manifest cannot name: write one file for each channel"
            raise FormatError(message, file=f"{source}/segments", key=segment.key)
    for name in {segment.recording for segment in utterances}.intersection(recordings):
        recordings[name] = _resolve_recording(recordings[name], f"{source}/wav.scp", name)
    text = directory.text if "text" in directory else None
    if text is None:
        print(f"ark: {source}: has no file `text`, so the manifest has no transcripts", file=sys.stderr)
    speakers = directory.utt2spk if "utt2spk" in directory else {}
    durations = _measure_audio(source, utterances, segments is not None)
    for segment, (duration, audio_duration) in zip(utterances, durations, strict=True):
        key = segment.key
        if segment.recording not in recordings:
            message = f"lacks the recording {segment.recording}: add the recording"
            yield key, FormatError(message, file=f"{source}/wav.scp", key=key)
            continue
        if text is not None and key not in text:
            yield key, FormatError("has no line, so the manifest omits it: add a line", file=f"{source}/text", key=key)
            continue
        if error := _check_times(source, segment, duration, audio_duration):
            yield key, error
            continue
        item: dict[str, Any] = {"audio_filepath": recordings[segment.recording]}
        if segments is not None:
            item["offset"] = segment.start
        item["duration"] = round(duration, 6)
        if text is not None:
            item["text"] = text[key]
        if key in speakers:
            item["speaker"] = speakers[key]
        yield key, item


def _check_times(source: str, segment: Segment, duration: float, audio_duration: float | ArkError) -> ArkError | None:
    """Return the recording's error, an error for times outside the recording, or None for a valid utterance.

    Durations are in seconds. ``duration`` is the duration of the utterance. ``audio_duration`` is the duration of its
    recording, or the error of an unreadable recording.
    """
    if isinstance(audio_duration, ArkError):
        return audio_duration
    audio = f"the recording {segment.recording} has {audio_duration:g} s of audio"
    if duration <= 0:
        message = f"starts at {segment.start:g} s, but {audio}: remove the utterance"
        return FormatError(message, file=source, key=segment.key)
    if segment.end > audio_duration + MAX_OVERSHOOT:
        return FormatError(f"ends at {segment.end:g} s, but {audio}: correct the end", file=source, key=segment.key)
    return None


def _get_segment(segments: Any, key: str) -> Segment:
    """Return the segment of an utterance. If ``segments`` is None, an utterance is a whole recording."""
    segment: Segment = Segment(key, key, 0.0, TO_THE_END) if segments is None else segments[key]
    return segment


def _resolve_recording(location: str, script: str, key: str) -> str:
    """Return the absolute path of a recording. Raise FormatError if ``location`` is not the name of a whole file."""
    try:
        target = parse_rxfilename(location)
    except SpecifierError as error:
        raise FormatError(str(error), file=script, key=key) from None
    if target.kind != "file" or target.offset or is_url(target.path) or location.endswith("]"):
        problem = f"{location!r} is not a separate file, but audio_filepath must name a file"
        raise FormatError(f"{problem}: write the audio to a file, and name the file in wav.scp", file=script, key=key)
    return os.path.abspath(target.path)


def _measure_audio(
    source: str, utterances: list[Segment], has_segments: bool
) -> Iterator[tuple[float, float | ArkError]]:
    """Yield the duration of each utterance in seconds, and the duration of its recording, or the recording's error.

    Durations of recordings come from ``utt2dur`` (without segments), ``reco2dur`` or the audio. A segment with an end
    does not need the audio, so the duration of a recording that cannot be read is then infinite, otherwise 0.
    """
    folder, errors = DataFiles(source), dict[bytes, ArkError]()
    names = {encode_key(segment.recording) for segment in utterances}
    durations = {} if has_segments else read_durations(folder, names, "utt2dur")
    durations |= measure_recordings(folder, names - {*durations}, errors=errors)
    for segment in utterances:
        name, lacks_end = encode_key(segment.recording), segment.end == TO_THE_END
        if lacks_end and name in errors:
            yield 0.0, errors[name]
            continue
        audio_duration = durations.get(name, 0.0 if lacks_end else math.inf)
        end = audio_duration if lacks_end else min(segment.end, audio_duration)
        yield end - segment.start, audio_duration


@use_temporary_name
@contextlib.contextmanager
def open_manifest_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a manifest for writing, and yield a function ``write_item(key, item)`` that appends the item as JSON.

    The function raises FormatError if a string has surrogates, which stand for bytes that are not UTF-8.
    """
    with path.open("wb") as file:

        def write_item(key: str, item: Any) -> None:
            try:
                file.write(json.dumps(item, ensure_ascii=False).encode() + b"\n")
            except UnicodeEncodeError:
                # A byte that is not UTF-8 was decoded to a character from U+DC80 to U+DCFF ("surrogateescape").
                names = [name for name, value in item.items() if "\\udc" in ascii(value)]
                message = f"has bytes that are not UTF-8 in {' and '.join(names)}: convert them to UTF-8 for JSON"
                raise FormatError(message, key=key) from None

        yield write_item
