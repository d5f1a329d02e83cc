"""Check a data directory, as Kaldi's ``validate_data_dir.sh`` does. An error names the file, the line and the key."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest

from io_ark.data_dir.awk_numbers import is_above, is_number, parse_decimals, parse_number
from io_ark.data_dir.line_chunks import number_chunks, read_chunks, read_lines, split_lines
from io_ark.data_dir.line_fields import get_column, get_field, sort_unique_values, split_fields
from io_ark.data_dir.line_order import find_unsorted_key
from io_ark.data_dir.lists import check_text
from io_ark.data_dir.segment_times import is_interval
from io_ark.data_dir.speaker_lists import convert_to_utt2spk
from io_ark.data_dir.stage import (
    BYTE_ORDER_MARK,
    DATA_FILES,
    STARTS_WITH_MARK,
    DataFiles,
    Printer,
    decode_key,
    refuse_byte_order_mark,
    refuse_half_changed_directory,
)

_ILLEGAL = {
    symbol: re.compile(rb"(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])" % re.escape(symbol))
    for symbol in (b"<s>", b"</s>", b"#0")
}
_PLAIN = bytes([*range(9, 14), *range(32, 127)])
# Columns: a file, the checks that follow the check of its order, the file that must have the same keys, and the text of
# Kaldi's message if the keys differ ("-" for the short message).
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


class KeyList:
    """Keys of a file, and their order. The arguments are the attributes ``file`` and ``field``.

    Attributes:
        file: path of the file.
        keys: the keys in the order of the file, or the distinct keys in sorted order if ``field`` is 2.
        field: number of the field that has the keys, counted from 1: 1 or 2.
        line_count: number of lines that end with a newline, or number of keys if ``field`` is 2.
        unsorted_line: number of the first line whose key is not larger than the previous key, or 0 if the keys increase
            or ``field`` is 2.
        is_ended: True if the last line ends with a newline, or ``field`` is 2.
    """

    def __init__(self, file: str, field: int = 1) -> None:
        self.file, self.field, self.unsorted_line, self.is_ended = file, field, 0, True
        if field == 2:
            self.keys = sort_unique_values(file, 2, awk=True)
            self.line_count = len(self.keys)
            return
        self.keys = []
        for chunk in read_chunks(file):
            self.keys += get_column(chunk, awk=True)
            self.is_ended = chunk.endswith(b"\n")
        self.unsorted_line = find_unsorted_key(self.keys, None)
        self.line_count = len(self.keys) - (not self.is_ended)


Difference = tuple[int, tuple[bytes | None, bytes | None]]


def find_first_difference(keys: Iterator[bytes], other_keys: Iterator[bytes]) -> Difference | None:
    """Return the first position, counted from 1, at which two lists of keys differ, and the two keys there.

    If one list has ended there, its key is None. Return None for equal lists.
    """
    pairs = enumerate(zip_longest(keys, other_keys), 1)
    return next(((position, (key, other_key)) for position, (key, other_key) in pairs if key != other_key), None)


class Check(DataFiles):
    """Checks the directory ``folder``.

    A check that fails prints Kaldi's message with ``say``, and raises DataDirError.
    """

    def __init__(self, folder: str, say: Printer) -> None:
        super().__init__(folder)
        self.say = say
        self._lists: dict[tuple[str, int], KeyList] = {}

    def locate(self, name: str) -> str:
        """Return the path of the file ``name`` in the notation of Kaldi's messages."""
        return f"{self.folder}/{name}"

    def read_keys(self, name: str, field: int = 1) -> KeyList:
        """Return the keys of the file ``name``, which are in the field with the number ``field``, 1 or 2.

        Each field is read only once.
        """
        if (name, field) not in self._lists:
            key_list, utterances = KeyList(self.locate(name), field), self._lists.get(("utt2spk", 1))
            if utterances and key_list.keys == utterances.keys:
                key_list.keys = utterances.keys  # Most files have the same keys, so a shared list saves memory.
            self._lists[name, field] = key_list
        return self._lists[name, field]

    def check_key_order(self, name: str) -> None:
        """Raise DataDirError unless the keys of the file ``name`` increase, and its last line ends with a newline."""
        key_list = self.read_keys(name)
        if not key_list.is_ended:
            problem = f"file {key_list.file} has invalid newline at its end: add one (echo >> {key_list.file})"
            raise self.say.fail("", problem, key_list.file, key_list.line_count + 1)
        if key_list.unsorted_line:
            previous, key = key_list.keys[key_list.unsorted_line - 2 : key_list.unsorted_line]
            problem = f"follows {decode_key(previous)}: sort the file (LC_ALL=C sort), or run kaldi-compat data fix {self.folder}"
            if key == previous:
                problem = "is a duplicate key: remove one of the lines"
            elif key_list.keys[0].startswith(BYTE_ORDER_MARK):
                problem = f"the first line {STARTS_WITH_MARK}"
            message = f"file {key_list.file} is not sorted or has duplicates"
            raise self.say.fail(message, problem, key_list.file, key_list.unsorted_line, key)

    def compare_keys(self, expected: KeyList, actual: KeyList, text: str, *, is_whole: bool = False) -> None:
        """Check that two files have the same keys in the same order.

        If not, print Kaldi's message, and raise DataDirError. ``is_whole`` is True if ``text`` is the whole message.
        Otherwise, the directory and the numbers of lines are added to ``text``.
        """
        if expected.keys == actual.keys:
            return
        difference = find_first_difference(iter(expected.keys), iter(actual.keys))
        assert difference
        line_number, (expected_key, actual_key) = difference
        self.say(text if is_whole else f"Error: in {self.folder}, {text}")
        if not is_whole:
            self.say("differ, partial diff is:")
            lengths = f"{expected.file}={expected.line_count} versus {actual.file}={actual.line_count}"
            self.say.write(f"[Lengths are {lengths}]")
        is_expected_missing = actual_key is None or (expected_key is not None and expected_key < actual_key)
        list_with_key, list_without_key, key = (
            (expected, actual, expected_key) if is_expected_missing else (actual, expected, actual_key)
        )
        remedy = "add the key"
        if list_without_key.field == 2:  # The list is from segments, whose second field is a recording.
            recording = decode_key(key or b"")
            remedy = f"add a line such as `{recording} {recording} 0 -1` (the whole recording)"
        advice = f"is missing, but is in {list_with_key.file}: {remedy}, or let kaldi-compat data fix remove the key"
        raise self.say.fail("", advice, list_without_key.file, line_number, key)

    def check_values(self, name: str) -> None:
        """Check the lines of the file ``name`` with the function that ``_VALUES`` names, if any.

        Raise DataDirError for the first bad line.
        """
        if name not in _VALUES:
            return
        name_of_check, advice, message, line_format = _VALUES[name]
        for line_number, line in find_bad_lines(self.locate(name), globals()[name_of_check]):
            if line_format:
                self.say.write(line_format.format(line_number, decode_key(line.rstrip(b"\n"))))
            raise self.say.fail(message, advice, self.locate(name), line_number, get_field(line))

    def read_recordings(self) -> KeyList:
        """Return the recordings of segments. Without segments, return the utterances."""
        return self.read_keys("segments", 2) if self.find("segments") else self.read_keys("utt2spk")

    def apply_rule(self, name: str, steps: str, other: str, text: str) -> None:
        """If the file ``name`` exists, check it by a line of ``_RULES``, whose columns are the arguments.

        ``steps`` are the checks, "values" and "keys", separated by commas. Keys are compared with the keys of the file
        ``other``; "segments" stands for :meth:`read_recordings`. ``text`` is a part of Kaldi's message for different
        keys, in which {} stands for the file that was compared, or "-" for a shorter message.
        """
        if not self.find(name):
            return
        self.check_key_order(name)
        for step in steps.split(","):
            if step == "values":
                self.check_values(name)
            else:
                expected = self.read_recordings() if other == "segments" else self.read_keys(other)
                other_name = "segments" if expected is not self.read_keys("utt2spk") else "wav.scp"
                message = text.format(other_name)
                if text == "-":
                    message = f"error: in {self.folder}, {name} and utt2spk do not have identical utterance-id list"
                self.compare_keys(expected, self.read_keys(name), message, is_whole=text == "-")

    def require_file(self, name: str, option: str, is_optional: bool) -> None:
        """Raise DataDirError if the file ``name`` is missing, unless ``is_optional``.

        The message names the ``option`` that makes the file optional.
        """
        if not is_optional and not self.find(name):
            raise self.say.fail(f"no such file {self.locate(name)} (if this is by design, specify --{option})")


