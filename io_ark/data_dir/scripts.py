"""Run Kaldi's scripts for data directories, and install launchers of the scripts into a recipe's ``utils`` folder."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module

from io_ark.data_dir.line_chunks import read_chunks
from io_ark.data_dir.stage import DataDirError, Printer, Stage, warn
from io_ark.errors import ArkError
from io_ark.streams.system import buffer_standard_output

Value = str | int | float | bool
LAUNCHER_MARK = b"io_ark.data_dir.scripts"
INTERRUPTED, BROKEN_PIPE = 130, 141
# Options that ``kaldi-compat data`` has and Kaldi's scripts lack.
OWN_OPTIONS = ("strip_cr",)
OptionReader = Callable[[Printer, dict[str, Value], list[str]], tuple[dict[str, Value], list[str]]]


class Style(Enum):
    """Way in which a script reads its arguments."""

    SHELL_OPTIONS = "as parse_options.sh does: --name value, before the arguments"
    FLAGS = "options without values, which stand anywhere"
    ONE_OPTION = "one option, which comes first"
    NO_OPTIONS = "arguments only"
    OWN = "the function of the script reads them"


@dataclass(frozen=True)
class KaldiScript:
    """One of Kaldi's scripts."""

    target: str  # Module and function that do the work. The function's keyword arguments are the script's options.
    style: Style  # Way in which the script reads its arguments.
    usage: str  # Description of the arguments for the usage message.
    command: str = ""  # The command of ``kaldi-compat data`` that does the same, or "" if there is no such command.

    @cached_property
    def function(self) -> Callable[..., int]:
        """Function that does the work. It returns the exit status."""
        module, _, name = self.target.partition(".")
        function: Callable[..., int] = getattr(import_module(f"io_ark.data_dir.{module}"), name)
        return function

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """Parameters of the function after ``say``."""
        return list(inspect.signature(self.function).parameters.values())[1:]

    def get_options(self, *, with_extra_options: bool) -> dict[str, Value]:
        """Return the default of each option by name.

        ``with_extra_options`` adds the options that Kaldi's script lacks.
        """
        options = {item.name: item.default for item in self.parameters if item.kind is item.KEYWORD_ONLY}
        return {name: default for name, default in options.items() if with_extra_options or name not in OWN_OPTIONS}

    def count_arguments(self, values: dict[str, Value]) -> tuple[int, int]:
        """Return the minimum and the maximum number of arguments if the options have ``values`` (by name)."""
        if self.target == "directories.subset_directory":  # A list replaces the number of utterances.
            return (2, 2) if values.get("spk_list") or values.get("utt_list") else (3, 3)
        count = sum(item.kind is item.POSITIONAL_OR_KEYWORD for item in self.parameters)
        if any(item.kind is item.VAR_POSITIONAL for item in self.parameters):
            return count + 1, sys.maxsize
        return count, count


