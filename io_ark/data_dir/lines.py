"""Lines of the files of data directories, as bytes: fields, keys, groups, order. Files are read in chunks of whole lines.

Perl and Python split lines at any ASCII white space, awk at blanks and tabs: ``awk=True`` splits as awk does.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
import re
from _thread import _local
from array import array
from collections.abc import Callable, Iterable, Iterator

from io_ark.errors import FormatError

CHUNK = 1 << 20
IN_C = 1 << 18  # bytes below which loading the C library takes longer than it saves
MOST_HELD = 1 << 26  # bytes of keys that are held in memory if they are sorted
MOST_INDEXED = 1 << 32  # bytes of keys below which the C library's index finds them
MOST_TO_SORT = 1 << 28  # bytes that are sorted in memory, with those of the objects
OBJECT = 41  # bytes of a line beyond its text
EACH_KEY = array("q", (0,))  # see Keys.runs
_ENDS_AS_SPACES = bytes(range(256)).replace(b"\n", b" ")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def chunks(file: str | int) -> Iterator[bytes]:
    """Read a file, or a descriptor, in chunks of whole lines; the last line may lack its newline."""
    with open(file, "rb", closefd=isinstance(file, str)) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk if chunk[-1] == 10 else chunk + stream.readline()


def rereadable(file: str | int, outputs: Iterable[str] = ()) -> Callable[[], Iterable[bytes]]:
    """Return a function that returns the chunks of a file. A pipe, a descriptor or an output is read once and held in memory."""
    is_output = any(os.path.exists(each) and os.path.samefile(each, file) for each in outputs)
    if isinstance(file, str) and os.path.isfile(file) and not is_output:
        return lambda: chunks(file)
    held = list(chunks(file))
    return lambda: held


def lines_of(file: str | int) -> Iterator[bytes]:
    """Return the lines of a file, with their newlines."""
    for chunk in chunks(file):
        yield from split_lines(chunk)


def split_lines(chunk: bytes) -> list[bytes]:
    """Split at newlines only, and keep them."""
    if b"\r" not in chunk:
        return chunk.splitlines(keepends=True)
    found = [line + b"\n" for line in chunk.split(b"\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


def words(line: bytes, *, awk: bool = False) -> list[bytes]:
    """Split a line at white space.

    >>> words(b"a b\\r\\n"), words(b"a b\\r\\n", awk=True)
    ([b'a', b'b'], [b'a', b'b\\r'])
    """
    if awk and (b"\r" in line or b"\v" in line or b"\f" in line):
        return [word for word in re.split(rb"[ \t\n]+", line) if word]
    return line.split()


def words_of_script(line: bytes) -> list[bytes]:
    """Split a line of a script file into its key and the words of a command, or the name of a file as a whole.

    >>> words_of_script(b"a cat  b.wav |"), words_of_script(b"a  my  file.wav ")
    ([b'a', b'cat', b'b.wav', b'|'], [b'a', b'my  file.wav'])
    """
    if line.rstrip().endswith(b"|") and not re.search(rb"[\"'\\]", line):
        return line.split()
    return line.strip().split(None, 1)


def field(line: bytes, number: int = 1, *, awk: bool = False) -> bytes:
    """Return a field of a line, from 1; empty if there are fewer."""
    found = words(line, awk=awk) if awk else line.split(None, number)
    return found[number - 1] if len(found) >= number else b""


class _C:
    """The functions in C that this module calls; false without the library."""

    def __init__(self) -> None:
        import ctypes

        from io_ark.native.library import interface_of, load

        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "native")
        names = ("ark_line_fields", "ark_line_groups", "ark_line_numbers", "ark_line_runs")
        with open(os.path.join(folder, "signatures.txt"), encoding="utf-8") as file:
            self.library = load(folder, interface_of(file.read()))
        if self.library:
            of, to, number, size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
            types = ((of, size, number, number, to, to), (of, size, of, size, to), (of, size, to, size))
            runs = (of, size, number, of, size, to, size, to, size, to, to, to)
            self.fields, self.groups, self.index, self.runs = (
                self.library.function(name, *each, result=size)
                for name, each in zip(names, (*types, runs), strict=True)
            )

    @staticmethod
    def at(buffer: mmap.mmap | array[int]) -> object:
        """Return a pointer to a buffer."""
        import ctypes

        return ctypes.byref((ctypes.c_char * 1).from_buffer(buffer))


_loaded: list[_C] = []
_rooms = _local()  # of each thread


def _c(size: int) -> _C | None:
    """Return the functions in C if they are loaded, or if so many bytes are worth it."""
    if not _loaded and size >= IN_C:
        _loaded.append(_C())
    return _loaded[0] if _loaded and _loaded[0].library else None


def _room(kind: str, size: int) -> mmap.mmap:
    """Return a buffer that the next call gets, too: new memory takes longer than the work on it."""
    room: mmap.mmap | None = getattr(_rooms, kind, None)
    if not room or len(room) < size:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
        room = mmap.mmap(-1, size + size // 2, **private)  # of which only what is used is taken
        setattr(_rooms, kind, room)
    return room


class Fields:
    """A field of each line of a chunk.

    Attributes:
        joined: the fields, each with a newline; empty for a line that lacks it.
        last: the last one.
        count: number of lines.
        unsorted, lacking, indented: the first line, from 1, whose field does not follow that of the line before; that
            lacks the field; that starts with white space. 0 if there is none.
    """

    def __init__(self, chunk: bytes, number: int = 1, *, awk: bool = False, after: bytes | None = None) -> None:
        """Read a chunk; ``after`` is the field of the line before it."""
        if c := _c(len(chunk)):
            out, found = _room("bytes", len(chunk) + 1), array("q", bytes(32))
            self.joined = out[: c.fields(chunk, len(chunk), number, awk, c.at(out), c.at(found))]
            self.count, self.unsorted, self.lacking, self.indented = found
        else:
            self._read_in_python(chunk, number, awk)
        self.last = _last_line(self.joined)[:-1]
        if after is not None and after >= self.joined[: self.joined.find(b"\n")]:
            self.unsorted = 1

    def _read_in_python(self, chunk: bytes, number: int, awk: bool) -> None:
        lines = chunk.split(b"\n")
        if not lines[-1]:
            lines.pop()
        found_fields = [field(line, number, awk=awk) for line in lines]
        self.joined = b"".join([each + b"\n" for each in found_fields])
        self.count = len(lines)
        pairs = itertools.pairwise(found_fields)
        self.unsorted = next((at for at, (a, b) in enumerate(pairs, 2) if a >= b), 0)
        self.lacking = next((at for at, each in enumerate(found_fields, 1) if not each), 0)
        gaps = b" \t" if awk else b" \t\r\v\f"
        self.indented = next((at for at, line in enumerate(lines, 1) if line[:1] and line[0] in gaps), 0)


class Keys:
    """Set of keys, each with its number: of a key twice, that of the last.

    Sorted keys are read along with the lines that are looked up, in the order of both; if they are many, from their files.

    Args:
        parts: returns the keys, each with a newline, in chunks of many, of which some may be empty.

    Attributes:
        count: number of keys.
        has_repeated: True if a key is there twice.
    """

    def __init__(self, parts: Callable[[], Iterable[bytes]]) -> None:
        held: list[bytes] = []
        size = self.count = 0
        for part in filter(None, parts()):
            size += len(part)
            self.count += part.count(b"\n")
            if size <= MOST_HELD:
                held.append(part)
        self._parts = (lambda: filter(None, parts())) if size > MOST_HELD else lambda: held
        self._size = size
        self._c = _c(size)
        self._slots: array[int] | None = None
        self._numbers: dict[bytes, int] = {}
        self._mask = 0
        self.has_repeated = False
        self._rewind()
        if not self._c or not self._is_sorted():
            self._index()

    @classmethod
    def of(cls, *files: str, number: int = 1, awk: bool = False) -> Keys:
        """Return a field of the lines of files."""
        sources = [rereadable(file) for file in files]
        return cls(lambda: (Fields(chunk, number, awk=awk).joined for source in sources for chunk in source()))

    def chunks(self) -> Iterable[bytes]:
        """Return the keys, in chunks."""
        return self._parts()

    def _is_sorted(self) -> bool:
        last = None
        for part in self._parts():
            found = Fields(part, awk=True, after=last)
            if found.unsorted:
                return False
            last = found.last
        return True

    def _index(self) -> None:
        """Hold all keys in memory, with a number for each."""
        joined = b"".join(self._parts())
        if self._c and len(joined) < MOST_INDEXED:
            self._mask = (1 << (self.count * 3 // 2).bit_length()) - 1
            self._slots, self._window = array("I", bytes(8)) * (self._mask + 1), joined
            self.has_repeated = self._c.index(joined, len(joined), self._c.at(self._slots), self._mask) < self.count
        else:
            self._c = None
            self._numbers = {key: number for number, key in enumerate(joined.split(b"\n")[:-1])}
            self.has_repeated = len(self._numbers) < self.count

    def _rewind(self) -> None:
        """Look up lines from the first key on."""
        self._supply, self._window = iter(self._parts()), b""
        # Where the search is in the window: place, number, place of the key before.
        self._position = array("q", bytes(24))

    def _advance(self, last: bytes) -> None:
        """Let the window reach a key."""
        while (not last or _last_line(self._window)[:-1] < last) and (part := next(self._supply, b"")):
            place, number, before = self._position
            self._window = self._window[before:] + part
            self._position = array("q", (place - before, number, 0))

    def runs(self, chunk: bytes, number: int = 1, bounds: array[int] | None = None) -> tuple[array[int], int, int]:
        """Part the lines of a chunk by the key in a field.

        Args:
            chunk: whole lines.
            number: of the field.
            bounds: numbers of the first key of each part, and the count of all keys. One part by default; with
                ``EACH_KEY``, each key is a part.

        Returns:
            Four numbers for each run of lines of the same part, -1 for keys that are not in the set: start, end, part, count
            of lines. The number of lines; and the first line that lacks the field, 0 if there is none.
        """
        ends = bounds or array("q", (0, max(self.count, 1)))
        if not self._c and self._size < MOST_INDEXED and (c := _c(len(chunk))):
            self._c = c
            self._index()
        if self._c:
            room, found = _room("numbers", 32 * count_of(chunk)), array("q", bytes(32))
            last, is_rewound = field(_last_line(chunk), number), False
            while c := self._c:
                if not self._slots:
                    self._advance(last)
                slots = c.at(self._slots) if self._slots else None
                count = c.runs(chunk, len(chunk), number, self._window, len(self._window), slots, self._mask,
                               c.at(ends), len(ends) - 1, c.at(self._position), c.at(room), c.at(found))  # fmt: skip
                if count >= 0:
                    return array("q", room[: 32 * count]), found[0], found[2]
                if is_rewound or not self._position[1]:
                    self._index()
                else:
                    self._rewind()  # of another file that is sorted, too
                is_rewound = True
        from bisect import bisect

        runs = array("q")
        at = start = lacking = 0
        for at, line in enumerate(split_lines(chunk), 1):
            key = field(line, number)
            lacking = lacking or (at if not key else 0)
            position = self._numbers.get(key)
            part = -1 if position is None else position if ends is EACH_KEY else bisect(ends, position) - 1
            if not runs or runs[-2] != part:
                runs.extend((start, start, part, 0))
            start += len(line)
            runs[-3] = start
            runs[-1] += 1
        return runs, at, lacking

    def parts(
        self, chunk: bytes, number: int = 1, bounds: array[int] | None = None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """Return the runs as parts and their lines, and the first line that lacks the field."""
        runs, _, lacking = self.runs(chunk, number, bounds)
        return [
            (part, chunk[first:end]) for first, end, part in zip(runs[::4], runs[1::4], runs[2::4], strict=True)
        ], lacking

    def also_in(self, known: Keys) -> Iterator[bytes]:
        """Return the keys that another set has, too, in chunks."""
        return (b"".join([some for part, some in known.parts(chunk)[0] if part >= 0]) for chunk in self.chunks())


def numbers_in(chunk: bytes, number: int) -> list[float]:
    """Return the numbers that a field of each line starts with, as awk does."""
    return numbers_of(Fields(chunk, number, awk=True).joined)


def columns(chunk: bytes, *numbers: int) -> Iterator[list[bytes]]:
    """Return fields of the lines of a chunk, each as a list."""
    return (Fields(chunk, number, awk=True).joined.split(b"\n")[:-1] for number in numbers)


def rows(line: bytes, *values: Iterable[object], count: int) -> bytes:
    """Return so many lines, each made of a value of each column by a format.

    >>> rows(b"%b-%b\\n", [b"a", b"b"], [b"1", b"2"], count=2)
    b'a-1\\nb-2\\n'
    """
    mixed: list[object] = [None] * (len(values) * count)
    for at, column in enumerate(values):
        mixed[at :: len(values)] = column
    return line * count % tuple(mixed)


def _last_line(chunk: bytes) -> bytes:
    return chunk[chunk.rfind(b"\n", 0, -1) + 1 :]


def distinct(file: str, number: int, *, awk: bool = True) -> bytes:
    """Return the different values of a field, sorted, each with a newline."""
    found: set[bytes] = set()
    for chunk in chunks(file):
        found.update(Fields(chunk, number, awk=awk).joined.splitlines(keepends=True))
    return b"".join(sorted(found))


def select(
    keys: Keys,
    source: str | int,
    write: Callable[[bytes], object] | None,
    *,
    number: int = 1,
    exclude: bool = False,
    bad: Callable[[int], object] = lambda line: None,
) -> tuple[int, int]:
    """Write the lines of a file whose field is in a set of keys, or is not; return their number, and that of all lines.

    Without ``write``, lines are only counted. ``bad`` is called with the number of a line that lacks the field, after the lines before it were written.
    """
    kept = total = 0
    for chunk in chunks(source):
        runs, count, lacking = keys.runs(chunk, number)
        if lacking:
            runs, *_ = keys.runs(b"".join(split_lines(chunk)[: lacking - 1]), number)
        first = 4 * bool(runs and (runs[2] < 0) != exclude)  # of one part, so they take turns
        starts, ends, counts = (runs[first + at :: 8] for at in (0, 1, 3))
        if write and starts:
            write(b"".join([chunk[start:end] for start, end in zip(starts, ends, strict=True)]))
        if lacking:
            bad(total + lacking)
        kept += sum(counts)
        total += count
    return kept, total


def _temporary(parts: Iterable[bytes]) -> Iterable[bytes]:
    """Write a temporary file, and return it to be read."""
    import tempfile

    file = tempfile.TemporaryFile()
    file.writelines(parts)
    file.seek(0)
    return file


def _held(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Return the same bytes after the last part is known; in temporary files if they are many."""
    files: list[Iterable[bytes]] = []
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size > MOST_HELD:
            files.append(_temporary(held))
            held, size = [], 0
    return itertools.chain(*files, held)


