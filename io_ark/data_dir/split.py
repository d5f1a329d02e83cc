"""Split a data directory into parts, as Kaldi's ``split_data.sh`` does."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Keys, chunks, field
from io_ark.data_dir.lists import bad_line, even_parts, parts_by_speaker, whole_number
from io_ark.data_dir.stage import Say, SourceDir, Stage, exits_with, own_files, warn

BY_SPEAKER = "spk2warp spk2gender cmvn.scp"
MOST_PENDING = 1 << 26
IN_PART = "utt2spk spk2utt spk2warp feats.scp text wav.scp cmvn.scp spk2gender vad.scp segments reco2file_and_channel utt2lang"


def split(say: Say, folder: str, number: str, *, per_utt: bool = False) -> int:
    """Split a directory into parts, ``split<n>/1`` and so on, by speaker or by utterance."""
    if not whole_number(number):
        say.write(f"Invalid num-split argument {number}")
        raise say.fails("", "the number of parts must be a whole number of 1 or more")
    src, parts, base = SourceDir(folder), whole_number(number), f"split{number}{'utt' if per_utt else ''}"
    utterances = src.count("utt2spk")
    for name, where in (
        ("feats.scp", f"**  use utils/fix_data_dir.sh {folder}"),
        ("text", "** use utils/fix_data_dir.sh"),
    ):
        if src.path(name) and (count := src.count(name)) != utterances:
            say.write(f"** split_data.sh: warning, #lines is (utt2spk,{name}) is ({utterances},{count}); you can ")
            say.write(f"{where} to fix this.")
    if not _is_newer(src, os.path.join(folder, base, "1")):
        return 0
    with Stage(folder, say) as stage, exits_with(1):
        _Split(say.called("utils/split_scp.pl"), src, stage, base, parts, per_utt).run()
    return 0


def _is_newer(src: SourceDir, first: str) -> bool:
    """True if the directory has a file that its first part lacks, or has an older version of."""
    pairs = [(src.path(name), os.path.join(first, name)) for name in IN_PART.split() if src.path(name)]
    return not os.path.isdir(first) or any(
        not os.path.isfile(part) or os.stat(part).st_mtime_ns < os.stat(path).st_mtime_ns for path, part in pairs
    )


class _Split:
    def __init__(self, say: Say, src: SourceDir, stage: Stage, base: str, parts: int, per_utt: bool) -> None:
        self.say, self.src, self.stage, self.base, self.parts, self.per_utt = say, src, stage, base, parts, per_utt

    def names(self, name: str) -> Iterator[str]:
        """Return the names of a file of all parts."""
        return (f"{self.base}/{part + 1}/{name}" for part in range(self.parts))

    def run(self) -> None:
        """Write the parts."""
        path = self.src.path("utt2spk")
        if not path:
            raise self.say.fails("", f"{self.say.name}: Error opening input scp file {self.src.folder}/utt2spk")
        source, counts = (
            even_parts(self.say, path, self.parts)
            if self.per_utt
            else parts_by_speaker(self.say, path, path, self.parts)
        )
        for name, found in zip(self.names("utt2spk"), lines.by_count(source, counts), strict=True):
            self.stage.write(name, found)
        for at, name in enumerate(self.names("utt2spk"), 1):
            if not self.stage.has(name):
                raise self.say.fails("", f"{self.say.name}: part {at} is empty: too many splits and too few speakers")
        for name, speakers in zip(self.names("utt2spk"), self.names("spk2utt"), strict=True):
            path = self.stage.path(name)
            self.stage.write(speakers, lines.spk2utt(chunks(path), bad_line("Invalid line in utt2spk file", path)))
        names = "feats.scp text vad.scp utt2lang utt2dur utt2num_frames segments"
        segments = self.src.path("segments")
        self.divide("utt2spk", names if segments else f"{names} wav.scp", warn_of=True)
        self.divide("spk2utt", BY_SPEAKER, warn_of=not self.per_utt)
        if segments:
            self.divide("segments", "reco2file_and_channel wav.scp", warn_of=not self.per_utt)
        for name in own_files(self.src.folder, map(os.path.dirname, self.names(""))):
            if not self.stage.has_written(name):  # of an earlier split, when the directory had this file
                self.stage.remove(name)

    def divide(self, listing: str, names: str, *, warn_of: bool) -> None:
        """Divide files by the keys in a file of each part, of segments the recordings; a key may be in several."""
        names_here = [name for name in names.split() if self.src.path(name)]
        if not names_here:
            return
        lists = [self.stage.path(name) for name in self.names(listing)]
        if listing == "segments":
            joined = [lines.distinct(path, 2, awk=False) for path in lists]
            keys, counts = Keys(lambda: joined), [found.count(b"\n") for found in joined]
        else:
            keys, counts = Keys.of(*lists), [sum(map(lines.count_of, chunks(path))) for path in lists]
        bounds = array("q", [0])
        for count in counts:
            bounds.append(bounds[-1] + count)
        several: dict[bytes, list[int]] = {}
        if keys.has_repeated:
            part = at = 0
            for found in keys.chunks():
                for at, key in enumerate(found.split(b"\n")[:-1], at + 1):
                    while at > bounds[part + 1]:
                        part += 1
                    several.setdefault(key, []).append(part)
        for name in names_here:
            self.divide_file(name, keys, bounds, several, warn_of=warn_of)

    def divide_file(
        self, name: str, keys: Keys, bounds: array[int], several: dict[bytes, list[int]], *, warn_of: bool
    ) -> None:
        """Write a file of each part, in memory of bounded size."""
        path, targets, size = self.src.path(name), list(self.names(name)), 0
        pending: list[list[bytes]] = [[] for _ in targets]
        uncovered = twice = False

        def flush() -> None:
            for target, found in zip(targets, pending, strict=True):
                self.stage.append(target, found)
                found.clear()

        for before, chunk in lines.numbered(chunks(path)):
            runs, lacking = keys.parts(chunk, bounds=bounds)
            if lacking:
                bad_line("Bad line without a key", path)(before + lacking)
            for part, some in runs:
                if part < 0:
                    uncovered = True
                elif not several:
                    pending[part].append(some)
                else:
                    for line in lines.split_lines(some):
                        places = several[field(line)]
                        twice = twice or len(places) > 1
                        for place in places:
                            pending[place].append(line)
            size += len(chunk)
            if size > MOST_PENDING:
                flush()
                size = 0
        flush()
        for found, what in (
            (uncovered, "did not get output"),
            (twice, "were output to multiple files [OK if splitting per utt]"),
        ):
            if found and warn_of:
                warn(f"filter_scps.pl: warning: some input lines {what}")