SCRIPTS = {
    "validate_data_dir.sh": KaldiScript("validate.validate_directory", Style.FLAGS, "[--no-feats] [--no-text] [--non-print] [--no-wav] [--no-spk-sort] <data-dir>", "validate"),
    "fix_data_dir.sh": KaldiScript("fix.fix_directory", Style.SHELL_OPTIONS, "[options] <data-dir>", "fix"),
    "subset_data_dir.sh": KaldiScript("directories.subset_directory", Style.ONE_OPTION, "[--speakers|--shortest|--first|--last|--per-spk] <srcdir> <num-utt> <destdir>, or [--spk-list|--utt-list] <list-file> <srcdir> <destdir>", "subset"),
    "split_data.sh": KaldiScript("split.split_directory", Style.ONE_OPTION, "[--per-utt] <data-dir> <num-to-split>", "split"),
    "combine_data.sh": KaldiScript("directories.combine_directories", Style.SHELL_OPTIONS, "[options] <dest-data-dir> <src-data-dir1> <src-data-dir2> ...", "combine"),
    "copy_data_dir.sh": KaldiScript("directories.copy_directory", Style.SHELL_OPTIONS, "[options] <srcdir> <destdir>", "copy"),
    "perturb_data_dir_speed.sh": KaldiScript("perturb.perturb_speed", Style.SHELL_OPTIONS, "[options] <warping-factor> <srcdir> <destdir>", "perturb-speed"),
    "perturb_data_dir_speed_3way.sh": KaldiScript("perturb.perturb_speed_3way", Style.SHELL_OPTIONS, "[options] <srcdir> <destdir>", "perturb-speed-3way"),
    "perturb_data_dir_volume.sh": KaldiScript("perturb.perturb_volume", Style.SHELL_OPTIONS, "[options] <data-dir>", "perturb-volume"),
    "resample_data_dir.sh": KaldiScript("perturb.resample_directory", Style.NO_OPTIONS, "<frequency> <data-dir>", "resample"),
    "utt2spk_to_spk2utt.pl": KaldiScript("lists.utt2spk_to_spk2utt", Style.OWN, "[utt2spk] > spk2utt"),
    "spk2utt_to_utt2spk.pl": KaldiScript("lists.spk2utt_to_utt2spk", Style.OWN, "[spk2utt] > utt2spk"),
    "filter_scp.pl": KaldiScript("lists.filter_scp", Style.OWN, "[--exclude] [-f <field>] id_list [in.scp] > out.scp", "filter"),
    "split_scp.pl": KaldiScript("lists.split_scp", Style.OWN, "[--utt2spk=<utt2spk>] in.scp out1.scp out2.scp ..."),
    "subset_scp.pl": KaldiScript("lists.subset_scp", Style.OWN, "[--quiet][--first|--last] N in.scp"),
    "shuffle_list.pl": KaldiScript("lists.shuffle_list", Style.OWN, "[--srand N] [input file] > output"),
    "apply_map.pl": KaldiScript("lists.apply_map", Style.OWN, "[-f <field-range>] [--permissive] map <input >output"),
    "get_utt2dur.sh": KaldiScript("durations.get_utt2dur", Style.SHELL_OPTIONS, "[options] <data-dir>", "utt2dur"),
    "get_reco2dur.sh": KaldiScript("durations.get_reco2dur", Style.SHELL_OPTIONS, "[options] <data-dir>", "reco2dur"),
    "get_utt2num_frames.sh": KaldiScript("durations.get_utt2num_frames", Style.SHELL_OPTIONS, "[options] <data-dir>", "utt2num-frames"),
    "get_segments_for_data.sh": KaldiScript("durations.get_segments_for_data", Style.NO_OPTIONS, "<data-dir> > segments", "segments"),
    "remove_dup_utts.sh": KaldiScript("directories.remove_repetitions", Style.NO_OPTIONS, "<max-count> <src-data-dir> <dest-data-dir>", "remove-repetitions"),
    "modify_speaker_info.sh": KaldiScript("directories.divide_speakers", Style.SHELL_OPTIONS, "[options] <srcdir> <destdir>", "modify-speakers"),
    "validate_text.pl": KaldiScript("lists.validate_text", Style.OWN, "<text-file>", "validate-text"),
}  # fmt: skip


def convert_value(name: str, text: str, default: Value) -> Value:
    """Convert ``text``, the value of the option ``name``, to the type of the option's default.

    Raise DataDirError if the value does not have this type, or is not finite.
    """
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise DataDirError(f'expected "true" or "false": --{name} {text}')
        return text == "true"
    with contextlib.suppress(ValueError):
        value = type(default)(text)
        if not isinstance(value, float) or math.isfinite(value):
            return value
    adjective = "whole" if isinstance(default, int) else "finite"
    raise DataDirError(f"--{name} needs a {adjective} number, not {text!r}")