def find_bad_lines(file: str, is_good: Callable[[list[bytes]], bool]) -> Iterator[tuple[int, bytes]]:
    """Yield the number, counted from 1, and the bytes of each line whose fields ``is_good`` rejects."""
    good_values = set[bytes]()
    for lines_before, chunk in number_chunks(read_chunks(file)):
        if not _has_only_good_lines(chunk, is_good, good_values):
            for line_number, line in enumerate(split_lines(chunk), lines_before + 1):
                if not is_good(split_fields(line, awk=True)):
                    yield line_number, line


def _has_only_good_lines(chunk: bytes, is_good: Callable[[list[bytes]], bool], good_values: set[bytes]) -> bool:
    """Return True if a quick check of columns proves that all lines are good. After False, each line must be checked.

    ``good_values`` collects second fields that have passed the check, which ignores the first field of a line with two
    fields.
    """
    if is_good is is_segment:
        starts, ends = (parse_decimals(get_column(chunk, number, awk=True)) for number in (3, 4))
        is_ordered = bool(starts and ends) and all(map(float.__lt__, starts or (), ends or ()))
        return is_ordered and not any(get_column(chunk, 5, awk=True))
    if any(get_column(chunk, 3, awk=True)):
        return False
    values = set(get_column(chunk, 2, awk=True)) - good_values
    if not all(value and is_good([b"name", value]) for value in values):
        return False
    good_values |= values
    return True


