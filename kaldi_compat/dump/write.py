"""Writing and verifying: an archive gets its name only when it is complete, verified and on the disk."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from kaldi_compat.dump.encode import Encoded
from kaldi_compat.dump.errors import OutputError
from kaldi_compat.dump.files import (
    WholeTable,
    is_replaceable,
    put_in_place,
    read_sealed,
    remove_unfinished,
    temporary_name,
    write_sealed,
    write_whole,
    writing,
)
from kaldi_compat.dump.options import Layout
from kaldi_compat.dump.read import Failure

__all__ = [
    "STATS",
    "ArchiveWriter",
    "Counts",
    "DamagedError",
    "Manifest",
    "Stats",
    "StatsWriter",
    "clear_unfinished",
    "fingerprint",
    "read_manifest",
    "read_stats",
    "script_text",
    "verified_manifest",
    "verify",
]

Stats = npt.NDArray[np.float64]
# Utterances that are done, seconds of their audio, and those that failed (which the first number includes).
Counts = tuple[int, float, int]
# Size in bytes and CRC-32 of a file.
Fingerprint = tuple[int, int]
CHUNK = 1 << 20
# The files of an archive, as manifests call them.
ARCHIVE, SCRIPT, STATS = "archive", "script", "statistics"


class DamagedError(Exception):
    """An archive has to be made again: one of its files is not what its manifest says."""


@dataclass(frozen=True)
class Manifest:
    """Describes a complete archive.

    Attributes:
        shard: the archive's number.
        files: size and CRC-32 of the archive, its script file, and its statistics if there are any.
        utterances: key, frames and seconds of each, in order.
        failures: key and reason of each that has no features.
        work: how long each stage was busy, and other figures for the summary.
    """

    shard: int
    files: dict[str, Fingerprint] = field(default_factory=dict)
    utterances: list[tuple[str, int, float]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    work: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Seconds of audio that have features."""
        return sum(duration for _, _, duration in self.utterances)

    @property
    def counts(self) -> Counts:
        """The archive's part of the progress."""
        return len(self.utterances) + len(self.failures), self.seconds, len(self.failures)


def read_manifest(layout: Layout, shard: int) -> Manifest | None:
    """Return the manifest of a complete archive; None if there is none, or a file has another size than it says."""
    try:
        return verified_manifest(layout, shard)
    except DamagedError:
        return None


def verified_manifest(
    layout: Layout, shard: int, *, checksums: bool = False, with_stats: bool = False
) -> Manifest | None:
    """Return the manifest of a complete archive after a look at its files; None if it was not completed yet.

    Args:
        layout, shard: identify the archive.
        checksums: read the files and compare their checksums; sizes are compared in either case.
        with_stats: accept only an archive that was made with statistics.

    Raises:
        DamagedError: the archive has to be made again; says why.
    """
    path = layout.manifest(shard)
    try:
        manifest = Manifest(**read_sealed(path)[0])
        described = manifest.shard == shard and {ARCHIVE, SCRIPT} <= manifest.files.keys()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        described = False
    if not described:
        raise DamagedError(f"{path} is damaged")
    if with_stats and STATS not in manifest.files:
        raise DamagedError(f"{layout.stats(shard)} was not made, and --cmvn needs it")
    for name, (size, checksum) in manifest.files.items():
        _check(_file_of(layout, shard, name), size, checksum if checksums else None)
    return manifest


def _file_of(layout: Layout, shard: int, name: str) -> Path:
    return {ARCHIVE: layout.archive, SCRIPT: layout.script, STATS: layout.stats}[name](shard)


def _check(path: Path, size: int, checksum: int | None) -> None:
    try:
        if not path.is_file():
            raise DamagedError(f"{path} is missing")
        if path.stat().st_size != size:
            raise DamagedError(f"{path} has {path.stat().st_size} bytes instead of {size}")
        if checksum is not None and fingerprint(path) != (size, checksum):
            raise DamagedError(f"{path} has changed since it was written")
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from None


def fingerprint(path: Path) -> Fingerprint:
    """Return the size and the CRC-32 of a file."""
    size, checksum = 0, 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum


