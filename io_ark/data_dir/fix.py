"""Sort the files of a data directory and make them agree, as Kaldi's ``fix_data_dir.sh`` does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby, islice

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Fields, Keys, chunks, field, lines_of, select, words
from io_ark.data_dir.lists import bad_line, keys_of
from io_ark.data_dir.segment_times import keys_to_the_end
from io_ark.data_dir.stage import (
    BACKUP,
    SCRATCH,
    SORTED_FILES,
    DataDirError,
    Say,
    Stage,
    refuse_byte_order_mark,
    same_bytes,
    warn,
)
from io_ark.data_dir.validate import bad_lines, for_images, has_positive

BY_UTTERANCE = "utt2spk utt2uniq feats.scp vad.scp text segments utt2lang utt2dur utt2num_frames"
MEASURED = ("utt2dur", "utt2num_frames")  # Files in which a value of 0 or less removes the utterance.
NOT_CONTROLS = bytes([10, *range(32, 256)])
# Statistics of a speaker are computed again, and spk2utt is made of utt2spk: a second value there loses nothing else.
DERIVED = ("spk2utt", "cmvn.scp")
_RETURN = "ends with a carriage return: remove them (kaldi-compat data fix --strip-cr DIR, or sed -i 's/\\r$//')"
_CHANNEL = "has a fifth field, a channel, which would be lost: put each channel into a recording of its own"
_EMPTY = "is empty: remove it, or make it again"
_NEGATIVE = "is not above 0, because the segment ends at -1: delete utt2dur and utt2num_frames, and make them again"
_NONE_LEFT = "has none of the utterances that the other files have: compare their names"
_ORDERS = {
    "utt2spk": "utt2spk is not in sorted order (fix this yourself)",
    "utt2spk by speaker": "utt2spk is not in sorted order when sorted first on speaker-id \n"
    "(fix this by making speaker-ids prefixes of utt-ids)",
    "spk2utt": "spk2utt is not in sorted order (fix this yourself)",
    "utt2uniq": "utt2uniq is not in sorted order (fix this yourself)",
}


def fix(say: Say, folder: str, *, utt_extra_files: str = "", spk_extra_files: str = "", strip_cr: bool = False) -> int:
    """Fix a data directory; ``.backup`` has the files as Kaldi's script keeps them, most of them after sorting.

    Raises:
        DataDirError: nothing can be done, or lines would be lost without a word: a key with two values, carriage
            returns, a byte-order mark, a fifth field in segments.
    """
    if not os.path.isdir(folder):
        raise say.fails(f"no such directory {folder}")
    if say.as_script and os.path.isfile(f"{folder}/images.scp"):
        options = {"--utt-extra-files": utt_extra_files, "--spk-extra-files": spk_extra_files}
        given = [text for name, value in options.items() if value for text in (name, value)]
        return for_images("fix_data_dir.sh", *given, folder)
    with Stage(folder, say) as stage:
        stage.need(say)
        _Fix(say, folder, stage, utt_extra_files, spk_extra_files, strip_cr).run()
    say.write(f"fix_data_dir.sh: old files are kept in {folder}/.backup")
    return 0


def fix_new(say: Say, stage: Stage) -> None:
    """Fix the files that a job has written, before they take their places; an error of Kaldi's script keeps none of them."""
    try:
        _Fix(say, stage.folder, stage, "", "", False).run()
    except DataDirError as error:
        error.partly = False
        raise
    say.write(f"fix_data_dir.sh: old files are kept in {stage.folder}/.backup")


