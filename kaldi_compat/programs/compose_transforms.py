"""compose-transforms: two transforms as one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, beside, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.transform import compose_transforms
from kaldi_compat.options.base import option

USAGE = """
Multiplies transforms, A B: B is then applied first. Linear or affine; each a file, or a table by utterance or speaker.

Usage: compose-transforms [options] (<A-rspecifier>|<A-rxfilename>) (<B-rspecifier>|<B-rxfilename>)
                          (<out-wspecifier>|<out-wxfilename>)
e.g.:  compose-transforms 1.mat 2.mat 3.mat
       compose-transforms 1.mat ark:2.trans ark:3.trans
       compose-transforms --utt2spk=ark:utt2spk ark:utt.trans ark:spk.trans ark:3.trans
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of compose-transforms."""

    b_is_affine: bool = option(False, "the last column of B is an offset (only if A has one too)")
    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    utt2spk: str = option("", "rspecifier of each utterance's speaker, if A is by utterance and B by speaker")


@program("compose-transforms", USAGE, Options)
def main(options: Options, a: str, b: str, target: str) -> int:
    """Compose single files, or tables; success even if a table gives nothing, as in Kaldi."""
    a_is_table, b_is_table = io_ark.is_table_rspecifier(a), io_ark.is_table_rspecifier(b)
    if options.utt2spk and not (a_is_table and b_is_table):
        raise OptionError("--utt2spk goes with two tables, but one of the transforms is a single file")
    if (a_is_table or b_is_table) != io_ark.is_table_wspecifier(target):
        raise OptionError(f"{target}: the output must be a table if one of the inputs is, and a file if none is")
    if not a_is_table and not b_is_table:
        return compose_files(options, a, b, target)
    with ExitStack() as stack:
        writer = stack.enter_context(io_ark.Writer[Matrix]("matrix", target))
        reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", a if a_is_table else b))
        if a_is_table:
            find_b = finder(b, options.utt2spk, stack)
            map_table(reader, writer, lambda key, matrix: composed(matrix, find_b(key), options))
        else:
            of_all: Matrix = io_ark.read_object("matrix", a)
            map_table(reader, writer, lambda _, matrix: composed(of_all, matrix, options))
    return 0


def finder(source: str, utt2spk: str, stack: ExitStack) -> Callable[[str], Matrix]:
    """A function from a key to its matrix in a table (by way of its speaker), or to the one matrix in a file."""
    if not io_ark.is_table_rspecifier(source):
        of_all: Matrix = io_ark.read_object("matrix", source)
        return lambda _: of_all
    reader = stack.enter_context(io_ark.RandomAccessReader[Matrix]("matrix", source))
    if not utt2spk:
        return lambda key: beside(key, source, reader)
    speakers = stack.enter_context(io_ark.RandomAccessReader[str]("token", utt2spk))
    return lambda key: beside(beside(key, utt2spk, speakers), source, reader)


def composed(a: Matrix, b: Matrix, options: Options) -> Matrix:
    """The product of two transforms.

    Raises:
        Skip: one is empty.
        FeatureError: their shapes do not go together.
    """
    if a.size == 0 or b.size == 0:
        raise Skip("an empty matrix cannot be composed")
    return compose_transforms(a, b, b_is_affine=options.b_is_affine)


def compose_files(options: Options, a: str, b: str, target: str) -> int:
    """Compose single files."""
    first, second = io_ark.read_object("matrix", a), io_ark.read_object("matrix", b)
    if not options.b_is_affine and first.shape == second.shape and first.shape[1] == first.shape[0] + 1:
        logger.warning("Both transforms look affine, but --b-is-affine is false.")
    try:
        io_ark.write_object("matrix", target, composed(first, second, options), binary=options.binary)
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    return 0
