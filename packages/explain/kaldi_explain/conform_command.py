"""The command ``kaldi-compat conform``: run a program in any language over the conformance kit."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from io_ark.errors import ArkError, MissingFileError
from io_ark.numpy_files import load_npy
from io_ark.specifier import FileName
from io_ark.tables.overwriting import refuse_overwriting
from io_ark.text import escape_controls
from kaldi_compat.cli.frontends import DIFFERENT_STATUS, Parser, report_error
from kaldi_compat.errors import FeatureError, KaldiCompatError, OptionError
from kaldi_explain.grading import Result, Scorecard, Vector, grade, score, vectors

UNSUPPORTED_STATUS = 77  # Exit status by which a program tells that it does not support the options of a vector.
TIME_LIMIT_S = 60.0  # Default time limit for one run of the program, in seconds.
MAX_HUNG = 3  # Number of consecutive vectors over the time limit after which the command stops.
# Number of bytes at the end of standard error that are read, because a faulty program may write without end.
MAX_ERROR_BYTES = 100_000
MAX_QUOTED = 300  # Number of characters of standard error that a message quotes at most, to stay readable.
TOO_LONG = "it ran longer than"
NAMES_ERROR = re.compile(r"(Error|Exception)\b|^panic:|panicked at|\b(error|fatal)\b *:", re.IGNORECASE)
NO_REASON = re.compile(r"^(Node\.js v|\s+at |note:|\s*\^)")
DESCRIPTION = (
    "Run a program over the conformance kit, once for each vector, and print a scorecard. In its command line, {audio} "
    "stands for the input (a wave file; .npy for post-processing, .ark for archives), {options.json} for a file with "
    "all options, and {out.npy} for the file to write. The program ends with status 77 for a vector that it does not "
    "support. With {list.json} instead, it runs once for all vectors: the file is a list of objects with audio, "
    "options and out, and the program writes no file for a vector that it does not support. The exit status is 1 if a "
    "vector is wrong."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (without ``kaldi-compat conform``) and return the exit status, 0 if all results passed."""
    try:
        arguments = _make_parser().parse_args(sys.argv[2:] if argv is None else argv)
        if arguments.json:
            refuse_overwriting(arguments.json, map(FileName, arguments.command))
        level, kit, timeout = arguments.level, arguments.kit, arguments.timeout
        card = conform_command(arguments.command, level=level, kit=kit, timeout=timeout)
        print(card)
        if arguments.json:
            _write(arguments.json, card.as_json() + "\n")
    except SystemExit as end:  # argparse raises this after --help and for a wrong argument.
        return int(end.code or 0)
    except (KaldiCompatError, ArkError, OSError) as error:
        return report_error(error)
    return 0 if card.passed else DIFFERENT_STATUS


