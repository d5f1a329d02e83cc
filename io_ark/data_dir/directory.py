"""A Kaldi data directory as an object."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from io_ark.api import load_scp
from io_ark.codecs.wave import Wave
from io_ark.data_dir import directories, durations, perturb
from io_ark.data_dir.awk_numbers import parse_column, parse_number
from io_ark.data_dir.fix import fix_directory, fix_stage
from io_ark.data_dir.line_chunks import read_chunks, read_lines
from io_ark.data_dir.line_fields import get_field
from io_ark.data_dir.segment_times import compute_segment_durations, is_to_the_end
from io_ark.data_dir.segments import Segment, load_segments, load_spk2utt, load_text, load_utt2spk
from io_ark.data_dir.split import split_directory
from io_ark.data_dir.stage import (
    SORTED_FILES,
    DataDirError,
    DataFiles,
    Printer,
    Stage,
    decode_key,
    refuse_half_changed_directory,
    refuse_target,
)
from io_ark.data_dir.validate import validate_directory
from io_ark.errors import MissingFileError
from io_ark.specifier import FileName
from io_ark.text import format_html_table

__all__ = ["DataDir"]

logger = logging.getLogger("io_ark")
Path = str | os.PathLike[str]
How = Literal["spread", "first", "last", "shortest", "speakers", "per speaker"]
_HOW = get_args(How)


class DataDir(os.PathLike[str]):
    """Data directory: ``wav.scp``, ``utt2spk``, ``text`` and other files with a line for each utterance, speaker or recording.

    Files are read on access. A property raises :class:`ArkError` if the file is missing or invalid.

    Methods that make another directory write the same files as Kaldi's scripts and return the new :class:`DataDir`. At
    the end, they replace the files of an existing directory, and move its other data files into ``.backup``. An error
    leaves an existing directory unchanged, but :meth:`copy` and :meth:`perturb_speed` check the new directory only
    after they have written it.

    Args:
        path: path of the directory.

    Raises:
        MissingFileError: ``path`` is not a directory.
        DataDirError: raised by methods: a file is invalid or missing, or a job was killed while it changed the
            directory.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name, text in {"wav.scp": "a-1 a.wav\\nb-1 b.wav\\n", "utt2spk": "a-1 a\\nb-1 b\\n", "text": "b-1 no\\na-1 yes\\n"}.items():
    ...     _ = open(os.path.join(folder, name), "w").write(text)
    >>> from io_ark import DataDir
    >>> data = DataDir(folder).fix()
    >>> data.text["a-1"], len(data)
    ('yes', 2)
    >>> data.subset(folder + "_b", speakers=["b"]).utterances()
    ['b-1']
    >>> [part.utterances() for part in data.split(2)]
    [['a-1'], ['b-1']]
    >>> dict(data.copy(folder + "_copy", utt_prefix="x-", spk_prefix="x-").utt2spk)
    {'x-a-1': 'x-a', 'x-b-1': 'x-b'}
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        if not os.path.isdir(self.path):
            raise MissingFileError("is not a directory: check the path", file=self.path)

    def __fspath__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataDir) and os.path.realpath(self.path) == os.path.realpath(other.path)

    def __hash__(self) -> int:
        return hash(os.path.realpath(self.path))

    def __len__(self) -> int:
        """Return the number of utterances: of newlines in utt2spk, or without this file, of lines in segments or else wav.scp."""
        return self.counts()["utt2spk"] if "utt2spk" in self else sum(1 for _ in self._read_utterance_keys())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        """Return True if the directory has a file called ``name``."""
        return isinstance(name, str) and os.path.isfile(os.path.join(self.path, name))

    def __repr__(self) -> str:
        """Return the path, the numbers of utterances and speakers, the hours if they are known, and the names of the files."""
        counts = self.counts()
        totals = [
            f"{counts[name]:,} {units}"
            for name, units in (("utt2spk", "utterances"), ("spk2utt", "speakers"))
            if name in counts
        ]
        hours = self._sum_known_hours()
        totals += [] if hours is None else [f"{hours:,.2f} hours"]
        return f"<DataDir {self.path}: {', '.join([*totals, ' '.join(counts)])}>"

    def _repr_html_(self) -> str:
        hours = self._sum_known_hours()
        note = "" if hours is None else f"{hours:,.2f} hours"
        rows = [(name, f"{count:,}") for name, count in self.counts().items()]
        return format_html_table(self.path, rows, ("file", "lines"), note)

    def file(self, name: str) -> str:
        """Return the path of the file ``name`` of the directory, such as "utt2spk".

        Raises:
            MissingFileError: the directory does not have this file.
            DataDirError: a job was killed while it changed the directory.
        """
        if name not in self:
            existing_files = ", ".join(self.counts()) or "no files"
            raise MissingFileError(f"is missing; the directory has {existing_files}", file=f"{self.path}/{name}")
        refuse_half_changed_directory(self.path)
        return FileName(os.path.join(self.path, name))

    def counts(self) -> dict[str, int]:
        """Map the name of each existing file that :meth:`fix` sorts to its number of newlines, as counted by ``wc -l``."""
        refuse_half_changed_directory(self.path)
        return {name: DataFiles(self.path).count_lines(name) for name in SORTED_FILES if name in self}

    def hours(self) -> float | None:
        """Return the total duration of the utterances in hours, from ``utt2dur`` or else ``segments``, or None if neither exists.

        For a segment that ends at -1, the duration of the recording is read from ``reco2dur``, or else from the audio.

        Raises:
            DataDirError: a segment ends at -1, but its recording has no duration, or ends before the segment starts.
            ArkError: the audio of such a recording cannot be read.
        """
        return self._sum_hours(lambda names: durations.measure_recordings(DataFiles(self.path), names))

    def _sum_hours(self, measure: Callable[[set[bytes]], Mapping[bytes, float]]) -> float | None:
        """Return the result of :meth:`hours`. ``measure`` maps names of recordings to their durations in seconds."""
        if "utt2dur" in self:
            durations_of_chunks = (parse_column(chunk, 2) for chunk in read_chunks(self.file("utt2dur")))
            return sum(map(sum, durations_of_chunks)) / 3600
        if "segments" in self:
            times = compute_segment_durations(self.file("segments"), measure)
            return sum(sum(seconds) for _, seconds in times) / 3600
        return None

    def _sum_known_hours(self) -> float | None:
        """Return the result of :meth:`hours` without reading audio, or None if a duration is unknown or a file is invalid."""
        with contextlib.suppress(DataDirError):
            return self._sum_hours(lambda names: durations.read_durations(DataFiles(self.path), names))
        return None

    def _read_utterance_keys(self) -> Iterator[bytes]:
        """Return an iterator over the names of utterances in the first existing file of utt2spk, segments and wav.scp."""
        # The default name makes file() raise MissingFileError.
        existing_name = next((name for name in ("utt2spk", "segments", "wav.scp") if name in self), "utt2spk")
        return (get_field(line) for line in read_lines(self.file(existing_name)))

    def utterances(self) -> list[str]:
        """Return the names of all utterances, from the first existing file of utt2spk, segments and wav.scp.

        Raises:
            MissingFileError: none of these files exists.
        """
        return list(map(decode_key, self._read_utterance_keys()))

    @property
    def utt2spk(self) -> Mapping[str, str]:
        """Speaker of each utterance, read on access."""
        return load_utt2spk(self.file("utt2spk"))

    @property
    def spk2utt(self) -> Mapping[str, list[str]]:
        """Utterances of each speaker, read on access."""
        return load_spk2utt(self.file("spk2utt"))

    @property
    def text(self) -> Mapping[str, str]:
        """Transcript of each utterance, read on access."""
        return load_text(self.file("text"))

    @property
    def segments(self) -> Mapping[str, Segment | Wave]:
        """Recording and times in seconds of each utterance as a :class:`Segment`, read on access."""
        return load_segments(self.file("segments"))

    @property
    def audio(self) -> Mapping[str, Any]:
        """Audio (channels, samples) of each utterance as a ``Wave``, cut from its recording if the directory has segments.

        Read on access.
        """
        if "segments" in self:
            return load_segments(self.file("segments"), self.file("wav.scp"))
        return load_scp(self.file("wav.scp"), kind="wave")

    @property
    def feats(self) -> Mapping[str, Any]:
        """Features of each utterance as an array (frames, dim), read on access."""
        return load_scp(self.file("feats.scp"), kind="matrix")

    def _make_printer(self, name: str) -> Printer:
        return Printer(name, logger.info, as_script=False)

    def _make_and_read(self, name: str, make_file: Callable[..., int], **options: object) -> dict[str, float]:
        """Write the file ``name`` if it is missing or incomplete, and map its keys to the numbers in the second field.

        ``make_file`` is the function of Kaldi's script that writes the file, such as
        :func:`~io_ark.data_dir.durations.get_utt2dur`, and takes ``options``. Lines without a second field are skipped.
        """
        make_file(self._make_printer(f"get_{name}"), self.path, **options)
        rows = (row for line in read_lines(self.file(name)) if len(row := line.split()) > 1)
        return {decode_key(key): parse_number(value) for key, value, *_ in rows}

    def utt2dur(self, *, read_entire_file: bool = False) -> dict[str, float]:
        """Map each utterance to its duration in seconds (Kaldi: get_utt2dur.sh).

        Write ``utt2dur`` if it is missing or incomplete.

        Args:
            read_entire_file: True to count the samples of the audio, instead of trusting the headers, when the file is
                written.

        Raises:
            ArkError: the durations cannot be computed, for example because there are no recordings and no features.
        """
        return self._make_and_read("utt2dur", durations.get_utt2dur, nj=1, read_entire_file=read_entire_file)

    def reco2dur(self) -> dict[str, float]:
        """Map each recording to its duration in seconds (Kaldi: get_reco2dur.sh).

        Write ``reco2dur`` if it is missing or incomplete.

        Raises:
            ArkError: the durations cannot be computed, for example because ``wav.scp`` is missing.
        """
        return self._make_and_read("reco2dur", durations.get_reco2dur)

    def num_frames(self, *, frame_shift: float = 0.01, frame_overlap: float = 0.015) -> dict[str, int]:
        """Map each utterance to its number of frames (Kaldi: get_utt2num_frames.sh).

        If ``utt2num_frames`` is missing or empty, the file is written from ``feats.scp``, or else from the durations of
        the utterances. The arguments apply only to durations, which are first written to ``utt2dur`` if this file is
        incomplete.

        Args:
            frame_shift: time between the starts of consecutive frames in seconds.
            frame_overlap: difference between the length of a frame and the frame shift in seconds.

        Raises:
            DataDirError: an argument is invalid.
            ArkError: the numbers cannot be computed, for example because there are no recordings and no features.
        """
        options: dict[str, float] = {"nj": 1, "frame_shift": frame_shift, "frame_overlap": frame_overlap}
        values = self._make_and_read("utt2num_frames", durations.get_utt2num_frames, **options)
        return {key: int(value) for key, value in values.items()}

    def validate(
        self,
        *,
        feats: bool = False,
        text: bool = False,
        wav: bool = True,
        spk_sort: bool = True,
        printable: bool = True,
    ) -> DataDir:
        """Check the directory, and return it (Kaldi: validate_data_dir.sh).

        Args:
            feats: True to require ``feats.scp``. If the file exists, it is checked in any case.
            text: True to require ``text``. If the file exists, it is checked in any case.
            wav: True to require ``wav.scp``. If the file exists, it is checked in any case.
            spk_sort: True to require that the speakers in ``utt2spk`` are sorted.
            printable: True to refuse unprintable characters in ``text``.

        Raises:
            DataDirError: the directory is not valid. The error names the file and, if possible, the line and key of the
                first fault.
        """
        no_text = not (text or "text" in self)
        validate_directory(
            self._make_printer("validate"),
            self.path,
            no_feats=not feats,
            no_wav=not wav,
            no_text=no_text,
            no_spk_sort=not spk_sort,
            non_print=not printable,
        )
        return self

    def fix(
        self, *, strip_cr: bool = False, utt_files: Iterable[str] = (), speaker_files: Iterable[str] = ()
    ) -> DataDir:
        """Sort all files in place, remove the utterances that one of the files lacks, and return this directory (Kaldi: fix_data_dir.sh).

        Copies of the old files are in ``.backup``. As with Kaldi's script, most of these copies are sorted.

        Args:
            strip_cr: True to remove carriage returns at the ends of lines. Otherwise, a carriage return is an error.
            utt_files: names of additional files with a line for each utterance.
            speaker_files: names of additional files with a line for each speaker.

        Raises:
            DataDirError: a file is missing or invalid, the order of the utterances is not the order of their speakers,
                no utterance would be left, or data would be lost, such as one of two values of a key.
        """
        fix_directory(
            self._make_printer("fix"),
            self.path,
            utt_extra_files=" ".join(utt_files),
            spk_extra_files=" ".join(speaker_files),
            strip_cr=strip_cr,
        )
        return self

    def subset(
        self,
        target: Path,
        number: int | None = None,
        *,
        how: How = "spread",
        utterances: Path | Iterable[str] | None = None,
        speakers: Path | Iterable[str] | None = None,
        durations: tuple[float, float] | None = None,
    ) -> DataDir:
        """Make a directory with some of the utterances, and return it (Kaldi: subset_data_dir.sh).

        Pass one of ``number``, ``utterances``, ``speakers`` and ``durations``.

        Args:
            target: path of the new directory.
            number: number of utterances, 1 or more.
            how: with ``number``, choose evenly "spread" utterances, the "first", the "last", the "shortest" (by
                ``utt2num_frames`` or the features), all utterances of random "speakers" until there are ``number`` or
                more, or up to ``number`` "per speaker".
            utterances: names of utterances, or the path of a file with one name per line. Unknown names are ignored.
            speakers: names of speakers, or the path of a file with one name per line. Unknown names are ignored.
            durations: minimum and maximum duration of an utterance in seconds, both inclusive (see :meth:`utt2dur`).

        Raises:
            DataDirError: not exactly one criterion is passed, ``how`` is invalid or passed without ``number``,
                ``number`` is below 1 or above the number of utterances, a file is missing or invalid, or the target
                cannot be written.
        """
        criteria = [criterion for criterion in (number, utterances, speakers, durations) if criterion is not None]
        if len(criteria) != 1:
            raise DataDirError("pass exactly one of number, utterances, speakers and durations", self.path)
        if how not in _HOW or (number is not None and number < 1):
            message = f"how={how!r} and number={number}: how is one of {', '.join(_HOW)}, and number is 1 or more"
            raise DataDirError(message, self.path)
        if how != "spread" and number is None:
            raise DataDirError(f"how={how!r} chooses utterances only with number: pass number, or omit how", self.path)
        if durations is not None:
            refuse_target(os.fspath(target), self.path)
            low, high = durations
            utterances = [key for key, seconds in self.utt2dur().items() if low <= seconds <= high]
        options: dict[str, Any] = {"utt_list": _convert_names(utterances), "spk_list": _convert_names(speakers)}
        if how != "spread":
            options["per_spk" if how == "per speaker" else how] = True
        number_argument = [] if number is None else [str(number)]
        say = self._make_printer("subset")
        directories.subset_directory(say, self.path, *number_argument, os.fspath(target), **options)
        return DataDir(target)

    def filter(self, target: Path, utterances: Path | Iterable[str]) -> DataDir:
        """Make a directory with the utterances that you name, and return it. :meth:`subset` has further criteria.

        Args:
            target: path of the new directory.
            utterances: names of utterances, or the path of a file with one name per line. Unknown names are ignored.

        Raises:
            DataDirError: a file is missing or invalid, or the target cannot be written.
        """
        return self.subset(target, utterances=utterances)

    def split(self, parts: int, *, per_utt: bool = False) -> list[DataDir]:
        """Divide the directory into parts of about the same size, and return them in order (Kaldi: split_data.sh).

        The parts are the directories ``split<parts>/1``, ``split<parts>/2`` and so on within this directory. Parts that
        are up to date are not written again.

        Args:
            parts: number of parts, at most the number of speakers, or with ``per_utt`` the number of utterances.
            per_utt: False to keep the utterances of a speaker together. True to divide them as well, in
                ``split<parts>utt``.

        Raises:
            DataDirError: ``parts`` is below 1 or too large, or a file is missing or invalid.
        """
        split_directory(self._make_printer("split"), self.path, str(parts), per_utt=per_utt)
        base = os.path.join(self.path, f"split{parts}{'utt' if per_utt else ''}")
        return [DataDir(os.path.join(base, str(part + 1))) for part in range(parts)]

    def copy(
        self, target: Path, *, utt_prefix: str = "", spk_prefix: str = "", utt_suffix: str = "", spk_suffix: str = ""
    ) -> DataDir:
        """Copy the directory, add prefixes and suffixes to names, and return the copy (Kaldi: copy_data_dir.sh).

        Args:
            target: path of the new directory.
            utt_prefix, utt_suffix: strings that are added to the names of utterances, and of recordings if there are no
                segments.
            spk_prefix, spk_suffix: strings that are added to the names of speakers.

        Raises:
            DataDirError: utt2spk, spk2utt or the wav.scp of segments is missing, a name is not in utt2spk or spk2utt,
                the copy is not valid, or the target is this directory or cannot be written.
        """
        directories.copy_directory(
            self._make_printer("copy"),
            self.path,
            os.fspath(target),
            utt_prefix=utt_prefix,
            spk_prefix=spk_prefix,
            utt_suffix=utt_suffix,
            spk_suffix=spk_suffix,
            validate_opts="" if "wav.scp" in self else "--no-wav",
        )
        return DataDir(target)

    @staticmethod
    def combine(target: Path, *sources: Path, extra_files: Iterable[str] = (), fix: bool = True) -> DataDir:
        """Make a directory with the utterances of several directories, and return it (Kaldi: combine_data.sh).

        A file that any source lacks is left out, except ``utt2uniq`` and ``segments``: if a source has one of these
        files, the file is generated for the other sources. Generating ``segments`` writes a missing ``utt2dur`` into
        the source.

        Args:
            target: path of the new directory.
            *sources: paths of the directories to combine.
            extra_files: names of files to combine in addition to Kaldi's usual files.
            fix: True to sort the files of the new directory, and to remove the utterances that some files lack.

        Raises:
            DataDirError: there are no sources, their frame shifts differ, or a directory cannot be read or written.
        """
        names = [os.fspath(source) for source in sources]
        say = Printer("combine", logger.info, as_script=False)
        directories.combine_directories(
            say, os.fspath(target), *names, extra_files=" ".join(extra_files), skip_fix=not fix
        )
        return DataDir(target)

    def perturb_speed(self, target: Path, factor: str | float, *, include_spk_prefix: bool = True) -> DataDir:
        """Make a directory with sox commands that change the speed, and return it (Kaldi: perturb_data_dir_speed.sh).

        If this directory lacks ``utt2dur`` or ``reco2dur``, the file is written here first. Features are not copied.

        Args:
            target: path of the new directory.
            factor: speed factor, such as 0.9. Utterances, recordings and speakers get the prefix ``sp<factor>-``.
            include_spk_prefix: False to keep the names of speakers, and to give utterances and recordings the suffix
                ``-sp<factor>``.

        Raises:
            DataDirError: the factor is not a number above 0, sox, utt2spk, spk2utt or wav.scp is missing, the new
                directory is not valid, or a directory cannot be read or written.
        """
        say, path = self._make_printer("perturb_speed"), os.fspath(target)
        perturb.perturb_speed(say, str(factor), self.path, path, include_spk_prefix=include_spk_prefix)
        return DataDir(target)

    def perturb_volume(
        self, *, reco2vol: Path = "", write_reco2vol: Path = "", low: float = 0.125, high: float = 2.0
    ) -> DataDir:
        """Change the volume of the recordings in place, and return this directory (Kaldi: perturb_data_dir_volume.sh).

        A sox command that runs when the recording is read is added to each entry of ``wav.scp``. ``feats.scp`` is moved
        into ``.backup``. If one of the first 100 entries already has such a command, nothing is changed.

        Args:
            reco2vol: path of a file with a recording and its volume factor on each line. By default, factors are
                random, but the same in every call.
            write_reco2vol: path of a file to which the recordings and their factors are written. By default, no file is
                written.
            low: minimum of the random factors.
            high: maximum of the random factors.

        Raises:
            DataDirError: ``wav.scp`` is missing, ``reco2vol`` lacks a recording, or a file has an invalid line or
                cannot be read or written.
        """
        perturb.perturb_volume(
            self._make_printer("perturb_volume"),
            self.path,
            reco2vol=os.fspath(reco2vol),
            write_reco2vol=os.fspath(write_reco2vol),
            scale_low=low,
            scale_high=high,
        )
        return self

    def resample(self, frequency: int) -> DataDir:
        """Change the sampling rate of the recordings in place, and return this directory (Kaldi: resample_data_dir.sh).

        A sox command is added to each entry of ``wav.scp``. When a recording is read, the command resamples it, mixes
        all channels to one, and converts the samples to 16 bits. A missing ``utt2dur`` is written first. If there is
        ``feats.scp``, ``feats.scp`` and ``cmvn.scp`` are moved into ``.backup``.

        Args:
            frequency: new sampling rate in Hz.

        Raises:
            DataDirError: sox or ``wav.scp`` is missing, a line of ``wav.scp`` is invalid, the rate is not above 0, or a
                file cannot be read or written.
        """
        perturb.resample_directory(self._make_printer("resample"), str(frequency), self.path)
        return self

    def to_whole_recordings(self, target: Path) -> DataDir:
        """Make a directory whose utterances are the recordings to which the segments belong, and return it.

        Each recording is its own speaker, and has the transcripts of its segments, joined in order of time. Features
        are not copied. If this directory has no segments, the whole directory is copied instead (see :meth:`copy`).

        Args:
            target: path of the new directory.

        Raises:
            DataDirError: a line of segments has fewer than four fields, or a directory cannot be read or written.
        """
        if "segments" not in self:
            return self.copy(target)
        # Maps recordings to the start, end and key of each segment.
        segments: dict[bytes, list[tuple[float, float, bytes]]] = {}
        for line_number, line in enumerate(read_lines(self.file("segments")), 1):
            fields = line.split()
            if len(fields) < 4:
                problem = "expected a segment, its recording, start and end: correct the line"
                raise DataDirError(problem, self.file("segments"), line_number, get_field(line))
            key, recording, start_field, end_field, *_ = fields
            end = math.inf if is_to_the_end(end_field) else parse_number(end_field)
            segments.setdefault(recording, []).append((parse_number(start_field), end, key))
        say, src = self._make_printer("to_whole_recordings"), DataFiles(self.path)
        with Stage(os.fspath(target), say, sources=[self.path]) as stage:
            stage.write_files_from(src, "wav.scp reco2file_and_channel reco2dur stm glm")
            names = sorted(segments)
            stage.write("utt2spk", (b"%b %b\n" % (name, name) for name in names))
            directories.write_spk2utt(stage)
            if src.find("text"):
                rows = (line.split() for line in read_lines(src.find("text")))
                words_of_segment = {key: words for key, *words in filter(None, rows)}
                lines = []
                for name in names:
                    keys = [key for _start, _end, key in sorted(segments[name])]
                    all_words = itertools.chain.from_iterable(words_of_segment.get(key, []) for key in keys)
                    lines.append(b" ".join([name, *all_words]) + b"\n")
                stage.write("text", lines)
            fix_stage(say.with_name("fix"), stage)
        return DataDir(target)


def _convert_names(names: Path | Iterable[str] | None) -> directories.IdList:
    """Return a path as a string, other names as a set of bytes, and None as ""."""
    if names is None or isinstance(names, str | os.PathLike):
        return os.fspath(names or "")
    # An empty set would count as a missing argument, so replace it with a set that contains no valid name.
    return {name.encode("utf-8", "surrogateescape") for name in names} or {b""}
