"""Split a data directory into parts, as Kaldi's ``split_data.sh`` does."""

from __future__ import annotations

import os
from collections.abc import Iterator

from io_ark.data_dir.line_chunks import number_chunks, read_chunks, split_lines
from io_ark.data_dir.line_fields import get_column, sort_unique_values
from io_ark.data_dir.line_selection import read_keys
from io_ark.data_dir.lists import divide_by_speaker, divide_evenly, make_refusal, parse_positive_integer
from io_ark.data_dir.speaker_lists import convert_to_spk2utt
from io_ark.data_dir.stage import DataFiles, Printer, Stage, list_known_files, lock_directories, set_status, warn

FILES_BY_SPEAKER = "spk2warp spk2gender cmvn.scp"
# As in split_data.sh, the parts are out of date if one of these files is newer.
WATCHED_FILES = "utt2spk spk2utt spk2warp feats.scp text wav.scp cmvn.scp spk2gender vad.scp segments reco2file_and_channel utt2lang"


def split_directory(say: Printer, folder: str, number: str, *, per_utt: bool = False) -> int:
    """Split a directory by speaker into ``split<n>/1`` and so on, or by utterance into ``split<n>utt/1`` (Kaldi: split_data.sh).

    Parts that are up to date are not written again. Return the exit status 0.

    Args:
        number: number of parts, as it is written in the name of the folder.
        per_utt: divide the utterances of a speaker as well, and write the parts into split<n>utt/1 and so on.

    Raise DataDirError if the number of parts is not a whole number of 1 or more, or the directory cannot be split.
    """
    part_count = parse_positive_integer(number)
    if not part_count:
        say.write(f"Invalid num-split argument {number}")
        raise say.fail("", "the number of parts must be a whole number of 1 or more")
    src, base = DataFiles(folder), f"split{number}{'utt' if per_utt else ''}"
    utterance_count = src.count_lines("utt2spk")
    for name, advice in (
        ("feats.scp", f"**  use utils/fix_data_dir.sh {folder}"),
        ("text", "** use utils/fix_data_dir.sh"),
    ):
        if src.find(name) and (count := src.count_lines(name)) != utterance_count:
            say.write(f"** split_data.sh: warning, #lines is (utt2spk,{name}) is ({utterance_count},{count}); you can ")
            say.write(f"{advice} to fix this.")
    with lock_directories(folder):  # Locking finishes a split that was killed, so the first part is complete.
        is_out_of_date = _is_out_of_date(src, os.path.join(folder, base, "1"))
    if not is_out_of_date:
        return 0
    with Stage(folder, say) as stage, set_status(1):
        _Split(say.with_name("utils/split_scp.pl"), src, stage, base, part_count, per_utt=per_utt).run()
    return 0


def _is_out_of_date(src: DataFiles, first_part: str) -> bool:
    """Return True unless the folder ``first_part`` exists and has all :data:`WATCHED_FILES` of ``src``, none older than in ``src``."""
    names = [name for name in WATCHED_FILES.split() if src.find(name)]
    pairs = [(src.find(name), os.path.join(first_part, name)) for name in names]
    return not os.path.isdir(first_part) or any(
        not os.path.isfile(part) or os.stat(part).st_mtime_ns < os.stat(path).st_mtime_ns for path, part in pairs
    )