def format_flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def read_shell_options(say: Printer, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options like parse_options.sh: ``--name value`` before the arguments, and configuration files with ``--config``.

    ``options`` has the default of each option by name, and ``argv`` is the command line, whose options override the
    options in configuration files. ``--config`` is also read among the arguments. Unknown options in a file are
    ignored.

    Returns:
        The values of the options on the command line or in configuration files, by name, and the arguments.

    Raise DataDirError if an option on the command line is unknown, a value is invalid, or a configuration file is
    missing or invalid.
    """
    values: dict[str, Value] = {}

    def set_option(name: str, text: str) -> None:
        """Convert the string ``text`` to the option's type, and store the value in ``values``."""
        name = name.replace("-", "_")
        if name not in options:
            raise DataDirError(f"invalid option {format_flag(name)}")
        values[name] = convert_value(name.replace("_", "-"), text, options[name])

    for index, argument in enumerate(argv[:-1]):
        if argument == "--config":
            for name, text in read_settings(argv[index + 1]):
                if name in options:
                    set_option(name, text)
    while argv and argv[0].startswith("--"):
        if "=" in argv[0]:
            raise say.fail(f"options to scripts must be of the form --name value, got '{argv[0]}'")
        if len(argv) < 2:
            raise DataDirError(f"{argv[0]} needs a value: write it after the option")
        if argv[0] != "--config":
            set_option(argv[0][2:], argv[1])
        argv = argv[2:]
    return values, argv


def read_settings(path: str) -> list[tuple[str, str]]:
    """Return the names and values of the assignments ``name=value`` in the configuration file ``path`` for shell scripts.

    A line may have several assignments, quotes, and a comment. Raise DataDirError if the file cannot be read or has
    other words.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = list(enumerate(file, 1))
    except FileNotFoundError:
        raise DataDirError(f"missing config '{path}'") from None
    except OSError as error:
        raise DataDirError(f"cannot read the configuration {path}: {error.strerror}: check --config") from None
    words_of_lines = []
    for line_number, line in lines:
        try:
            words_of_lines.append((line_number, shlex.split(line, comments=True)))
        except ValueError:  # A quotation is not closed, or the line ends with a backslash.
            message = "should be name=value, with paired quotes: correct the line"
            raise DataDirError(message, path, line_number) from None
    rows = [(line_number, *word.partition("=")) for line_number, words in words_of_lines for word in words]
    for line_number, name, equals, _ in rows:
        if not equals or not name.isidentifier():
            raise DataDirError("should be name=value: correct the line", path, line_number)
    return [(name, value) for _, name, _, value in rows]


def read_flags(say: Printer, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options without values anywhere in ``argv``. ``options`` has the names of all options.

    Return the options in ``argv``, by name with the value True, and the arguments. An unknown option is an argument.
    """
    names = {format_flag(name): name for name in options}
    values: dict[str, Value] = {names[argument]: True for argument in argv if argument in names}
    return values, [argument for argument in argv if argument not in names]


def read_first_option(say: Printer, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read one option, which comes first in ``argv``.

    Return its value by name ({} without an option), and the arguments. ``options`` has the default of each option by
    name. An option whose default is a string takes the next word as its value, or "" if there is no next word. Any
    other option has the value True. Raise DataDirError for an unknown option, except for split_data.sh (which has
    ``per_utt``), where it is an argument.
    """
    names = {format_flag(name): name for name in options}
    if not argv or not argv[0].startswith("--"):
        return {}, argv
    if argv[0] not in names:
        if "per_utt" in options:
            return {}, argv
        raise say.fail(f"invalid option '{argv[0]}'")
    name = names[argv[0]]
    if isinstance(options[name], str):
        return {name: "".join(argv[1:2])}, argv[2:]
    return {name: True}, argv[1:]


HELP = (["--help"], ["-h"])
# Usage of the commands of ``kaldi-compat data`` that are not scripts of Kaldi.
OTHER_COMMANDS = {"info": "<data-dir>", "install": "[--force] <utils-dir>"}


def read_any_options(say: Printer, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options as the command ``kaldi-compat`` does: anywhere on the command line, with two dashes.

    An option is ``--name value`` or ``--name=value``. A Boolean option is ``--name``, which inverts its default, or
    ``--name=value``. Words after ``--`` are arguments. For the parameters, see :func:`read_shell_options`.

    Returns:
        The values of the options on the command line, by name, and the other arguments.

    Raise DataDirError if an option is unknown, or lacks a valid value.
    """
    values: dict[str, Value] = {}
    arguments: list[str] = []
    remaining = iter(argv)
    for argument in remaining:
        if argument == "--":
            arguments += remaining
        elif not argument.startswith("--"):
            arguments.append(argument)
        else:
            name, equals, text = argument[2:].partition("=")
            key = name.replace("-", "_")
            if key not in options:
                choices = ", ".join(map(format_flag, options))
                advice = f"choose from {choices}" if choices else "this command has no options"
                raise DataDirError(f"unknown option --{name}: {advice}", status=2)
            default = options[key]
            if not equals:
                text = str(not default).lower() if isinstance(default, bool) else next(remaining, "")
            values[key] = convert_value(name, text, default)
    return values, arguments


_READERS: dict[Style, OptionReader] = {
    Style.SHELL_OPTIONS: read_shell_options,
    Style.FLAGS: read_flags,
    Style.ONE_OPTION: read_first_option,
}


def format_options(script: KaldiScript, options: dict[str, Value]) -> str:
    """Return a line of help for each option: the flag, the meaning from the Args of the script's function, and the default."""
    _, _, docstring_end = inspect.cleandoc(script.function.__doc__ or "").partition("\nArgs:\n")
    arguments, _, _ = docstring_end.partition("\n\n")
    meanings: dict[str, str] = {}
    for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
        meanings.update(dict.fromkeys(names.split(", "), " ".join(text.replace("``", "`").split()).rstrip(".")))
    lines = []
    for name, value in options.items():
        default = str(value).lower() if isinstance(value, bool) else repr(value)
        lines.append(f"\n  {format_flag(name):<24} {meanings.get(name, '')} (default: {default})")
    return "".join(lines)


def call_script(script: KaldiScript, say: Printer, argv: list[str], *, is_command: bool = False) -> int:
    """Run a script with the arguments ``argv``. Return its exit status, or 0 after printing the usage for ``--help``.

    With ``is_command``, read options and print messages like ``kaldi-compat data``, otherwise like Kaldi's script.
    Raise DataDirError if the arguments are invalid, or the script fails.
    """
    if script.style is Style.OWN:
        if is_command and argv[:1] in HELP:
            say.write(f"Usage: {say.name} {script.usage}")
            return 0
        try:
            return script.function(say, argv)
        except DataDirError as error:
            error.message = error.message or f"Usage: {os.path.basename(say.name)} {script.usage}"
            raise
    options = script.get_options(with_extra_options=is_command)
    if script.command == "combine" and not is_command:  # Like combine_data.sh, print the command line.
        say.write(f"{say.name} {' '.join(argv)}")
    if argv[:1] in HELP and (is_command or script.style is Style.SHELL_OPTIONS):
        write = say.write if is_command else warn
        write(f"Usage: {say.name} {script.usage}{format_options(script, options)}")
        return 0
    reader = read_any_options if is_command else _READERS.get(script.style)
    values, arguments = reader(say, options, argv) if reader else ({}, argv)
    min_count, max_count = script.count_arguments(values)
    if not min_count <= len(arguments) <= max_count or (script.style is not Style.FLAGS and "" in arguments[:1]):
        say.write(f"Usage: {say.name} {script.usage}")
        raise DataDirError("", partly=True, status=2 if is_command else 1)
    return script.function(say, *arguments, **values)


class Ended(KeyboardInterrupt):
    """A signal ends the script.

    The argument is the exit status. As after Ctrl-C, the script does not wait for the commands in wav.scp.
    """


@contextlib.contextmanager
def raise_ended_at_signals() -> Iterator[None]:
    """Within this context, raise :class:`Ended` at SIGTERM or SIGHUP, so that the script removes its temporary files.

    A second signal of the same kind ends the process at once. A signal that is ignored or has a handler keeps this
    setting. Outside of the main thread, nothing changes.
    """

    def raise_ended(signum: int, frame: object) -> None:
        """Raise Ended, and make the same signal end the process next time."""
        signal.signal(signum, signal.SIG_DFL)
        raise Ended(128 + signum)  # Shells report this status for a process that a signal has ended.

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()  # Only the main thread can set signal handlers.
    changed_numbers = [signum for signum in numbers if is_main and signal.getsignal(signum) is signal.SIG_DFL]
    for signum in changed_numbers:
        signal.signal(signum, raise_ended)
    try:
        yield
    finally:
        for signum in changed_numbers:
            signal.signal(signum, signal.SIG_DFL)


def run_protected(say: Printer, run: Callable[[], int], name: str = "") -> int:
    """Call ``run``, which runs a script, and return the exit status.

    Signals, ArkError, OSError and MemoryError are not raised. The status is 130 after Ctrl-C, 141 if the reader of
    standard output has ended, 128 + n after signal n, and otherwise the status of a DataDirError, or 1. An error is
    printed as a line that begins with ``name``, by default ``say.name``.
    """
    if sys.stderr is None:  # The shell has closed standard error (2>&-).
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        warn(f"{name or say.name}: standard output cannot be written to: it is closed")
        return 1
    buffer_standard_output()
    try:
        with raise_ended_at_signals():
            status = run()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except Ended as signalled:
        return int(signalled.args[0])
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ArkError, OSError, MemoryError) as error:
        message = error.message if isinstance(error, DataDirError) and not error.file else str(error)
        if isinstance(error, OSError) and not isinstance(error, ArkError) and error.strerror:
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if message:
            prefix = "" if message.startswith(("Usage:", say.name)) else f"{name or say.name}: "
            sys.stderr.buffer.write(f"{prefix}{message}\n".encode("utf-8", "surrogateescape"))
            sys.stderr.flush()
        return error.status if isinstance(error, DataDirError) else 1


def _write(text: str) -> None:
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "surrogateescape"))


