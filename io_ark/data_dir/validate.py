"""Check a data directory, as Kaldi's ``validate_data_dir.sh`` does, with the file, line and key of what is wrong."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, zip_longest

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Fields, chunks, field, is_above, lines_of, words
from io_ark.data_dir.lists import check_text
from io_ark.data_dir.segment_times import is_interval
from io_ark.data_dir.stage import (
    DATA_FILES,
    Say,
    SourceDir,
    refuse_byte_order_mark,
    refuse_half_changed,
    shown,
)

_ILLEGAL = {
    symbol: re.compile(rb"(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])" % re.escape(symbol))
    for symbol in (b"<s>", b"</s>", b"#0")
}
_PLAIN = bytes([*range(9, 14), *range(32, 127)])
# File; what is checked after its order; whose keys it has; and Kaldi's words for another list of keys.
_RULES = """
feats.scp       keys         utt2spk  utterance-ids extracted from utt2spk and features
cmvn.scp        keys         spk2utt  speaker lists extracted from spk2utt and cmvn
spk2gender      values,keys  spk2utt  speaker lists extracted from spk2utt and spk2gender
spk2warp        values,keys  spk2utt  speaker lists extracted from spk2utt and spk2warp
utt2warp        values,keys  utt2spk  utterance lists extracted from utt2spk and utt2warp
vad.scp         keys         utt2spk  -
utt2lang        keys         utt2spk  -
utt2uniq        keys         utt2spk  -
utt2dur         keys,values  utt2spk  utterance-ids extracted from utt2spk and utt2dur file
utt2num_frames  keys,values  utt2spk  utterance-ids extracted from utt2spk and utt2num_frames file
reco2dur        keys,values  segments recording-ids extracted from {} and reco2dur file
"""


class Listed:
    """The keys of a file: a field of each of its lines. Many keys are read again from the file.

    Args:
        file: the file.
        number: of the field. Of field 2, the different values are sorted.
        other: another list to compare with.

    Attributes:
        count: number of lines that end with a newline.
        unsorted: the first line whose key does not follow that of the line before; 0 if there is none.
        ended: True if the last line ends with a newline.
        same_as: the other list if it has the same keys.
    """

    def __init__(self, file: str, number: int = 1, other: Listed | None = None) -> None:
        self.file = file
        self.count = self.unsorted = size = at = 0
        self.ended, self.same_as = True, other
        self.held: list[bytes] | None = None
        if number == 2:
            self.held, self.same_as = [lines.distinct(file, 2)], None
            self.count = self.held[0].count(b"\n")
            return
        last, held = None, list[bytes]()
        supply, theirs = iter(other.parts() if other else ()), b""
        for before, chunk in lines.numbered(chunks(file)):
            found = Fields(chunk, awk=True, after=last)
            last = found.last
            if not other and size <= lines.MOST_HELD:
                held.append(found.joined)
                size += len(found.joined)
            while self.same_as and len(theirs) - at < len(found.joined) and (more := next(supply, b"")):
                theirs, at = theirs[at:] + more, 0
            if not theirs.startswith(found.joined, at):
                self.same_as = None
            at += len(found.joined)
            if found.unsorted and not self.unsorted:
                self.unsorted = before + found.unsorted
            self.ended = chunk.endswith(b"\n")
            self.count += found.count - (not self.ended)
        if len(theirs) > at or next(supply, b""):
            self.same_as = None
        if not other and size <= lines.MOST_HELD:
            self.held = held

    def parts(self) -> Iterable[bytes]:
        """Return the keys, each with a newline, in chunks."""
        return (Fields(chunk, awk=True).joined for chunk in chunks(self.file)) if self.held is None else self.held

    def keys(self) -> Iterator[bytes]:
        """Return the keys."""
        return (key for part in self.parts() for key in part.split(b"\n")[:-1])


Difference = tuple[int, tuple[bytes | None, bytes | None]]


def first_difference(one: Iterator[bytes], other: Iterator[bytes]) -> Difference | None:
    """Return the line, from 1, at which two lists differ, and their keys there, None behind the end."""
    return next((found for found in enumerate(zip_longest(one, other), 1) if found[1][0] != found[1][1]), None)


class Check(SourceDir):
    """The checks of one directory. Each one raises an error after it printed what Kaldi's script prints."""

    def __init__(self, folder: str, say: Say) -> None:
        super().__init__(folder)
        self.say = say
        self._lists: dict[tuple[str, int], Listed] = {}

    def name(self, name: str) -> str:
        """Return the path of a file as Kaldi writes it."""
        return f"{self.folder}/{name}"

    def listed(self, name: str, number: int = 1) -> Listed:
        """Return the keys of a file."""
        if (name, number) not in self._lists:
            self._lists[name, number] = Listed(self.name(name), number, self._lists.get(("utt2spk", 1)))
        return self._lists[name, number]

    def sorted_and_unique(self, name: str) -> None:
        """Check the order of a file, and its last line."""
        found = self.listed(name)
        if not found.ended:
            text = f"file {found.file} has invalid newline at its end: add one (echo >> {found.file})"
            raise self.say.fails("", text, found.file, found.count + 1)
        if found.unsorted:
            before, key = islice(chain([b""], found.keys()), found.unsorted - 1, found.unsorted + 1)
            again = f"follows {shown(before)}: sort the file (LC_ALL=C sort)"
            again = "is there twice: remove one" if key == before else again
            raise self.say.fails(
                f"file {found.file} is not sorted or has duplicates", again, found.file, found.unsorted, key
            )

    def equal(self, one: Listed, two: Listed, text: str, *, short: bool = False) -> None:
        """Check that two files have the same keys."""
        if two.same_as is one or not (found := first_difference(one.keys(), two.keys())):
            return
        number, (a, b) = found
        self.say(text if short else f"Error: in {self.folder}, {text}")
        if not short:
            self.say("differ, partial diff is:")
            self.say.write(f"[Lengths are {one.file}={one.count} versus {two.file}={two.count}]")
        has, lacks, key = (one, two, a) if b is None or (a is not None and a < b) else (two, one, b)
        advice = f"is in {has.file} but not here: add it, or let fix_data_dir.sh remove it"
        raise self.say.fails("", advice, lacks.file, number, key)

    def values(self, name: str) -> None:
        """Check the values of a file."""
        if name not in _VALUES:
            return
        good, advice, text, print_as = _VALUES[name]
        for number, line in bad_lines(self.name(name), globals()[good]):
            if print_as:
                self.say.write(print_as.format(number, shown(line.rstrip(b"\n"))))
            raise self.say.fails(text, advice, self.name(name), number, field(line))

    def recordings(self) -> Listed:
        """Return the recordings that segments names, without segments the utterances."""
        return self.listed("segments", 2) if self.path("segments") and self.path("wav.scp") else self.listed("utt2spk")

    def rule(self, name: str, steps: str, other: str, text: str) -> None:
        """Check a file by a rule."""
        if not self.path(name):
            return
        self.sorted_and_unique(name)
        for step in steps.split(","):
            if step == "values":
                self.values(name)
            else:
                one = self.recordings() if other == "segments" else self.listed(other)
                short = f"error: in {self.folder}, {name} and utt2spk do not have identical utterance-id list"
                named = "segments" if one is not self.listed("utt2spk") else "wav.scp"
                self.equal(one, self.listed(name), short if text == "-" else text.format(named), short=text == "-")

    def must(self, name: str, option: str, given: bool) -> None:
        """Check that a file is there, unless an option says that it may be missing."""
        if not given and not self.path(name):
            raise self.say.fails(f"no such file {self.name(name)} (if this is by design, specify --{option})")


