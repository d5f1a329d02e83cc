"""The command ``kaldi-compat conform``: run a program in any language over the conformance kit.

The kit is a set of test vectors. A *vector* is an input, options, and the output of Kaldi.
"""

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
from kaldi_explain.grading import Result, Scorecard, Vector, grade, score
from kaldi_explain.grading import vectors as load_vectors

UNSUPPORTED_STATUS = 77  # Exit status with which a program reports that it does not support the options of a vector.
TIMEOUT_STATUS = 1  # Status that stands for a program that was killed because it exceeded the time limit.
TIME_LIMIT_S = 60.0  # Default time limit for one run of the program, in seconds.
MAX_TIMEOUTS = 3  # Number of consecutive runs that exceed the time limit after which the program is not run again.
MAX_ERROR_BYTES = 100_000  # Bytes at the end of standard error that are read. A faulty program may write without end.
MAX_QUOTED_CHARACTERS = 300  # Number of characters of standard error that a message quotes at most, to stay readable.
TOO_LONG = "it ran longer than"  # Beginning of the reason of a failure if the program exceeded the time limit.
BATCH_PLACEHOLDER = "{list.json}"  # A command with this placeholder runs once for all vectors.
# Matches lines that name an error: "ValueError: ..." of Python, "panic: ..." of Go, "fatal: ..." of C programs.
NAMES_ERROR = re.compile(r"(Error|Exception)\b|^panic:|panicked at|\b(error|fatal)\b *:", re.IGNORECASE)
# Matches lines around an error that do not name it: stack traces and the version of Node.js, notes and carets of Rust.
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
    """Run ``kaldi-compat conform``, which prints a scorecard, and return the exit status.

    ``argv`` replaces the arguments after ``conform``. The status is 0 after ``--help``, and if the tested program
    supports at least one vector and passes all vectors that it supports. It is 1 if a vector is wrong or fails, or if
    no vector is supported. It is 2 for invalid arguments, and 255 for any other error.
    """
    try:
        arguments = _make_parser().parse_args(sys.argv[2:] if argv is None else argv)
        if arguments.json:
            refuse_overwriting(arguments.json, map(FileName, arguments.command))
        level, kit, timeout = arguments.level, arguments.kit, arguments.timeout
        card = conform_command(arguments.command, level=level, kit=kit, timeout=timeout)
        print(card)
        if arguments.json:
            try:
                Path(arguments.json).write_text(card.as_json() + "\n")
            except OSError as error:
                raise FeatureError(f"cannot write {arguments.json}: {error.strerror}") from None
    except SystemExit as end:  # argparse raises this after --help and for a wrong argument.
        return int(end.code or 0)
    except (KaldiCompatError, ArkError, OSError) as error:
        return report_error(error)
    return 0 if card.passed else DIFFERENT_STATUS