def main(name: str) -> int:
    """Run the script ``name`` with the arguments of this process.

    Return the exit status (see :func:`run_protected`), 1 for an unknown name.
    """
    import gc

    gc.disable()  # The garbage collector would visit lists of millions of lines, which have no cycles.
    say = Printer(sys.argv[0], _write)
    if name not in SCRIPTS:  # The launcher was written by a newer version.
        remedy = "upgrade it, or run kaldi-compat data install again"
        warn(f"{say.name}: the installed kaldi-compat has no {name}: {remedy}")
        return 1
    return run_protected(say, lambda: call_script(SCRIPTS[name], say, sys.argv[1:]))


def format_launcher(name: str, python: str, root: str) -> bytes:
    """Return a launcher: a program that runs the script ``name`` of the installation in ``root`` with the interpreter ``python``.

    The program is for a shell, which starts Python, because the path of Python may be too long for a ``#!`` line. The
    shell also refuses a directory as standard input, or ignores it if the script reads no input. To Python, the shell's
    lines are a string.
    """
    refusal = 'echo "${0##*/}: standard input is a directory: give a file" >&2; exit 1'
    reaction = refusal if SCRIPTS[name].style is Style.OWN else "exec </dev/null"
    head = f"#!/bin/sh\n''':'\nif [ -d /dev/stdin ]; then {reaction}; fi\n"
    head += f'exec {shlex.quote(python)} -I "$0" "$@"\n\'\'\'\n'
    program = f"{head}# {name}, of kaldi-compat\nimport sys\n\nsys.path.append({root!r})\n"
    program += f"from {LAUNCHER_MARK.decode()} import main\n\nsys.exit(main({name!r}))\n"
    return os.fsencode(program)


