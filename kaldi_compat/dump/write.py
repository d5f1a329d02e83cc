"""Write and verify archives. An archive gets its name only when it is complete, verified and on the disk."""

from __future__ import annotations

import os
import sys
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from io_ark.blocks import format_script_lines
from io_ark.codecs import number_lines
from io_ark.streams.unfinished import remove_unfinished
from kaldi_compat.dump.entries import Encoded, Failure
from kaldi_compat.dump.errors import OutputError
from kaldi_compat.dump.files import (
    CHUNK,
    WholeFile,
    check_archive_path,
    convert_write_errors,
    read_in_chunks,
    read_sealed_file,
    write_sealed_file,
)
from kaldi_compat.dump.model import Trial
from kaldi_compat.dump.options import FEATS, Layout
from kaldi_compat.dump.user_code import end_fork

# Number of processed utterances, including failures; duration in seconds of those with features; number of failures.
Counts = tuple[int, float, int]
# Size in bytes and CRC-32 of a file.
Fingerprint = tuple[int, int]
# Names in manifests of the files that belong to an archive.
ARCHIVE, SCRIPT = "archive", "script"
LENGTHS = FRAMES, DURATIONS = "utt2num_frames", "utt2dur"
VERIFICATION_BYTES = 64 << 20  # After this many new bytes, a file is synchronized to the disk and read back.


class DamagedError(Exception):
    """An archive has to be recreated, because a file does not match the manifest."""


