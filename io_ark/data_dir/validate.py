"""Check a data directory, as Kaldi's ``validate_data_dir.sh`` does, with the file, line and key of what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Fields, chunks, is_above, lines_of, words
from io_ark.data_dir.lists import check_text
from io_ark.data_dir.stage import DataDirError, Say

_ILLEGAL = {
    symbol: re.compile(rb"(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])" % re.escape(symbol))
    for symbol in (b"<s>", b"</s>", b"#0")
}
_PLAIN = bytes([*range(9, 14), *range(32, 127)])


class Listed:
    """The keys of a file: a field of each of its lines.

    Attributes:
        file: the file.
        count: number of lines that end with a newline.
        digest: of the keys, in their order: two files with the same one have the same keys.
        unsorted: the first line whose key does not follow that of the line before; 0 if there is none.
        ended: True if the last line ends with a newline.
    """

    def __init__(self, file: str, field: int = 1) -> None:
        self.file, self.field = file, field
        self.count = self.unsorted = before = 0
        self.ended = True
        digest, last = blake2b(digest_size=32), None
        for chunk in chunks(file):
            found = Fields(chunk, field, awk=True)
            digest.update(found.joined)
            if not self.unsorted:
                first = found.joined[: found.joined.index(b"\n")]
                at = 1 if last is not None and last >= first else found.unsorted
                self.unsorted = before + at if at else 0
            last = found.joined[found.joined.rfind(b"\n", 0, -1) + 1 : -1]
            before += found.count
            self.ended = chunk.endswith(b"\n")
            self.count += found.count - (not self.ended)
        self.digest = digest.digest()

    def keys(self) -> Iterator[bytes]:
        """Return the keys."""
        for line in lines_of(self.file):
            yield lines.field(line, self.field, awk=True)


def first_difference(one: Iterator[bytes], other: Iterator[bytes]) -> tuple[int, bytes | None, bytes | None]:
    """Return the line, from 1, at which two lists differ, and their keys there, None behind the end."""
    number = 0
    while True:
        number += 1
        a, b = next(one, None), next(other, None)
        if a != b or a is None:
            return number, a, b


class Check:
    """The checks of one directory. Each one raises an error after it printed what Kaldi's script prints."""

    def __init__(self, folder: str, say: Say) -> None:
        self.folder, self.say = folder, say
        self._lists: dict[tuple[str, int], Listed] = {}

    def path(self, name: str) -> str:
        """Return the path of a file as Kaldi writes it."""
        return f"{self.folder}/{name}"

    def there(self, name: str) -> bool:
        """True if the directory has the file."""
        return os.path.isfile(self.path(name))

    def listed(self, name: str, field: int = 1) -> Listed:
        """Return the keys of a file."""
        if (name, field) not in self._lists:
            self._lists[name, field] = Listed(self.path(name), field)
        return self._lists[name, field]

    def sorted_and_unique(self, name: str) -> None:
        """Check the order of a file, and its last line."""
        found = self.listed(name)
        if not found.ended:
            raise DataDirError(
                f"file {found.file} has invalid newline at its end: add one (echo >> {found.file})",
                file=found.file,
                line=found.count + 1,
                partly=True,
            )
        if found.unsorted:
            keys = found.keys()
            for _ in range(found.unsorted - 2):
                next(keys)
            before, key = next(keys), next(keys)
            what = (
                "is there twice: remove one"
                if key == before
                else f"follows {shown(before)}: sort the file (LC_ALL=C sort)"
            )
            raise self.say.fails(
                f"file {found.file} is not sorted or has duplicates",
                what,
                file=found.file,
                line=found.unsorted,
                key=key,
            )

    def same(self, name: str, text: str, other: str = "utt2spk", *, field: int = 1, short: bool = False) -> None:
        """Check that a file has the keys of another one."""
        self.equal(self.listed(other, field), self.listed(name), text, short=short)

    def equal(self, one: Listed, two: Listed, text: str, *, short: bool = False) -> None:
        """Check that two files have the same keys."""
        if one.digest == two.digest:
            return
        number, a, b = first_difference(self._order(one), self._order(two))
        if not short:
            self.say(f"Error: in {self.folder}, {text}")
            self.say("differ, partial diff is:")
            self.say.write(f"[Lengths are {one.file}={one.count} versus {two.file}={two.count}]")
        else:
            self.say(text)
        has, lacks, key = (one, two, a) if b is None or (a is not None and a < b) else (two, one, b)
        raise DataDirError(
            f"is in {has.file} but not here: add it, or let fix_data_dir.sh remove it",
            file=lacks.file,
            line=number,
            key=key,
            partly=True,
        )

    @staticmethod
    def _order(listed: Listed) -> Iterator[bytes]:
        return iter(sorted(set(listed.keys()))) if listed.field == 2 else listed.keys()

    def each_line(
        self, name: str, good: Callable[[list[bytes]], bool], text: str, advice: str, shown_line: str = ""
    ) -> None:
        """Check each line of a file."""
        for number, line in bad_lines(self.path(name), good):
            if shown_line:
                self.say.write(shown_line.format(number, line.decode("utf-8", "surrogateescape").rstrip("\n")))
            detail = {"file": self.path(name), "line": number, "key": lines.field(line)}
            if not text:
                raise DataDirError(f"bad line: {advice}", partly=True, **detail)  # type: ignore[arg-type]
            raise self.say.fails(text, advice, **detail)  # type: ignore[arg-type]