def _make_parser() -> Parser:
    """Return the argument parser of ``kaldi-compat conform``."""
    parser = Parser("kaldi-compat conform", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--level", type=_parse_levels, metavar="N[,N]", help="levels to run (default: all, 1 to 8)")
    parser.add_argument("--kit", metavar="DIR", help="folder of the kit (default: installed, or of this checkout)")
    parser.add_argument("--json", metavar="FILE", help="also write the scorecard to a file")
    timeout_help = "time for a vector, or for all with {list.json} (default: %(default)g)"
    parser.add_argument("--timeout", type=float, default=TIME_LIMIT_S, metavar="SECONDS", help=timeout_help)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")
    return parser


def _parse_levels(text: str) -> list[int]:
    """Convert a value of ``--level``, such as "1,2", to integers. Raise ArgumentTypeError for any other value."""
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
    """Run a program over the conformance kit, like ``kaldi-compat conform``.

    The program runs once for each vector. It reads the input and the options from files, and writes its result to a
    ``.npy`` file. It ends with status 77 for a vector that it does not support. After it has exceeded the time limit on
    three consecutive vectors, it is not run again, and the remaining vectors fail.

    Args:
        command: the program and its arguments, in which paths replace the placeholders ``{audio}``, ``{options.json}``
            and ``{out.npy}``. With ``{list.json}`` instead, the program runs once for all vectors. This file lists
            objects with ``audio``, ``options`` and ``out``, and the program writes no file for a vector that it does
            not support. A leading ``--`` is ignored.
        level, kit: levels to run, and folder of the kit, as for :func:`kaldi_explain.conform`.
        timeout: time limit in seconds for each run of the program.

    Returns:
        The scorecard, including the mistakes that wrong results have in common.

    Raises:
        OptionError: the command has no output file, a level does not exist, or the time limit is not positive.
        FeatureError: the program cannot be started, or the kit is not found or is damaged.
    """
    command = [*command[1:]] if command[:1] == ["--"] else [*command]
    is_batch = any(BATCH_PLACEHOLDER in word for word in command)
    if not is_batch and not any("{out.npy}" in word for word in command):
        usage = "kaldi-compat conform -- PROGRAM {audio} {options.json} {out.npy}"
        raise OptionError(f"the command has no {{out.npy}}: write {usage}")
    if not timeout > 0:
        raise OptionError(f"--timeout={timeout:g} is not a positive number: pass a time limit in seconds")
    selected_vectors, run = load_vectors(level, kit), _run_once if is_batch else _run_for_each
    with tempfile.TemporaryDirectory() as folder:
        return score(run(command, selected_vectors, Path(folder), timeout), explain=True)


def _run_for_each(command: Sequence[str], vectors: Sequence[Vector], folder: Path, timeout: float) -> list[Result]:
    """Run a program once for each vector, and return the results in the order of the vectors.

    After the program has exceeded ``timeout`` seconds on ``MAX_TIMEOUTS`` consecutive vectors, it is not run again, and
    the remaining vectors fail. Input files for the program, and its output files, are written to ``folder``.
    """
    results: list[Result] = []
    for vector in vectors:
        last_results = results[-MAX_TIMEOUTS:]
        if len(last_results) == MAX_TIMEOUTS and all(result.why.startswith(TOO_LONG) for result in last_results):
            reason = f"not run, because the program exceeded {timeout:g} s on the previous {MAX_TIMEOUTS} vectors"
            return results + [Result(remaining, "failed", reason) for remaining in vectors[len(results) :]]
        results += _run_once(command, [vector], folder, timeout)
    return results


def _run_once(command: Sequence[str], vectors: Sequence[Vector], folder: Path, timeout: float) -> list[Result]:
    """Run a program once, for at most ``timeout`` seconds, and return results in the order of ``vectors``.

    The command must contain {list.json} if there are several vectors. Input files for the program, and its output
    files, are written to ``folder``. If the exit status is ``UNSUPPORTED_STATUS``, all vectors are "not supported".
    """
    output_files = [folder / f"{vector.id}.out.npy" for vector in vectors]
    requests: list[dict[str, Any]] = [
        {"id": vector.id, "audio": str(_write_input(vector, folder)), "options": vector.options, "out": str(output)}
        for vector, output in zip(vectors, output_files, strict=True)
    ]
    (folder / "list.json").write_text(json.dumps(requests))
    (folder / "options.json").write_text(json.dumps(vectors[0].options))
    paths = {BATCH_PLACEHOLDER: str(folder / "list.json"), "{options.json}": str(folder / "options.json")}
    paths |= {"{audio}": requests[0]["audio"], "{out.npy}": requests[0]["out"]}
    status, description = _run_program(command, paths, timeout)
    if status == UNSUPPORTED_STATUS:
        return [Result(vector, "not supported") for vector in vectors]
    if any(BATCH_PLACEHOLDER in word for word in command):
        return _grade_batch(vectors, output_files, status, description)
    [vector], [output_file] = vectors, output_files
    return [Result(vector, "failed", description) if status else _read_result(vector, output_file, description)]


def _grade_batch(vectors: Sequence[Vector], files: Sequence[Path], status: int, description: str) -> list[Result]:
    """Grade the output ``files`` that a program should have written in one run, one file for each vector.

    A vector without a file is "failed" if the exit status ``status`` is not 0, and otherwise "not supported".
    ``description``, which tells how the program ended, is part of the reason of a failure, and of the reason why
    vectors are not supported if the program wrote no file at all.
    """
    has_output = [file.exists() for file in files]
    unsupported_reason = "" if any(has_output) else f"the program wrote no file{description}"
    missing_grade, missing_reason = ("failed", description) if status else ("not supported", unsupported_reason)
    return [
        _read_result(vector, file, description) if exists else Result(vector, missing_grade, missing_reason)
        for vector, file, exists in zip(vectors, files, has_output, strict=True)
    ]


def _write_input(vector: Vector, folder: Path) -> Path:
    """Return the path of a vector's input. Unless the kit has a wave file with this input, write it to ``folder``."""
    if vector.file is not None:
        return vector.file.resolve()
    if vector.options["program"] == "read-archive":
        file = folder / f"{vector.id}.ark"
        file.write_bytes(vector.given.tobytes())
    else:
        file = folder / f"{vector.id}.npy"
        np.save(file, vector.given)
    return file


def _run_program(command: Sequence[str], placeholder_paths: dict[str, str], timeout: float) -> tuple[int, str]:
    """Replace placeholders in a command, such as {audio}, with paths, and run the command.

    Return the exit status, and a description of how the program ended (:func:`_describe_end`). The status is ``-n`` if
    signal ``n`` ended the program. If the program exceeds ``timeout`` seconds, it is killed, the status is
    ``TIMEOUT_STATUS``, and the description begins with ``TOO_LONG``. All processes that the program has started are
    killed when it ends. Raise :class:`FeatureError` if the program cannot be started.
    """
    words = [*command]
    for placeholder, path in placeholder_paths.items():
        words = [word.replace(placeholder, path) for word in words]
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
            return TIMEOUT_STATUS, f"{TOO_LONG} {timeout:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # Also end processes that the program started.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(max(errors.tell() - MAX_ERROR_BYTES, 0))
        message = find_error(errors.read().decode(errors="replace"))
        return status, _describe_end(status, message, has_printed=printed.tell() > 0)


def _describe_end(status: int, message: str, *, has_printed: bool) -> str:
    """Describe how a program ended.

    If ``status`` is not 0, return the exit status, or the name of signal ``-status`` if it is negative, and the error
    ``message``. If ``status`` is 0, return remarks in parentheses that may explain a missing output file: the remark
    that the program printed to standard output (``has_printed``), and the message. An empty message is left out.
    """
    if status == 0:
        return " (it printed to standard output)" * has_printed + f" (it said: {message})" * bool(message)
    end = f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return end + (f": {message}" if message else "")


def find_error(text: str) -> str:
    """Return the last line of ``text``, the standard error of a program, that is not indented and names an error.

    If there is no such line, return the last line that is not part of a stack trace, or else the last line. Blank lines
    do not count. Return "" if all lines are blank. If the selected line ends with a colon, append the next line.
    Control characters are escaped, and the result is cut to ``MAX_QUOTED_CHARACTERS``.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    error_indices = [index for index, line in enumerate(lines) if NAMES_ERROR.search(line) and not line[0].isspace()]
    reason_indices = [index for index, line in enumerate(lines) if not NO_REASON.match(line)]
    index = (error_indices or reason_indices or [len(lines) - 1])[-1]
    continuation = lines[index + 1 : index + 2] if lines[index].endswith(":") else []
    return escape_controls(" ".join([lines[index], *continuation]))[:MAX_QUOTED_CHARACTERS]


def _read_result(vector: Vector, output_file: Path, description: str) -> Result:
    """Grade a vector's output file. The grade is "failed" if the file is missing or cannot be read.

    The reason of this failure ends with ``description``, which tells how the program ended.
    """
    try:
        return grade(vector, load_npy(output_file))
    except MissingFileError:
        reason = "it wrote no output file"
    except Exception as error:  # A damaged file may raise any error.
        reason = f"its output is no NumPy file: {escape_controls(str(error))}"
    return Result(vector, "failed", f"{reason}{description}")