@dataclass(frozen=True)
class Manifest:
    """Describes a complete archive."""

    shard: int  # Number of the archive.
    # Size and CRC-32, by name, of the archive, its script file, and its parts of utt2num_frames and utt2dur.
    files: dict[str, Fingerprint] = field(default_factory=dict)
    utterances: int = 0  # Number of utterances with features.
    seconds: float = 0.0  # Duration of the audio of these utterances in seconds.
    failures: list[tuple[str, str]] = field(default_factory=list)  # Key and reason of each utterance without features.
    # Busy seconds of each stage, and counts for the summary, by name.
    work: dict[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> Counts:
        """Number of utterances, including failures; seconds of audio with features; number of failures."""
        return self.utterances + len(self.failures), self.seconds, len(self.failures)


def read_manifest(layout: Layout, shard: int) -> Manifest | None:
    """Return a shard's manifest, or None if it is missing or damaged, or if a listed file has a different size."""
    try:
        return verify_manifest(layout, shard)
    except DamagedError:
        return None


def verify_manifest(layout: Layout, shard: int, *, checksums: bool = False) -> Manifest | None:
    """Check the sizes, and with ``checksums`` the CRC-32s, of a shard's files. Return the manifest, or None if missing.

    Raises:
        DamagedError: the manifest is damaged, or a file is missing, cannot be read or differs from the manifest.
    """
    path = layout.get_manifest(shard)
    try:
        manifest = Manifest(**read_sealed_file(path)[0])
        # Besides the two files of LENGTHS, an archive and its script file belong to each output.
        is_valid = manifest.shard == shard and set(LENGTHS) <= manifest.files.keys() and len(manifest.files) > 3
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # The file may hold any JSON.
        is_valid = False
    if not is_valid:
        raise DamagedError(f"{path} is damaged")
    for name, (size, checksum) in manifest.files.items():
        _check_file(_get_file_path(layout, shard, name), size, checksum if checksums else None)
    return manifest


def _get_file_path(layout: Layout, shard: int, name: str) -> Path:
    """Return the path of a file by its name in manifests, such as "archive", "script:xvector" or "utt2dur"."""
    kind, _, output = name.partition(":")
    methods = {ARCHIVE: layout.get_archive, SCRIPT: layout.get_script}
    return methods[kind](shard, output or FEATS) if kind in methods else layout.get_file_of_archive(shard, name)


def _name_table(kind: str, output: str) -> str:
    """Return the name under which manifests list the archive or script file (``kind``) of an output."""
    return kind if output == FEATS else f"{kind}:{output}"


def _list_tables(trial: Trial) -> list[str]:
    return [_name_table(kind, output) for output in trial.outputs for kind in (ARCHIVE, SCRIPT)]


def _check_file(path: Path, size: int, checksum: int | None) -> None:
    """Raise DamagedError unless a file has ``size`` bytes and the CRC-32 ``checksum``. Ignore a checksum of None."""
    try:
        if not path.is_file():
            raise DamagedError(f"{path} is missing")
        if path.stat().st_size != size:
            raise DamagedError(f"{path} has {path.stat().st_size} bytes instead of {size}")
        if checksum is not None and compute_fingerprint(path) != (size, checksum):
            raise DamagedError(f"{path} has changed since it was written")
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from None


def compute_fingerprint(path: Path) -> Fingerprint:
    """Return the size in bytes and the CRC-32 of a file."""
    size, checksum = 0, 0
    for chunk in read_in_chunks(path):
        size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    return size, checksum


class ArchiveWriter:
    """Writes the files of a shard: an archive and a script file for each output, lists of lengths, and the manifest.

    A thread for each archive reads the written data back while the next data are computed and written.

    ``shard`` is the number of the shard. ``trial`` names the outputs. The utterances of the first output are counted.
    """

    def __init__(self, layout: Layout, shard: int, trial: Trial) -> None:
        self.layout = layout
        self.shard = shard
        self.trial = trial
        # Numbers of matrices that were left uncompressed, of matrices without rows, and of utterances with features.
        self.uncompressed = self.empty = self.utterances = 0
        self.seconds = 0.0
        self.failures: list[tuple[str, str]] = []
        tables = _list_tables(self.trial)
        for name in tables:
            check_archive_path(_get_file_path(layout, shard, name))
        with convert_write_errors(layout.get_archive(shard)):
            clear_unfinished_files(layout, shard, self.trial)
            # Without its manifest, an existing archive counts as incomplete.
            layout.get_manifest(shard).unlink(missing_ok=True)
        self._files: dict[str, WholeFile] = {}
        try:
            for name in (*tables, *LENGTHS):
                # If the name of an archive is a link to another disk, the archive is written to that disk.
                self._files[name] = WholeFile(_get_file_path(layout, shard, name), follow=name in tables)
        except BaseException:
            for file in self._files.values():
                file.abandon()
            raise
        self._verifications = {name: _Verification(self._files[name]) for name in tables if name.startswith(ARCHIVE)}

    @property
    def processed_count(self) -> int:
        """Number of utterances so far, including failures."""
        return self.utterances + len(self.failures)

    def add_block(self, block: Encoded | Failure) -> None:
        """Write the next encoded utterances of one output, or record a failed utterance for the manifest."""
        end_fork()
        if isinstance(block, Failure):
            self.failures.append((block.key, block.reason))
            return
        packed, name = block.block, _name_table(ARCHIVE, block.name)
        offsets = packed.objects + self._files[name].size
        self._files[name].write(packed.data.data)
        self._verifications[name].follow()
        path = os.fsencode(self.layout.get_archive(self.shard, block.name))
        self._files[_name_table(SCRIPT, block.name)].write(format_script_lines(packed.keys, offsets, path).data)
        if block.name == self.trial.framed:
            self._files[FRAMES].write(number_lines(packed.keys, block.frames.astype(np.int32)))
            self.empty += int((block.frames == 0).sum())
        self.uncompressed += block.left_uncompressed
        if block.name != self.trial.first:
            return
        self._files[DURATIONS].write(number_lines(packed.keys, block.durations))
        self.utterances += len(block.frames)
        self.seconds += float(block.durations.sum())

    def finish(self, work: dict[str, float]) -> Manifest:
        """Verify the archives, rename all files, and write and return the manifest. ``work`` has figures by name.

        Raises:
            OutputError: a file cannot be written, or an archive reads back with other bytes.
        """
        end_fork()
        for name, verification in self._verifications.items():
            self._files[name].close()
            verification.finish()
        files = {name: file.finish() for name, file in self._files.items()}
        work = work | {"uncompressed": self.uncompressed, "empty": self.empty}
        manifest = Manifest(self.shard, files, self.utterances, self.seconds, self.failures, work)
        write_sealed_file(self.layout.get_manifest(self.shard), [vars(manifest)])
        return manifest

    def abandon(self) -> None:
        """Stop the verification, and remove the unfinished files."""
        for verification in self._verifications.values():
            verification.stop()
        for file in self._files.values():
            file.abandon()


class _Verification:
    """Reads a file back in a thread while it is written. Data are synchronized to the disk before they are read."""

    def __init__(self, file: WholeFile) -> None:
        self._file = file
        self._requested_size = 0  # The file is to be read up to this size in bytes.
        self._read_size = self._checksum = 0  # Number of bytes that were read back, and their CRC-32.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._reading: Future[None] | None = None  # The latest call of _read_up_to().

    def follow(self) -> None:
        """Have the thread read back the new data if there are VERIFICATION_BYTES or more. First wait for the thread."""
        if self._file.size - self._requested_size >= VERIFICATION_BYTES:
            self._file.flush()
            self._requested_size = self._file.size
            self._wait_for_thread()
            self._reading = self._thread.submit(self._read_up_to, self._requested_size)

    def _wait_for_thread(self) -> None:
        """Wait until the thread has read the requested data. Raise OutputError if it could not read the file."""
        if self._reading is not None:
            with convert_write_errors(self._file.path):
                self._reading.result()

    def _read_up_to(self, size: int) -> None:
        """Synchronize the file to the disk, and read back the bytes before position ``size`` that are still unread."""
        with open(self._file.temporary, "rb", buffering=0) as file:
            getattr(os, "fdatasync", os.fsync)(file.fileno())  # macOS lacks fdatasync.
            file.seek(self._read_size)
            buffer = memoryview(bytearray(CHUNK))
            while self._read_size < size and (count := file.readinto(buffer[: size - self._read_size])):
                self._read_size += count
                self._checksum = zlib.crc32(buffer[:count], self._checksum)

    def finish(self) -> None:
        """Read the remaining data of the closed file. Raise OutputError unless they are the bytes that were written."""
        self._wait_for_thread()
        with convert_write_errors(self._file.path):
            self._read_up_to(sys.maxsize)
        self.stop()
        if (self._read_size, self._checksum) != (self._file.size, self._file.checksum):
            raise OutputError(
                f"{self._file.temporary} reads back with other bytes than were written ({self._read_size} of "
                f"{self._file.size} bytes were read): check the disk"
            )

    def stop(self) -> None:
        """Wait for the thread, and end it."""
        self._thread.shutdown()


def clear_unfinished_files(layout: Layout, shard: int, trial: Trial, *, include_own: bool = False) -> None:
    """Remove the temporary files that killed processes left for the archives, scripts, lengths and manifest of a shard.

    With ``include_own``, also remove the temporary files of this process.
    """
    names = (*_list_tables(trial), *LENGTHS)
    for path in (layout.get_manifest(shard), *(_get_file_path(layout, shard, name) for name in names)):
        remove_unfinished(path, include_own=include_own)
