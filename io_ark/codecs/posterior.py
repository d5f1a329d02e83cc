"""Posteriors: for each frame, integers (such as pdfs) and their weights.

Source: ``ReadPosterior``, ``WritePosterior`` and ``GaussPostHolder`` in Kaldi's ``src/hmm/posterior.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import Block, PackedBlock, PosteriorArrays, PosteriorBlock
from io_ark.blocks.posterior import Posterior
from io_ark.codecs.base import Codec, Sink, as_array, as_int32, encode_int32, quote, read_int32, read_size
from io_ark.codecs.int_vector import IntVectorVectorCodec, read_text_line, to_integers
from io_ark.codecs.nested_lists import (
    convert_numbers,
    encode_objects,
    read_lists,
    remove_counts,
    split_pairs,
    write_lists,
)
from io_ark.codecs.pack import Pack, encode_entries
from io_ark.codecs.pairs import Pair, parse_pairs, read_pairs
from io_ark.codecs.scan import build_posterior_arrays, create_unit_posterior, scan_line
from io_ark.codecs.text_format import Columns, encode_lists
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.streams.source import Source

GaussPosterior = list[list[tuple[int, npt.NDArray[Any]]]]

_WORD = re.compile(rb"\S+")


class PosteriorArraysCodec(Codec[PosteriorArrays]):
    """Codec of posteriors as :class:`~io_ark.blocks.PosteriorArrays`. Arrays are faster than lists for many frames.

    >>> from io_ark.codecs import PosteriorArraysCodec
    >>> from io_ark.streams.source import BytesSource
    >>> PosteriorArraysCodec().read(BytesSource(b"[ 7 0.5 3 0.25 ] [ ] \\n")).to_lists()
    [[(7, 0.5), (3, 0.25)], []]
    """

    scan_kind = "posterior-arrays"
    brackets = b"[ ", b"] "  # Text around the pairs of a frame.

    def read_body(self, source: Source, binary: bool) -> PosteriorArrays:
        return _read_arrays(source, binary)

    def write_body(self, sink: Sink, value: PosteriorArrays, binary: bool) -> None:
        if binary:
            write_lists(sink, value.counts, self._get_columns(value))
        else:
            sink.write(encode_lists(value.counts, self._get_columns(value), self.brackets)[0] + b"\n")

    def _get_columns(self, value: PosteriorArrays) -> Columns:
        """Return the numbers to write: int32 integers and float32 weights, each of shape (pairs,)."""
        integers, weights = to_integers(value.integers, np.int32), as_array(value.weights)
        return np.ascontiguousarray(integers), np.ascontiguousarray(weights, np.float32)

    def create_pack(self, binary: bool) -> Pack:
        return Pack(encode_block=partial(self._pack_block, binary))

    def _pack_block(self, binary: bool, block: Block) -> PackedBlock | None:
        """Encode the entries of a block of posteriors. Return None for any other block."""
        if not isinstance(block, PosteriorBlock):
            return None
        counts, columns = block.posteriors.counts, self._get_columns(block.posteriors)
        if binary:
            return encode_entries(block.keys, b" \0B", encode_objects(block.frames, counts, columns))
        lines = encode_objects(block.frames, counts, columns, self.brackets)
        return encode_entries(block.keys, b" ", [line + b"\n" for line in lines])


class PosteriorCodec(Codec[Posterior]):
    """Codec of posteriors as a list of frames. A frame is a list of pairs (integer, weight)."""

    scan_kind = "posterior"
    _plain = PosteriorArraysCodec()

    def read_body(self, source: Source, binary: bool) -> Posterior:
        return _read_arrays(source, binary).to_lists()

    def write_body(self, sink: Sink, value: Sequence[Sequence[Pair]], binary: bool) -> None:
        self._plain.write_body(sink, _convert_pairs(value), binary)


class IntListsCodec(PosteriorArraysCodec):
    """Codec of lists of vectors of int32, such as selected Gaussians. The value is a posterior with weights of 1.

    >>> from io_ark.codecs import IntListsCodec
    >>> from io_ark.streams.source import BytesSource
    >>> IntListsCodec().read(BytesSource(b"7 3; 5; \\n")).to_lists()
    [[(7, 1.0), (3, 1.0)], [(5, 1.0)]]
    """

    scan_kind = "int-lists"
    brackets = b"", b"; "
    _lists = IntVectorVectorCodec()

    def read_body(self, source: Source, binary: bool) -> PosteriorArrays:
        if binary:
            return create_unit_posterior(*self._lists.read_arrays(source))
        lists = self._lists.read_body(source, binary=False)
        counts = np.array(list(map(len, lists)), np.int64)
        integers = np.concatenate([*lists, np.empty(0, np.int32)])  # np.concatenate needs at least one array.
        return create_unit_posterior(counts, integers)

    def _get_columns(self, value: PosteriorArrays) -> Columns:
        """Return only the integers, because the weights are not stored."""
        return (np.ascontiguousarray(to_integers(value.integers, np.int32)),)


def _read_arrays(source: Source, binary: bool) -> PosteriorArrays:
    """Read a posterior as arrays, in text or in binary (after the marker). Raise FormatError if it is invalid."""
    if not binary:
        line, at = read_text_line(source, "a posterior")
        posterior: PosteriorArrays | None = scan_line("posterior-arrays", line)
        return _convert_pairs(_parse_frames(line, source, at)) if posterior is None else posterior
    count = read_size(source, True, "the number of frames of a posterior")
    posteriors = []
    while count > 0:
        numbers, ends = read_lists(source, limit=count, width=2)
        if len(ends):
            lengths = np.diff(ends, prepend=0)
            posteriors.append(build_posterior_arrays(remove_counts(numbers, ends), lengths))
        else:  # The next frame is long, has 8-byte weights, or is invalid. read_pairs reads it or raises the error.
            pair_count = read_size(source, True, "the number of entries of a frame")
            posteriors.append(_convert_pairs([read_pairs(source, pair_count, "a posterior")]))
        count -= len(posteriors[-1].counts)
    return PosteriorArrays.concatenate(posteriors)


def _convert_pairs(frames: Sequence[Sequence[Pair]]) -> PosteriorArrays:
    """Convert the pairs (integer, weight) of each frame to arrays."""
    integers, weights = split_pairs(list(chain.from_iterable(frames)))
    int32s, float32s = convert_numbers(integers, np.dtype(np.int32)), convert_numbers(weights, np.dtype(np.float32))
    return PosteriorArrays(np.array(list(map(len, frames)), np.int64), int32s, float32s)


def _parse_frames(line: bytes, source: Source, at: int) -> Posterior:
    """Parse a posterior in text frame by frame. ``at`` is the offset of the line in the source, for errors."""
    frames = []
    position = 0
    while word := _WORD.search(line, position):
        begin = word.start()
        if not word[0].startswith(b"["):
            hint = ": if these are alignments, pass kind='int-vector'" if word[0].isdigit() else ""
            source.fail(f"expected '[' before a frame of a posterior, found {quote(word[0])}{hint}", at + position)
        end = line.find(b"]", begin)
        if end < 0:
            source.fail("a frame of a posterior has no closing ']' on its line; the file may be truncated", at + begin)
        frames.append(parse_pairs(line[begin + 1 : end], source, at + begin))
        position = end + 1
    return frames


class GaussPosteriorCodec(Codec[GaussPosterior]):
    """Codec of Gaussian posteriors as a list of frames. A frame is a list of pairs (integer, weights of Gaussians)."""

    _vector = VectorCodec()

    def read_body(self, source: Source, binary: bool) -> GaussPosterior:
        frames: GaussPosterior = []
        for _ in range(read_size(source, binary, "the number of frames of a posterior")):
            count = read_size(source, binary, "the number of entries of a frame")
            frames.append([(read_int32(source, binary), self._vector.read_body(source, binary)) for _ in range(count)])
        if not binary and source.peek(1) == b"\n":
            source.skip(1)
        return frames

    def write_body(self, sink: Sink, value: Sequence[Sequence[tuple[int, npt.ArrayLike]]], binary: bool) -> None:
        def write_integer(number: int) -> None:
            sink.write(encode_int32(number) if binary else b"%d " % number)

        write_integer(len(value))
        for frame in value:
            write_integer(len(frame))
            for index, weights in frame:
                write_integer(as_int32(index))
                if np.ndim(weights) != 1:
                    message = "an entry of a Gaussian posterior needs a vector of weights: pass an integer and a vector"
                    raise FormatError(message)
                self._vector.write_body(sink, weights, binary)
        if not binary:
            sink.write(b"\n")