class _Split:
    """Splits the directory ``src`` into ``part_count`` parts ``base/1``, ``base/2`` and so on, which a stage writes.

    ``say`` prints the messages of split_scp.pl. With ``per_utt``, the utterances of a speaker may be in different
    parts.
    """

    def __init__(
        self, say: Printer, src: DataFiles, stage: Stage, base: str, part_count: int, *, per_utt: bool
    ) -> None:
        self.say, self.src, self.stage, self.base = say, src, stage, base
        self.part_count, self.per_utt = part_count, per_utt

    def iterate_part_names(self, name: str) -> Iterator[str]:
        """Return an iterator over the names of the file ``name`` in all parts, such as ``split2/1/text``."""
        return (f"{self.base}/{part + 1}/{name}" for part in range(self.part_count))

    def run(self) -> None:
        """Write the files of all parts.

        Raise DataDirError if utt2spk is missing or invalid, or a part would be empty.
        """
        path = self.src.find("utt2spk")
        if not path:
            raise self.say.fail("", f"{self.say.name}: Error opening input scp file {self.src.folder}/utt2spk")
        if self.per_utt:
            parts = divide_evenly(self.say, path, self.part_count)
        else:
            parts = divide_by_speaker(self.say, path, path, self.part_count)
        for name, lines in zip(self.iterate_part_names("utt2spk"), parts, strict=True):
            self.stage.write(name, lines)
        for part_number, lines in enumerate(parts, 1):
            if not lines:
                message = f"part {part_number} is empty, because there are too few speakers: use fewer parts"
                raise self.say.fail("", f"{self.say.name}: {message}")
        for name, spk2utt in zip(self.iterate_part_names("utt2spk"), self.iterate_part_names("spk2utt"), strict=True):
            path = self.stage.find(name)
            refuse = make_refusal("Invalid line in utt2spk file", path)
            self.stage.write(spk2utt, convert_to_spk2utt(read_chunks(path), refuse))
        names = "feats.scp text vad.scp utt2lang utt2dur utt2num_frames segments"
        has_segments = bool(self.src.find("segments"))
        self.divide_files("utt2spk", names if has_segments else f"{names} wav.scp", warns=True)
        self.divide_files("spk2utt", FILES_BY_SPEAKER, warns=not self.per_utt)
        if has_segments:
            self.divide_files("segments", "reco2file_and_channel wav.scp", warns=not self.per_utt)
        for name in list_known_files(self.src.folder, map(os.path.dirname, self.iterate_part_names(""))):
            if not self.stage.has_changed(name):  # Only an earlier version of the directory had this file.
                self.stage.remove(name)

    def divide_files(self, listing: str, names: str, *, warns: bool) -> None:
        """Divide files by key. A line goes to every part whose file ``listing`` has the key of the line.

        Args:
            listing: name of a file that all parts have. For ``segments``, its recordings are compared instead of its
                keys.
            names: names of the files to divide, separated by spaces.
            warns: True to warn of lines that are in no part, or in several parts.
        """
        parts_of_key: dict[bytes, list[int]] = {}
        for part, name in enumerate(self.iterate_part_names(listing)):
            path = self.stage.find(name)
            keys = sort_unique_values(path, 2, awk=False) if listing == "segments" else read_keys(path)
            for key in keys:
                parts_of_key.setdefault(key, []).append(part)
        for name in names.split():
            if self.src.find(name):
                self.divide_file(name, parts_of_key, warns=warns)

    def divide_file(self, name: str, parts_of_key: dict[bytes, list[int]], *, warns: bool) -> None:
        """Write each line of the file ``name`` to the parts that ``parts_of_key`` lists for the key of the line.

        Parts are numbered from 0. Lines with other keys are dropped. For ``warns``, see :meth:`divide_files`.
        Raise DataDirError for a line without a key.
        """
        path = self.src.find(name)
        lines_of_part: list[list[bytes]] = [[] for _ in range(self.part_count)]
        has_unused_line = has_repeated_line = False
        for lines_before, chunk in number_chunks(read_chunks(path)):
            for number, (line, key) in enumerate(zip(split_lines(chunk), get_column(chunk), strict=True), 1):
                if not key:
                    make_refusal("Bad line without a key", path)(lines_before + number)
                parts = parts_of_key.get(key, [])
                has_unused_line = has_unused_line or not parts
                has_repeated_line = has_repeated_line or len(parts) > 1
                for part in parts:
                    lines_of_part[part].append(line)
        for target, lines in zip(self.iterate_part_names(name), lines_of_part, strict=True):
            self.stage.write(target, lines)
        if has_unused_line and warns:
            warn("filter_scps.pl: warning: some input lines did not get output")
        if has_repeated_line and warns:
            warn("filter_scps.pl: warning: some input lines were output to multiple files [OK if splitting per utt]")
