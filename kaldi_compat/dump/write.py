"""Writing and verifying: an archive takes its name only when it is complete, checked and on the disk."""

from __future__ import annotations

import contextlib
import json
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
from kaldi_compat.dump.files import WholeTable, put_in_place, remove_unfinished, temporary_name, write_whole, writing
from kaldi_compat.dump.options import Layout
from kaldi_compat.dump.read import Failure

Stats = npt.NDArray[np.float64]
# Utterances that are done, seconds of their audio, and those that failed (which the first number counts too).
Counts = tuple[int, float, int]
PIECE = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What is in a complete archive.

    Attributes:
        shard: the archive's number.
        size: its bytes.
        checksum: their CRC-32.
        utterances: key, frames and seconds of each, in order.
        failures: key and reason of each that has no features.
        work: how long each stage was busy, and other figures for the summary.
    """

    shard: int
    size: int = 0
    checksum: int = 0
    utterances: list[tuple[str, int, float]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    work: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Seconds of audio that there are features of."""
        return sum(duration for _, _, duration in self.utterances)

    @property
    def counts(self) -> Counts:
        """How much was done."""
        return len(self.utterances) + len(self.failures), self.seconds, len(self.failures)


def read_manifest(layout: Layout, shard: int) -> Manifest | None:
    """The manifest of an archive that is complete; None if it is not, or its files are not those that were written."""
    try:
        fields = json.loads(layout.manifest(shard).read_text(encoding="utf-8"))
        manifest = Manifest(**fields)
        complete = layout.archive(shard).stat().st_size == manifest.size and layout.script(shard).is_file()
    except (OSError, ValueError, TypeError):
        return None
    return manifest if complete else None


class ArchiveWriter:
    """Writes one archive of a plan, its script and its manifest.

    Args:
        layout: where they go.
        shard: the archive's number.
        wants_stats: keep CMVN statistics, by speaker.
        speakers: the speaker of each utterance; an utterance that is not there is its own.
    """

    def __init__(self, layout: Layout, shard: int, speakers: Any = None, *, wants_stats: bool = False) -> None:
        self.layout = layout
        self.shard = shard
        self.speakers = speakers or {}
        self.manifest = Manifest(shard)
        self.offsets: list[int] = []
        self._size = 0
        self._checksum = 0
        with writing(layout.archive(shard)):
            clear_unfinished(layout, shard)
            # An archive that is made again is incomplete from here on.
            layout.manifest(shard).unlink(missing_ok=True)
            self.temporary = temporary_name(layout.archive(shard))
            self._file = open(self.temporary, "xb")  # noqa: SIM115  closed in finish or abandon
        self._stats = StatsWriter(layout.stats(shard)) if wants_stats else None

    def add(self, entry: Encoded | Failure) -> None:
        """Write the next utterance, or note that there is none."""
        if isinstance(entry, Failure):
            self.manifest.failures.append((entry.key, entry.reason))
            return
        self._write(entry.key.encode("utf-8", "surrogateescape") + b" ")
        self.offsets.append(self._size)
        self._write(entry.data)
        self.manifest.utterances.append((entry.key, entry.frames, entry.duration))
        if self._stats and entry.stats is not None:
            self._stats.add(self.speakers.get(entry.key) or entry.key, entry.stats)

    def _write(self, data: bytes) -> None:
        with writing(self.layout.archive(self.shard)):
            self._file.write(data)
        self._size += len(data)
        self._checksum = zlib.crc32(data, self._checksum)

    def finish(self, work: dict[str, float]) -> Manifest:
        """Check what was written, and give the archive, its script and at last its manifest their names.

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
        write_whole(layout.script(shard), script_text(keys, self.offsets, layout.archive(shard)))
        if self._stats:
            self._stats.finish()
        manifest = Manifest(shard, self._size, self._checksum, self.manifest.utterances, self.manifest.failures, work)
        write_whole(layout.manifest(shard), json.dumps(asdict(manifest)) + "\n")
        return manifest

    def abandon(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError):  # what could not be written is not wanted any more
            self._file.close()
        self.temporary.unlink(missing_ok=True)
        if self._stats:
            self._stats.abandon()


class StatsWriter:
    """Writes the CMVN statistics of an archive: a sum for each run of utterances of one speaker.

    Lists are sorted by speaker as a rule, so a speaker has one run; but no more than one sum is held in either case.

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

    def finish(self) -> None:
        """Give the statistics their name."""
        self._end_run()
        self._table.finish()

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._table.abandon()


def clear_unfinished(layout: Layout, shard: int) -> None:
    """Remove what a process that was killed left of an archive."""
    for path in (layout.archive(shard), layout.script(shard), layout.manifest(shard), layout.stats(shard)):
        remove_unfinished(path)


def script_text(keys: Iterable[str], offsets: Iterable[int], archive: Path) -> str:
    """The lines of an archive's script file."""
    return "".join(f"{key} {archive}:{offset}\n" for key, offset in zip(keys, offsets, strict=True))


def verify(path: Path, size: int, checksum: int) -> None:
    """Read a file back and raise :class:`OutputError` unless it holds the bytes that were written."""
    found_size, found = 0, 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found_size += len(piece)
            found = zlib.crc32(piece, found)
    if (found_size, found) != (size, checksum):
        raise OutputError(
            f"{path} does not read back as it was written ({found_size} bytes of {size}, or other ones): check the disk"
        )


def read_stats(layout: Layout, shards: Iterable[int]) -> Iterator[tuple[str, Stats]]:
    """Speakers and their statistics, run by run, in each of these archives that was made with statistics."""
    for shard in shards:
        path = layout.stats(shard)
        if path.is_file():
            with io_ark.SequentialReader[Stats]("double-matrix", f"ark:{path}") as reader:
                yield from reader