def spk2utt(source: Iterable[bytes], bad: Callable[[int, bytes], object]) -> Iterator[bytes]:
    """Turn chunks of lines "utterance speaker" into chunks of lines "speaker utterance ...", in the order of speakers.

    ``bad`` is called with a line that has not two fields, and its number.
    """
    speaker = left = b""
    parts = iter(source)

    def grouped() -> Iterator[bytes]:
        nonlocal speaker, left
        for chunk in parts:
            c = _c(len(chunk))
            out = _room("bytes", 2 * len(chunk) + 1)
            used = c.groups(chunk, len(chunk), speaker, len(speaker), c.at(out)) if c else -1
            if used < 0:
                left = chunk
                return
            speaker = field(_last_line(chunk), 2)
            yield out[:used]

    done = _held(grouped())
    if not left:
        yield from done
        if speaker:
            yield b"\n"
        return
    members: dict[bytes, list[bytes]] = {}
    for line in b"".join(done).split(b"\n") if speaker else ():
        first, *others = line.split()
        members[first] = others
    before = sum(map(len, members.values()))
    for at, line in enumerate(
        (line for part in itertools.chain([left], parts) for line in split_lines(part)), before + 1
    ):
        pair = line.split()
        if len(pair) != 2:
            bad(at, line)
        members.setdefault(pair[1], []).append(pair[0])
    yield b"".join([b"%b %b\n" % (name, b" ".join(utterances)) for name, utterances in members.items()])


