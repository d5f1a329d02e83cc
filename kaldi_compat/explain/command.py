"""The command ``kaldi-compat explain``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import io_ark
from io_ark.errors import FormatError
from io_ark.tables.overwriting import refuse_overwriting
from kaldi_compat.cli.frontends import DIFFERENT_STATUS, TOLERANCE, Parser, fail, warnings_in_one_line
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.explain.explanation import Explanation, explain

DESCRIPTION = (
    "Find the front end that computed features: print the feature, its options and the post-processing, or the closest "
    "match. The exit status is 1 if the features are not explained."
)
FEATURES_HELP = "feats.npy, feats.csv, feats.txt, feats.ark:KEY, feats.scp:KEY or feats.ark:OFFSET"
SUFFIXES = (".npy", ".csv", ".txt")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line of ``kaldi-compat explain`` (without these words) and return the exit status."""
    parser = Parser("kaldi-compat explain", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("features", help=FEATURES_HELP)
    parser.add_argument("audio", help="a wave file, or other features, to find their relation to the first ones")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest difference (default: %(default)g)")
    parser.add_argument("--plot", metavar="FILE.png", help="plot the features, the explanation, and their difference")
    try:
        given = parser.parse_args(sys.argv[2:] if argv is None else argv)
        if given.plot:
            refuse_overwriting(given.plot, [given.features, given.audio])
        with warnings_in_one_line():
            found = _explain(given)
        print(found)
        if given.plot:
            _save_plot(found, given.plot)
    except SystemExit as end:  # of --help
        return int(end.code or 0)
    except (KaldiCompatError, io_ark.ArkError, OSError) as error:
        return fail(error)
    return 0 if found.is_exact else DIFFERENT_STATUS


def _explain(given: argparse.Namespace) -> Explanation:
    features = _features_of(given.features)
    if given.audio.endswith(SUFFIXES) or ":" in given.audio:
        return explain(features, _features_of(given.audio), tolerance=given.tolerance)
    wave = _object("wave", given.audio, "pass one wave file of those that it lists")
    samples = wave.samples[0] if len(wave.samples) == 1 else wave.samples
    return explain(features, samples, wave.sample_frequency, tolerance=given.tolerance)


def _save_plot(found: Explanation, path: str) -> None:
    try:
        axes: Any = found.plot()
        axes[0].figure.savefig(path)
    except OSError as error:
        raise FeatureError(f"cannot write {path}: {error.strerror}") from None
    except (ModuleNotFoundError, ValueError) as error:
        raise FeatureError(f"cannot draw {path}: {error}") from None


def _features_of(name: str) -> Any:
    """Return the features of a NumPy file, a text file of numbers, or an entry of an archive or script file."""
    try:
        if name.endswith(".npy"):
            return np.load(name, allow_pickle=False)
        if name.endswith(SUFFIXES):
            return np.loadtxt(name, delimiter="," if name.endswith(".csv") else None, ndmin=2)
    except OSError as error:
        raise FeatureError(f"cannot read {name}: {error.strerror or 'it is not a NumPy file'}") from None
    except (ValueError, EOFError) as error:
        why = "it is not a NumPy file of numbers" if name.endswith(".npy") else error
        raise FeatureError(f"cannot read {name}: {why}") from None
    file, _, key = name.rpartition(":")
    if not file or key.isdigit():
        return _object("matrix", name, f"append a key, {name}:KEY; 'ark ls {name}' lists them")
    how = "scp" if file.endswith(".scp") else "ark"
    for found, matrix in io_ark.SequentialReader(f"{how}:{file}", kind="matrix", pipes=False):
        if found == key:
            return matrix
    raise FeatureError(f"{file} has no entry {key}: 'ark ls {file}' lists them")


def _object(kind: Literal["matrix", "wave"], name: str, advice: str) -> Any:
    """Read one object; the error for a whole table says what to pass instead."""
    try:
        return io_ark.load(name, kind=kind, pipes=False)
    except FormatError as error:
        if not name.endswith((".scp", ".ark")):
            raise
        raise FeatureError(f"{name} is a table: {advice}") from error