def bad_lines(file: str, good: Callable[[list[bytes]], bool]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines, with their numbers, whose fields are not good; those of whole chunks are compared at once."""
    checked = set[bytes]()
    for before, chunk in lines.numbered(chunks(file)):
        at_once = False
        if len(chunk) >= lines.IN_C and good is is_segment:
            starts, ends = (lines.decimals(Fields(chunk, at, awk=True).joined) for at in (3, 4))
            if starts and ends and all(map(float.__gt__, ends, starts)):
                at_once = not Fields(chunk, 5, awk=True).joined.strip(b"\n")
        elif len(chunk) >= lines.IN_C and not Fields(chunk, 3, awk=True).joined.strip(b"\n"):
            new = set(Fields(chunk, 2, awk=True).joined.split(b"\n")[:-1]) - checked
            if at_once := all(value and good([b"x", value]) for value in new):
                checked |= new
        for number, line in enumerate(() if at_once else lines.split_lines(chunk), before + 1):
            if not good(words(line, awk=True)):
                yield number, line


def for_images(script: str, *arguments: str) -> int:
    """Run a recipe's script for a directory with images, as Kaldi's scripts do, and return the status of the shell."""
    import subprocess

    sys.stdout.flush()
    status = subprocess.call(["sh", "-c", 'exec "$0" "$@"', f"image/{script}", *arguments])
    return status if status >= 0 else 128 - status


def is_warp(found: list[bytes]) -> bool:
    """True for a line with a warp factor."""
    return len(found) == 2 and is_above(found[1], b"0.5") and is_above(b"1.5", found[1])


def has_positive(found: list[bytes]) -> bool:
    """True for a line with a value above 0, as awk compares."""
    return len(found) == 2 and is_above(found[1], b"0")


def is_segment(found: list[bytes]) -> bool:
    """True for a line of segments that ends after its start, or at -1: at the end of its recording."""
    return len(found) == 4 and is_interval(found[2], found[3])


def is_gender(found: list[bytes]) -> bool:
    """True for a line with a gender."""
    return len(found) == 2 and found[1] in (b"m", b"f")


def is_channel(found: list[bytes]) -> bool:
    """True for a line with a file and a channel."""
    return len(found) == 3 and found[2] in (b"A", b"B", b"1")


def has_whole(found: list[bytes]) -> bool:
    """True for a line with a positive whole number."""
    return has_positive(found) and lines.is_number(found[1]) and lines.number_of(found[1]).is_integer()


# File, its good lines, what to do about others, Kaldi's words for them, and how Kaldi shows the line.
_TABLE = """
spk2gender|is_gender|write: speaker m, or f|Mal-formed spk2gender file|
spk2warp|is_warp|write a factor between 0.5 and 1.5|Mal-formed spk2warp file|{1}
utt2warp|is_warp|write a factor between 0.5 and 1.5|Mal-formed utt2warp file|{1}
utt2dur|has_positive|bad line: write a positive number of seconds||Bad line utt2dur:{}:{}
utt2num_frames|has_whole|bad line: write a positive whole number||Bad line utt2num_frames:{}:{}
reco2dur|has_positive|bad line: write a positive number of seconds||Bad line : {1}
segments|is_segment|write: segment recording start end, with start < end, or -1 for the end of the recording|badly formatted segments file|Bad line in segments file {1}
reco2file_and_channel|is_channel|write: recording file A, or B|badly formatted reco2file_and_channel file|Bad line  {1}
"""
_VALUES = {name: rest for name, *rest in (line.split("|") for line in _TABLE.strip().splitlines())}


def validate(
    say: Say,
    folder: str,
    *,
    no_feats: bool = False,
    no_wav: bool = False,
    no_text: bool = False,
    no_spk_sort: bool = False,
    non_print: bool = False,
) -> int:
    """Check a data directory; print and raise what is wrong first.

    Raises:
        DataDirError: something is wrong. Its status is that of Kaldi's script.
    """
    check = Check(folder, say)
    if folder and not os.path.isdir(folder):
        raise say.fails(f"no such directory {folder}")
    refuse_half_changed(folder or os.curdir)
    if check.path("images.scp") and say.as_script:
        options = {"--no-feats": no_feats, "--no-text": no_text, "--no-spk-sort": no_spk_sort, "--non-print": non_print}
        return for_images("validate_data_dir.sh", *filter(options.get, options), folder)
    check_speakers(check, no_spk_sort=no_spk_sort)
    check.must("text", "no-text", no_text)
    if not no_text:
        check_transcripts(check, non_print=non_print)
    if check.path("segments") and not check.path("wav.scp"):
        raise say.fails(f"in directory {folder}, segments file exists but no wav.scp")
    check.must("wav.scp", "no-wav", no_wav)
    if check.path("wav.scp"):
        check_recordings(check)
    check.must("feats.scp", "no-feats", no_feats)
    for line in _RULES.strip().splitlines():
        check.rule(*line.split(None, 3))
    for path in filter(None, map(check.path, DATA_FILES)):
        refuse_byte_order_mark(path)
    say(f"Successfully validated data-directory {folder}")
    return 0


def check_speakers(check: Check, *, no_spk_sort: bool) -> None:
    """Check utt2spk and spk2utt."""
    say, utt2spk, spk2utt = check.say, check.name("utt2spk"), check.name("spk2utt")
    for name in ("spk2utt", "utt2spk"):
        if not check.path(name):
            raise say.fails(f"no such file {name}", "is missing: make it", check.name(name))
        if not check.has(name):
            raise say.fails(f"empty file {name}", "is empty: delete it and make it again", check.name(name))
    with open(utt2spk, "rb") as file:
        made = lines.utt2spk(chunks(spk2utt), lambda *_: None)
        matches = all(file.read(len(chunk)) == chunk for chunk in made) and not file.read(1)
    if not matches:
        for number, line in bad_lines(utt2spk, lambda found: len(found) == 2):
            status = 0 if say.as_script else 1  # of the script's last command, which prints
            raise say.fails(
                f"{utt2spk} has wrong format.", "write: utterance speaker", utt2spk, number, field(line), status
            )
    check.listed("utt2spk")
    if check.listed("spk2utt").count == 1:
        say("WARNING: you have only one speaker.  This probably a bad idea.")
        say.write("   Search for the word 'bold' in http://kaldi-asr.org/doc/data_prep.html")
        say.write("   for more information.")
    check.sorted_and_unique("utt2spk")
    if not no_spk_sort and (not matches or check.listed("spk2utt").unsorted):
        check_speaker_order(check, utt2spk)
    check.sorted_and_unique("spk2utt")
    if matches:
        return

    def lacks(number: int, line: bytes) -> None:
        text = "spk2utt and utt2spk do not seem to match"
        raise say.fails(text, "has no utterances: remove it", spk2utt, number, field(line))

    ours = (b" ".join(words(line, awk=True)[:2]) for line in lines_of(utt2spk))
    theirs = (line for chunk in lines.utt2spk(chunks(spk2utt), lacks) for line in chunk.split(b"\n")[:-1])
    if found := first_difference(ours, theirs):
        number, (a, b) = found
        what = f"is {shown(a or b'missing')!r}, but spk2utt has {shown(b or b'no more')!r}: make spk2utt again with utt2spk_to_spk2utt.pl"
        raise say.fails("spk2utt and utt2spk do not seem to match", what, utt2spk, number, field(a or b or b""))


def check_speaker_order(check: Check, utt2spk: str) -> None:
    """Check that utt2spk is sorted by speaker, too."""
    before = b""
    for number, line in enumerate(lines_of(utt2spk), 1):
        name = re.sub(rb"^[ \t]*[^ \t\n]+", b"", line).rstrip(b"\n")
        if name < before:
            check.say("utt2spk is not in sorted order when sorted first on speaker-id ")
            check.say.write("(fix this by making speaker-ids prefixes of utt-ids)")
            what = f"its speaker {shown(name.strip())} comes after {shown(before.strip())}"
            advice = "begin the names of utterances with those of speakers (copy_data_dir.sh --utt-prefix), or pass --no-spk-sort"
            raise check.say.fails("", f"{what}: {advice}", utt2spk, number, field(line))
        before = name


def check_transcripts(check: Check, *, non_print: bool) -> None:
    """Check the file of transcripts."""
    path = check.name("text")
    found = [] if non_print or not check.path("text") else list(not_printable(path))
    if found:
        text = f"text contains {len(found)} lines with non-printable characters"
        advice = "contains characters that cannot be printed: remove them, or pass --non-print"
        raise check.say.fails(text, advice, path, *found[0])
    check_text(check.say.called("utils/validate_text.pl"), path)
    check.sorted_and_unique("text")
    keys: dict[bytes, bytes] = {}
    for chunk in chunks(path):
        for symbol, pattern in _ILLEGAL.items():
            if symbol[:1] in chunk and symbol in chunk and (match := pattern.search(chunk)):
                before = chunk.rfind(b"\n", 0, match.start()) + 1
                keys.setdefault(symbol, field(chunk[before : match.end()]))
    for symbol in filter(keys.get, _ILLEGAL):
        text = f"Error: in {check.folder}, text contains illegal symbol {symbol.decode()}"
        raise check.say.fails(text, "remove it", path, key=keys[symbol])
    check.equal(check.listed("utt2spk"), check.listed("text"), "utterance lists extracted from utt2spk and text")


def not_printable(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield lines, and their keys, with characters that cannot be printed in a UTF-8 locale, as grep finds them."""
    odd: dict[str, bool] = {}
    for before, chunk in lines.numbered(chunks(file)):
        for number, line in enumerate(lines.split_lines(chunk) if chunk.translate(None, _PLAIN) else (), before + 1):
            if line.translate(None, _PLAIN):
                found = set(line.decode("utf-8", "surrogateescape"))
                for char in found.difference(odd):
                    odd[char] = not (char in "\0\t\n\v\f\r" or "\udc80" <= char <= "\udcff" or _is_printable(char))
                if any(map(odd.__getitem__, found)):
                    yield number, field(line)


def _is_printable(char: str) -> bool:
    """True for what the C library's UTF-8 locales call printable or space: all characters but controls and unassigned."""
    import unicodedata

    return unicodedata.category(char) not in ("Cc", "Cn", "Cs", "Zl", "Zp") or char in "\u2028\u2029\x85"


def check_recordings(check: Check) -> None:
    """Check wav.scp, segments and reco2file_and_channel."""
    say, path = check.say, check.name("wav.scp")
    check.sorted_and_unique("wav.scp")
    for chunk in chunks(path):
        if b"~" in chunk and (match := re.search(rb"^\S+[^\S\n]+~", chunk, re.M)):
            text = "Please do not use tilde (~) in your wav.scp."
            raise say.fails(text, "write the whole path of the file", path, key=field(match[0]))
    utterances, segments = check.listed("utt2spk"), check.path("segments")
    text = "utterance lists extracted from utt2spk and wav.scp"
    if segments:
        check.sorted_and_unique("segments")
        check.values("segments")
        found = check.listed("segments")
        if check.path("text") and found.same_as is not utterances:
            say(f"Utterance list differs between {check.name('utt2spk')} and {check.name('segments')} ")
            check.equal(utterances, found, f"Lengths are {found.count} vs {utterances.count}", short=True)
        text = "recording-ids extracted from segments and wav.scp"
    check.equal(check.recordings(), check.listed("wav.scp"), text)
    name = "reco2file_and_channel"
    if check.path(name):
        check.sorted_and_unique(name)
        check.values(name)
        if any(b"1" in Fields(chunk, 3).joined.split(b"\n") for chunk in chunks(check.name(name))):
            say.write("The channel should be marked as A or B, not 1! You should change it ASAP! ")
        kind = "recording-ids" if segments else "utterance-ids"
        check.equal(check.recordings(), check.listed(name), f"{kind} extracted from segments and {name}")
