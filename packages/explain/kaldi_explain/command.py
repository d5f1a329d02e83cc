"""The command ``kaldi-compat explain``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import io_ark
from io_ark.tables.overwriting import refuse_overwriting
from kaldi_compat.cli.frontends import DIFFERENT_STATUS, TOLERANCE, Parser, report_error, show_warnings_in_one_line
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_explain.explanation import Explanation, explain

DESCRIPTION = (
    "Find the front end that computed features: print the feature, its options and the post-processing, or the closest "
    "match. The exit status is 1 if the features are not explained."
)
FEATURES_HELP = "feats.npy, feats.npz, feats.csv, feats.txt, feats.ark:KEY, feats.scp:KEY or feats.ark:OFFSET"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kaldi-compat explain``, which prints an explanation, and return the exit status.

    ``argv`` replaces the arguments after ``explain``. The status is 0 if the features are explained or after
    ``--help``, 1 if they are explained in part or not at all, 2 for invalid arguments, and 255 for any other error.
    """
    parser = Parser("kaldi-compat explain", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("features", help=FEATURES_HELP)
    parser.add_argument("audio", help="a wave file, or other features, to find their relation to the first ones")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest difference (default: %(default)g)")
    parser.add_argument("--plot", metavar="FILE.png", help="plot the features, the explanation, and their difference")
    try:
        arguments = parser.parse_args(sys.argv[2:] if argv is None else argv)
        if arguments.plot:
            refuse_overwriting(arguments.plot, [arguments.features, arguments.audio])
        with show_warnings_in_one_line():
            explanation = explain(arguments.features, arguments.audio, tolerance=arguments.tolerance)
        print(explanation)
        if arguments.plot:
            _save_plot(explanation, arguments.plot)
    except SystemExit as end:  # argparse raises this after --help and for a wrong argument.
        return int(end.code or 0)
    except (KaldiCompatError, io_ark.ArkError, OSError) as error:
        return report_error(error)
    return 0 if explanation.is_exact else DIFFERENT_STATUS


def _save_plot(explanation: Explanation, path: str) -> None:
    """Draw an explanation, and save the plot to ``path``. Raise FeatureError if it cannot be drawn or written."""
    try:
        axes: Any = explanation.plot()
        axes[0].figure.savefig(path)
    except OSError as error:
        raise FeatureError(f"cannot write {path}: {error.strerror or error}") from None
    except (ModuleNotFoundError, ValueError) as error:
        raise FeatureError(f"cannot draw {path}: {error}") from None