def shown(key: bytes) -> str:
    """Return a key as text."""
    return key.decode("utf-8", "surrogateescape")


def bad_lines(file: str, good: Callable[[list[bytes]], bool]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines, and their numbers, whose words are not good: of few distinct values, these are checked once."""
    before, checked = 0, set[bytes]()
    for chunk in chunks(file):
        if len(chunk) >= lines.IN_C and not Fields(chunk, 3, awk=True).joined.strip(b"\n"):
            new = set(Fields(chunk, 2, awk=True).joined.split(b"\n")[:-1]) - checked
            if all(value and good([b"x", value]) for value in new):
                before += chunk.count(b"\n")
                checked |= new
                continue
        for number, line in enumerate(lines.split_lines(chunk), before + 1):
            if not good(words(line, awk=True)):
                yield number, line
        before += chunk.count(b"\n")


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
    path, there = check.path, check.there
    if folder and not os.path.isdir(folder):
        raise say.fails(f"no such directory {folder}")
    for name in ("spk2utt", "utt2spk"):
        if not there(name):
            raise say.fails(f"no such file {name}", "is missing: make it", file=path(name))
        if not os.path.getsize(path(name)):
            raise say.fails(f"empty file {name}", "is empty: delete it and make it again", file=path(name))
    try:
        check.each_line(
            "utt2spk", lambda found: len(found) == 2, f"{path('utt2spk')} has wrong format.", "write: utterance speaker"
        )
    except DataDirError as error:
        error.status = 0 if say.as_script else 1  # of the script's last command, which prints
        raise
    if check.listed("spk2utt").count == 1:
        say("WARNING: you have only one speaker.  This probably a bad idea.")
        say.write("   Search for the word 'bold' in http://kaldi-asr.org/doc/data_prep.html")
        say.write("   for more information.")
    check.sorted_and_unique("utt2spk")
    if not no_spk_sort:
        check_speaker_order(check)
    check.sorted_and_unique("spk2utt")
    check_pairs(check)
    if not there("text") and not no_text:
        raise say.fails(f"no such file {path('text')} (if this is by design, specify --no-text)")
    if not no_text:
        check_transcripts(check, non_print=non_print)
    if there("segments") and not there("wav.scp"):
        raise say.fails(f"in directory {folder}, segments file exists but no wav.scp")
    if not there("wav.scp") and not no_wav:
        raise say.fails(f"no such file {path('wav.scp')} (if this is by design, specify --no-wav)")
    if there("wav.scp"):
        check_recordings(check)
    if not there("feats.scp") and not no_feats:
        raise say.fails(f"no such file {path('feats.scp')} (if this is by design, specify --no-feats)")
    if there("feats.scp"):
        check.sorted_and_unique("feats.scp")
        check.same("feats.scp", "utterance-ids extracted from utt2spk and features")
    for name, what in (("cmvn.scp", "cmvn"), ("spk2gender", "spk2gender"), ("spk2warp", "spk2warp")):
        if there(name):
            check.sorted_and_unique(name)
            check_values(check, name)
            check.same(name, f"speaker lists extracted from spk2utt and {what}", "spk2utt")
    if there("utt2warp"):
        check.sorted_and_unique("utt2warp")
        check_values(check, "utt2warp")
        check.same("utt2warp", "utterance lists extracted from utt2spk and utt2warp")
    for name in ("vad.scp", "utt2lang", "utt2uniq"):
        if there(name):
            check.sorted_and_unique(name)
            text = f"error: in {folder}, {name} and utt2spk do not have identical utterance-id list"
            check.same(name, text, short=True)
    for name in ("utt2dur", "utt2num_frames"):
        if there(name):
            check.sorted_and_unique(name)
            check.same(name, f"utterance-ids extracted from utt2spk and {name} file")
            check_values(check, name)
    if there("reco2dur"):
        check.sorted_and_unique("reco2dur")
        if there("segments") and there("wav.scp"):
            check.equal(
                recordings_of(check),
                check.listed("reco2dur"),
                "recording-ids extracted from segments and reco2dur file",
            )
        else:
            check.same("reco2dur", "recording-ids extracted from wav.scp and reco2dur file")
        check_values(check, "reco2dur")
    say(f"Successfully validated data-directory {folder}")
    return 0


def is_warp(found: list[bytes]) -> bool:
    """True for a line with a warp factor."""
    return len(found) == 2 and is_above(found[1], b"0.5") and is_above(b"1.5", found[1])


def has_positive(found: list[bytes]) -> bool:
    """True for a line with a value above 0, as awk compares."""
    return len(found) == 2 and is_above(found[1], b"0")


def _has_whole(found: list[bytes]) -> bool:
    if not has_positive(found):
        return False
    value = lines.number_of(found[1])
    return lines.is_number(found[1]) and value == int(value)


_VALUES: dict[str, tuple[Callable[[list[bytes]], bool], str, str, str]] = {
    "spk2gender": (
        lambda f: len(f) == 2 and f[1] in (b"m", b"f"),
        "Mal-formed spk2gender file",
        "write: speaker m, or f",
        "",
    ),
    "spk2warp": (is_warp, "Mal-formed spk2warp file", "write a factor between 0.5 and 1.5", "{1}"),
    "utt2warp": (is_warp, "Mal-formed utt2warp file", "write a factor between 0.5 and 1.5", "{1}"),
    "utt2dur": (has_positive, "", "write a positive number of seconds", "Bad line utt2dur:{}:{}"),
    "utt2num_frames": (_has_whole, "", "write a positive whole number", "Bad line utt2num_frames:{}:{}"),
    "reco2dur": (has_positive, "", "write a positive number of seconds", "Bad line : {1}"),
}


def check_values(check: Check, name: str) -> None:
    """Check the values of a file."""
    if name in _VALUES:
        check.each_line(name, *_VALUES[name])


def check_speaker_order(check: Check) -> None:
    """Check that utt2spk is sorted by speaker, too."""
    before, number = b"", 0
    for chunk in chunks(check.path("utt2spk")):
        if b"\t" in chunk or b"  " in chunk:
            found = [re.sub(rb"^[ \t]*[^ \t]+", b"", line) for line in chunk.split(b"\n")[: chunk.count(b"\n")]]
        else:
            found = [b" " + name for name in Fields(chunk, 2, awk=True).joined.split(b"\n")[:-1]]
        if found and found[0] >= before and found == sorted(found):
            before, number = found[-1], number + len(found)
            continue
        for number, name in enumerate(found, number + 1):
            if name < before:
                key = next(key for at, key in enumerate(check.listed("utt2spk").keys(), 1) if at == number)
                check.say("utt2spk is not in sorted order when sorted first on speaker-id ")
                check.say.write("(fix this by making speaker-ids prefixes of utt-ids)")
                raise DataDirError(
                    f"its speaker {shown(name.strip())} comes after {shown(before.strip())}: begin the names of utterances "
                    "with those of speakers (copy_data_dir.sh --utt-prefix), or pass --no-spk-sort",
                    file=check.path("utt2spk"),
                    line=number,
                    key=key,
                    partly=True,
                )
            before = name


def check_pairs(check: Check) -> None:
    """Check that spk2utt and utt2spk say the same."""

    def lacks(number: int, line: bytes) -> None:
        raise check.say.fails(
            "spk2utt and utt2spk do not seem to match",
            "has no utterances: remove it",
            file=check.path("spk2utt"),
            line=number,
            key=lines.field(line),
        )

    digests = [blake2b(digest_size=32) for _ in range(3)]
    for chunk in chunks(check.path("utt2spk")):
        for field, digest in zip((1, 2), digests, strict=False):
            digest.update(Fields(chunk, field, awk=True).joined)
    keys, speakers = blake2b(digest_size=32), blake2b(digest_size=32)
    for chunk in lines.utt2spk(chunks(check.path("spk2utt")), lacks):
        for field, digest in ((1, keys), (2, speakers)):
            digest.update(Fields(chunk, field).joined)
    if [keys.digest(), speakers.digest()] == [digest.digest() for digest in digests[:2]]:
        return

    def pairs() -> Iterator[bytes]:
        for chunk in lines.utt2spk(chunks(check.path("spk2utt")), lacks):
            yield from chunk.split(b"\n")[:-1]

    ours = (b" ".join(words(line, awk=True)[:2]) for line in lines_of(check.path("utt2spk")))
    number, a, b = first_difference(ours, pairs())
    raise check.say.fails(
        "spk2utt and utt2spk do not seem to match",
        f"is {shown(a or b'missing')!r}, but spk2utt has {shown(b or b'no more')!r}: make spk2utt again with utt2spk_to_spk2utt.pl",
        file=check.path("utt2spk"),
        line=number,
        key=lines.field(a or b or b""),
    )


def check_transcripts(check: Check, *, non_print: bool) -> None:
    """Check the file of transcripts."""
    path = check.path("text")
    if not non_print and os.path.isfile(path):
        found = list(not_printable(path))
        if found:
            number, key = found[0]
            raise check.say.fails(
                f"text contains {len(found)} lines with non-printable characters",
                "contains characters that cannot be printed: remove them, or pass --non-print",
                file=path,
                line=number,
                key=key,
            )
    check_text(check.say.called("utils/validate_text.pl"), path)
    check.sorted_and_unique("text")
    keys: dict[bytes, bytes] = {}
    for chunk in chunks(path):
        for symbol, pattern in _ILLEGAL.items():
            if symbol in chunk and (match := pattern.search(chunk)):
                before = chunk.rfind(b"\n", 0, match.start()) + 1
                keys.setdefault(symbol, lines.field(chunk[before : match.end()]))
    for symbol in filter(keys.get, _ILLEGAL):
        text = f"Error: in {check.folder}, text contains illegal symbol {symbol.decode()}"
        raise check.say.fails(text, "remove it", file=path, key=keys[symbol])
    check.same("text", "utterance lists extracted from utt2spk and text")


def not_printable(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield lines, and their keys, with characters that cannot be printed in a UTF-8 locale, as grep finds them."""
    odd: dict[str, bool] = {}
    before = 0
    for chunk in chunks(file):
        rest = chunk.translate(None, _PLAIN)
        if rest:
            for number, line in enumerate(lines.split_lines(chunk), before + 1):
                if not line.isascii() or line.translate(None, _PLAIN):
                    for char in set(line.decode("utf-8", "surrogateescape")):
                        if char not in odd:
                            odd[char] = not (
                                char in "\0\t\n\v\f\r" or "\udc80" <= char <= "\udcff" or _is_printable(char)
                            )
                        if odd[char]:
                            yield number, lines.field(line)
                            break
        before += chunk.count(b"\n")


def _is_printable(char: str) -> bool:
    """True for what the C library's UTF-8 locales call printable or space: all characters but controls and unassigned."""
    import unicodedata

    kind = unicodedata.category(char)
    return kind not in ("Cc", "Cn", "Cs", "Zl", "Zp") or char in "\u2028\u2029\x85" or kind == "Co"


def recordings_of(check: Check) -> Listed:
    """Return the sorted recordings that segments names."""
    found = check._lists.get(("segments", 2))
    if found is None:
        found = Listed(check.path("segments"), 2)
        digest = blake2b(digest_size=32)
        names = sorted(set(found.keys()))
        digest.update(b"".join([name + b"\n" for name in names]))
        found.digest, found.count = digest.digest(), len(names)
        check._lists["segments", 2] = found
    return found


def check_recordings(check: Check) -> None:
    """Check wav.scp, segments and reco2file_and_channel."""
    say, path = check.say, check.path
    check.sorted_and_unique("wav.scp")
    for chunk in chunks(path("wav.scp")):
        if b"~" in chunk and (match := re.search(rb"^\S+[^\S\n]+~", chunk, re.M)):
            raise say.fails(
                "Please do not use tilde (~) in your wav.scp.",
                "write the whole path of the file",
                file=path("wav.scp"),
                key=lines.field(match[0]),
            )
    segments = check.there("segments")
    if segments:
        check.sorted_and_unique("segments")
        for number, line in enumerate(lines_of(path("segments")), 1):
            found = words(line, awk=True)
            if len(found) != 4 or not is_above(found[3], found[2]):
                say.write(f"Bad line in segments file {shown(line.rstrip())}")
                raise say.fails(
                    "badly formatted segments file",
                    "write: segment recording start end, with start < end",
                    file=path("segments"),
                    line=number,
                    key=lines.field(line),
                )
        if check.there("text") and check.listed("utt2spk").digest != check.listed("segments").digest:
            counts = check.listed("segments").count, check.listed("utt2spk").count
            say(f"Utterance list differs between {path('utt2spk')} and {path('segments')} ")
            check.equal(
                check.listed("utt2spk"), check.listed("segments"), "Lengths are {} vs {}".format(*counts), short=True
            )
        check.equal(recordings_of(check), check.listed("wav.scp"), "recording-ids extracted from segments and wav.scp")
    else:
        check.same("wav.scp", "utterance lists extracted from utt2spk and wav.scp")
    name = "reco2file_and_channel"
    if check.there(name):
        check.sorted_and_unique(name)
        ones = 0
        for number, line in enumerate(lines_of(path(name)), 1):
            found = words(line, awk=True)
            if len(found) != 3 or found[2] not in (b"A", b"B", b"1"):
                say.write(f"Bad line  {shown(line.rstrip())}")
                raise say.fails(
                    f"badly formatted {name} file",
                    "write: recording file A, or B",
                    file=path(name),
                    line=number,
                    key=lines.field(line),
                )
            ones += found[2] == b"1"
        if ones:
            say.write("The channel should be marked as A or B, not 1! You should change it ASAP! ")
        kind = "recording-ids" if segments else "utterance-ids"
        one = recordings_of(check) if segments else check.listed("utt2spk")
        check.equal(one, check.listed(name), f"{kind} extracted from segments and {name}")
