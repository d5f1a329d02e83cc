"""compose-transforms: multiply two transforms."""

from collections.abc import Callable

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Block, Skip, create_block
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, require_one_entry, stack_matrices
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.transform import compose_transforms
from kaldi_compat.options.declaration import option

USAGE = """
Multiplies transforms, A B, so that B is applied first. Each is linear or affine, and a file or a table.

Usage: compose-transforms [options] (<A-rspecifier>|<A-rxfilename>) (<B-rspecifier>|<B-rxfilename>)
                          (<out-wspecifier>|<out-wxfilename>)
e.g.:  compose-transforms 1.mat 2.mat 3.mat
       compose-transforms 1.mat ark:2.trans ark:3.trans
       compose-transforms --utt2spk=ark:utt2spk ark:utt.trans ark:spk.trans ark:3.trans
"""


class Options(FileOptions):
    b_is_affine: bool = option(
        False, "treat B as affine: its last column is an offset (possible only if A is affine, too)"
    )
    utt2spk: str = option("", "rspecifier of each utterance's speaker, if A is per utterance and B per speaker")


@program("compose-transforms", USAGE, Options)
def main(options: Options, a: str, b: str, target: str) -> int:
    """Compose transforms of two files or tables. As in Kaldi, the exit status for tables is 0 even without output."""
    a_is_table, b_is_table = io_ark.is_table_rspecifier(a), io_ark.is_table_rspecifier(b)
    if options.utt2spk and not (a_is_table and b_is_table):
        raise OptionError(
            "--utt2spk needs two tables, but a transform is a single file: name two rspecifiers, or omit it"
        )
    if (a_is_table or b_is_table) != io_ark.is_table_wspecifier(target):
        raise OptionError(f"{target}: the output must be a table if an input is a table, and a file otherwise")
    if not a_is_table and not b_is_table:
        return compose_files(options, a, b, target)
    with Tables() as tables:
        speakers = tables.open_lookup("token", options.utt2spk) if options.utt2spk else None
        writer = tables.open_writer("matrix", target)
        if a_is_table:
            blocks = tables.read("matrix", a, is_needed=lambda key: has_b(key), min_bytes=0)
            find_b, has_b = make_lookups(tables, b, speakers, options.utt2spk)

            def compose_with_b(block: ArrayBlock) -> ArrayBlock:
                """Multiply the transforms A of a block with the transforms B of the same utterances."""
                matrices = find_b(block)  # Look up B first: if B is missing, A need not be readable.
                return compose_entries(block, stack_matrices(block), matrices, options)

            map_table(blocks, writer, compose_with_b)
        else:
            matrix = io_ark.load(a, kind="matrix")
            blocks = tables.read("matrix", b)
            map_table(blocks, writer, lambda block: compose_entries(block, matrix, stack_matrices(block), options))
    return 0


def make_lookups(
    tables: Tables, source: str, speakers: LookupReader[str] | None, utt2spk: str
) -> tuple[Callable[[ArrayBlock], Matrix], Callable[[str], bool]]:
    """Return two functions that look up transforms in the table or file ``source``.

    Transforms of a table are looked up by utterance, or by speaker if ``speakers`` maps utterances to speakers. A file
    contains one transform for all utterances. ``utt2spk`` is the name of ``speakers`` in warnings.

    The first function returns the transforms of a block: (entries, rows, columns), or (rows, columns) for a file. It
    raises :class:`Skip` if a transform is missing, or if a block of several utterances has transforms of different
    shapes. The second function returns True if a key has a transform.
    """
    if not io_ark.is_table_rspecifier(source):
        matrix: Matrix = io_ark.load(source, kind="matrix")
        return lambda _: matrix, lambda _: True
    table: LookupReader[Matrix] = tables.open_lookup("matrix", source)

    def find_transforms(block: Block) -> Matrix:
        """Return the transforms (entries, rows, columns) of the utterances of a block. Raise Skip if one is missing."""
        if speakers is not None:
            warning = f"No speaker provided for utterance {block.decode_keys()[0]} in {utt2spk}"
            block = create_block(require_one_entry(block, speakers).require_values(block, lambda _: warning), [None])
        transforms = table.require_values(block, lambda key: f"Second table does not have key {key}")
        if len({transform.shape for transform in transforms}) > 1:
            require_one_entry(block, transforms)  # This raises Skip.
        matrices: Matrix = np.stack(transforms)
        return matrices

    def has_transform(key: str) -> bool:
        """Return True if the table has a transform for an utterance, or for its speaker if speakers are looked up."""
        (speaker,) = [key] if speakers is None else speakers.find_values([key])
        return speaker is not None and table.has_key(speaker)

    return find_transforms, has_transform


def compose_entries(block: ArrayBlock, a: Matrix, b: Matrix, options: Options) -> ArrayBlock:
    """Multiply the transforms of each entry of a block.

    Args:
        block: block with the keys of the entries.
        a: transforms (entries, out, middle) that are applied last, or (out, middle) for all entries. If ``a`` has one
            column more than ``b`` has rows, the last column of ``a`` is an offset.
        b: transforms (entries, middle, dim) that are applied first, or (middle, dim) for all entries. With
            ``options.b_is_affine``, the last column of ``b`` is an offset.
        options: options of the program.

    Raises:
        Skip: a transform is empty.
        FeatureError: the shapes of the transforms do not match.
    """
    if a.size == 0 or b.size == 0:
        raise Skip("Empty matrix in compose transforms")
    return block.with_matrices(compose_transforms(a, b, b_is_affine=options.b_is_affine))


def compose_files(options: Options, a: str, b: str, target: str) -> int:
    """Write the product of file ``a``, applied last, and file ``b``. The exit status is 1 if one is empty, else 0."""
    left, right = io_ark.load(a, kind="matrix"), io_ark.load(b, kind="matrix")
    if not options.b_is_affine and left.shape == right.shape and left.shape[1] == left.shape[0] + 1:
        logger.warning(
            "It looks like you are trying to compose two affine transforms, but you omitted the --b-is-affine option."
        )
    try:
        result = compose_entries(ArrayBlock.from_arrays(["transform"], [left]), left[None], right, options)
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.save(target, stack_matrices(result)[0], kind="matrix", binary=options.binary)
    return 0
