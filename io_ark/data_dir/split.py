"""Split a data directory into parts, as Kaldi's ``split_data.sh`` does."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable
from itertools import groupby, pairwise

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Fields, Keys, chunks, field
from io_ark.data_dir.lists import bad_line, balanced, check_count, parts_by_speaker, too_few_speakers
from io_ark.data_dir.stage import DataDirError, Say, Stage, exits_with

BY_SPEAKER = ("spk2warp", "spk2gender", "cmvn.scp")


class SourceDir:
    """A data directory that is read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """Return the path of a file; empty if it is missing."""
        path = os.path.join(self.folder, name)
        return path if os.path.isfile(path) else ""

    def need(self, say: Say, name: str = "utt2spk") -> str:
        """Return the path of a file, which must exist."""
        path = self.path(name)
        if not path:
            raise say.fails(f"no such file {self.folder}/{name}")
        return path


def count_lines(path: str) -> int:
    """Return the number of newlines in a file, as wc does; 0 if it is missing."""
    return sum(chunk.count(b"\n") for chunk in chunks(path)) if os.path.isfile(path) else 0


def split(say: Say, folder: str, number: str, *, per_utt: bool = False) -> int:
    """Split a directory into parts, ``split<n>/1`` and so on, by speaker or by utterance."""
    if not number.isdigit() or int(number) < 1:
        say.write(f"Invalid num-split argument {number}")
        raise DataDirError("the number of parts must be a whole number of 1 or more", partly=True)
    src, parts, base = SourceDir(folder), int(number), f"split{number}{'utt' if per_utt else ''}"
    counts = {name: count_lines(src.path(name)) for name in ("utt2spk", "feats.scp", "text")}
    for name, what in (("feats.scp", "feats"), ("text", "text")):
        if src.path(name) and counts[name] != counts["utt2spk"]:
            say.write(
                f"** split_data.sh: warning, #lines is (utt2spk,{name}) is ({counts['utt2spk']},{counts[name]}); you can "
            )
            say.write(
                f"**  use utils/fix_data_dir.sh {folder} to fix this."
                if what == "feats"
                else "** use utils/fix_data_dir.sh to fix this."
            )
    if not _is_newer(src, os.path.join(folder, base, "1")):
        return 0
    with Stage(folder, say) as stage, exits_with(1):
        _Split(say.called("utils/split_scp.pl"), src, stage, base, parts, per_utt).run()
    return 0


def _is_newer(src: SourceDir, first: str) -> bool:
    """True if the directory has a file that its first part lacks, or has an older version of."""
    if not os.path.isdir(first):
        return True
    names = "utt2spk spk2utt spk2warp feats.scp text wav.scp cmvn.scp spk2gender vad.scp segments reco2file_and_channel utt2lang"
    for name in names.split():
        path, part = src.path(name), os.path.join(first, name)
        if path and (not os.path.isfile(part) or os.stat(part).st_mtime_ns < os.stat(path).st_mtime_ns):
            return True
    return False