def install_launchers(folder: str, *, force: bool = False) -> list[str]:
    """Write a launcher for each script into a folder. A launcher is a program that runs a script of this installation.

    As in Kaldi, launchers of the ``.sh`` scripts are also written to the subfolder ``data``.

    Args:
        folder: path of a folder, such as a recipe's ``utils``.
        force: True to replace files that are not launchers.

    Returns:
        The paths of the launchers.

    Raise DataDirError if a file with the name of a script is not a launcher and ``force`` is False, or the folder,
    ``data`` or a parent in a relative path is a link, because the ``utils`` of a recipe is often a link to the
    ``utils`` of another recipe. In both cases, no file is written.
    """
    names = [*SCRIPTS, *(f"data/{name}" for name in SCRIPTS if name.endswith(".sh"))]
    paths = {os.path.join(folder, name): os.path.basename(name) for name in names}
    _refuse_links(folder)
    for path in paths:
        # The mark of a launcher is in its first 4096 bytes.
        start = next(read_chunks(path), b"")[: 1 << 12] if os.path.isfile(path) else b""
        if os.path.lexists(path) and not force and LAUNCHER_MARK not in start:
            message = "is another program: choose an empty folder, or pass --force to replace such files"
            raise DataDirError(message, path)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with Stage(folder, Printer("install")) as stage:
        for name in names:
            stage.write(name, [format_launcher(os.path.basename(name), sys.executable, root)])
            os.chmod(stage.find(name), 0o755)
    for path in paths:
        os.chmod(path, 0o755)  # An older launcher may not be executable.
    return list(paths)