def run_image_script(script: str, *arguments: str) -> int:
    """Run the recipe's script ``image/<script>`` in the working directory, and return its exit status as a shell does."""
    import subprocess

    sys.stdout.flush()
    status = subprocess.call(["sh", "-c", 'exec "$0" "$@"', f"image/{script}", *arguments])
    return status if status >= 0 else 128 - status  # subprocess returns -N for signal N, and shells return 128 + N.


def has_warp_factor(fields: list[bytes]) -> bool:
    """Return True if the fields are a name and a VTLN factor above 0.5 and below 1.5."""
    return len(fields) == 2 and is_above(fields[1], b"0.5") and is_above(b"1.5", fields[1])


def has_positive_value(fields: list[bytes]) -> bool:
    """Return True if the fields are a name and a value that awk considers to be above 0."""
    return len(fields) == 2 and is_above(fields[1], b"0")


def is_segment(fields: list[bytes]) -> bool:
    """Return True if the fields are a segment without a channel, and :func:`is_interval` accepts its start and end."""
    return len(fields) == 4 and is_interval(fields[2], fields[3])


def has_gender(fields: list[bytes]) -> bool:
    """Return True if the fields are a speaker and a gender, ``m`` or ``f``."""
    return len(fields) == 2 and fields[1] in (b"m", b"f")


def has_channel(fields: list[bytes]) -> bool:
    """Return True if the fields are a recording, a file and a channel: ``A``, ``B`` or ``1``."""
    return len(fields) == 3 and fields[2] in (b"A", b"B", b"1")


def has_positive_integer(fields: list[bytes]) -> bool:
    """Return True if the fields are a name and a positive whole number."""
    return has_positive_value(fields) and is_number(fields[1]) and parse_number(fields[1]).is_integer()


