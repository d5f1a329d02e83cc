"""compute-eer: compute the equal error rate of scores."""

from __future__ import annotations

import re

import numpy as np

from kaldi_compat.cli.files import text_lines, write_text
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.errors import OptionError

USAGE = """
Prints the equal error rate in percent. The input has a line for each trial: the score, and "target" or "nontarget".

Usage: compute-eer [options] <scores-rxfilename>
e.g.:  compute-eer -
"""

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)


@program("compute-eer", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print the rate."""
    scores = read_scores(source)
    rate, threshold = equal_error_rate(np.sort(scores["target"]), np.sort(scores["nontarget"]))
    logger.info("Equal error rate is %g%%, at threshold %g", 100.0 * rate, threshold)
    write_text("-", f"{100.0 * rate:.4g}")
    return 0


def read_scores(rxfilename: str) -> dict[str, np.ndarray]:
    """Return the scores of target and nontarget trials.

    Raises:
        OptionError: a line is invalid, or there are no trials of one kind.
    """
    scores: dict[str, list[float]] = {"target": [], "nontarget": []}
    for line in text_lines(rxfilename):
        words = [word for word in re.split("[ \t]", line) if word]
        if len(words) != 2:
            raise OptionError(f"Invalid input line (must have two fields): {line}")
        if not NUMBER.fullmatch(words[0]):
            raise OptionError(f"Invalid input line (first field must be float): {line}")
        if words[1] not in scores:
            raise OptionError("Invalid input line (second field must be 'target' or 'nontarget')")
        scores[words[1]].append(float(words[0]))
    if not any(scores.values()):
        raise OptionError("Empty input.")
    for kind, name in (("target", "target"), ("nontarget", "non-target")):
        if not scores[kind]:
            raise OptionError(f"No {name} scores seen.")
    return {kind: np.array(values, np.float32) for kind, values in scores.items()}


def equal_error_rate(targets: np.ndarray, nontargets: np.ndarray) -> tuple[np.float32, np.float32]:
    """Return the rate at which as many targets score below the threshold as nontargets above it, and the threshold.

    Args:
        targets, nontargets: scores, ascending.
    """
    places = np.arange(len(targets) - 1)
    above = (len(nontargets) * places * 1.0 / len(targets)).astype(np.int64)
    beaten = nontargets[np.maximum(len(nontargets) - 1 - above, 0)] < targets[:-1]
    place = int(np.argmax(beaten)) if beaten.any() else len(targets) - 1
    return np.float32(place / len(targets)), targets[place]
