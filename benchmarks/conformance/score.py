#!/usr/bin/env python3
"""Run implementations over the conformance kit and write docs/scorecard.md.

usage: python -m benchmarks.conformance.score [--only TEXT] [--print]

Python packages are imported from PYTHONPATH. Environment variables name all other implementations: SCORE_SOURCES (a
folder with checkouts of PaddleSpeech and VBx, whose files COMMIT contain their commits), KALDIFEAT (a built checkout),
KNF_C, KNF_RUST and KNF_ROUSEABOUT (libraries built from knf_port.c, knf_port.rs and knf.c), KNF_C_VERSION and so on
(their versions), SCORE_C (a folder with the programs conform, wav_to_fbank, online and fbank built from packages/c),
TRANSFORMERS_JS (transformers_js.mjs beside this file), TRANSFORMERS_JS_SOURCE (src/utils/audio.js of the package) and
TRANSFORMERS_JS_VERSION. Implementations that are not available are left out.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from benchmarks.conformance.implementations import Implementation, list_implementations
from kaldi_explain.causes import Cause
from kaldi_explain.conform_command import conform_command
from kaldi_explain.grading import LEVELS, Scorecard, conform, vectors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scorecard.md"
MAX_CAUSES = 4  # Number of causes that are listed for each implementation.
MAX_ERROR_LENGTH = 100  # Number of characters of an error that are printed.
HEAD = """\
# Scorecard of other implementations

This page shows how close other libraries come to Kaldi's features and archives, and where they differ. The results come
from the [conformance kit](conformance.md), whose test vectors contain the output of Kaldi's programs. A difference is
not always a mistake: some libraries, such as librosa, define the features differently.

The columns of the table are the [levels](conformance.md#what-does-the-kit-test) of the kit. For example, the cell "478
of 484 (3)" means that the library supports 484 test vectors of the level, that 478 of its results are
[correct](conformance.md#how-to-read-the-scorecard), and that 3 results are equal to Kaldi's output. A library does not
support a vector if its interface lacks one of the options. If the library ends with an error, the result counts as
wrong. An empty cell means that the library supports no vector of the level. Names such as ThirdLetterC are owners of
GitHub repositories.

"""
DIFFERENCES = """\
## What are the causes of the differences?

The following tables list causes of wrong results, with the number of vectors and the name of one vector. A vector can
have two causes, such as a wrong option and a wrong number of frames. [`explain`](wrong_numbers.md) found most of the
causes, and others were found in the source code of the library. A "floor" is the smallest value before the logarithm.

All results of the following implementations are correct:

{correct}

"""
FOOT = """\
## How to repeat the tests

Run the following commands in a checkout. The first command installs kaldi-compat,
[kaldi-explain](../packages/explain/README.md) and the kit. The second command tests the implementations that are
available, and prints this page with only their results. Without `--print`, it replaces the page:

```sh
pip install -e . -e ./packages/explain ./reference_data/conformance
python -m benchmarks.conformance.score --print
```

The docstring of `benchmarks/conformance/score.py` explains how to make all implementations available. To test your own
implementation, see [Check an implementation](conformance.md).
"""
Difference = tuple[str, int, str]  # Cause, number of vectors, and name of one vector.


def format_row(implementation: Implementation, card: Scorecard) -> str:
    """Return a row of the table."""
    cells = []
    for level in LEVELS:
        counts = card.counts()[level]
        supported = sum(counts.values()) - counts["not supported"]
        close = counts["bits"] + counts["1e-5"] + counts["1e-3"]
        cells.append(f"{close} of {supported} ({counts['bits']})" if supported else "")
    return " | ".join(["", implementation.name, implementation.version, *cells, ""]).strip()


def list_differences(implementation: Implementation, card: Scorecard) -> list[Difference]:
    """Return the causes of wrong results, as `explain` names them, and the errors."""
    named = [cause for cause in card.causes if not cause.name.startswith("not explained")]
    if others := [vector for cause in card.causes if cause not in named for vector in cause.vectors]:
        named.append(Cause(implementation.others or "not explained", others))
    named.sort(key=lambda cause: -len(cause.vectors))
    differences = [(cause.name, len(cause.vectors), cause.vectors[0]) for cause in named[:MAX_CAUSES]]
    if unlisted := named[MAX_CAUSES:]:
        count = sum(len(cause.vectors) for cause in unlisted)
        noun = "cause" if len(unlisted) == 1 else "causes"
        differences.append((f"{len(unlisted)} more {noun}", count, unlisted[0].vectors[0]))
    failed = [result for result in card.results if result.grade == "failed"]
    if failed:
        line = failed[0].why.partition("\n")[0]
        why = line[:MAX_ERROR_LENGTH].strip() + "..." * (len(line) > MAX_ERROR_LENGTH)
        differences.append((f"the library ends with an error: `{why}`", len(failed), failed[0].vector.id))
    return differences


def format_differences(name: str, note: str, differences: list[Difference]) -> str:
    """Return the section of a library that differs from Kaldi."""
    rows = [f"| {cause} | {count} | {vector} |" for cause, count, vector in differences]
    remark = [f"This library {note}.", ""] if note else []
    return "\n".join([f"### {name}", "", *remark, "| cause | vectors | name of a vector |", "|---|---|---|", *rows, ""])


def format_page(rows: list[str], sections: list[str], correct: list[str]) -> str:
    """Return the page, with the rows of the table and a section for each implementation that differs from Kaldi."""
    titles = {vector.level: vector.title for vector in vectors()}
    columns = ["", "implementation", "version", *(f"{level} {titles[level]}" for level in LEVELS), ""]
    table = [" | ".join(columns).strip(), "|---" * (len(columns) - 2) + "|", *rows, ""]
    differences = DIFFERENCES.format(correct="\n".join(f"- {name}" for name in correct))
    return HEAD + "\n".join([*table, differences.removesuffix("\n"), *sections, FOOT])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write docs/scorecard.md.")
    parser.add_argument("--only", default="", metavar="TEXT", help="implementations whose name has this in it")
    parser.add_argument("--print", action="store_true", help="print the page, and write nothing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[str] = []
    sections: list[str] = []
    correct: list[str] = []
    for implementation in list_implementations():
        if arguments.only in implementation.name:
            card = (
                conform_command(implementation.command, timeout=3600)
                if implementation.command
                else conform(implementation.compute)
            )
            if all("ModuleNotFoundError" in result.why for result in card.results if result.grade != "not supported"):
                print(f"left out: {implementation.name}: {card.results[0].why}", file=sys.stderr)
                continue
            rows.append(format_row(implementation, card))
            if differences := list_differences(implementation, card):
                sections.append(format_differences(implementation.name, implementation.note, differences))
            else:
                correct.append(implementation.name)
            print(implementation.name, file=sys.stderr, flush=True)
    text = format_page(rows, sections, correct)
    if arguments.print:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