def utt2spk(source: Iterable[bytes], bad: Callable[[int, bytes], object]) -> Iterator[bytes]:
    """Turn chunks of lines "speaker utterance ..." into chunks of lines "utterance speaker"."""
    at = 0
    for chunk in source:
        out: list[bytes] = []
        for at, line in enumerate(chunk.split(b"\n") if not chunk.endswith(b"\n") else chunk[:-1].split(b"\n"), at + 1):
            speaker, *utterances = line.split() or [b""]
            if not utterances:
                if out:
                    yield b"".join(out)
                bad(at, line)
            out += ((b" %b\n" % speaker).join(utterances), b" ", speaker, b"\n")
        yield b"".join(out)


def of_two_words(source: Iterable[bytes], bad: Callable[[int, bytes], object]) -> Iterator[bytes]:
    """Return chunks whose lines have two words each. ``bad`` is called with another line, and its number."""
    for before, chunk in numbered(source):
        second = Fields(chunk, 2)
        if second.lacking or Fields(chunk, 3).joined.strip(b"\n"):
            for at, line in enumerate(split_lines(chunk), before + 1):
                if len(line.split()) != 2:
                    bad(at, line)
        yield chunk


def speakers(source: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the second word of lines, and the number of lines with it that follow each other."""
    words = (Fields(chunk, 2).joined.split(b"\n")[:-1] for chunk in source)
    for word, group in itertools.groupby(itertools.chain.from_iterable(words)):
        yield word, len(list(group))


def numbered(source: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield chunks, each with the number of lines before it."""
    before = 0
    for chunk in source:
        yield before, chunk
        before += count_of(chunk)


def count_of(chunk: bytes) -> int:
    """Return the number of lines of a chunk."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def by_count(source: Iterable[bytes], counts: Iterable[int]) -> Iterator[Iterator[bytes]]:
    """Yield the lines of chunks in pieces of so many lines, each as some bytes. Each is read before the next one."""
    supply, rest = iter(source), b""

    def take(count: int) -> Iterator[bytes]:
        nonlocal rest
        while count:
            piece = rest or next(supply)
            found, end = count_of(piece), 0
            if found > count:
                for _ in range(count):
                    end = piece.index(b"\n", end) + 1
                piece, rest = piece[:end], piece[end:]
            else:
                rest = b""
            count -= min(found, count)
            yield piece

    return map(take, counts)


def is_plain(chunk: bytes) -> bool:
    """True if the words of each line have single spaces between them, and none before and after them."""
    return (
        not any(each in chunk for each in (b"\t", b"\r", b"\v", b"\f"))
        and chunk.endswith(b"\n")
        and chunk[:1] not in b" \n"
        and b"  " not in chunk.translate(_ENDS_AS_SPACES)
    )


def sort_key(line: bytes) -> bytes:
    """Return what ``sort -k1,1`` compares: the first field with the blanks before it."""
    if line[:1] in (b" ", b"\t") or b"\t" in line:
        found = re.match(rb"[ \t]*[^ \t\n]*", line)
        return found[0] if found else b""
    return line.partition(b" ")[0].removesuffix(b"\n")


def is_sorted(file: str) -> bool:
    """True if the first fields of a file's lines follow each other in the order of bytes, and it ends with a newline."""
    last = None
    for chunk in chunks(file):
        found = Fields(chunk, awk=True, after=last)
        if found.unsorted or found.lacking or found.indented or not chunk.endswith(b"\n"):
            return False
        last = found.last
    return True


def sort_lines(parts: Iterable[Iterable[bytes]], key: Callable[[bytes], bytes] | None = None) -> Iterable[bytes]:
    """Return the lines of chunks in the order of bytes, of the lines or of a key; in temporary files if they are many."""
    runs: list[Iterable[bytes]] = []
    lines: list[bytes] = []
    size, each = 0, 3 * OBJECT if key else OBJECT
    for chunk in itertools.chain.from_iterable(parts):
        lines += split_lines(chunk if chunk.endswith(b"\n") else chunk + b"\n")
        size += len(chunk)
        if size + each * len(lines) > MOST_TO_SORT:
            lines.sort(key=key)
            runs.append(_temporary(lines))
            lines, size = [], 0
    lines.sort(key=key)
    if not runs:
        return lines
    import heapq

    return heapq.merge(*runs, lines, key=key)


def in_order(source: Iterable[bytes], marks: Iterator[bytes]) -> Iterator[bytes]:
    """Return the lines of chunks in the order of their marks: of each line, a word that no other one has."""
    without_newline = b""

    def marked() -> Iterator[bytes]:
        nonlocal without_newline
        for chunk in source:
            found = [b"%b %b" % (mark, line) for line, mark in zip(split_lines(chunk), marks, strict=False)]
            yield b"".join(found)
            if not chunk.endswith(b"\n"):
                without_newline = found[-1] + b"\n"

    for line in sort_lines([marked()]):
        yield (line[:-1] if line == without_newline else line).partition(b" ")[2]


def is_number(text: bytes) -> bool:
    """True if awk takes a field for a number."""
    return _NUMBER.fullmatch(text) is not None


def number_of(text: bytes) -> float:
    """Return the number that a field starts with, as awk does; 0 if there is none."""
    found = _NUMBER.match(text)
    return float(found[0]) if found else 0.0


def decimals(joined: bytes) -> list[float] | None:
    """Return the numbers of lines if all are plain decimals, else None."""
    with contextlib.suppress(ValueError):
        if not joined.translate(None, b"0123456789.\n"):
            return list(map(float, joined.split(b"\n")[:-1]))
    return None


def numbers_of(joined: bytes) -> list[float]:
    """Return the numbers that lines start with."""
    found = decimals(joined)
    return list(map(number_of, joined.split(b"\n")[:-1])) if found is None else found


def is_above(text: bytes, limit: bytes) -> bool:
    """Compare two fields as awk does: as numbers if both are, else as bytes."""
    return number_of(text) > number_of(limit) if is_number(text) and is_number(limit) else text > limit


def awk_number(value: float) -> bytes:
    """Write a number as awk prints it.

    >>> awk_number(2.0), awk_number(1 / 3)
    (b'2', b'0.333333')
    """
    return b"%d" % value if abs(value) < 2**53 and value == int(value) else b"%.6g" % value


def with_numbers(chunk: bytes, values: Iterable[float]) -> bytes:
    """Return lines of the first fields of a chunk, each with a number as awk prints it.

    Raises:
        FormatError: a number is too large.
    """
    (keys,), numbers = columns(chunk, 1), list(values)
    if all(abs(value) < 999999 for value in numbers):  # whole ones are printed alike
        return rows(b"%b %.6g\n", keys, numbers, count=len(keys))
    for key, value in zip(keys, numbers, strict=True):
        if not math.isfinite(value):
            raise FormatError("a number that is too large", key=key.decode("utf-8", "surrogateescape"))
    return rows(b"%b %b\n", keys, map(awk_number, numbers), count=len(keys))
