"""transform-feats: apply a linear or affine transform to features."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, Skip, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.products import product_with_transpose
from kaldi_compat.functional.transform import apply_transform, log_determinant
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Applies a transform (LDA, MLLT, fMLLR ...) to features: linear if it has as many columns as the features, affine if it
has one more. The transform is that of each utterance, of its speaker with --utt2spk, or the same for all utterances if
the first argument is a file.

Usage: transform-feats [options] (<transform-rspecifier>|<transform-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.:  transform-feats final.mat scp:feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of transform-feats."""

    utt2spk: str = option("", "rspecifier of each utterance's speaker; the transforms are then looked up by speaker")


@dataclass
class LogDeterminants:
    """Average of the transforms' log determinants over frames, which shows whether MLLT converges."""

    frames: int = 0
    total: float = 0.0
    is_pseudo: bool | None = None
    known: dict[int, float] = field(default_factory=dict)

    def add(self, transform: Matrix, dim: int, frames: int) -> None:
        """Count a transform of features of ``dim`` dimensions, applied to ``frames`` frames."""
        if self.is_pseudo is None:
            self.is_pseudo = len(transform) < dim
        if len(transform) > dim:
            return
        # A global transform is the same object each time.
        logdet = self.known.get(id(transform))
        if logdet is None:
            logdet = log_determinant(transform, dim)
            self.known = {id(transform): logdet}
        if np.isfinite(logdet):
            self.frames += frames
            self.total += frames * logdet
        else:
            logger.warning("Matrix has bad logdet %g", logdet)

    def report(self) -> None:
        """Log the average, if there is one."""
        if self.frames:
            kind = "[pseudo-]" if self.is_pseudo else ""
            logger.info("Overall average %slogdet is %g over %d frames.", kind, self.total / self.frames, self.frames)


def mismatch(key: str, transform: Matrix, dim: int) -> str:
    """Return the warning for a transform that does not fit features of dimension ``dim``."""
    rows, columns = transform.shape
    forgotten = " [perhaps you forgot the --b-is-affine option of compose-transforms?]" if columns == dim + 2 else ""
    return f"Transform matrix for utterance {key} has bad dimension {rows}x{columns} versus feat dim {dim}{forgotten}"


@program("transform-feats", USAGE, Options)
def main(options: Options, transform_source: str, source: str, target: str) -> int:
    """Transform a table."""
    logdets = LogDeterminants()
    with ExitStack() as stack:
        feats_reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", source, blocks=True))
        writer = stack.enter_context(io_ark.Writer[Matrix]("matrix", target))
        reader: LookupReader[Matrix] | None = None
        if io_ark.is_table_rspecifier(transform_source):
            reader = stack.enter_context(LookupReader("matrix", transform_source, utt2spk=options.utt2spk))
        else:
            of_all: Matrix = io_ark.read_object("matrix", transform_source)

        def transform(key: str, feats: Matrix) -> Matrix:
            if reader is None:
                matrix: Matrix = of_all
            elif key in reader:
                matrix = reader[key]
            else:
                raise Skip(f"No fMLLR transform available for utterance {key}, producing no output for this utterance")
            try:
                transformed = apply_transform(feats, matrix)
            except FeatureError as error:
                raise Skip(mismatch(key, matrix, feats.shape[1])) from error
            logdets.add(matrix, feats.shape[1], len(feats))
            return transformed

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats = block.matrix()
            if reader is not None or feats is None or of_all.shape[1] - feats.shape[1] not in (0, 1):
                return None
            dim = feats.shape[1]
            transformed = product_with_transpose(feats, of_all[:, :dim], block.rows())
            if of_all.shape[1] > dim:
                transformed = transformed + of_all[:, dim]
            for frames in block.shapes[:, 0].tolist():
                logdets.add(of_all, dim, frames)
            return block.with_rows(transformed)

        counts = map_table(feats_reader, writer, transform, of_block)
    logdets.report()
    logger.info("Applied transform to %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status
