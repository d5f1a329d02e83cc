"""transform-feats: apply a linear or affine transform to features."""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import format_number, logger
from kaldi_compat.cli.loop import map_table, stack_rows
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.exact.products import multiply_by_transpose
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Applies a transform, such as LDA, MLLT or fMLLR, to features. The transform is linear if it has as many columns as the
features, and affine if it has one more. The transform is that of each utterance, of its speaker with --utt2spk, or the
same for all utterances if the first argument is a file.

Usage: transform-feats [options] (<transform-rspecifier>|<transform-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.:  transform-feats final.mat scp:feats.scp ark:-
"""

MISSING = "No fMLLR transform available for utterance {}, producing no output for this utterance"
AFFINE_HINT = " [perhaps the transform was created by compose-transforms, and you forgot the --b-is-affine option?]"


class Options(BaseOptions):
    utt2spk: str = option("", "rspecifier of each utterance's speaker; the transforms are then looked up by speaker")


@dataclass
class LogDeterminants:
    """Averages the log determinants of transforms over frames. The average shows whether MLLT converges."""

    num_frames: int = 0  # Number of frames of the transforms added so far.
    total: float = 0.0  # Sum of the log determinants over these frames.
    is_pseudo: bool | None = None  # True if the first transform reduces the dimension. None before it.
    latest_transform: Matrix | None = None  # It is kept with its log determinant, for reuse.
    latest_logdet: float = 0.0

    def add_transform(self, transform: Matrix, dim: int, num_frames: int) -> None:
        """Add the log determinant of a transform of ``dim``-dimensional frames, multiplied by ``num_frames``.

        Transforms to more than ``dim`` dimensions are not counted. Singular transforms are logged and not counted.
        """
        if self.is_pseudo is None:
            self.is_pseudo = len(transform) < dim
        if len(transform) > dim:
            return
        if self.latest_transform is not transform:  # A global transform is one object in all calls.
            self.latest_transform, self.latest_logdet = transform, compute_log_determinant(transform[:, :dim])
        if np.isfinite(self.latest_logdet):
            self.num_frames += num_frames
            self.total += float(np.float32(num_frames) * np.float32(self.latest_logdet))  # Kaldi rounds the product.
        else:
            logger.warning("Matrix has bad logdet %g", self.latest_logdet)

    def log_average(self) -> None:
        """Log the average, unless no log determinant has been computed."""
        if self.latest_transform is not None:
            tag = "[pseudo-]" if self.is_pseudo else ""
            average = self.total / self.num_frames if self.num_frames else -np.nan
            logger.info("Overall average %slogdet is %s over %g frames.", tag, format_number(average), self.num_frames)


def compute_log_determinant(linear: Matrix) -> float:
    """Compute ``log det(A A^T) / 2`` in single precision, as Kaldi does. ``linear`` is the matrix A (out, dim)."""
    with np.errstate(invalid="ignore"):
        return 0.5 * float(np.linalg.slogdet(multiply_by_transpose(linear, linear))[1])


def describe_mismatch(key: str, transform: Matrix, dim: int) -> str:
    """Return the warning for a transform with neither ``dim`` nor ``dim + 1`` columns, with a hint for ``dim + 2``."""
    rows, columns = transform.shape
    warning = f"Transform matrix for utterance {key} has bad dimension {rows}x{columns} versus feat dim {dim}"
    # Without --b-is-affine, compose-transforms writes affine transforms with one column too many.
    return warning + AFFINE_HINT if columns == dim + 2 else warning


@program("transform-feats", USAGE, Options)
def main(options: Options, transform_source: str, source: str, target: str) -> int:
    """Transform a table of features, and log the average log determinant. Return 0 if an entry is written, else 1."""
    logdets = LogDeterminants()
    with Tables() as tables:
        blocks, writer = tables.read("matrix", source), tables.open_writer("matrix", target)
        table: LookupReader[Matrix] | None = None
        global_transform: Matrix = np.empty((0, 0), np.float32)
        if io_ark.is_table_rspecifier(transform_source):
            table = tables.open_lookup("matrix", transform_source, options.utt2spk)
        else:
            global_transform = io_ark.load(transform_source, kind="matrix")

        def transform_block(block: ArrayBlock) -> ArrayBlock:
            """Transform the features of a block, and add the log determinants of the transforms to ``logdets``."""
            feats = stack_rows(block)
            matrices = [global_transform] if table is None else table.require_values(block, MISSING.format)
            dim = feats.shape[1]
            if any(matrix.shape[1] not in (dim, dim + 1) for matrix in matrices):
                raise Skip(describe_mismatch(block.decode_keys()[0], matrices[0], dim))
            if len({len(matrix) for matrix in matrices}) > 1:
                raise Skip  # An empty Skip asks the caller to split the block.
            for matrix, num_frames in zip(itertools.cycle(matrices), block.shapes[:, 0].tolist(), strict=False):
                logdets.add_transform(matrix, dim, num_frames)
            if table is None:
                return block.with_rows(apply_matrix(feats, global_transform, block.compute_row_bounds()))
            pairs = zip(np.split(feats, block.compute_row_bounds()[1:-1]), matrices, strict=True)
            return block.with_rows(np.concatenate([apply_matrix(*pair) for pair in pairs]))

        counts = map_table(blocks, writer, transform_block)
    logdets.log_average()
    logger.info("Applied transform to %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status


def apply_matrix(feats: Matrix, matrix: Matrix, bounds: npt.NDArray[np.int64] | None = None) -> Matrix:
    """Apply a linear or affine transform to each row of features.

    Args:
        feats: features (rows, dim) of one or several utterances.
        matrix: transform (out, dim), or (out, dim + 1) if its last column is an offset.
        bounds: indices (utterances + 1,): first row of each utterance, followed by the number of rows. None for one
            utterance.

    Returns:
        Transformed features (rows, out).
    """
    dim = feats.shape[1]
    linear = multiply_by_transpose(feats, matrix[:, :dim], bounds)
    return linear + matrix[:, dim] if matrix.shape[1] > dim else linear