class ArchiveWriter:
    """Writes one archive of a plan, its script file, statistics and manifest.

    Args:
        layout: where they go.
        shard: the archive's number.
        wants_stats: keep CMVN statistics, by speaker.
        speakers: the speaker of each utterance; an utterance without one is its own speaker.
    """

    def __init__(self, layout: Layout, shard: int, speakers: Any = None, *, wants_stats: bool = False) -> None:
        self.layout = layout
        self.shard = shard
        self.speakers = speakers or {}
        self.manifest = Manifest(shard)
        self.offsets: list[int] = []
        self.uncompressed = 0
        self._size = 0
        self._checksum = 0
        if not is_replaceable(layout.archive(shard)):
            raise OutputError(f"{layout.archive(shard)} is not a regular file: move it out of the way")
        with writing(layout.archive(shard)):
            clear_unfinished(layout, shard)
            # An archive that is made again is incomplete from here on.
            layout.manifest(shard).unlink(missing_ok=True)
            self.temporary = temporary_name(layout.archive(shard))
            self._file = open(self.temporary, "xb")  # noqa: SIM115  closed in finish or abandon
        self._stats = StatsWriter(layout.stats(shard)) if wants_stats else None

    def add(self, entry: Encoded | Failure) -> None:
        """Write the next utterance, or record its failure."""
        if isinstance(entry, Failure):
            self.manifest.failures.append((entry.key, entry.reason))
            return
        self._write(entry.key.encode("utf-8", "surrogateescape") + b" ")
        self.offsets.append(self._size)
        self._write(entry.data)
        self.manifest.utterances.append((entry.key, entry.frames, entry.duration))
        self.uncompressed += entry.left_uncompressed
        if self._stats and entry.stats is not None:
            self._stats.add(self.speakers.get(entry.key) or entry.key, entry.stats)

    def _write(self, data: bytes) -> None:
        with writing(self.layout.archive(self.shard)):
            self._file.write(data)
        self._size += len(data)
        self._checksum = zlib.crc32(data, self._checksum)

    def finish(self, work: dict[str, float]) -> Manifest:
        """Verify what was written, and rename the archive, its script file and at last its manifest.

        Raises:
            OutputError: the archive cannot be written, or does not read back as it was written.
        """
        with writing(self.layout.archive(self.shard)):
            return self._finish(work)

    def _finish(self, work: dict[str, float]) -> Manifest:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        verify(self.temporary, self._size, self._checksum)
        layout, shard = self.layout, self.shard
        put_in_place(self.temporary, layout.archive(shard))
        keys = (key for key, _, _ in self.manifest.utterances)
        script = script_text(keys, self.offsets, layout.archive(shard))
        write_whole(layout.script(shard), script)
        in_bytes = script.encode("utf-8", "surrogateescape")
        files = {ARCHIVE: (self._size, self._checksum), SCRIPT: (len(in_bytes), zlib.crc32(in_bytes))}
        if self._stats:
            files[STATS] = self._stats.finish()
        work = work | {"uncompressed": self.uncompressed}
        manifest = Manifest(shard, files, self.manifest.utterances, self.manifest.failures, work)
        write_sealed(layout.manifest(shard), [asdict(manifest)])
        return manifest

    def abandon(self) -> None:
        """Delete what was written."""
        with contextlib.suppress(OSError):  # the content is not needed, so it does not matter if it got there
            self._file.close()
        self.temporary.unlink(missing_ok=True)
        if self._stats:
            self._stats.abandon()


class StatsWriter:
    """Writes the CMVN statistics of an archive: a sum for each run of utterances of one speaker.

    Lists are usually sorted by speaker, so a speaker has one run; in any case only one sum is held in memory.

    Args:
        path: where they go.
    """

    def __init__(self, path: Path) -> None:
        self._table = WholeTable("double-matrix", path)
        self._run: tuple[str, Stats] | None = None

    def add(self, speaker: str, stats: Stats) -> None:
        """Count the next utterance."""
        if self._run and self._run[0] == speaker:
            self._run = speaker, self._run[1] + stats
        else:
            self._end_run()
            self._run = speaker, stats

    def _end_run(self) -> None:
        if self._run:
            speaker, stats = self._run
            self._table[speaker] = stats

    def finish(self) -> Fingerprint:
        """Rename the statistics and return their fingerprint."""
        self._end_run()
        self._table.close()
        found = fingerprint(self._table.temporary)
        self._table.finish()
        return found

    def abandon(self) -> None:
        """Delete what was written."""
        self._table.abandon()


def clear_unfinished(layout: Layout, shard: int, *, own: bool = False) -> None:
    """Remove the temporary files that a killed process left of an archive; with ``own`` those of this process too."""
    for path in (layout.archive(shard), layout.script(shard), layout.manifest(shard), layout.stats(shard)):
        remove_unfinished(path, own=own)


def script_text(keys: Iterable[str], offsets: Iterable[int], archive: Path) -> str:
    """Return the content of an archive's script file."""
    return "".join(f"{key} {archive}:{offset}\n" for key, offset in zip(keys, offsets, strict=True))


def verify(path: Path, size: int, checksum: int) -> None:
    """Read a file back and raise :class:`OutputError` unless it holds the bytes that were written."""
    found = fingerprint(path)
    if found != (size, checksum):
        raise OutputError(
            f"{path} does not read back as it was written ({found[0]} bytes of {size}, or other ones): check the disk"
        )


def read_stats(layout: Layout, shards: Iterable[int]) -> Iterator[tuple[str, Stats]]:
    """Yield speakers and their statistics, run by run, of those of these archives that were made with statistics."""
    for shard in shards:
        path = layout.stats(shard)
        if path.is_file():
            with io_ark.SequentialReader[Stats]("double-matrix", f"ark:{path}") as reader:
                yield from reader