class _Fix:
    def __init__(self, say: Say, folder: str, stage: Stage, utts: str, speakers: str, strip_cr: bool) -> None:
        self.say, self.folder, self.stage = say, folder, stage
        self.utt_files, self.speaker_files, self.strip_cr = utts.split(), speakers.split(), strip_cr
        self.emptied, self.was_empty = "utt2spk", False  # the file that left no utterances

    def run(self) -> None:
        """Sort all files, and filter them by recordings, speakers and utterances."""
        for name in dict.fromkeys((*SORTED_FILES, *self.utt_files, *self.speaker_files)):
            if self.stage.path(name):
                self.stage.keep(name)
                self.check(name)
                self.sort(name)
        self.filter_recordings()
        self.filter_speakers()
        before = self.stage.path("utt2spk"), self.stage.path("segments")
        self.filter_utterances()
        if before != (self.stage.path("utt2spk"), self.stage.path("segments")):
            self.filter_speakers()
            self.filter_recordings()
            self.make_spk2utt()

    def check(self, name: str) -> None:
        """Refuse what would be lost, and mend ends of lines if that is requested."""
        path, returns = self.stage.path(name), 0
        refuse_byte_order_mark(path)
        for before, chunk in lines.numbered(chunks(path)):
            has_return = b"\r" in chunk and not self.strip_cr
            is_long = name == "segments" and Fields(chunk, 5, awk=True).joined.strip(b"\n")
            for number, line in enumerate(lines.split_lines(chunk) if has_return or is_long else (), before + 1):
                if has_return and line.endswith((b"\r\n", b"\r")):
                    raise DataDirError(_RETURN, path, number, field(line))
                if is_long and len(words(line)) > 4:
                    raise DataDirError(_CHANNEL, path, number, field(line))
            returns += chunk.count(b"\r\n") if self.strip_cr else 0
        if returns:
            self.stage.write(name, (chunk.replace(b"\r\n", b"\n") for chunk in chunks(path)))
            self.say(f"removed {returns} carriage returns from {self.folder}/{name}")

    def sort(self, name: str) -> None:
        """Sort a file by its keys, of which each stays once."""
        path = self.stage.path(name)
        if lines.is_sorted(path):
            return
        with self.stage.writing(name) as write:
            for key, group in groupby(lines.sort_lines([chunks(path)], lines.sort_key), lines.sort_key):
                first, *others = group
                write(first)
                if others and name != "spk2utt" and any(line.split() != first.split() for line in others):
                    self.two_values(name, path, key)
        if not same_bytes(self.stage.path(os.path.join(BACKUP, name)), self.stage.path(name)):
            self.say(f"file {self.folder}/{name} is not in sorted order or not unique, sorting it")

    def two_values(self, name: str, path: str, key: bytes) -> None:
        """Refuse a key with two values, or warn if both were computed from the data."""
        found = [(number, line.split()) for number, line in enumerate(lines_of(path), 1) if lines.sort_key(line) == key]
        number = next(number for number, line in found if line != found[0][1])
        text = f"another value than in line {found[0][0]}, and only one would be kept: "
        error = DataDirError(text + "remove or rename one", os.path.join(self.folder, name), number, key)
        if name not in DERIVED:
            raise error
        error.message = text + "the first is kept; compute the file again"
        warn(f"{self.say.name}: warning: {error}")

    def filter(self, keys: Keys, name: str, by: str = "") -> None:
        """Keep the lines of a file with these keys."""
        path = self.stage.path(name)
        blank: list[int] = []
        kept, total = select(keys, path, None, bad=blank.append)
        if blank or kept != total:
            filtered(self.stage, path, name, keys)
        if by and kept != total:
            self.say(f"filtered {self.folder}/{name} from {total} to {kept} lines based on filter {by}.")

    def filter_recordings(self) -> None:
        """Let segments and the files by recording name the same recordings."""
        stage, path = self.stage, self.stage.path("segments")
        if not path:
            return
        if not stage.path("wav.scp"):
            raise self.say.fails(f"{self.folder}/segments exists but not {self.folder}/wav.scp")
        if not stage.has("segments"):
            self.say.write(f"Empty list of recordings (bad file {self.folder}/segments)?")
            raise self.say.fails("", _EMPTY, path)
        audio, bad = keys_of(stage.path("wav.scp")), bad_line("Bad line without a recording", path)
        stage.write(SCRATCH, map(_four_fields, chunks(path)))
        kept, total = select(audio, stage.path(SCRATCH), None, number=2, bad=bad)
        with stage.writing("segments") as write:
            select(audio, stage.path(SCRATCH), write, number=2)
        if kept != total:
            self.say(f"filtered {self.folder}/segments from {total} to {kept} lines based on filter recordings.")
        named = lines.distinct(stage.path("segments"), 2, awk=False)  # as filter_scp.pl reads them
        for name in ("wav.scp", "reco2file_and_channel", "reco2dur"):
            if stage.path(name):
                self.filter(Keys(lambda: [named]), name, "recordings")

    def make_spk2utt(self) -> Keys:
        """Make spk2utt from utt2spk, and return the speakers."""
        bad = bad_line("Invalid line in utt2spk file", f"{self.folder}/utt2spk")
        self.stage.write("spk2utt", lines.spk2utt(chunks(self.stage.path("utt2spk")), bad))
        return Keys.of(self.stage.path("spk2utt"), awk=True)

    def filter_speakers(self) -> None:
        """Let utt2spk, spk2utt and the files by speaker name the same speakers."""
        speakers = self.make_spk2utt()
        for name in ("cmvn.scp", "spk2gender"):
            if self.stage.path(name):
                both, before = list(speakers.also_in(keys_of(self.stage.path(name)))), speakers.count
                speakers = Keys(lambda both=both: both)  # type: ignore[misc]
                if speakers.count != before:
                    text = f"filtered speakers from {before} to {speakers.count} lines"
                    self.say(f"{text} based on filter {self.folder}/{name}.")
                    if not speakers.count:
                        self.emptied, self.was_empty = name, not self.stage.has(name)
        self.filter(speakers, "spk2utt", "speakers")
        bad = bad_line("Invalid line in spk2utt file", f"{self.folder}/spk2utt")
        self.stage.write("utt2spk", lines.utt2spk(chunks(self.stage.path("spk2utt")), bad))
        for name in ("cmvn.scp", "spk2gender", *self.speaker_files):
            if self.stage.path(name):
                self.filter(speakers, name, "speakers")

    def filter_utterances(self) -> None:
        """Let the files by utterance name the same utterances."""
        stage, folder = self.stage, self.folder
        for which, text in _ORDERS.items():
            name, *by_speaker = which.split(None, 1)
            if stage.path(name):
                self.check_order(name, text, by_speaker=bool(by_speaker))
        audio = [] if stage.path("segments") else ["wav.scp"]
        durations = ["reco2dur"] if stage.has("reco2dur") and not stage.path("segments") else []
        keys = Keys.of(stage.path("utt2spk"), awk=True)
        count = keys.count
        for name in ("feats.scp", "text", "segments", "utt2lang", *audio, "utt2dur", "utt2num_frames"):
            path = stage.path(name)
            if path and keys.count:
                self.emptied, self.was_empty = name, not stage.has(name)
                self.check_ends(name)
                known = positive_keys(path) if name in MEASURED else keys_of(path)
                if sum(part.count(b"\n") for part in keys.also_in(known)) < keys.count:
                    stage.write(SCRATCH, keys.also_in(known))
                    keys = Keys.of(stage.path(SCRATCH))
        if not keys.count:
            self.say.write("fix_data_dir.sh: no utterances remained: not proceeding further.")
            why = _EMPTY if self.was_empty else _NONE_LEFT
            raise self.say.fails("", why, f"{folder}/{self.emptied}")
        kept = f"all {count} utterances." if keys.count == count else f"{keys.count} utterances out of {count}"
        self.say.write(f"fix_data_dir.sh: kept {kept}")
        for name in (*BY_UTTERANCE.split(), *audio, *durations, *self.utt_files):
            if stage.path(name):
                stage.keep(name)
                self.filter(keys, name)

    def check_ends(self, name: str) -> None:
        """Refuse durations that Kaldi's get_utt2dur.sh computes of segments that end at -1."""
        path, segments = self.stage.path(name), self.stage.path("segments")
        bad = list(bad_lines(path, has_positive)) if segments and name in MEASURED else []
        open_ended = keys_to_the_end(segments) if bad else set()
        for number, line in bad:
            if field(line) in open_ended:
                raise DataDirError(_NEGATIVE, os.path.join(self.folder, name), number, field(line))

    def check_order(self, name: str, text: str, *, by_speaker: bool) -> None:
        """Check that a file's lines are sorted as a whole, or from their second field on."""
        path, last = self.stage.path(name), b""
        for chunk in chunks(path):
            if by_speaker:
                found = Fields(chunk, 2, awk=True).joined.split(b"\n")[:-1]
            elif lines.is_plain(chunk) and not chunk.translate(None, NOT_CONTROLS) and lines.is_sorted(path):
                return  # then lines are in the order of their keys
            else:
                found = chunk.removesuffix(b"\n").split(b"\n")
            ordered = sorted([last, *found])
            if ordered[0] != last or ordered[1:] != found:
                number = next(at for at, line in enumerate(found) if line < (found[at - 1] if at else last))
                for line in text.split("\n"):
                    self.say.write(line)
                key = field(lines.split_lines(chunk)[number])
                raise self.say.fails("", "is not in this order", f"{self.folder}/{name}", key=key)
            last = found[-1]


