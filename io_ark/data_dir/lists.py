"""Kaldi's Perl scripts for lists: filter_scp.pl, split_scp.pl, subset_scp.pl, shuffle_list.pl, apply_map.pl and others.

The function of a script has the script's name. It takes the script's arguments and returns its exit status. Invalid
arguments and files raise DataDirError.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, pairwise

from io_ark.data_dir.line_chunks import number_chunks, read_chunks, read_lines, split_lines
from io_ark.data_dir.line_fields import get_column, get_field, has_single_spaces, require_two_fields
from io_ark.data_dir.line_selection import select_lines
from io_ark.data_dir.speaker_lists import convert_to_spk2utt, convert_to_utt2spk
from io_ark.data_dir.stage import BYTE_ORDER_MARK, STARTS_WITH_MARK, DataDirError, Printer, decode_key, warn

# Exit statuses of Perl's "die", which are the error number of the last system call that failed: ENOTTY (25) after a
# file was opened, since Perl asks whether the file is a terminal, ENOENT (2) for a missing file, and 255 without such a
# call.
NO_TERMINAL, MISSING, DIED = 25, 2, 255
STDIN = 0
MAX_DIGITS = 18  # Digits of an integer that are used. Perl's integers have 64 bits, which hold any 18 digits.
DRAND48_MODULUS, DRAND48_FACTOR, DRAND48_INCREMENT, DRAND48_SEED = 1 << 48, 0x5DEECE66D, 0xB, 0x330E


def make_usage_error(status: int = DIED) -> DataDirError:
    """Return an error without a message, for which :func:`io_ark.data_dir.scripts.call_script` shows the script's usage."""
    return DataDirError("", status=status)


def resolve_input(arguments: list[str]) -> str | int | None:
    """Return the file that Perl's ``<>`` reads: the first argument, or STDIN if it is ``-`` or missing.

    Warn and return None for an unreadable file.
    """
    file = arguments[0] if arguments else "-"
    if file == "-":
        return STDIN
    try:
        os.close(os.open(file, os.O_RDONLY))
    except OSError as error:
        warn(f"Can't open {file}: {error.strerror}")
        return None
    return file


def resolve_file_argument(file: str) -> str | int:
    """Return the file that Perl's ``open`` reads: :data:`STDIN` for the name ``-``, otherwise the path ``file``."""
    return STDIN if file == "-" else file


def get_source_name(file: str | int) -> str:
    return "standard input" if file == STDIN else str(file)


