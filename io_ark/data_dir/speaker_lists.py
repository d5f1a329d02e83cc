"""Convert between ``utt2spk`` and ``spk2utt``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir.line_chunks import number_chunks, split_lines

Refuse = Callable[[int, bytes], object]


def convert_to_spk2utt(utt2spk: Iterable[bytes], refuse: Refuse) -> list[bytes]:
    """Return the lines of spk2utt for chunks of utt2spk.

    Speakers, and the utterances of a speaker, keep their order in utt2spk.
    ``refuse`` is called with the number and the bytes of a line without exactly two fields, and must raise an error.
    """
    utterances: dict[bytes, list[bytes]] = {}
    for lines_before, chunk in number_chunks(utt2spk):
        for line_number, line in enumerate(split_lines(chunk), lines_before + 1):
            fields = line.split()
            if len(fields) != 2:
                refuse(line_number, line)
            utterances.setdefault(fields[1], []).append(fields[0])
    return [b"%b %b\n" % (speaker, b" ".join(names)) for speaker, names in utterances.items()]


def convert_to_utt2spk(spk2utt: Iterable[bytes], refuse: Refuse) -> Iterator[bytes]:
    """Yield chunks of utt2spk for chunks of spk2utt.

    ``refuse`` is called with the number and the bytes of a line without utterances, after all lines before it have been
    yielded.
    """
    line_number = 0
    for chunk in spk2utt:
        pairs: list[bytes] = []
        for line_number, line in enumerate(chunk.removesuffix(b"\n").split(b"\n"), line_number + 1):
            speaker, *utterances = line.split() or [b""]
            if not utterances:
                if pairs:
                    yield b"".join(pairs)
                refuse(line_number, line)
            pairs += ((b" %b\n" % speaker).join(utterances), b" ", speaker, b"\n")
        yield b"".join(pairs)