def _make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser("kaldi-compat conform", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--level", type=_parse_levels, metavar="N[,N]", help="levels to run (default: all, 1 to 8)")
    parser.add_argument("--kit", metavar="DIR", help="folder of the kit (default: installed, or of this checkout)")
    parser.add_argument("--json", metavar="FILE", help="also write the scorecard to a file")
    about = "time for a vector, or for all with {list.json} (default: %(default)g)"
    parser.add_argument("--timeout", type=float, default=TIME_LIMIT_S, metavar="SECONDS", help=about)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")
    return parser


def _write(path: str, text: str) -> None:
    """Write a text file.

    Raises:
        FeatureError: the file cannot be written.
    """
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise FeatureError(f"cannot write {path}: {error.strerror}") from None


def _parse_levels(text: str) -> list[int]:
    try:
        return [int(level) for level in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of levels: write numbers such as 1,2,3") from None


def conform_command(
    command: Sequence[str],
    *,
    level: int | Sequence[int] | None = None,
    kit: str | Path | None = None,
    timeout: float = TIME_LIMIT_S,
) -> Scorecard:
    """Run a program over the conformance kit (see ``kaldi-compat conform --help``), and return the scorecard.

    Args:
        command: the program and its arguments, with the placeholders of ``--help``.
        level: one level or several levels, 1 to 8. None for all.
        kit: folder of the kit. None for the installed package ``kaldi_conformance`` or the kit of a checkout.
        timeout: time limit in seconds for each run of the program.

    Raises:
        OptionError: the command has no output file, a level does not exist, or the time limit is not positive.
        FeatureError: the program cannot be started, or the kit is not found.
    """
    command = [*command[1:]] if command[:1] == ["--"] else [*command]
    batch = any("{list.json}" in word for word in command)
    if not batch and not any("{out.npy}" in word for word in command):
        raise OptionError(
            "the command has no {out.npy}: write kaldi-compat conform -- PROGRAM {audio} {options.json} {out.npy}"
        )
    if not timeout > 0:
        raise OptionError(f"--timeout={timeout:g} is not a positive number: pass a time limit in seconds")
    selected = vectors(level, kit)
    with tempfile.TemporaryDirectory() as scratch:
        if batch:
            return score(_run_once(command, selected, Path(scratch), timeout), explain=True)
        results: list[Result] = []
        for vector in selected:
            if len(results) >= MAX_HUNG and all(result.why.startswith(TOO_LONG) for result in results[-MAX_HUNG:]):
                why = f"not run: the {MAX_HUNG} vectors before ran longer than {timeout:g} s"
                results += [Result(missing, "failed", why) for missing in selected[len(results) :]]
                break
            results += _run_once(command, [vector], Path(scratch), timeout)
        return score(results, explain=True)


def _run_once(command: Sequence[str], selected: Sequence[Vector], folder: Path, timeout: float) -> list[Result]:
    """Run a program once, for one test vector or for all, and return the result of each vector."""
    requests: list[dict[str, Any]] = [
        {
            "id": vector.id,
            "audio": str(_write_input(vector, folder)),
            "options": vector.options,
            "out": str(folder / f"{vector.id}.out.npy"),
        }
        for vector in selected
    ]
    (folder / "list.json").write_text(json.dumps(requests))
    (folder / "options.json").write_text(json.dumps(selected[0].options))
    names = {"{list.json}": "list.json", "{options.json}": "options.json"}
    places = {name: str(folder / file) for name, file in names.items()}
    status, why = _run(command, places | {"{audio}": requests[0]["audio"], "{out.npy}": requests[0]["out"]}, timeout)
    batch, results = any("{list.json}" in word for word in command), []
    wrote_nothing = batch and not status and not any(Path(request["out"]).exists() for request in requests)
    for vector, request in zip(selected, requests, strict=True):
        is_missing = batch and not Path(request["out"]).exists()
        if status == UNSUPPORTED_STATUS or (is_missing and not status):
            results.append(Result(vector, "not supported", f"the program wrote no file{why}" if wrote_nothing else ""))
        elif is_missing or (status and not batch):
            results.append(Result(vector, "failed", why))
        else:
            results.append(_read(vector, Path(request["out"]), why))
    return results


def _write_input(vector: Vector, folder: Path) -> Path:
    """Return the file with a vector's input. Write it if the kit has no such file."""
    if vector.file is not None:
        return vector.file.resolve()
    if vector.options["program"] == "read-archive":
        file = folder / f"{vector.id}.ark"
        file.write_bytes(vector.given.tobytes())
    else:
        file = folder / f"{vector.id}.npy"
        np.save(file, vector.given)
    return file


def _run(command: Sequence[str], places: dict[str, str], timeout: float) -> tuple[int, str]:
    """Run a program. Return its exit status, and a description of its failure.

    The status is 1 for a program that exceeds the time limit ``timeout`` in seconds. For the status 0, the description
    says in parentheses what the program printed, because it may explain a missing file.

    Args:
        command: the program and its arguments.
        places: maps the placeholders in the arguments to paths.
        timeout: time limit in seconds.

    Raises:
        FeatureError: the program cannot be started.
    """
    words = [*command]
    for name, path in places.items():
        words = [word.replace(name, path) for word in words]
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise FeatureError(f"cannot run {words[0]}: {error.strerror}") from None
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return 1, f"{TOO_LONG} {timeout:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # Also end processes that the program started.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(max(errors.tell() - MAX_ERROR_BYTES, 0))
        message = find_error(errors.read().decode(errors="replace"))
        end = f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        hint = " (it printed to standard output)" * bool(printed.tell()) + f" (it said: {message})" * bool(message)
        return status, (end + (f": {message}" if message else "")) if status else hint


def find_error(text: str) -> str:
    """Return the line of a program's standard error that names its error, which may not be the last line.

    >>> find_error("x.js:1\\n\\nTypeError: no window\\n    at x.js:1:7\\n\\nNode.js v20.20.2\\n")
    'TypeError: no window'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named = [index for index, line in enumerate(lines) if NAMES_ERROR.search(line) and not line[0].isspace()]
    plain = [index for index, line in enumerate(lines) if not NO_REASON.match(line)]
    index = (named or plain or [len(lines) - 1])[-1]
    if not lines:
        return ""
    more = lines[index + 1 : index + 2] if lines[index].endswith(":") else []
    return escape_controls(" ".join([lines[index], *more]))[:MAX_QUOTED]


def _read(vector: Vector, out: Path, hint: str) -> Result:
    """Grade the file that a program wrote for a vector. Append ``hint`` to the reason if it is not a NumPy file."""
    try:
        return grade(vector, load_npy(out))
    except Exception as error:  # A damaged file may raise any error.
        why = "there is none" if isinstance(error, MissingFileError) else escape_controls(str(error))
        return Result(vector, "failed", f"it wrote no NumPy file: {why}{hint}")
