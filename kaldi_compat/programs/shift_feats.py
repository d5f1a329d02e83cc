"""shift-feats: shift features in time."""

from functools import partial

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table_or_file, stack_rows
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.options.declaration import option

USAGE = """
Shifts features in time. The first or last frame is repeated, so that the number of frames stays the same.

Usage: shift-feats [options] <feats-rspecifier> <feats-wspecifier>
   or: shift-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.:  shift-feats --shift=-1 scp:foo.scp ark:bar.ark
       shift-feats --shift=1 foo.mat bar.mat
"""


class Options(FileOptions):
    shift: int = option(0, "number of frames by which the features move towards the end")


@program("shift-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Shift the features of a table or file by ``--shift`` frames. Return 0 if an utterance is written, otherwise 1."""
    is_table = io_ark.is_table_wspecifier(target)
    warning = "Empty matrix for key {}" if is_table else "Empty input matrix"
    shift = partial(shift_rows, shift=options.shift, warning=warning)
    counts = convert_table_or_file(shift, "matrix", source, target, binary=options.binary)
    if is_table:
        logger.info("Shifted %d features by %d frames; %d with errors.", counts.done, options.shift, counts.failed)
    return counts.status


def shift_rows(block: ArrayBlock, shift: int, warning: str) -> ArrayBlock:
    """Shift features in time. Row ``r`` of the result is input row ``r - shift``, clipped to the utterance.

    Args:
        block: features of the utterances.
        shift: number of frames by which the features move towards the end.
        warning: warning about an empty matrix, with ``{}`` in place of the key.

    Raises:
        Skip: a matrix is empty.
    """
    feats, (key, *_) = stack_rows(block), block.decode_keys()
    if feats.size == 0:
        raise Skip(warning.format(key))
    bounds, counts = block.compute_row_bounds(), block.shapes[:, 0]
    first_rows, last_rows = np.repeat(bounds[:-1], counts), np.repeat(bounds[1:] - 1, counts)
    return block.with_rows(feats[np.clip(np.arange(len(feats)) - shift, first_rows, last_rows)])
