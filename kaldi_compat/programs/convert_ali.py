"""convert-ali: convert alignments from one model and tree to another."""

from itertools import compress

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from io_ark.models import AlignmentConverter
from kaldi_compat.cli.alignments import read_phone_map
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Converts alignments from one model and tree to another. Phones whose topology or number of frames changes
get random paths.

Usage: convert-ali [options] <old-model> <new-model> <new-tree> <alignments-rspecifier> <alignments-wspecifier>
e.g.:  convert-ali old/final.mdl new/0.mdl new/tree ark:old/ali.1 ark:new/ali.1
"""


class Options(BaseOptions):
    frame_subsampling_factor: int = option(1, "keep one of this many frames", gt=0)
    phone_map: str = option("", "file with an old phone and its new number in each line")
    reorder: bool = option(True, "let the self-loops of a state follow its other transition, as decoding graphs do")
    repeat_frames: bool = option(False, "repeat the frames after subsampling, so that there are as many as before")


@program("convert-ali", USAGE, Options)
def main(options: Options, old_model: str, new_model: str, tree: str, source: str, target: str) -> int:
    """Convert the alignments of ``old_model`` to ``new_model`` and its tree. Return 0 if there is output, else 1."""
    phone_map = read_phone_map(options.phone_map) if options.phone_map else None
    with Tables() as tables:
        blocks, writer = tables.read("int-vector", source), tables.open_writer("int-vector", target)
        old, new = (io_ark.load(name, kind="transition-model") for name in (old_model, new_model))
        to_pdf = io_ark.load(tree, kind="tree")
        if old.topology != new.topology:
            logger.warning("Toplogies of models are not equal: conversion may not be correct or may fail.")
        converter = AlignmentConverter(
            old, new, to_pdf, subsampling=options.frame_subsampling_factor,
            repeat_frames=options.repeat_frames, reorder=options.reorder, phone_map=phone_map,
        )  # fmt: skip

        def convert_block(block: ArrayBlock) -> ArrayBlock:
            """Convert the alignments of a block, and drop alignments that fail, with a warning."""
            converted = converter.convert_many(block.values, block.compute_row_bounds())
            is_failed = converted.is_truncated | converted.is_short
            for key, is_short in zip(
                compress(block.decode_keys(), is_failed), converted.is_short[is_failed], strict=True
            ):
                if is_short:
                    logger.warning("Failed to produce suitable phone lengths")
                logger.warning("Could not convert alignment for key %s (possibly truncated alignment?)", key)
            return block.with_vectors(converted.ids, np.diff(converted.bounds)).select(~is_failed)

        counts = map_table(blocks, writer, convert_block)
    logger.info("Succeeded converting alignments for %d files, failed for %d", counts.done, counts.failed)
    return counts.status