# Columns: a file, the check of its lines, the advice for a bad line, Kaldi's message, and the format in which Kaldi
# shows the line.
_TABLE = """
spk2gender|has_gender|write a speaker, and m or f|Mal-formed spk2gender file|
spk2warp|has_warp_factor|write a speaker, and a factor between 0.5 and 1.5|Mal-formed spk2warp file|{1}
utt2warp|has_warp_factor|write an utterance, and a factor between 0.5 and 1.5|Mal-formed utt2warp file|{1}
utt2dur|has_positive_value|bad line: write a positive number of seconds||Bad line utt2dur:{}:{}
utt2num_frames|has_positive_integer|bad line: write a positive whole number||Bad line utt2num_frames:{}:{}
reco2dur|has_positive_value|bad line: write a positive number of seconds||Bad line : {1}
segments|is_segment|write a segment, its recording, start and end, with start < end, or -1 for the end of the recording|badly formatted segments file|Bad line in segments file {1}
reco2file_and_channel|has_channel|write a recording, a file, and A or B|badly formatted reco2file_and_channel file|Bad line  {1}
"""
_VALUES = {name: columns for name, *columns in (line.split("|") for line in _TABLE.strip().splitlines())}


def validate_directory(
    say: Printer,
    folder: str,
    *,
    no_feats: bool = False,
    no_wav: bool = False,
    no_text: bool = False,
    no_spk_sort: bool = False,
    non_print: bool = False,
) -> int:
    """Check a data directory up to its first fault (Kaldi: validate_data_dir.sh). Return 0 for a valid directory.

    If ``say.as_script`` and the directory has images.scp, the recipe's own script checks it instead, and its status is
    returned.

    Args:
        no_feats: do not require feats.scp. If the file exists, it is checked.
        no_wav: do not require wav.scp. If the file exists, it is checked.
        no_text: do not require or check text.
        no_spk_sort: do not require that the speakers in utt2spk are sorted.
        non_print: accept unprintable characters in text.

    Raise DataDirError if the directory is not valid. The error's ``status`` is Kaldi's exit status. If
    ``say.as_script``, Kaldi's message was printed.
    """
    check = Check(folder, say)
    if folder and not os.path.isdir(folder):
        raise say.fail(f"no such directory {folder}")
    refuse_half_changed_directory(folder or os.curdir)
    if check.find("images.scp") and say.as_script:
        options = {"--no-feats": no_feats, "--no-text": no_text, "--no-spk-sort": no_spk_sort, "--non-print": non_print}
        return run_image_script("validate_data_dir.sh", *filter(options.get, options), folder)
    check_speakers(check, no_spk_sort=no_spk_sort)
    check.require_file("text", "no-text", no_text)
    if not no_text:
        check_transcripts(check, non_print=non_print)
    if check.find("segments") and not check.find("wav.scp"):
        raise say.fail(f"in directory {folder}, segments file exists but no wav.scp")
    check.require_file("wav.scp", "no-wav", no_wav)
    if check.find("wav.scp"):
        check_recordings(check)
    check.require_file("feats.scp", "no-feats", no_feats)
    for line in _RULES.strip().splitlines():
        check.apply_rule(*line.split(None, 3))
    for path in filter(None, map(check.find, DATA_FILES)):
        refuse_byte_order_mark(path)
    say(f"Successfully validated data-directory {folder}")
    return 0


