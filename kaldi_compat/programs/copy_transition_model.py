"""copy-transition-model: copy a transition model."""

from __future__ import annotations

from dataclasses import dataclass

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Copies a transition model, which may be at the start of an acoustic model.

Usage: copy-transition-model [options] <model> <transition-model-wxfilename>
e.g.:  copy-transition-model --binary=false final.mdl transitions.txt
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of copy-transition-model."""

    # Kaldi does not set its default, which is then any.
    binary: bool = option(True, "write in binary")


@program("copy-transition-model", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a transition model."""
    io_ark.save(target, io_ark.load(source, kind="transition-model"), binary=options.binary)
    logger.info("Copied transition model.")
    return 0
