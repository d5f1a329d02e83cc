"""Look up speakers in ``utt2spk``. A part of a large job reads only the lines of its utterances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from io_ark.data_dir import decode_key
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.inputs import UTT2SPK
from kaldi_compat.dump.options import BY_SPEAKER, Job

KEYS_PER_LOOKUP = 1 << 14  # Number of utterances that are looked up together, which limits the memory.
MIN_SEARCH_BYTES = 1 << 12  # The binary search ends at this many bytes, because reading them is as fast.


def check_speakers(job: Job, listing: Path, lines: Iterable[bytes]) -> None:
    """Raise :class:`DumpError` unless ``utt2spk`` exists and has exactly one speaker for each utterance in ``lines``.

    A line starts with a key, or is blank. ``listing`` is the path of the file that has the lines, for messages.
    """
    path = job.layout.data / UTT2SPK
    flag = "--per-speaker" if job.options.per_speaker else f"--cmvn={BY_SPEAKER}"
    if not path.is_file():
        raise DumpError(
            f"{path} is missing, and {flag} needs it: write it, or list each utterance as a separate speaker: "
            f"awk '{{print $1, $1}}' {listing} > {path}"
        )
    missing_count, first_missing = 0, b""
    keys = filter(None, map(_get_key, lines))
    while chunk := list(islice(keys, KEYS_PER_LOOKUP)):
        speakers = read_values(path, chunk)
        for invalid_value in [value for value in set(speakers.values()) if len(value.split()) != 1]:
            key = next(key for key in chunk if speakers.get(key) == invalid_value)
            fault = f"should have one speaker, not {decode_key(invalid_value)!r}: correct the line"
            raise DumpError(f"{path}: {decode_key(key)} {fault}")
        if missing_keys := [key for key in chunk if key not in speakers]:
            missing_count, first_missing = missing_count + len(missing_keys), first_missing or missing_keys[0]
    if missing_count:
        raise DumpError(
            f"{path} lacks {missing_count} of the utterances in {listing}, such as {decode_key(first_missing)}, but "
            f"{flag} needs the speaker of every utterance: add the speakers, or run utils/fix_data_dir.sh"
        )


def read_values(path: Path, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Map ``keys`` to their values in a file with a key and a value per line. Keys that the file lacks are left out.

    A line with only a key has the value ``b""``. If the file has all keys and is sorted, as Kaldi requires, only the
    lines from about the smallest to the largest key are read. Otherwise, the whole file is read.
    """
    requested_keys = set(keys)
    if not requested_keys:
        return {}
    with open(path, "rb") as file:
        _seek_before_key(file, min(requested_keys))
        values = dict(_find_matches(file, requested_keys, last_key=max(requested_keys)))
        if len(values) < len(requested_keys):
            file.seek(0)
            values = dict(_find_matches(file, requested_keys, last_key=None))
    return values


def _find_matches(lines: Iterable[bytes], keys: set[bytes], last_key: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and value of each line whose key is in ``keys``. Stop after ``last_key`` if it is not None."""
    for line in lines:
        key, *value = line.split(None, 1) or [b""]
        if key in keys:
            yield key, b"".join(value).strip()
        elif last_key is not None and key > last_key:
            return


def _seek_before_key(file: IO[bytes], key: bytes) -> None:
    """Seek in a sorted file to a line that starts at most MIN_SEARCH_BYTES and one line before the line of ``key``."""
    low, high = 0, file.seek(0, 2)
    while high - low > MIN_SEARCH_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # Skip the end of a line.
        start = file.tell()
        line = file.readline()
        if line and _get_key(line) < key:
            low = start
        else:
            high = middle
    file.seek(low)


def _get_key(line: bytes) -> bytes:
    return b"".join(line.split(None, 1)[:1])
