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
    """Run ``kaldi-compat conform`` with the arguments ``argv``, by default the arguments after ``conform``.

    Return the exit status: 0 if all supported vectors passed, 1 if not or if none is supported, 2 for invalid
    arguments, and 255 for another error.
    """
    try:
        arguments = _make_parser().parse_args(sys.argv[2:] if argv is None else argv)
        if arguments.json:
            refuse_overwriting(arguments.json, map(FileName, arguments.command))
        level, kit, timeout = arguments.level, arguments.kit, arguments.timeout
        card = conform_command(arguments.command, level=level, kit=kit, timeout=timeout)
        print(card)
        if arguments.json:
            _write_text(arguments.json, card.as_json() + "\n")
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
    timeout_help = "time for a vector, or for all with {list.json} (default: %(default)g)"
    parser.add_argument("--timeout", type=float, default=TIME_LIMIT_S, metavar="SECONDS", help=timeout_help)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")
    return parser


def _write_text(path: str, text: str) -> None:
    """Write ``text`` to a file, or raise :class:`FeatureError` if the file cannot be written."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise FeatureError(f"cannot write {path}: {error.strerror}") from None


def _parse_levels(text: str) -> list[int]:
    """Convert the value of ``--level``, such as "1,2", to a list of levels, or raise argparse's error."""
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
    """Run a program over the conformance kit, like ``kaldi-compat conform``, and return the scorecard.

    After three consecutive vectors over the time limit, the program is not run again, and the remaining vectors fail.

    Args:
        command: the program and its arguments, with the placeholders ``{audio}``, ``{options.json}`` and ``{out.npy}``.
            The program ends with status 77 for a vector that it does not support. With ``{list.json}`` instead, it runs
            once for all vectors, and writes no file for a vector that it does not support.
        level: one level or several levels, 1 to 8. None for all.
        kit: folder of the kit. None for the installed package ``kaldi_conformance`` or the kit of a checkout.
        timeout: time limit in seconds for each run of the program.

    Raises:
        OptionError: the command has no output file, a level does not exist, or the time limit is not positive.
        FeatureError: the program cannot be started, or the kit is not found.
    """
    command = [*command[1:]] if command[:1] == ["--"] else [*command]
    is_batch = any("{list.json}" in word for word in command)
    if not is_batch and not any("{out.npy}" in word for word in command):
        raise OptionError(
            "the command has no {out.npy}: write kaldi-compat conform -- PROGRAM {audio} {options.json} {out.npy}"
        )
    if not timeout > 0:
        raise OptionError(f"--timeout={timeout:g} is not a positive number: pass a time limit in seconds")
    selected = vectors(level, kit)
    with tempfile.TemporaryDirectory() as scratch:
        if is_batch:
            return score(_run_once(command, selected, Path(scratch), timeout), explain=True)
        results: list[Result] = []
        for vector in selected:
            if len(results) >= MAX_HUNG and all(result.why.startswith(TOO_LONG) for result in results[-MAX_HUNG:]):
                reason = f"not run: the {MAX_HUNG} vectors before ran longer than {timeout:g} s"
                results += [Result(missing, "failed", reason) for missing in selected[len(results) :]]
                break
            results += _run_once(command, [vector], Path(scratch), timeout)
        return score(results, explain=True)


def _run_once(command: Sequence[str], selected: Sequence[Vector], folder: Path, timeout: float) -> list[Result]:
    """Run a program once for all ``selected`` vectors, and return their results.

    Without {list.json} in ``command``, pass one vector. Inputs and outputs of the program are files in ``folder``.
    ``timeout`` is the time limit in seconds.
    """
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
    paths = {placeholder: str(folder / name) for placeholder, name in names.items()}
    paths |= {"{audio}": requests[0]["audio"], "{out.npy}": requests[0]["out"]}
    status, reason = _run_program(command, paths, timeout)
    is_batch, results = any("{list.json}" in word for word in command), []
    wrote_nothing = is_batch and not status and not any(Path(request["out"]).exists() for request in requests)
    for vector, request in zip(selected, requests, strict=True):
        is_missing = is_batch and not Path(request["out"]).exists()
        if status == UNSUPPORTED_STATUS or (is_missing and not status):
            results.append(
                Result(vector, "not supported", f"the program wrote no file{reason}" if wrote_nothing else "")
            )
        elif is_missing or (status and not is_batch):
            results.append(Result(vector, "failed", reason))
        else:
            results.append(_read_result(vector, Path(request["out"]), reason))
    return results


def _write_input(vector: Vector, folder: Path) -> Path:
    """Return the path of the file with a vector's input. If the kit has no such file, write it in ``folder``."""
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
    """Run a program and its arguments, in which paths replace placeholders such as {audio}.

    Return the exit status, and a description of the failure. The status is 1 for a program that exceeds the time limit
    ``timeout`` in seconds, and negative after a signal. For the status 0, the description quotes standard error, which
    may explain a missing file, or is "". Raise :class:`FeatureError` if the program cannot be started.
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
    """Return the last line of a program's standard error ``text`` that names an error, such as an exception.

    If no line names an error, return the last line that is not part of a stack trace, or else the last line. Return ""
    for empty text. A line that ends with a colon is joined to the next line. Return at most MAX_QUOTED characters.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named_indices = [index for index, line in enumerate(lines) if NAMES_ERROR.search(line) and not line[0].isspace()]
    plain_indices = [index for index, line in enumerate(lines) if not NO_REASON.match(line)]
    index = (named_indices or plain_indices or [len(lines) - 1])[-1]
    if not lines:
        return ""
    continuation = lines[index + 1 : index + 2] if lines[index].endswith(":") else []
    return escape_controls(" ".join([lines[index], *continuation]))[:MAX_QUOTED]


def _read_result(vector: Vector, out: Path, hint: str) -> Result:
    """Grade a program's output file ``out``. If it cannot be read, the reason of the failure ends with ``hint``."""
    try:
        return grade(vector, load_npy(out))
    except Exception as error:  # A damaged file may raise any error.
        reason = "there is none" if isinstance(error, MissingFileError) else escape_controls(str(error))
        return Result(vector, "failed", f"it wrote no NumPy file: {reason}{hint}")