def check_speakers(check: Check, *, no_spk_sort: bool) -> None:
    """Check utt2spk and spk2utt, and that both have the same pairs of utterances and speakers.

    With ``no_spk_sort``, the speakers in utt2spk need not be sorted. Raise DataDirError for the first fault.
    """
    say, utt2spk, spk2utt = check.say, check.locate("utt2spk"), check.locate("spk2utt")
    advice = {
        "spk2utt": "run kaldi-compat data fix, which makes this file from utt2spk",
        "utt2spk": "write a line with the key and the speaker of each utterance",
    }
    for name in ("spk2utt", "utt2spk"):
        if not check.find(name):
            raise say.fail(f"no such file {name}", f"is missing: {advice[name]}", check.locate(name))
        if not check.has_lines(name):
            raise say.fail(f"empty file {name}", f"is empty: {advice[name]}", check.locate(name))
    with open(utt2spk, "rb") as file:  # Most files agree byte by byte, so that no lines need to be compared.
        expected = convert_to_utt2spk(read_chunks(spk2utt), lambda *_: None)
        is_equal = all(file.read(len(chunk)) == chunk for chunk in expected) and not file.read(1)
    if not is_equal:
        for line_number, line in find_bad_lines(utt2spk, lambda fields: len(fields) == 2):
            status = 0 if say.as_script else 1  # The last command of Kaldi's script prints, and succeeds.
            message, remedy = f"{utt2spk} has wrong format.", "write an utterance and its speaker"
            raise say.fail(message, remedy, utt2spk, line_number, get_field(line), status)
    check.read_keys("utt2spk")
    if check.read_keys("spk2utt").line_count == 1:
        say("WARNING: you have only one speaker.  This probably a bad idea.")
        say.write("   Search for the word 'bold' in http://kaldi-asr.org/doc/data_prep.html")
        say.write("   for more information.")
    check.check_key_order("utt2spk")
    if not no_spk_sort and (not is_equal or check.read_keys("spk2utt").unsorted_line):
        check_speaker_order(check, utt2spk)
    check.check_key_order("spk2utt")
    if is_equal:
        return

    def refuse_speaker(line_number: int, line: bytes) -> None:
        """Raise DataDirError for a line of spk2utt without utterances."""
        message = "spk2utt and utt2spk do not seem to match"
        raise say.fail(message, "the speaker has no utterances: remove the line", spk2utt, line_number, get_field(line))

    lines = (b" ".join(split_fields(line, awk=True)) for line in read_lines(utt2spk))
    expected_lines = (
        line for chunk in convert_to_utt2spk(read_chunks(spk2utt), refuse_speaker) for line in chunk.split(b"\n")[:-1]
    )
    if difference := find_first_difference(lines, expected_lines):
        line_number, (actual_line, expected_line) = difference
        shown, expected_shown = (
            repr(decode_key(text)) if text else "no such line" for text in (actual_line, expected_line)
        )
        problem = f"has {shown}, but spk2utt has {expected_shown}: make spk2utt again with utt2spk_to_spk2utt.pl"
        key = get_field(actual_line or expected_line or b"")
        raise say.fail("spk2utt and utt2spk do not seem to match", problem, utt2spk, line_number, key)


def check_speaker_order(check: Check, utt2spk: str) -> None:
    """Raise DataDirError unless the speakers in the file ``utt2spk`` are sorted."""
    previous = b""
    for line_number, line in enumerate(read_lines(utt2spk), 1):
        speaker = re.sub(rb"^[ \t]*[^ \t\n]+", b"", line).rstrip(b"\n")
        if speaker < previous:
            check.say("utt2spk is not in sorted order when sorted first on speaker-id ")
            check.say.write("(fix this by making speaker-ids prefixes of utt-ids)")
            problem = f"its speaker {decode_key(speaker.strip())} comes after {decode_key(previous.strip())}"
            key = get_field(line)
            advice = f"{advise_speaker_order(key, speaker.strip())}, or pass --no-spk-sort"
            raise check.say.fail("", f"{problem}: {advice}", utt2spk, line_number, key)
        previous = speaker


def advise_speaker_order(key: bytes, speaker: bytes) -> str:
    """Return advice on renaming the utterance ``key``, which is out of order, or its ``speaker``, so that utt2spk is sorted by speaker."""
    if key.startswith(speaker):
        return "rename a speaker whose name begins with the name of another speaker, such as ann-b and ann"
    return "begin every utterance's name with its speaker"


