"""Speakers of utterances, looked up in ``utt2spk`` without reading all of it: a part of a large job needs few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.inputs import UTT2SPK
from kaldi_compat.dump.options import BY_SPEAKER, Job

# Utterances that are looked up together, and bytes of a sorted file that are not worth to be divided any more.
KEYS_AT_ONCE = 1 << 14
SEARCHED_AT_ONCE = 1 << 12


def speakers_of(job: Job, lines: Iterable[bytes]) -> dict[str, str]:
    """Return the speakers of the utterances that these lines of wav.scp or segments start with, as far as known."""
    path = job.layout.data / UTT2SPK
    if not path.is_file():
        return {}
    found = values_of(path, map(_key_of, lines))
    return {_text(key): _text(value) for key, value in found.items()}


def check_speakers(job: Job, listing: Path, lines: Iterable[bytes]) -> None:
    """Raise :class:`DumpError` unless ``utt2spk`` is as the requested statistics by speaker need it.

    They need each utterance's speaker: Kaldi's scripts use ``spk2utt`` there, and fail without it.

    Args:
        job: the job.
        listing: the file that lists the utterances.
        lines: its lines, or those of a part of the job.
    """
    path = job.layout.data / UTT2SPK
    flag = "--per-speaker" if job.options.per_speaker else f"--cmvn={BY_SPEAKER}"
    if not (job.options.per_speaker or BY_SPEAKER in job.options.cmvn_levels):
        return
    if not path.is_file():
        raise DumpError(
            f"{path} is missing, and {flag} needs it; to make each utterance its own speaker: "
            f"awk '{{print $1, $1}}' {listing} > {path}"
        )
    missing, first = 0, b""
    keys = filter(None, map(_key_of, lines))
    while chunk := list(islice(keys, KEYS_AT_ONCE)):
        speakers = values_of(path, chunk)
        for odd in [name for name in set(speakers.values()) if len(name.split()) != 1]:
            key = next(key for key in chunk if speakers.get(key) == odd)
            raise DumpError(f"{path}: {_text(key)} should have one speaker, not {_text(odd)!r}")
        if lost := [key for key in chunk if key not in speakers]:
            missing, first = missing + len(lost), first or lost[0]
    if missing:
        raise DumpError(
            f"{path} lacks {missing} of the utterances in {listing}, the first one {_text(first)}, and "
            f"{flag} needs everyone's speaker: add them, or utils/fix_data_dir.sh drops the utterances"
        )


def values_of(path: Path, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return what follows these keys in the lines of a file; keys that it lacks are left out.

    In a sorted file, as Kaldi requires them, only the lines from the first to the last key are read.
    """
    wanted = set(keys)
    if not wanted:
        return {}
    with open(path, "rb") as file:
        _seek_first(file, min(wanted))
        found = dict(_matches(file, wanted, max(wanted)))
        if len(found) < len(wanted):
            file.seek(0)
            found = dict(_matches(file, wanted))
    return found


def _matches(lines: Iterable[bytes], wanted: set[bytes], last: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of the wanted lines, up to the first one with a key after the last."""
    for line in lines:
        key, *value = line.split(None, 1) or [b""]
        if key in wanted:
            yield key, b"".join(value).strip()
        elif last is not None and key > last:
            return


def _seek_first(file: IO[bytes], key: bytes) -> None:
    """Go to the start of a line before which a sorted file does not have this key, and not far before it."""
    low, high = 0, file.seek(0, 2)
    while high - low > SEARCHED_AT_ONCE:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()
        start = file.tell()
        line = file.readline()
        if line and _key_of(line) < key:
            low = start
        else:
            high = middle
    file.seek(low)


def _key_of(line: bytes) -> bytes:
    return b"".join(line.split(None, 1)[:1])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