def _refuse_links(folder: str) -> None:
    """Raise DataDirError if a folder, its subfolder ``data``, or a parent that a relative path contains is a symbolic link."""
    path = os.path.normpath(folder)
    bases = () if os.path.isabs(path) else itertools.accumulate(path.split(os.sep), os.path.join)
    for base in (*bases, path, os.path.join(path, "data")):
        if os.path.islink(base):
            problem = f"is a link to {os.path.realpath(base)}, which other recipes may use"
            raise DataDirError(f"{problem}: choose a folder of this recipe", base)


def _run_other_command(say: Printer, name: str, argv: list[str]) -> int:
    """Run a command of ``kaldi-compat data``, one of :data:`OTHER_COMMANDS`, with arguments ``argv``.

    Return the exit status.
    """
    usage = f"Usage: {say.name} {OTHER_COMMANDS[name]}"
    if argv[:1] in HELP:
        say.write(usage)
        return 0
    options: dict[str, Value] = {"force": False} if name == "install" else {}
    values, arguments = read_any_options(say, options, argv)
    if len(arguments) != 1:
        raise DataDirError(usage, status=2)
    [folder] = arguments
    if name == "info":
        from io_ark.data_dir.directory import DataDir

        say.write(repr(DataDir(folder)))
    else:
        install_launchers(folder, force=bool(values.get("force")))
        say.write(f"wrote {len(SCRIPTS)} scripts into {folder}, and copies of the shell scripts into {folder}/data")
    return 0


def run_data_command(argv: list[str]) -> int:
    """Run ``kaldi-compat data`` with ``argv``.

    Return 2 for an unknown command or option, or a wrong number of arguments, else see :func:`run_protected`.
    """
    commands = {script.command: script for script in SCRIPTS.values() if script.command}
    say = Printer(f"kaldi-compat data {argv[0] if argv else ''}".rstrip(), _write, as_script=False)

    def run() -> int:
        """Print the help text, or run the command in ``argv``. Return the exit status."""
        if not argv or argv[0] in ("--help", "-h"):
            _write("Checks and changes Kaldi's data directories.\n")
            _write("Usage: kaldi-compat data <command> [options] <arguments>\n")
            for command, script in commands.items():
                _write(f"  {command:<20} {script.usage}")
            for command, usage in OTHER_COMMANDS.items():
                _write(f"  {command:<20} {usage}")
            _write("")
            _write("Every command has --help. install writes launchers of Kaldi's scripts (validate_data_dir.sh, ...).")
            return 0 if argv else 2
        name, arguments = argv[0], argv[1:]
        if name in OTHER_COMMANDS:
            return _run_other_command(say, name, arguments)
        if name not in commands:
            choices = ", ".join((*commands, *OTHER_COMMANDS))
            raise DataDirError(f"there is no command {name!r}: choose from {choices}", status=2)
        return call_script(commands[name], say, arguments, is_command=True)

    return run_protected(say, run)
