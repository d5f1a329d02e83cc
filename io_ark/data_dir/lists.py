"""Kaldi's Perl scripts for lists: filter_scp.pl, split_scp.pl, subset_scp.pl, shuffle_list.pl, apply_map.pl and others.

Each function takes the arguments of its script, and returns its status.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, compress

from io_ark.data_dir import lines
from io_ark.data_dir.lines import Keys, chunks, lines_of, select
from io_ark.data_dir.stage import BYTE_ORDER_MARK, STARTS_WITH_MARK, DataDirError, Say, shown, warn

# Perl's status of "die" is that of the last system call that failed: opening a file asks whether it is a terminal.
NO_TERMINAL, MISSING, DIED = 25, 2, 255
STDIN = 0
MOST_DIGITS = 18  # of a number, which Kaldi's scripts hold in 64 bits
MASK, FACTOR, ADDED = (1 << 48) - 1, 0x5DEECE66D, 0xB


def usage(status: int = DIED) -> DataDirError:
    """Return the error that shows how to call a script."""
    return DataDirError("", status=status)


def source(arguments: list[str]) -> str | int | None:
    """Return the file that Perl's ``<>`` reads; None, after a message, if it cannot be opened."""
    if not arguments or arguments[0] == "-":
        return STDIN
    try:
        os.close(os.open(arguments[0], os.O_RDONLY))
    except OSError as error:
        warn(f"Can't open {arguments[0]}: {error.strerror}")
        return None
    return arguments[0]


def opened(file: str) -> str | int:
    """Return what Perl's ``open`` reads: standard input for ``-``."""
    return STDIN if file == "-" else file


def name_of(file: str | int) -> str:
    """Return the name of a source for messages."""
    return "standard input" if file == STDIN else str(file)


@contextlib.contextmanager
def opening(text: str) -> Iterator[None]:
    """Turn the failure to open a file into Perl's message and status."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        raise DataDirError(f"{text}: {error.strerror}", status=error.errno or DIED, partly=True) from None


def bad_line(text: str, file: str | int, status: int = 0) -> Callable[..., None]:
    """Return a function that raises the error for a line, by its number; by default with the status of Perl's ``die``."""
    status = status or (DIED if file == STDIN else NO_TERMINAL)

    def raise_error(number: int, line: bytes = b"") -> None:
        what = f" {line.decode('utf-8', 'backslashreplace').strip()!r}" if line.strip() else ""
        raise DataDirError(f"{text}{what}: correct this line", name_of(file), number, status=status, partly=True)

    return raise_error


def keys_of(file: str, text: str = "Invalid id-list file line") -> Keys:
    """Return the keys of an id list, which must not have blank lines."""
    with opening(f"Could not open id-list file {file}"):
        source = lines.rereadable(opened(file))

        def parts() -> Iterator[bytes]:
            for before, chunk in lines.numbered(source()):
                if not before and chunk.startswith(BYTE_ORDER_MARK):
                    raise DataDirError(STARTS_WITH_MARK, name_of(opened(file)), 1)
                found = lines.Fields(chunk)
                if found.lacking:
                    bad_line(f"{text} without a key", opened(file))(before + found.lacking)
                yield found.joined

        return Keys(parts)


def filter_scp(say: Say, argv: list[str]) -> int:
    """Print the lines of a file whose field is in a list."""
    exclude, number = False, 1
    while argv[:1] in (["--exclude"], ["-f"]):
        if argv[0] == "--exclude":
            exclude, argv = True, argv[1:]
        else:
            number, argv = _integer(argv[1]) if len(argv) > 1 else 0, argv[2:]
    if len(argv) not in (1, 2):
        raise usage()
    keys = keys_of(argv[0])
    file = source(argv[1:])
    if file is not None:
        text = "Bad line, could not get first field" if number == 1 else f"Invalid scp file line without field {number}"
        write = sys.stdout.buffer.write
        if number < 1:  # Perl's element -1 is the last one
            for line in lines_of(file):
                found = keys.runs(line.split()[number - 1], 1)[0][2] >= 0
                write(line if found != exclude else b"")
        else:
            select(keys, file, write, number=number, exclude=exclude, bad=bad_line(text, file))
    return 0


