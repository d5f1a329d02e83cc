"""Run ``kaldi-compat frontend``: list, show, check and export the front ends of published models."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

import io_ark
from io_ark.errors import ArkError
from io_ark.numpy_files import load_npz
from io_ark.text import escape
from kaldi_compat.errors import FeatureError, KaldiCompatError, OptionError
from kaldi_compat.frontends.description import convert_to_dict, format_text
from kaldi_compat.frontends.preset import Preset, list_presets
from kaldi_compat.options.base import require

DIFFERENT_STATUS, INVALID_STATUS, ERROR_STATUS = 1, 2, 255
TOLERANCE = 1e-3
DESCRIPTION = "Front ends of published models: from audio to a model's input, as the model's own project computes it."
PRESET_HELP = "a name from 'kaldi-compat frontend list', or a JSON file with your own preset"
STATISTICS_HELP = "the model's statistics: am.mvn, WeNet's JSON, or Kaldi statistics"


class Parser(argparse.ArgumentParser):
    """Argument parser that raises OptionError for an invalid command line."""

    def error(self, message: str) -> NoReturn:
        """Raise :class:`OptionError`, which :func:`main` reports, with the message of argparse."""
        raise OptionError(f"{message}: {self.prog} --help explains the command line")

    def print_help(self, file: Any = None) -> None:
        """Print the help text. Unlike argparse, raise OSError if it cannot be written."""
        print(self.format_help(), end="", file=file, flush=True)


def make_parser() -> argparse.ArgumentParser:
    """Make the argument parser of ``kaldi-compat frontend``."""
    parser = Parser("kaldi-compat frontend", description=DESCRIPTION, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def add_command(name: str, text: str) -> argparse.ArgumentParser:
        """Add a subcommand with the description ``text``, and return its parser."""
        command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        return command

    add_command("list", "list the presets")
    show = add_command("show", "show the settings of a preset, and where they come from")
    show.add_argument("name", help=PRESET_HELP)
    show.add_argument("--json", action="store_true", help="print all options as JSON, for a new preset or a program")
    check = add_command("check", "compare a preset with features that you have computed; status 1 if they differ")
    check.add_argument("name", help=PRESET_HELP)
    check.add_argument(
        "--against",
        required=True,
        metavar="FILE.npz",
        help="NumPy file with 'samples' (T,) and 'features' (frames, dim), and optionally 'sampling_rate'. For "
        "several utterances, add a prefix to each name, as in 'a.samples' and 'a.features'",
    )
    check.add_argument("--statistics", metavar="FILE", help=STATISTICS_HELP)
    check.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest difference (default: %(default)g)")
    export = add_command("export", "write a preset as an ONNX file")
    export.add_argument("name", help=PRESET_HELP)
    export.add_argument("file", metavar="OUT.onnx", help="the file to write")
    export.add_argument("--statistics", metavar="FILE", help=STATISTICS_HELP)
    export.add_argument("--lengths", action="store_true", help="the graph also takes the lengths of a padded batch")
    export.add_argument("--int16", action="store_true", help="the graph takes int16, not floating point in -1 to 1")
    export.add_argument(
        "--dft", choices=("matmul", "fft"), default="matmul", help="spectra by a matrix product (default) or a DFT node"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kaldi-compat frontend`` with the arguments ``argv``, by default ``sys.argv[2:]``.

    Return the exit status: 0 for success, 1 if ``check`` finds a difference, 2 for an invalid command line, and 255 for
    other errors.
    """
    try:
        options = make_parser().parse_args(sys.argv[2:] if argv is None else argv)
    except SystemExit as request:  # argparse ends the process after --help.
        return int(request.code or 0)
    except OptionError as error:
        return report_error(error)
    try:
        with show_warnings_in_one_line():
            return _run_command(options)
    except MemoryError as error:
        return report_error(KaldiCompatError(f"out of memory: {error}"))
    except (KaldiCompatError, io_ark.ArkError, OSError) as error:
        return report_error(error)


def _run_command(options: argparse.Namespace) -> int:
    """Run the command that the options name, and return the exit status."""
    if options.command == "list":
        presets = [Preset.of(name) for name in list_presets()]
        width = max(len(preset.name) for preset in presets)
        for preset in presets:
            print(f"{preset.name:{width}}  {preset.title}")
        return 0
    preset = Preset.of(options.name)
    if options.command == "show":
        print(json.dumps(convert_to_dict(preset), indent=2) if options.json else format_text(preset))
        return 0
    if options.command == "export":
        return _export_preset(options)
    return _check_preset(preset, options)


