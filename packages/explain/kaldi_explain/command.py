"""The command ``kaldi-compat explain``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import io_ark
from io_ark.tables.overwriting import refuse_overwriting
from kaldi_compat.cli.frontends import DIFFERENT_STATUS, TOLERANCE, Parser, fail, warnings_in_one_line
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_explain.explanation import Explanation, explain

DESCRIPTION = (
    "Find the front end that computed features: print the feature, its options and the post-processing, or the closest "
    "match. The exit status is 1 if the features are not explained."
)
FEATURES_HELP = "feats.npy, feats.npz, feats.csv, feats.txt, feats.ark:KEY, feats.scp:KEY or feats.ark:OFFSET"


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
            found = explain(given.features, given.audio, tolerance=given.tolerance)
        print(found)
        if given.plot:
            _save_plot(found, given.plot)
    except SystemExit as end:  # of --help
        return int(end.code or 0)
    except (KaldiCompatError, io_ark.ArkError, OSError) as error:
        return fail(error)
    return 0 if found.is_exact else DIFFERENT_STATUS


def _save_plot(found: Explanation, path: str) -> None:
    try:
        axes: Any = found.plot()
        axes[0].figure.savefig(path)
    except OSError as error:
        raise FeatureError(f"cannot write {path}: {error.strerror}") from None
    except (ModuleNotFoundError, ValueError) as error:
        raise FeatureError(f"cannot draw {path}: {error}") from None