def utt2spk_to_spk2utt(say: Say, argv: list[str]) -> int:
    """Print spk2utt from utt2spk."""
    if len(argv) > 1:
        raise usage()
    file = source(argv)
    if file is not None:
        sys.stdout.buffer.writelines(lines.spk2utt(chunks(file), bad_line("Invalid line in utt2spk file", file)))
    return 0


def spk2utt_to_utt2spk(say: Say, argv: list[str]) -> int:
    """Print utt2spk from spk2utt."""
    for name in argv or ["-"]:
        file = source([name])
        if file is not None:
            sys.stdout.buffer.writelines(lines.utt2spk(chunks(file), bad_line("Invalid line in spk2utt file", file)))
    return 0


def _integer(text: str) -> int:
    found = re.match(r"\s*[+-]?[0-9]+", text)
    return int(found[0][:MOST_DIGITS]) if found else 0


def whole_number(text: str) -> int:
    """Return a number of 1 or more; 0 for other texts.

    >>> whole_number("12"), whole_number("0"), whole_number("\u00b2"), whole_number("1.5")
    (12, 0, 0, 0)
    """
    return int(text) if re.fullmatch(f"[0-9]{{1,{MOST_DIGITS}}}", text) else 0


def spread(count: int, wanted: int) -> bytes:
    """Return which lines subset_scp.pl chooses evenly: a byte for each line, 1 or 0."""

    @functools.cache  # halves of the same size have the same lines
    def choose(size: int, needed: int) -> bytes:
        if needed in (0, size):
            return bytes([needed > 0]) * size
        return choose(size // 2, needed // 2) + choose(size - size // 2, needed - needed // 2)

    return choose(count, wanted)


def subset_lines(file: str, wanted: int, which: str, *, quiet: bool = False) -> Iterator[bytes]:
    """Return some lines of a file: evenly spread ones, the first or the last."""
    with opening(f"Opening input scp file {file}"):
        source = lines.rereadable(opened(file))
        count = sum(map(lines.count_of, source()))
    if wanted > count and not quiet:
        text = f"You requested from subset_scp.pl more elements than available: {wanted} > {count}"
        raise DataDirError(text, status=DIED, partly=True)
    wanted = max(0, min(wanted, count))
    chosen = spread(count, wanted) if not which else b"\1" * wanted + bytes(count - wanted)
    return _chosen(source(), chosen if which != "--last" else chosen[::-1])


def _chosen(supply: Iterable[bytes], chosen: bytes) -> Iterator[bytes]:
    at = 0
    for chunk in supply:
        found = lines.split_lines(chunk)
        yield b"".join(compress(found, chosen[at : at + len(found)]))
        at += len(found)


def subset_scp(say: Say, argv: list[str]) -> int:
    """Print a number of lines of a file."""
    given = set()
    for name in ("--quiet", "--first", "--last"):
        if argv[:1] == [name]:
            given.add(name)
            argv = argv[1:]
    if len(argv) < 2:
        raise usage()
    if _integer(argv[0]) == 0 or re.match(r"\s*[+-]?[0-9]+\.[0-9]*[1-9]", argv[0]):
        text = f'First command-line parameter to subset_scp.pl must be an integer, got "{argv[0]}"'
        raise DataDirError(text, status=DIED)
    which = next((name for name in ("--first", "--last") if name in given), "")
    sys.stdout.buffer.writelines(subset_lines(argv[1], _integer(argv[0]), which, quiet="--quiet" in given))
    return 0


def shuffled(source: Iterable[bytes], seed: int = 0) -> Iterator[bytes]:
    """Return the lines of chunks in the order of shuffle_list.pl: that of Perl's random numbers, written as text."""

    def numbers() -> Iterator[bytes]:
        state = ((seed & 0xFFFFFFFF) << 16) + 0x330E
        while True:
            state = (state * FACTOR + ADDED) & MASK
            yield b"%.15g" % (state / (MASK + 1))

    return lines.in_order(source, numbers())


def shuffle_list(say: Say, argv: list[str]) -> int:
    """Print the lines of a file in random order."""
    seed = 0
    if argv[:1] == ["--srand"]:
        if not re.fullmatch(r"[+-]?[0-9]+", "".join(argv[1:2])):
            raise DataDirError(f'Bad argument to --srand option: "{"".join(argv[1:2])}"', status=DIED)
        seed, argv = _integer(argv[1]), argv[2:]
    if len(argv) > 1 or re.match("-.", "".join(argv[:1])):
        print("Usage: shuffle_list.pl [--srand N] [input file]  > output\nrandomizes the order of lines of input.")
        return 1
    file = source(argv)
    if file is not None:
        sys.stdout.buffer.writelines(shuffled(chunks(file), seed))
    return 0


def map_of(file: str) -> dict[bytes, bytes]:
    """Return a map from the first field of each line to the others, with single spaces."""
    found: dict[bytes, bytes] = {}
    number = 0
    with opening(f"Error opening map file {file}"):
        for chunk in chunks(opened(file)):
            plain = lines.is_plain(chunk)
            for number, line in enumerate(
                chunk.rstrip(b"\n").split(b"\n") if plain else lines.split_lines(chunk), number + 1
            ):
                key, _, value = (line if plain else b" ".join(line.split())).partition(b" ")
                if found.setdefault(key, value) != value:
                    text = "apply_map.pl: warning! another value for this key: the last one is used"
                    warn(DataDirError(text, file, number, key))
                    found[key] = value
                elif not key:
                    bad_line("apply_map.pl: empty line", opened(file))(number)
    return found


def apply_map(say: Say, argv: list[str]) -> int:
    """Print standard input with fields replaced by what a map has for them."""
    begin, end, permissive = None, None, False
    for _ in range(3):
        if argv[:1] == ["-f"]:
            spec, argv = "".join(argv[1:2]), argv[2:]
            if re.fullmatch("[0-9]+", spec):
                begin = end = _integer(spec) - 1
            elif found := re.match(r"([0-9]*)[-:]([0-9]*)", spec):
                begin = _integer(found[1]) - 1 if found[1] else begin
                end = _integer(found[2]) - 1 if found[2] else end
            if begin is None and end is None:
                raise DataDirError(f"Bad argument to -f option: {spec}", status=DIED)
        if argv[:1] == ["--permissive"]:
            permissive, argv = True, argv[1:]
    if len(argv) != 1:
        raise usage(1)
    table = map_of(argv[0])
    some = slice(max(begin or 0, 0), None if end is None else end + 1)

    def missing(word: bytes) -> bytes:
        if not permissive:
            raise DataDirError(f"apply_map.pl: undefined key {shown(word)} in {argv[0]}", status=DIED)
        warn(f"apply_map.pl: warning! missing key {shown(word)} in {argv[0]}")
        return word

    for chunk in chunks(STDIN):
        out: list[bytes] = []
        plain = lines.is_plain(chunk)  # then only the fields to be replaced are parted
        try:
            for line in chunk[:-1].split(b"\n") if plain else lines.split_lines(chunk):
                fields = line.split(b" ", -1 if end is None else end + 1) if plain else line.split()
                try:
                    fields[some] = map(table.__getitem__, fields[some])
                except KeyError:
                    fields[some] = [table[word] if word in table else missing(word) for word in fields[some]]
                out.append(b" ".join(fields))
        finally:
            sys.stdout.buffer.write(b"\n".join([*out, b""]))
    return 0


def balanced(say: Say, sizes: Sequence[int], parts: int) -> list[int]:
    """Divide a list of speakers as evenly as split_scp.pl, and return the number of lines of each part.

    Args:
        sizes: number of lines of each speaker.
        parts: number of parts.
    """
    total, sums = len(sizes), list(accumulate(sizes, initial=0))
    if total < parts:
        text = f"Refusing to split data because number of speakers {total} is less than the number of output .scp files {parts}"
        raise DataDirError(f"{say.name}: {text}: use fewer parts", status=DIED, partly=True)
    bounds = [-(-part * total // parts) for part in range(parts + 1)]

    def size(part: int) -> int:
        return sums[bounds[part + 1]] - sums[bounds[part]]

    changed = True
    while changed:
        changed = False
        for part in range(parts):
            if part < parts - 1 and bounds[part + 1] > bounds[part]:
                last = bounds[part + 1]
                count, here, there = sizes[last - 1], size(part), size(part + 1)
                if abs(there + count - (here - count)) < abs(there - here):
                    bounds[part + 1] -= 1
                    changed = True
            if part > 0 and bounds[part + 1] > bounds[part]:
                first = bounds[part]
                count, there, here = sizes[first], size(part - 1), size(part)
                if abs(here - count - (there + count)) < abs(here - there):
                    bounds[part] += 1
                    changed = True
    return [size(part) for part in range(parts)]


Parts = tuple[Iterable[bytes], list[int]]  # chunks of lines, and the number of lines of each part


def parts_by_speaker(say: Say, scp: str, utt2spk: str, parts: int, outputs: Sequence[str] = ()) -> Parts:
    """Divide a file into parts in which speakers are not divided. It may be one of the outputs."""
    numbers: dict[bytes, int] = {}
    speakers, bounds = array("q"), array("q", (0,))  # of lines of utt2spk that follow each other
    with opening(f"{say.name}: Error opening utt2spk file {utt2spk}"):
        pairs = lines.rereadable(utt2spk, outputs)
        bad = bad_line(f"{say.name}: Bad line in utt2spk file", utt2spk)
        for speaker, count in lines.speakers(lines.of_two_words(pairs(), bad)):
            speakers.append(numbers.setdefault(speaker, len(numbers)))
            bounds.append(bounds[-1] + count)
    keys = Keys(lambda: (lines.Fields(chunk).joined for chunk in pairs()))
    with opening(f"{say.name}: Error opening input scp file {scp}"):
        source = lines.rereadable(scp, outputs)
    places: dict[int, int] = {}  # of speakers, in the order of the file

    def runs() -> Iterator[tuple[int, int]]:
        for before, chunk in lines.numbered(source()):
            found, *_ = keys.runs(chunk, bounds=bounds)
            for start, part, size in zip(found[::4], found[2::4], found[3::4], strict=True):
                if part < 0:
                    line = lines.split_lines(chunk[start:])[0]
                    what = f"No utterance {shown(lines.field(line))} in utt2spk file {utt2spk}"
                    what = what if line.strip() else "Empty or space-only line in scp file"
                    bad_line(f"{say.name}: {what}", scp)(before + lines.count_of(chunk[:start]))
                yield places.setdefault(speakers[part], len(places)), size

    sizes: list[int] = []
    together = True
    for place, size in runs():
        if place == len(sizes):
            sizes.append(0)
        together = together and place == len(sizes) - 1
        sizes[place] += size
    counts = balanced(say, sizes, parts)
    if together:
        return source(), counts
    each = (place for place, size in runs() for _ in range(size))
    return lines.in_order(source(), (b"%012d%012d" % (place, at) for at, place in enumerate(each))), counts


def even_parts(say: Say, scp: str, parts: int, outputs: Sequence[str] = ()) -> Parts:
    """Divide a file into parts of sizes that differ by at most one. It may be one of the outputs."""
    with opening(f"{say.name}: Error opening input scp file {scp}"):
        source = lines.rereadable(scp, outputs)
        count = sum(map(lines.count_of, source()))
    if not count:
        warn(f"{say.name}: error: empty input scp file {scp}")
    if count < parts:
        text = f"[reduce $nj ({parts}) to be smaller than the number of lines ({count}) in {scp}]"
        raise DataDirError(f"{say.name}: You are splitting into too many pieces! {text}", status=DIED, partly=True)
    size, larger = divmod(count, parts)
    return source(), [size + (part < larger) for part in range(parts)]


def split_scp(say: Say, argv: list[str]) -> int:
    """Divide a file into several."""
    jobs = job = 0
    utt2spk, from_one = "", False
    for _ in range(3):
        if argv[:1] == ["-j"]:
            jobs, job, argv = (*map(_integer, ([*argv[1:3], "", ""])[:2]), argv[3:])
        if argv[:1] and (found := re.search("--utt2spk=(.+)", argv[0])):
            utt2spk, argv = found[1], argv[1:]
        if argv[:1] == ["--one-based"]:
            from_one, argv = True, argv[1:]
    if jobs and not (jobs > 0 and 0 <= job - from_one < jobs):
        text = f"Invalid job number/index values for '-j {jobs} {job}{' --one-based' * from_one}'"
        raise DataDirError(f"{say.name}: {text}", status=DIED)
    if (not jobs and len(argv) < 2) or (jobs and len(argv) not in (1, 2)):
        raise usage()
    scp, *outputs = argv
    if jobs:
        outputs = ["/dev/null"] * jobs
        outputs[job - from_one] = argv[1] if len(argv) > 1 else "-"
    parts = len(outputs)
    source, counts = (
        parts_by_speaker(say, scp, utt2spk, parts, outputs) if utt2spk else even_parts(say, scp, parts, outputs)
    )
    status = 0
    for output, count, part in zip(outputs, counts, lines.by_count(source, counts), strict=True):
        with opening(f"{say.name}: Could not open scp file {output} for writing"):
            target = sys.stdout.buffer if output == "-" else open(output, "wb")
        with contextlib.nullcontext() if output == "-" else target:
            target.writelines(part)
        if not count:
            warn(f"{say.name}: Error: empty .scp file {output} (too many splits and too few speakers?)")
            status = 1
    return status


# What Perl's \s matches in Unicode, but for the usual four.
_ODD_SPACES = re.compile("[\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_PERL_LACKS = "\x1c\x1d\x1e\x1f"


def text_problem(file: str) -> tuple[str, int, bytes]:
    """Return Kaldi's message on a file of transcripts, the line and its key; an empty message if there is none.

    White space is checked only in files that are UTF-8.
    """
    last = b"\n"
    problem: tuple[str, int, bytes] | None = None
    before = 0
    for chunk in chunks(file):
        last = chunk[-1:]
        ascii_only = chunk.isascii()
        if not ascii_only:
            try:
                text = chunk.decode()
            except UnicodeDecodeError:
                return "", 0, b""
        if problem is None and (
            b"\r" in chunk or b"\v" in chunk or b"\f" in chunk or (not ascii_only and _ODD_SPACES.search(text))
        ):
            for at, line in enumerate(lines.split_lines(chunk), before + 1):
                if not line.endswith(b"\n"):
                    break
                odd = set(_ODD_SPACES.findall(line.decode())) - set(_PERL_LACKS)
                what = "CR (0x0D) character" if b"\r" in line else "disallowed Unicode whitespaces" if odd else ""
                if what:
                    key = b"".join(line.split()[:1])
                    problem = f"The line for utterance {key.decode()} contains {what}", at, key
                    break
        before += chunk.count(b"\n")
    if problem is None and last != b"\n":
        problem = f"The current line (nr. {before}) has invalid newline", before + 1, b""
    return problem or ("", 0, b"")


def validate_text(say: Say, argv: list[str]) -> int:
    """Check a file of transcripts."""
    if len(argv) != 1:
        raise usage()
    check_text(say, argv[0])
    return 0


def check_text(say: Say, file: str) -> None:
    """Raise validate_text.pl's error for a file of transcripts with odd white space."""
    try:
        empty = os.path.getsize(file) == 0 and os.path.isfile(file)
        problem, number, key = text_problem(file)
    except OSError:
        raise DataDirError(f"{say.name}: ERROR: failed to open {file}") from None
    if empty:
        raise DataDirError(f"{say.name}: ERROR: file '{file}' is empty or does not exist")
    if problem:
        warn(f"{say.name}: {problem}")
        text = f"text file '{file}' contains disallowed UTF-8 whitespace character(s): replace them"
        raise DataDirError(f"{say.name}: ERROR: {text}", file, number, key)