def _export_preset(options: argparse.Namespace) -> int:
    """Write a preset as an ONNX file, print a description of the file, and return the exit status."""
    try:
        from kaldi_compat.torch.export import export_frontend
    except ModuleNotFoundError as error:
        message = f"export needs {error.name}, which is not installed: pip install torch onnx onnxscript"
        raise FeatureError(message) from None
    exported = export_frontend(
        options.name, options.file, statistics=options.statistics,
        lengths=options.lengths, int16=options.int16, dft=options.dft,
    )  # fmt: skip
    print(exported)
    return 0


def _check_preset(preset: Preset, options: argparse.Namespace) -> int:
    """Compare a preset with the features in ``options.against``, print the result, and return the exit status."""
    from kaldi_compat.frontends.numpy import Frontend

    require(0 <= options.tolerance < np.inf, f"--tolerance={options.tolerance}: expected a number of at least 0")
    frontend = Frontend(preset, statistics=options.statistics)
    max_difference, difference_sum, count = 0.0, 0.0, 0
    for label, samples, expected, rate in _read_references(options.against):
        features = frontend(samples, sampling_rate=rate)
        if features.shape != expected.shape:
            print(f"{label}: the features have the shape {expected.shape}, but the preset computes {features.shape}")
            _print_advice(options.against)
            return DIFFERENT_STATUS
        differences = np.abs(features.astype(np.float64) - expected)
        # max() ignores NaN, which is reported below.
        max_difference = max(max_difference, float(differences.max(initial=0.0)))
        difference_sum, count = difference_sum + float(differences.sum()), count + differences.size
        if not np.isfinite(differences).all():
            print(f"{label}: the features contain NaN or infinite values")
            return DIFFERENT_STATUS
    is_same = max_difference <= options.tolerance
    verdict = "the same" if is_same else "different"
    print(f"{preset.name}: {verdict}; largest difference {max_difference:.2g}, mean "
          f"{difference_sum / max(count, 1):.2g}, tolerance {options.tolerance:g}")  # fmt: skip
    if not is_same:
        _print_advice(options.against)
    return 0 if is_same else DIFFERENT_STATUS


def _print_advice(path: str) -> None:
    """Print the command that finds the settings of the features in the NumPy file ``path``."""
    file = shlex.quote(path) if "features" in load_npz(path) else "FEATURES.npy"
    print(f"To find the settings of your features, run: kaldi-compat explain {file} AUDIO.wav")


def _read_references(path: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield a label, the samples, the features, and the rate in Hz or None, for each pair of arrays in a NumPy file.

    The label names the file and the samples in messages. Raise FeatureError if the file cannot be read, if an array is
    missing, or if features are not real numbers.
    """
    try:
        arrays = load_npz(path)
    except ArkError as error:
        raise FeatureError(str(error)) from None
    prefixes = [key.removesuffix("samples") for key in arrays if key == "samples" or key.endswith(".samples")]
    if not prefixes:
        raise FeatureError(f"{path} has no array 'samples': np.savez({path!r}, samples=..., features=...) writes both")
    for prefix in prefixes:
        if f"{prefix}features" not in arrays:
            raise FeatureError(f"{path} has no array '{prefix}features': store the features of '{prefix}samples' in it")
        rate = arrays.get(f"{prefix}sampling_rate")
        samples, features = arrays[f"{prefix}samples"], arrays[f"{prefix}features"]
        if features.dtype.kind not in "fiu":
            raise FeatureError(f"{path}: {prefix}features have the type {features.dtype}: store real numbers")
        yield f"{path}, {prefix.rstrip('.') or 'samples'}", samples, features, None if rate is None else rate.tolist()


@contextlib.contextmanager
def show_warnings_in_one_line() -> Iterator[None]:
    """Within this context, print each warning on one line, in which ``--statistics=`` replaces ``statistics=``."""

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        """Print a warning, as a replacement for :func:`warnings.showwarning`."""
        text = str(message).replace("; pass statistics=", "; pass --statistics=")
        print(f"WARNING: {escape(text)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        yield


def report_error(error: Exception) -> int:
    """Print an error. Return 2 for an OptionError, else 255. An OSError of standard output is raised again."""
    if isinstance(error, OSError) and error.filename is None and not isinstance(error, io_ark.ArkError):
        raise error
    status = INVALID_STATUS if isinstance(error, OptionError) else ERROR_STATUS
    print(f"kaldi-compat: {escape(str(error))}", file=sys.stderr)
    return status
