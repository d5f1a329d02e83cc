"""copy-gselect: copy lists of selected Gaussians."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Copies the indices of the Gaussians that were selected for each frame, best first; --n shortens the lists.

Usage: copy-gselect [options] <gselect-rspecifier> <gselect-wspecifier>
e.g.:  copy-gselect --n=10 ark:1.gsel ark:2.gsel
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of copy-gselect."""

    n: int = option(0, "Gaussians to keep in each frame; 0 keeps all", ge=0)


@program("copy-gselect", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table."""
    most = options.n or None
    counts = convert_table(
        lambda block: block.map(lambda key, frames: [frame[:most] for frame in frames]),
        "int-vector-vector",
        source,
        target,
    )
    if most is None:
        logger.info("Copied %d gselect objects ", counts.done)
    else:
        logger.info("Copied %d gselect objects,  limiting sizes to %d", counts.done, most)
    return counts.status