def check_transcripts(check: Check, *, non_print: bool) -> None:
    """Check the file text, and that it has the same keys as utt2spk. Raise DataDirError for the first fault.

    With ``non_print``, unprintable characters are allowed.
    """
    path = check.locate("text")
    unprintable_lines = [] if non_print or not check.find("text") else list(find_unprintable_lines(path))
    if unprintable_lines:
        message = f"text contains {len(unprintable_lines)} lines with non-printable characters"
        advice = "contains characters that cannot be printed: remove them, or pass --non-print"
        raise check.say.fail(message, advice, path, *unprintable_lines[0])
    check_text(check.say.with_name("utils/validate_text.pl"), path)
    check.check_key_order("text")
    symbol_keys: dict[bytes, bytes] = {}
    for chunk in read_chunks(path):
        for symbol, pattern in _ILLEGAL.items():
            if symbol[:1] in chunk and symbol in chunk and (match := pattern.search(chunk)):
                line_start = chunk.rfind(b"\n", 0, match.start()) + 1
                symbol_keys.setdefault(symbol, get_field(chunk[line_start : match.end()]))
    for symbol in filter(symbol_keys.get, _ILLEGAL):
        message = f"Error: in {check.folder}, text contains illegal symbol {symbol.decode()}"
        raise check.say.fail(message, f"contains {symbol.decode()}: remove the symbol", path, key=symbol_keys[symbol])
    check.compare_keys(
        check.read_keys("utt2spk"), check.read_keys("text"), "utterance lists extracted from utt2spk and text"
    )


def find_unprintable_lines(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the key of each line with a character that grep considers unprintable in a UTF-8 locale."""
    is_unprintable: dict[str, bool] = {}
    for lines_before, chunk in number_chunks(read_chunks(file)):
        lines = split_lines(chunk) if chunk.translate(None, _PLAIN) else ()
        for line_number, line in enumerate(lines, lines_before + 1):
            if line.translate(None, _PLAIN):
                chars = set(line.decode("utf-8", "surrogateescape"))
                for char in chars.difference(is_unprintable):
                    is_unprintable[char] = not (
                        char in "\0\t\n\v\f\r" or "\udc80" <= char <= "\udcff" or _is_printable(char)
                    )
                if any(map(is_unprintable.__getitem__, chars)):
                    yield line_number, get_field(line)


def _is_printable(char: str) -> bool:
    """Return True if a character is printable or white space in the C library's UTF-8 locales."""
    import unicodedata

    return unicodedata.category(char) not in ("Cc", "Cn", "Cs", "Zl", "Zp") or char in "\u2028\u2029\x85"


def check_recordings(check: Check) -> None:
    """Check wav.scp, segments and reco2file_and_channel, and their keys. Raise DataDirError for the first fault."""
    say, path = check.say, check.locate("wav.scp")
    check.check_key_order("wav.scp")
    for chunk in read_chunks(path):
        if b"~" in chunk and (match := re.search(rb"^\S+[^\S\n]+~", chunk, re.M)):
            message = "Please do not use tilde (~) in your wav.scp."
            raise say.fail(message, "starts a path with ~: write the full path", path, key=get_field(match[0]))
    utterances, segments = check.read_keys("utt2spk"), check.find("segments")
    message = "utterance lists extracted from utt2spk and wav.scp"
    if segments:
        check.check_key_order("segments")
        check.check_values("segments")
        segment_keys = check.read_keys("segments")
        if check.find("text") and segment_keys.keys != utterances.keys:
            say(f"Utterance list differs between {check.locate('utt2spk')} and {check.locate('segments')} ")
            lengths = f"Lengths are {segment_keys.line_count} vs {utterances.line_count}"
            check.compare_keys(utterances, segment_keys, lengths, is_whole=True)
        message = "recording-ids extracted from segments and wav.scp"
    check.compare_keys(check.read_recordings(), check.read_keys("wav.scp"), message)
    name = "reco2file_and_channel"
    if check.find(name):
        check.check_key_order(name)
        check.check_values(name)
        if any(b"1" in get_column(chunk, 3) for chunk in read_chunks(check.locate(name))):
            say.write("The channel should be marked as A or B, not 1! You should change it ASAP! ")
        key_type = "recording-ids" if segments else "utterance-ids"
        check.compare_keys(
            check.read_recordings(), check.read_keys(name), f"{key_type} extracted from segments and {name}"
        )
