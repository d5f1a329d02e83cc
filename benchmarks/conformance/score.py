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
MAX_CAUSES = 8  # Number of causes that are listed for each implementation.
HEAD = """\
# Scorecard of other implementations

This page shows the results of the [conformance kit](conformance.md) for libraries that compute features like Kaldi's
or read Kaldi's archives. `python -m benchmarks.conformance.score` wrote the page. Each library is called with the
options that it supports. Vectors with other options count as not supported, which is not a fault. **Many libraries
differ on purpose**, because they serve models that were trained with the library's own numbers.

The columns are the levels of the kit. A cell shows how many of the supported vectors are correct within 1e-3
(relative to max(1, |value|)), and in parentheses how many are equal in all bits. Below the table, a section for each
library lists the causes of the differences. Each line has the cause, the number of vectors, and one of the vectors.

"""


def format_row(implementation: Implementation, card: Scorecard) -> str:
    """Return a row of the table."""
    cells = []
    for level in LEVELS:
        counts = card.counts()[level]
        supported = sum(counts.values()) - counts["not supported"]
        close = counts["bits"] + counts["1e-5"] + counts["1e-3"]
        cells.append(f"{close} of {supported} ({counts['bits']})" if supported else "")
    return " | ".join(["", implementation.name, implementation.version, *cells, ""]).strip()


def describe_differences(implementation: Implementation, card: Scorecard) -> str:
    """Return where an implementation differs, as `explain` says it."""
    lines = [f"## {implementation.name}", ""]
    if implementation.note:
        lines += [f"{implementation.note[0].upper()}{implementation.note[1:]}.", ""]
    failed = [result for result in card.results if result.grade == "failed"]
    if not card.causes and not failed:
        lines += ["All supported vectors are correct."]
    named = [cause for cause in card.causes if not cause.name.startswith("not explained")]
    if others := [vector for cause in card.causes if cause not in named for vector in cause.vectors]:
        named.append(Cause(implementation.others or "not explained", others))
    named.sort(key=lambda cause: -len(cause.vectors))
    for cause in named[:MAX_CAUSES]:
        lines.append(f"- {cause.name}: {len(cause.vectors)}, such as {cause.vectors[0]}")
    if unlisted := named[MAX_CAUSES:]:
        lines.append(f"- {len(unlisted)} more causes: {sum(len(cause.vectors) for cause in unlisted)}")
    if failed:
        why = failed[0].why.partition("\n")[0][:100].strip()
        lines.append(f"- ends with an error: {len(failed)}, such as {failed[0].vector.id} ({why})")
    return "\n".join([*lines, ""])


def format_page(rows: list[str], parts: list[str]) -> str:
    """Return the page, with the rows of the table and a section about the differences of each implementation."""
    titles = {vector.level: vector.title for vector in vectors()}
    columns = ["", "implementation", "version", *(f"{level} {titles[level]}" for level in LEVELS), ""]
    table = [" | ".join(columns).strip(), "|---" * (len(columns) - 2) + "|", *rows]
    return (HEAD + "\n".join([*table, "", *parts])).rstrip() + "\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write docs/scorecard.md.")
    parser.add_argument("--only", default="", metavar="TEXT", help="implementations whose name has this in it")
    parser.add_argument("--print", action="store_true", help="print the page, and write nothing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, parts = [], []
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
            parts.append(describe_differences(implementation, card))
            print(implementation.name, file=sys.stderr, flush=True)
    text = format_page(rows, parts)
    if arguments.print:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