class _Split:
    def __init__(self, say: Say, src: SourceDir, stage: Stage, base: str, parts: int, per_utt: bool) -> None:
        self.say, self.src, self.stage, self.base, self.parts, self.per_utt = say, src, stage, base, parts, per_utt

    def name(self, part: int, name: str) -> str:
        """Return the name of a file of a part, from 0."""
        return f"{self.base}/{part + 1}/{name}"

    def paths(self, name: str) -> list[str]:
        """Return the paths of a file of all parts."""
        return [self.stage.path(self.name(part, name)) for part in range(self.parts)]

    def run(self) -> None:
        """Write the parts."""
        self.divide_utterances()
        for part in range(self.parts):
            path = self.stage.path(self.name(part, "utt2spk"))
            bad = bad_line("Invalid line in utt2spk file", path)
            self.stage.write(self.name(part, "spk2utt"), lines.spk2utt(chunks(path), bad))
        segments = self.src.path("segments")
        names = ["feats.scp", "text", "vad.scp", "utt2lang", "utt2dur", "utt2num_frames", "segments"]
        self.divide(self.paths("utt2spk"), names if segments else [*names, "wav.scp"], warn=True)
        self.divide(self.paths("spk2utt"), BY_SPEAKER, warn=not self.per_utt)
        if segments:
            self.divide(self.paths("segments"), ("reco2file_and_channel", "wav.scp"), warn=not self.per_utt, number=2)

    def divide_utterances(self) -> None:
        """Write utt2spk of each part."""
        path = self.src.path("utt2spk")
        if not path:
            raise DataDirError(f"{self.say.name}: Error opening input scp file {self.src.folder}/utt2spk", partly=True)
        if self.per_utt:
            count = sum(map(lines.count_of, chunks(path)))
            check_count(self.say, path, count, self.parts)
            size, larger = divmod(count, self.parts)
            bounds: list[int] | None = [part * size + min(part, larger) for part in range(self.parts + 1)]
        else:
            bounds = self.bounds_by_speaker(path)
        if bounds is None:
            for part, found in enumerate(parts_by_speaker(self.say, path, path, self.parts)):
                self.stage.write(self.name(part, "utt2spk"), found)
        else:
            supply = lines.by_count(chunks(path), [last - first for first, last in pairwise(bounds)])
            for part, pieces in enumerate(supply):
                self.stage.write(self.name(part, "utt2spk"), pieces)
        empty = next((part for part in range(self.parts) if not self.stage.has(self.name(part, "utt2spk"))), None)
        if empty is not None:
            raise DataDirError(
                f"{self.say.name}: part {empty + 1} is empty: too many splits and too few speakers", partly=True
            )

    def bounds_by_speaker(self, path: str) -> list[int] | None:
        """Return the lines at which parts begin and end, if each speaker's lines follow each other; else None."""
        sums, before, line = array("q", [0]), b"", 0
        if not lines.is_sorted(path):
            return None
        for chunk in chunks(path):
            if Fields(chunk, 3).joined.strip(b"\n") or Fields(chunk, 2).lacking:
                return None
            for speaker, group in groupby(Fields(chunk, 2).joined.split(b"\n")[:-1]):
                line += len(list(group))
                if speaker == before:
                    sums[-1] = line
                elif speaker < before:
                    return None
                else:
                    sums.append(line)
                before = speaker
        if len(sums) - 1 < self.parts:
            raise too_few_speakers(self.say, len(sums) - 1, self.parts)
        return [sums[bound] for bound in balanced(sums, self.parts)]

    def divide(self, lists: list[str], names: Iterable[str], *, warn: bool, number: int = 1) -> None:
        """Divide files by lists of keys, one for each part; a key may be in several."""
        names = [name for name in names if self.src.path(name)]
        if not names:
            return
        bounds, joined = [0], []
        for path in lists:
            found = b"".join([Fields(chunk, number, awk=number > 1).joined for chunk in chunks(path)])
            if number > 1:
                found = b"".join(sorted(set(found.splitlines(keepends=True))))
            joined.append(found)
            bounds.append(bounds[-1] + found.count(b"\n"))
        keys = Keys(joined)
        several: dict[bytes, list[int]] = {}
        if keys.different < keys.count:
            for part, found in enumerate(joined):
                for key in found.split(b"\n")[:-1]:
                    several.setdefault(key, []).append(part)
        for name in names:
            _Divider(self, keys, bounds, several, self.src.path(name), name, warn).run()


class _Divider:
    """Divides one file, in memory of bounded size."""

    MOST = 1 << 26

    def __init__(
        self,
        owner: _Split,
        keys: Keys,
        bounds: list[int],
        several: dict[bytes, list[int]],
        path: str,
        name: str,
        warn: bool,
    ) -> None:
        self.owner, self.keys, self.bounds, self.several = owner, keys, bounds, several
        self.path, self.file, self.warn = path, name, warn
        self.pending: list[list[bytes]] = [[] for _ in range(owner.parts)]

    def run(self) -> None:
        """Write the file of each part."""
        size, uncovered, twice, before = 0, False, False, 0
        for chunk in chunks(self.path):
            runs, lacking = self.keys.parts(chunk, bounds=self.bounds)
            if lacking:
                bad_line("Bad line without a key", self.path)(before + lacking)
            before += chunk.count(b"\n")
            for part, some in runs:
                if part < 0:
                    uncovered = True
                elif not self.several:
                    self.pending[part].append(some)
                else:
                    for line in lines.split_lines(some):
                        places = self.several[field(line)]
                        twice = twice or len(places) > 1
                        for place in places:
                            self.pending[place].append(line)
            size += len(chunk)
            if size > self.MOST:
                self.flush()
                size = 0
        self.flush()
        if uncovered and self.warn:
            print("filter_scps.pl: warning: some input lines did not get output", file=sys.stderr)
        if twice and self.warn:
            print(
                "filter_scps.pl: warning: some input lines were output to multiple files [OK if splitting per utt]",
                file=sys.stderr,
            )

    def flush(self) -> None:
        """Append what is in memory to the files."""
        stage = self.owner.stage
        for part, found in enumerate(self.pending):
            name = self.owner.name(part, self.file)
            if not stage.is_new(name):
                stage.write(name, found)
            elif found:
                with open(stage.path(name), "ab") as file:
                    file.writelines(found)
            self.pending[part] = []
