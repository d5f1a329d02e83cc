"""Posteriors: for each frame, what may be there and with what weight.

Source: ``ReadPosterior``, ``WritePosterior`` and ``GaussPostHolder`` in Kaldi's ``src/hmm/posterior.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.basic import Codec, Sink, as_int32, int32_bytes, peek_byte, read_int32, read_size, shown
from io_ark.codecs.integers import read_text_line
from io_ark.codecs.pairs import Pair, format_pairs, parse_pairs, read_pairs, write_pairs
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.source import Source

Posterior = list[list[Pair]]
GaussPosterior = list[list[tuple[int, npt.NDArray[Any]]]]


class PosteriorCodec(Codec[Posterior]):
    """A list of frames, each a list of (integer, weight)."""

    def read_body(self, source: Source, binary: bool) -> Posterior:
        if not binary:
            return self._read_text(source)
        frames = read_size(source, True, "the number of frames of a posterior")
        return [
            read_pairs(source, read_size(source, True, "the number of entries of a frame"), "a posterior")
            for _ in range(frames)
        ]

    def _read_text(self, source: Source) -> Posterior:
        line, at = read_text_line(source, "a posterior")
        frames = []
        place = 0
        while line[place:].strip():
            begin = line.find(b"[", place)
            end = line.find(b"]", begin)
            if begin < 0 or line[place:begin].strip():
                word = line[place:].split()[0]
                hint = ": are these alignments instead of posteriors?" if word.isdigit() else ""
                source.fail(f"a frame of a posterior should start with '[', not {shown(word)}{hint}", at + place)
            if end < 0:
                source.fail("a frame of a posterior has no ']' on its line", at + begin)
            frames.append(parse_pairs(line[begin + 1 : end], source, at + begin))
            place = end + 1
        return frames

    def write_body(self, sink: Sink, value: Sequence[Sequence[Pair]], binary: bool) -> None:
        frames = [[(as_int32(index), float(weight)) for index, weight in frame] for frame in value]
        if not binary:
            sink.write(("".join([f"[ {format_pairs(frame)}] " for frame in frames]) + "\n").encode("ascii"))
            return
        sink.write(int32_bytes(len(frames)))
        for frame in frames:
            sink.write(int32_bytes(len(frame)))
            write_pairs(sink, frame)


class GaussPosteriorCodec(Codec[GaussPosterior]):
    """A list of frames, each a list of (integer, vector of the weights of a state's Gaussians)."""

    _vector = VectorCodec()

    def read_body(self, source: Source, binary: bool) -> GaussPosterior:
        frames: GaussPosterior = []
        for _ in range(read_size(source, binary, "the number of frames of a posterior")):
            entries = range(read_size(source, binary, "the number of entries of a frame"))
            frames.append([(read_int32(source, binary), self._vector.read_body(source, binary)) for _ in entries])
        if not binary and peek_byte(source, binary=True) == b"\n":
            source.skip(1)
        return frames

    def write_body(self, sink: Sink, value: Sequence[Sequence[tuple[int, npt.ArrayLike]]], binary: bool) -> None:
        def put(number: int) -> None:
            sink.write(int32_bytes(number) if binary else b"%d " % number)

        put(len(value))
        for frame in value:
            put(len(frame))
            for index, weights in frame:
                put(as_int32(index))
                if np.ndim(weights) != 1:
                    raise FormatError("an entry of a Gaussian posterior is an integer and a vector")
                self._vector.write_body(sink, weights, binary)
        if not binary:
            sink.write(b"\n")