def _four_fields(chunk: bytes) -> bytes:
    """Return lines of segments with single spaces between four fields, as awk prints them."""
    if lines.is_plain(chunk) and not Fields(chunk, 5).joined.strip(b"\n"):
        return chunk
    return b"".join([b" ".join((words(line, awk=True) + [b""] * 4)[:4]) + b"\n" for line in lines.split_lines(chunk)])


def positive_keys(path: str) -> Keys:
    """Return the keys of the lines whose value is above 0."""
    bad = {number for number, _ in bad_lines(path, has_positive)}
    if not bad:
        return Keys.of(path)
    found = b"".join([field(line) + b"\n" for number, line in enumerate(lines_of(path), 1) if number not in bad])
    return Keys(lambda: [found])


def filtered(
    stage: Stage, source: str, name: str, keys: Keys, lead: Iterable[bytes] = (), *, may_end_blank: bool = False
) -> None:
    """Write the lines of a file with these keys."""

    def bad(number: int) -> None:
        if may_end_blank and not any(map(bytes.strip, islice(lines_of(source), number, None))):
            warn(f"{source}:{number}: blank lines at the end: remove them")
        else:
            bad_line("Bad line without a key", source)(number)

    with stage.writing(name) as write:
        for part in lead:
            write(part)
        select(keys, source, write, bad=bad)
