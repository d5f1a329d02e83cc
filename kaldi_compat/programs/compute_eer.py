"""compute-eer: compute the equal error rate of scores."""

import re

import numpy as np

from kaldi_compat.cli.files import read_line_lists, write_text
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.detection import compute_equal_error_rate, parse_trials
from kaldi_compat.options.base import FLOAT32_END

USAGE = """
Prints the equal error rate in percent. The input has a line for each trial: the score, and "target" or "nontarget".

Usage: compute-eer [options] <scores-rxfilename>
e.g.:  compute-eer -
"""

NUMBER = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf(?:inity)?|nan))"
TRIAL = re.compile(rf"^[ \t]*({NUMBER})[ \t]+(target|nontarget)[ \t]*$", re.ASCII | re.MULTILINE)


@program("compute-eer", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print the equal error rate of the trials in a file, in percent, and return the exit status 0."""
    rate, threshold = compute_equal_error_rate(*map(np.sort, read_scores(source)))
    percent = 100.0 * float(np.float32(rate))  # Kaldi multiplies a float by a double.
    logger.info("Equal error rate is %g%%, at threshold %g", percent, threshold)
    write_text("-", f"{percent:.4g}")
    return 0


def read_scores(rxfilename: str) -> tuple[Vector, Vector]:
    """Return the scores (targets,) of target trials, and the scores (nontargets,) of nontarget trials.

    Raise :class:`OptionError` if a line is invalid, or if target trials or nontarget trials are missing.
    """
    trials: list[tuple[str, str]] = []
    for lines in read_line_lists(rxfilename):
        matches = TRIAL.findall("\n".join(lines))
        if len(matches) < len(lines):
            mistakes = list(map(describe_mistake, lines))
            mistake = next(filter(None, mistakes))
            line_number = len(trials) + mistakes.index(mistake) + 1
            example = "'0.5 target' or '-1.2 nontarget'"
            logger.warning("Line %d must have a score and a label, such as %s", line_number, example)
            raise OptionError(mistake)
        trials += matches
    if not trials:
        raise OptionError("Empty input.")
    doubles = np.array([float(score) for score, _ in trials])
    for index in np.flatnonzero(abs(doubles) >= FLOAT32_END).tolist():
        if "n" not in trials[index][0].lower():  # "inf" and "nan" are valid scores.
            raise OptionError(f"Invalid input line (first field must be float): {' '.join(trials[index])}")
    for index in np.flatnonzero(np.isnan(doubles)).tolist()[:1]:
        logger.warning("Line %d has the score NaN, so the equal error rate is meaningless: remove the trial", index + 1)
    if len(labels := {label for _, label in trials}) == 1:
        absent_label = "nontarget" if "target" in labels else "target"
        logger.warning("All trials have the label '%s': add trials with the label '%s'", *labels, absent_label)
    scores = doubles.astype(np.float32)
    values, is_target = parse_trials(scores, [label for _, label in trials])
    return values[is_target], values[~is_target]


def describe_mistake(line: str) -> str:
    """Return Kaldi's message for the mistake in a line, or "" for a valid line."""
    words = [word for word in re.split("[ \t]", line) if word]
    if len(words) != 2:
        return f"Invalid input line (must have two fields): {line}"
    if not re.fullmatch(NUMBER, words[0], re.ASCII):
        return f"Invalid input line (first field must be float): {line}"
    return "" if TRIAL.match(line) else "Invalid input line (second field must be 'target' or 'nontarget')"
