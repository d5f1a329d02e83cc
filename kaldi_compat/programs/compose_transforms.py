"""compose-transforms: multiply two transforms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, lookup, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.transform import compose_transforms
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Multiplies transforms, A B, so that B is applied first. Each is linear or affine, and a file or a table.

Usage: compose-transforms [options] (<A-rspecifier>|<A-rxfilename>) (<B-rspecifier>|<B-rxfilename>)
                          (<out-wspecifier>|<out-wxfilename>)
e.g.:  compose-transforms 1.mat 2.mat 3.mat
       compose-transforms 1.mat ark:2.trans ark:3.trans
       compose-transforms --utt2spk=ark:utt2spk ark:utt.trans ark:spk.trans ark:3.trans
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of compose-transforms."""

    b_is_affine: bool = option(
        False, "treat B as affine: its last column is an offset (possible only if A is affine, too)"
    )
    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")
    utt2spk: str = option("", "rspecifier of each utterance's speaker, if A is per utterance and B per speaker")


@program("compose-transforms", USAGE, Options)
def main(options: Options, a: str, b: str, target: str) -> int:
    """Compose single files or tables. As in Kaldi, the status is 0 even if a table gives no output."""
    a_is_table, b_is_table = io_ark.is_table_rspecifier(a), io_ark.is_table_rspecifier(b)
    if options.utt2spk and not (a_is_table and b_is_table):
        raise OptionError("--utt2spk needs two tables, but one of the transforms is a single file")
    if (a_is_table or b_is_table) != io_ark.is_table_wspecifier(target):
        raise OptionError(f"{target}: the output must be a table if one of the inputs is, and a file if none is")
    if not a_is_table and not b_is_table:
        return compose_files(options, a, b, target)
    with ExitStack() as stack:
        writer = stack.enter_context(io_ark.Writer[Matrix]("matrix", target))
        reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", a if a_is_table else b, blocks=True))
        if a_is_table:
            find_b, find_all_b = finder(b, options.utt2spk, stack)
            map_table(
                reader,
                writer,
                lambda key, matrix: composed(matrix, find_b(key), options),
                lambda block: composed_block(block.stacked(), find_all_b(block), block, options),
            )
        else:
            of_all: Matrix = io_ark.read_object("matrix", a)
            map_table(
                reader,
                writer,
                lambda _, matrix: composed(of_all, matrix, options),
                lambda block: composed_block(of_all, block.stacked(), block, options),
            )
    return 0


def finder(
    source: str, utt2spk: str, stack: ExitStack
) -> tuple[Callable[[str], Matrix], Callable[[ArrayBlock], Matrix | None]]:
    """Return functions that find a matrix in a table (optionally by speaker), or return the one in a file.

    Returns:
        A function of a key; and one of a block, which returns a matrix for each entry or one for all, or None if the
        matrices of the entries cannot be found at once or differ in shape.
    """
    if not io_ark.is_table_rspecifier(source):
        of_all: Matrix = io_ark.read_object("matrix", source)
        return lambda _: of_all, lambda _: of_all
    reader = stack.enter_context(LookupReader[Matrix]("matrix", source))
    if not utt2spk:
        table = BlockTable(reader)

        def of_block(block: ArrayBlock) -> Matrix | None:
            found = table.values(block.names())
            return np.stack(found) if found is not None and len({each.shape for each in found}) == 1 else None

        return lambda key: lookup(key, table, f"Second table does not have key {key}"), of_block
    speakers = stack.enter_context(LookupReader[str]("token", utt2spk))

    def of_speaker(key: str) -> Matrix:
        speaker = lookup(key, speakers, f"No speaker provided for utterance {key} in {utt2spk}")
        return lookup(speaker, reader, f"Second table does not have key {speaker}")

    return of_speaker, lambda _: None


def composed_block(a: Matrix | None, b: Matrix | None, block: ArrayBlock, options: Options) -> ArrayBlock | None:
    """Return the block of composed transforms; None if anything is unusual.

    Args:
        a, b: transforms, (entries, out, columns) or the same for all entries, (out, columns).
        block: the entries.
        options: options of the program.
    """
    if a is None or b is None or not a.size or not b.size:
        return None
    try:
        return block.with_matrices(compose_transforms(a, b, b_is_affine=options.b_is_affine))
    except FeatureError:  # raised again at its entry
        return None


def composed(a: Matrix, b: Matrix, options: Options) -> Matrix:
    """Multiply two transforms.

    Raises:
        Skip: one of them is empty.
        FeatureError: their shapes do not match.
    """
    if a.size == 0 or b.size == 0:
        raise Skip("Empty matrix in compose transforms")
    return compose_transforms(a, b, b_is_affine=options.b_is_affine)


def compose_files(options: Options, a: str, b: str, target: str) -> int:
    """Compose single files."""
    first, second = io_ark.read_object("matrix", a), io_ark.read_object("matrix", b)
    if not options.b_is_affine and first.shape == second.shape and first.shape[1] == first.shape[0] + 1:
        logger.warning(
            "It looks like you are trying to compose two affine transforms, but you omitted the --b-is-affine option."
        )
    try:
        io_ark.write_object("matrix", target, composed(first, second, options), binary=options.binary)
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    return 0