@contextlib.contextmanager
def report_open_errors(message: str) -> Iterator[None]:
    """Within this context, convert the error for a file that cannot be opened to DataDirError, with Perl's text "message: reason"."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        raise DataDirError(f"{message}: {error.strerror}", status=error.errno or DIED, partly=True) from None


def make_refusal(text: str, file: str | int, status: int = 0) -> Callable[..., None]:
    """Return a function that raises DataDirError for a line of ``file``, with a message that begins with ``text``.

    The function takes the number of the line and, optionally, the bytes of the line, which the message then shows.
    ``status`` is the exit status of the script, or 0 for the status of Perl's ``die``.
    """
    status = status or (DIED if file == STDIN else NO_TERMINAL)

    def raise_error(number: int, line: bytes | None = None) -> None:
        """Raise DataDirError for line ``number``, and show the bytes ``line`` if they are passed."""
        ending = ":"
        if line is not None:
            shown_line = line.decode("utf-8", "backslashreplace").strip()
            ending = f": {shown_line!r};" if shown_line else ": the line is blank;"
        message = f"{text}{ending} correct this line"
        raise DataDirError(message, get_source_name(file), number, status=status, partly=True)

    return raise_error


def read_id_list(file: str, text: str = "Invalid id-list file line") -> set[bytes]:
    """Return the names in a list, which are the first fields of its lines, as a set.

    ``file`` is the path of the list, or ``-`` for standard input. ``text`` is the start of the message for a blank
    line. Raise DataDirError if the list cannot be opened, has a blank line, or starts with a byte-order mark.
    """
    source, keys = resolve_file_argument(file), set[bytes]()
    with report_open_errors(f"Could not open id-list file {file}"):
        for lines_before, chunk in number_chunks(read_chunks(source)):
            if not lines_before and chunk.startswith(BYTE_ORDER_MARK):
                raise DataDirError(STARTS_WITH_MARK, get_source_name(source), 1)
            column = get_column(chunk)
            if b"" in column:
                make_refusal(f"{text} without a key", source)(lines_before + column.index(b"") + 1)
            keys.update(column)
    return keys


def filter_scp(say: Printer, argv: list[str]) -> int:
    """Print each line of a file if a chosen field of the line is in a list of names. Return the exit status 0.

    ``argv`` has options, the list, and the file, by default standard input. A file that cannot be opened causes a
    warning. The option ``-f`` chooses the field, by default the first. 0 is the last field. ``--exclude`` prints all
    other lines.

    Raise DataDirError if an argument is invalid, the list cannot be read, or a line is blank or lacks the field (if it
    is 1 or more).
    """
    exclude, number = False, 1
    while argv[:1] in (["--exclude"], ["-f"]):
        if argv[0] == "--exclude":
            exclude, argv = True, argv[1:]
        else:
            number, argv = _parse_integer(argv[1]) if len(argv) > 1 else 0, argv[2:]
    if len(argv) not in (1, 2):
        raise make_usage_error()
    keys = read_id_list(argv[0])
    file = resolve_input(argv[1:])
    if file is not None:
        text = "Bad line, could not get first field" if number == 1 else f"Invalid scp file line without field {number}"
        write = sys.stdout.buffer.write
        if number < 1:
            for line_number, line in enumerate(read_lines(file), 1):
                if not (fields := line.split()):
                    make_refusal(text, file)(line_number)
                # As in Perl, index -1 is the last field, and a missing field is not in the list.
                field = fields[number - 1] if -number < len(fields) else b""
                if (field in keys) is not exclude:
                    write(line)
        else:
            select_lines(keys, file, write, number=number, exclude=exclude, refuse=make_refusal(text, file))
    return 0


def utt2spk_to_spk2utt(say: Printer, argv: list[str]) -> int:
    """Convert an utt2spk file to spk2utt on standard output, and return the exit status 0.

    Warn if the file cannot be opened. ``argv`` has one path, or none for standard input. Raise DataDirError for more
    paths, or for a line without exactly two fields.
    """
    if len(argv) > 1:
        raise make_usage_error()
    file = resolve_input(argv)
    if file is not None:
        sys.stdout.buffer.writelines(
            convert_to_spk2utt(read_chunks(file), make_refusal("Invalid line in utt2spk file", file))
        )
    return 0


def spk2utt_to_utt2spk(say: Printer, argv: list[str]) -> int:
    """Convert spk2utt files to utt2spk on standard output, and return the exit status 0.

    Warn if a file cannot be opened.
    ``argv`` has the paths, or is empty for standard input. Raise DataDirError for a speaker without utterances.
    """
    for name in argv or ["-"]:
        file = resolve_input([name])
        if file is not None:
            sys.stdout.buffer.writelines(
                convert_to_utt2spk(read_chunks(file), make_refusal("Invalid line in spk2utt file", file))
            )
    return 0


def _parse_integer(text: str) -> int:
    """Parse the whole number at the start of a string as Perl does.

    Return 0 if there is none. A sign counts as one of MAX_DIGITS.
    """
    match = re.match(r"\s*([+-]?[0-9]+)", text)
    return int(match[1][:MAX_DIGITS]) if match else 0


def parse_positive_integer(text: str) -> int:
    """Parse a positive whole number of at most :data:`MAX_DIGITS` ASCII digits. Return 0 for any other string."""
    return int(text) if re.fullmatch(f"[0-9]{{1,{MAX_DIGITS}}}", text) else 0


@functools.cache  # Many parts have the same size, and thus the same choice.
def _mark_spread_lines(count: int, size: int) -> bytes:
    """Return a byte for each of ``count`` lines: 1 for the ``size`` evenly spread lines of subset_scp.pl, otherwise 0."""
    if size in (0, count):
        return bytes([size > 0]) * count
    return _mark_spread_lines(count // 2, size // 2) + _mark_spread_lines(count - count // 2, size - size // 2)


def choose_lines(file: str, size: int, option: str, *, accepts_fewer: bool = False) -> list[bytes]:
    """Return ``size`` lines of a file in their order, chosen like the lines of Kaldi's subset_scp.pl.

    Args:
        file: path of the file, or ``-`` for standard input.
        option: ``--first`` or ``--last`` to return the first or the last lines, ``""`` for evenly spread lines.
        accepts_fewer: True to return all lines of a file that has fewer than ``size``, instead of raising an error.

    Raise DataDirError if the file cannot be opened, or has fewer than ``size`` lines and ``accepts_fewer`` is False.
    """
    with report_open_errors(f"Opening input scp file {file}"):
        lines = list(read_lines(resolve_file_argument(file)))
    if size > len(lines) and not accepts_fewer:
        message = f"You requested from subset_scp.pl more elements than available: {size} > {len(lines)}"
        raise DataDirError(message, status=DIED, partly=True)
    size = max(0, min(size, len(lines)))
    if option:
        return lines[:size] if option == "--first" else lines[len(lines) - size :]
    return list(compress(lines, _mark_spread_lines(len(lines), size)))


def subset_scp(say: Printer, argv: list[str]) -> int:
    """Print the given number of lines of a file, as :func:`choose_lines` chooses them, and return the exit status 0.

    ``argv`` has options, the number of lines, and the file. Raise DataDirError if the file cannot be opened, or if the
    number is invalid, or larger than the number of lines in the file and ``--quiet`` is not passed.
    """
    options = set()
    for name in ("--quiet", "--first", "--last"):
        if argv[:1] == [name]:
            options.add(name)
            argv = argv[1:]
    if len(argv) < 2:
        raise make_usage_error()
    # Refuse 0, strings that are not numbers, and numbers with a fraction other than 0.
    number, file = argv[:2]
    if _parse_integer(number) == 0 or re.match(r"\s*[+-]?[0-9]+\.[0-9]*[1-9]", number):
        message = f'First command-line parameter to subset_scp.pl must be an integer, got "{number}"'
        raise DataDirError(message, status=DIED)
    option = next((name for name in ("--first", "--last") if name in options), "")
    lines = choose_lines(file, _parse_integer(number), option, accepts_fewer="--quiet" in options)
    sys.stdout.buffer.writelines(lines)
    return 0


def shuffle_lines(chunks: Iterable[bytes], seed: int = 0) -> Iterator[bytes]:
    """Return an iterator over all lines in ``chunks``, shuffled as by Kaldi's shuffle_list.pl.

    Each line gets a random number from Perl's generator, the C library's ``drand48``, which starts from ``seed``. The
    lines are sorted by these numbers, which are compared as strings with 15 significant digits.
    """
    lines = [line for chunk in chunks for line in split_lines(chunk)]
    state = ((seed & 0xFFFFFFFF) << 16) + DRAND48_SEED  # As in srand48, the seed fills the upper 32 of 48 bits.
    numbers = []
    for _ in lines:
        state = (state * DRAND48_FACTOR + DRAND48_INCREMENT) % DRAND48_MODULUS
        numbers.append(b"%.15g" % (state / DRAND48_MODULUS))
    return (line for _, line in sorted(zip(numbers, lines, strict=True)))


def shuffle_list(say: Printer, argv: list[str]) -> int:
    """Print the lines of a file or of standard input in random order.

    The exit status is 1 for a wrong option or several files, else 0.
    The option ``--srand`` passes the seed, by default 0. Raise DataDirError for an invalid seed.
    """
    seed = 0
    if argv[:1] == ["--srand"]:
        if not re.fullmatch(r"[+-]?[0-9]+", "".join(argv[1:2])):
            raise DataDirError(f'Bad argument to --srand option: "{"".join(argv[1:2])}"', status=DIED)
        seed, argv = _parse_integer(argv[1]), argv[2:]
    if len(argv) > 1 or re.match("-.", "".join(argv[:1])):
        print("Usage: shuffle_list.pl [--srand N] [input file]  > output\nrandomizes the order of lines of input.")
        return 1
    file = resolve_input(argv)
    if file is not None:
        sys.stdout.buffer.writelines(shuffle_lines(read_chunks(file), seed))
    return 0


def read_map(file: str) -> dict[bytes, bytes]:
    """Return a map from the first field of each line of a file to its other fields, joined by single spaces.

    A key with several values causes a warning, and maps to the last value. ``file`` is a path, or ``-`` for standard
    input. Raise DataDirError if the file cannot be opened, or has a blank line.
    """
    values: dict[bytes, bytes] = {}
    line_number = 0
    with report_open_errors(f"Error opening map file {file}"):
        for chunk in read_chunks(resolve_file_argument(file)):
            is_plain = has_single_spaces(chunk)
            lines = chunk.rstrip(b"\n").split(b"\n") if is_plain else split_lines(chunk)
            for line_number, line in enumerate(lines, line_number + 1):
                plain_line = line if is_plain else b" ".join(line.split())
                key, _, value = plain_line.partition(b" ")
                if values.setdefault(key, value) != value:
                    text = "apply_map.pl: warning! the key has several values: the last value is used"
                    warn(DataDirError(text, file, line_number, key))
                    values[key] = value
                elif not key:
                    make_refusal("apply_map.pl: empty line", resolve_file_argument(file))(line_number)
    return values


def apply_map(say: Printer, argv: list[str]) -> int:
    """Print standard input with its fields replaced by their values in a map file. Return the exit status 0.

    The last argument is the path of the map file. The option ``-f`` selects a range of fields, such as ``2`` or
    ``2-4``, by default all. With ``--permissive``, a field that is not in the map is not changed. Single spaces
    separate printed fields.

    Raise DataDirError if an argument is invalid, a file cannot be read, or a field is not in the map.
    """
    begin, end, is_permissive = None, None, False  # `begin` and `end` are indices from 0 of the first and last field.
    for _ in range(3):  # The options may be in any order, and repeated.
        if argv[:1] == ["-f"]:
            spec, argv = "".join(argv[1:2]), argv[2:]
            if re.fullmatch("[0-9]+", spec):
                begin = end = _parse_integer(spec) - 1
            elif match := re.match(r"([0-9]*)[-:]([0-9]*)", spec):
                first, last = match.groups()
                begin = _parse_integer(first) - 1 if first else begin
                end = _parse_integer(last) - 1 if last else end
            if begin is None and end is None:
                raise DataDirError(f"Bad argument to -f option: {spec}", status=DIED)
        if argv[:1] == ["--permissive"]:
            is_permissive, argv = True, argv[1:]
    if len(argv) != 1:
        raise make_usage_error(1)
    [map_file] = argv
    table = read_map(map_file)
    replaced_range = slice(max(begin or 0, 0), None if end is None else end + 1)
    max_splits = -1 if end is None else end + 1  # Fields after the replaced fields need not be split.

    def keep_or_refuse(word: bytes) -> bytes:
        """With ``--permissive``, warn about a field that is not in the map, and return it.

        Otherwise, raise DataDirError.
        """
        if not is_permissive:
            raise DataDirError(f"apply_map.pl: undefined key {decode_key(word)} in {map_file}", status=DIED)
        warn(f"apply_map.pl: warning! missing key {decode_key(word)} in {map_file}")
        return word

    for chunk in read_chunks(STDIN):
        mapped_lines: list[bytes] = []
        is_plain = has_single_spaces(chunk)
        lines = chunk[:-1].split(b"\n") if is_plain else split_lines(chunk)
        try:
            for line in lines:
                fields = line.split(b" ", max_splits) if is_plain else line.split()
                try:
                    fields[replaced_range] = map(table.__getitem__, fields[replaced_range])
                except KeyError:
                    fields[replaced_range] = [
                        table[word] if word in table else keep_or_refuse(word) for word in fields[replaced_range]
                    ]
                mapped_lines.append(b" ".join(fields))
        finally:
            sys.stdout.buffer.write(b"\n".join([*mapped_lines, b""]))
    return 0


def _balance_parts(say: Printer, sizes: Sequence[int], parts: int) -> list[int]:
    """Divide speakers, whose numbers of lines are ``sizes``, into ``parts`` parts as evenly as split_scp.pl.

    At first, the numbers of speakers in the parts differ by at most one. As long as this makes two neighboring parts
    more equal, the last speaker of a part moves to the next part, or the first speaker to the previous part.

    Returns:
        The index of the first speaker of each part, followed by the number of speakers.

    Raise DataDirError if there are fewer speakers than parts.
    """
    speaker_count, sums = len(sizes), list(accumulate(sizes, initial=0))
    if speaker_count < parts:
        message = f"Refusing to split data because number of speakers {speaker_count} is less than the number of output .scp files {parts}"
        raise DataDirError(f"{say.name}: {message}: use fewer parts", status=DIED, partly=True)
    bounds = [-(-part * speaker_count // parts) for part in range(parts + 1)]  # Quotients that are rounded up.

    def sum_part(part: int) -> int:
        return sums[bounds[part + 1]] - sums[bounds[part]]

    has_changed = True
    while has_changed:
        has_changed = False
        for part in range(parts):
            if part < parts - 1 and bounds[part + 1] > bounds[part]:
                end = bounds[part + 1]
                moved_size, part_sum, next_sum = sizes[end - 1], sum_part(part), sum_part(part + 1)
                if abs(next_sum + moved_size - (part_sum - moved_size)) < abs(next_sum - part_sum):
                    bounds[part + 1] -= 1
                    has_changed = True
            if part > 0 and bounds[part + 1] > bounds[part]:
                first = bounds[part]
                moved_size, previous_sum, part_sum = sizes[first], sum_part(part - 1), sum_part(part)
                if abs(part_sum - moved_size - (previous_sum + moved_size)) < abs(part_sum - previous_sum):
                    bounds[part] += 1
                    has_changed = True
    return bounds


def divide_by_speaker(say: Printer, scp: str, utt2spk: str, part_count: int) -> list[list[bytes]]:
    """Divide the lines of a file into ``part_count`` lists of similar sizes.

    The lines of a speaker stay together, in order.

    Args:
        say: names the script in messages.
        scp: path of the file, whose keys are utterances.
        utt2spk: path of the file with the speakers of the utterances.

    Raise DataDirError if a file cannot be read, an utterance has no speaker, or there are fewer speakers than parts.
    """
    speakers: dict[bytes, bytes] = {}
    with report_open_errors(f"{say.name}: Error opening utt2spk file {utt2spk}"):
        refuse = make_refusal(f"{say.name}: Bad line in utt2spk file", utt2spk)
        for chunk in require_two_fields(read_chunks(utt2spk), refuse):
            speakers.update(zip(get_column(chunk), get_column(chunk, 2), strict=True))
    lines_by_speaker: dict[bytes, list[bytes]] = {}
    with report_open_errors(f"{say.name}: Error opening input scp file {scp}"):
        for line_number, line in enumerate(read_lines(scp), 1):
            speaker = speakers.get(get_field(line))
            if speaker is None:
                fault = f"No utterance {decode_key(get_field(line))} in utt2spk file {utt2spk}"
                fault = fault if line.strip() else "Empty or space-only line in scp file"
                make_refusal(f"{say.name}: {fault}", scp)(line_number)
            else:
                lines_by_speaker.setdefault(speaker, []).append(line)
    groups = list(lines_by_speaker.values())
    bounds = _balance_parts(say, list(map(len, groups)), part_count)
    return [list(chain.from_iterable(groups[first:end])) for first, end in pairwise(bounds)]


def divide_evenly(say: Printer, scp: str, part_count: int) -> list[list[bytes]]:
    """Divide the lines of the file ``scp`` into ``part_count`` parts of successive lines, whose sizes differ by at most one.

    Raise DataDirError if the file cannot be read, or has fewer lines than parts.
    """
    with report_open_errors(f"{say.name}: Error opening input scp file {scp}"):
        lines = list(read_lines(scp))
    if not lines:
        warn(f"{say.name}: error: empty input scp file {scp}")
    if len(lines) < part_count:
        message = f"[reduce $nj ({part_count}) to be smaller than the number of lines ({len(lines)}) in {scp}]"
        raise DataDirError(f"{say.name}: You are splitting into too many pieces! {message}", status=DIED, partly=True)
    size, larger_count = divmod(len(lines), part_count)
    bounds = [part * size + min(part, larger_count) for part in range(part_count + 1)]
    return [lines[first:end] for first, end in pairwise(bounds)]


def split_scp(say: Printer, argv: list[str]) -> int:
    """Divide the lines of a file among output files, and return the exit status: 1 if an output is empty, otherwise 0.

    With ``-j COUNT NUMBER``, write only part NUMBER of COUNT parts, counted from 0, or from 1 with ``--one-based``. The
    option ``--utt2spk`` keeps the lines of a speaker together. Raise DataDirError if an argument is invalid, a file
    cannot be opened, or there are too few lines or speakers.
    """
    job_count = job_number = 0
    utt2spk, first_number = "", 0  # Path of utt2spk, and the number of the first part.
    for _ in range(3):  # The three options may be in any order.
        if argv[:1] == ["-j"]:
            job_count, job_number = map(_parse_integer, [*argv[1:3], "", ""][:2])  # A missing number becomes 0.
            argv = argv[3:]
        if argv[:1] and (match := re.search("--utt2spk=(.+)", argv[0])):
            utt2spk, argv = match[1], argv[1:]
        if argv[:1] == ["--one-based"]:
            first_number, argv = 1, argv[1:]
    if job_count and not (job_count > 0 and 0 <= job_number - first_number < job_count):
        message = f"Invalid job number/index values for '-j {job_count} {job_number}{' --one-based' * first_number}'"
        raise DataDirError(f"{say.name}: {message}", status=DIED)
    if (not job_count and len(argv) < 2) or (job_count and len(argv) not in (1, 2)):
        raise make_usage_error()
    scp, *outputs = argv
    if job_count:
        outputs = ["/dev/null"] * job_count
        outputs[job_number - first_number] = argv[1] if len(argv) > 1 else "-"
    count = len(outputs)
    parts = divide_by_speaker(say, scp, utt2spk, count) if utt2spk else divide_evenly(say, scp, count)
    status = 0
    for output, part in zip(outputs, parts, strict=True):
        with report_open_errors(f"{say.name}: Could not open scp file {output} for writing"):
            target = sys.stdout.buffer if output == "-" else open(output, "wb")
        with contextlib.nullcontext() if output == "-" else target:
            target.writelines(part)
        if not part:
            warn(f"{say.name}: Error: empty .scp file {output} (too many splits and too few speakers?)")
            status = 1
    return status


# Characters that Python's \s matches, except space, tab, line feed and carriage return.
_ODD_SPACES = re.compile("[\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
# Characters of _ODD_SPACES that Perl's \s does not match, so that validate_text.pl accepts them.
_ONLY_IN_PYTHON = "\x1c\x1d\x1e\x1f"


def find_text_problem(file: str) -> tuple[str, int, bytes]:
    """Find the first line with forbidden white space in a file of transcripts.

    Return Kaldi's message, the line number and the key. Lines count from 1. A last line without a newline is also a
    fault. Without a fault, or without valid UTF-8, the message is "".
    """
    last_byte = b"\n"
    problem: tuple[str, int, bytes] | None = None
    lines_before = 0
    for chunk in read_chunks(file):
        last_byte = chunk[-1:]
        is_ascii = chunk.isascii()
        if not is_ascii:
            try:
                decoded_chunk = chunk.decode()
            except UnicodeDecodeError:
                return "", 0, b""
        if problem is None and (
            b"\r" in chunk or b"\v" in chunk or b"\f" in chunk or (not is_ascii and _ODD_SPACES.search(decoded_chunk))
        ):
            for line_number, line in enumerate(split_lines(chunk), lines_before + 1):
                if not line.endswith(b"\n"):
                    break
                spaces = set(_ODD_SPACES.findall(line.decode())) - set(_ONLY_IN_PYTHON)
                fault = "CR (0x0D) character" if b"\r" in line else "disallowed Unicode whitespaces" if spaces else ""
                if fault:
                    key = b"".join(line.split()[:1])
                    problem = f"The line for utterance {key.decode()} contains {fault}", line_number, key
                    break
        lines_before += chunk.count(b"\n")
    if problem is None and last_byte != b"\n":
        problem = f"The current line (nr. {lines_before}) has invalid newline", lines_before + 1, b""
    return problem or ("", 0, b"")


def validate_text(say: Printer, argv: list[str]) -> int:
    """Check the white space in a file of transcripts with :func:`check_text`, and return the exit status 0."""
    if len(argv) != 1:
        raise make_usage_error()
    check_text(say, argv[0])
    return 0


def check_text(say: Printer, file: str) -> None:
    """Raise DataDirError if a file of transcripts is empty or unreadable, or if :func:`find_text_problem` finds a problem."""
    try:
        is_empty = os.path.getsize(file) == 0 and os.path.isfile(file)
        problem, line_number, key = find_text_problem(file)
    except OSError:
        raise DataDirError(f"{say.name}: ERROR: failed to open {file}") from None
    if is_empty:
        raise DataDirError(f"{say.name}: ERROR: file '{file}' is empty or does not exist")
    if problem:
        warn(f"{say.name}: {problem}")
        # Only the message about a missing newline at the end of the file ends with this word.
        remedy = "add a newline at its end" if problem.endswith("newline") else "replace them"
        message = f"text file '{file}' contains disallowed UTF-8 whitespace character(s): {remedy}"
        raise DataDirError(f"{say.name}: ERROR: {message}", file, line_number, key)
