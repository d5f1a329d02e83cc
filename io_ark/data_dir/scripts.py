"""Kaldi's scripts for data directories: their names, options and functions, and launchers for a recipe's ``utils`` folder."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module

from io_ark.data_dir.stage import DataDirError, Say, Stage, warn
from io_ark.errors import ArkError

Value = str | int | float | bool
MARK = b"io_ark.data_dir.scripts"
INTERRUPTED, BROKEN_PIPE = 130, 141
UNLIMITED = 1 << 30
# Name, command of ``kaldi-compat data`` or "-", module and function, how its arguments are read ("options" as by
# parse_options.sh, "flags" as by validate_data_dir.sh, "first" if one option can come first, "plain" without options, "list" by the function), and these.
_TABLE = """
validate_data_dir.sh            validate            validate.validate               flags    [--no-feats] [--no-text] [--non-print] [--no-wav] [--no-spk-sort] <data-dir>
fix_data_dir.sh                 fix                 fix.fix                         options  [options] <data-dir>
subset_data_dir.sh              subset              directories.subset              first    [--speakers|--shortest|--first|--last|--per-spk] <srcdir> <num-utt> <destdir>, or [--spk-list|--utt-list] <list-file> <srcdir> <destdir>
split_data.sh                   split               split.split                     first    [--per-utt] <data-dir> <num-to-split>
combine_data.sh                 combine             directories.combine             options  [options] <dest-data-dir> <src-data-dir1> <src-data-dir2> ...
copy_data_dir.sh                copy                directories.copy                options  [options] <srcdir> <destdir>
perturb_data_dir_speed.sh       perturb-speed       perturb.perturb_speed           options  [options] <warping-factor> <srcdir> <destdir>
perturb_data_dir_speed_3way.sh  perturb-speed-3way  perturb.perturb_speed_3way      options  [options] <srcdir> <destdir>
perturb_data_dir_volume.sh      perturb-volume      perturb.perturb_volume          options  [options] <data-dir>
resample_data_dir.sh            resample            perturb.resample                plain    <frequency> <data-dir>
utt2spk_to_spk2utt.pl           -                   lists.utt2spk_to_spk2utt        list     [utt2spk] > spk2utt
spk2utt_to_utt2spk.pl           -                   lists.spk2utt_to_utt2spk        list     [spk2utt] > utt2spk
filter_scp.pl                   filter              lists.filter_scp                list     [--exclude] [-f <field>] id_list [in.scp] > out.scp
split_scp.pl                    -                   lists.split_scp                 list     [--utt2spk=<utt2spk>] in.scp out1.scp out2.scp ...
subset_scp.pl                   -                   lists.subset_scp                list     [--quiet][--first|--last] N in.scp
shuffle_list.pl                 -                   lists.shuffle_list              list     [--srand N] [input file] > output
apply_map.pl                    -                   lists.apply_map                 list     [-f <field-range>] [--permissive] map <input >output
get_utt2dur.sh                  utt2dur             durations.get_utt2dur           options  [options] <data-dir>
get_reco2dur.sh                 reco2dur            durations.get_reco2dur          options  [options] <data-dir>
get_utt2num_frames.sh           utt2num-frames      durations.get_utt2num_frames    options  [options] <data-dir>
get_segments_for_data.sh        segments            durations.get_segments_for_data plain    <data-dir> > segments
remove_dup_utts.sh              remove-repetitions  directories.remove_repetitions  plain    <max-count> <src-data-dir> <dest-data-dir>
modify_speaker_info.sh          modify-speakers     directories.modify_speakers     options  [options] <srcdir> <destdir>
validate_text.pl                validate-text       lists.validate_text             list     <text-file>
"""
FOR_PEOPLE = ("strip_cr",)  # options that Kaldi's scripts lack


class KaldiScript:
    """A row of the table. The options are the function's keyword arguments, with their defaults."""

    def __init__(self, command: str, target: str, style: str, usage: str) -> None:
        self.command, self.target, self.style, self.usage = command, target, style, usage

    @property
    def function(self) -> Callable[..., int]:
        """The function that does the work."""
        module, _, name = self.target.partition(".")
        found: Callable[..., int] = getattr(import_module(f"io_ark.data_dir.{module}"), name)
        return found

    def options(self, people: bool) -> dict[str, Value]:
        """Return the options, with their defaults."""
        found = self.function.__kwdefaults__ or {}
        return {name: value for name, value in found.items() if people or name not in FOR_PEOPLE}

    def arguments(self, values: dict[str, Value]) -> tuple[int, int]:
        """Return the least and the greatest number of arguments with these options."""
        if "spk_list" in self.options(True):
            return (2, 2) if values.get("spk_list") or values.get("utt_list") else (3, 3)
        code = self.function.__code__
        return code.co_argcount - 1 + code.co_flags // 4 % 2, UNLIMITED if code.co_flags & 4 else code.co_argcount - 1


SCRIPTS = {name: KaldiScript(*rest) for name, *rest in (line.split(None, 4) for line in _TABLE.strip().splitlines())}


def converted(name: str, text: str, default: Value) -> Value:
    """Return the value of an option as the type of its default.

    Raises:
        DataDirError: it is none.
    """
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise DataDirError(f'expected "true" or "false": --{name} {text}')
        return text == "true"
    with contextlib.suppress(ValueError):
        value = type(default)(text)
        if not isinstance(value, float) or math.isfinite(value):
            return value
    raise DataDirError(f"expected a number: --{name} {text}")


def flag(name: str) -> str:
    """Return the option of a value."""
    return "--" + name.replace("_", "-")


def shell_options(say: Say, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options as parse_options.sh does: ``--name value`` before the arguments, and shell files by ``--config``."""
    values: dict[str, Value] = {}

    def take(name: str, text: str) -> None:
        name = name.replace("-", "_")
        if name not in options:
            raise DataDirError(f"invalid option {flag(name)}")
        values[name] = converted(name.replace("_", "-"), text, options[name])

    for at, argument in enumerate(argv[:-1]):
        if argument == "--config":
            for name, text in settings(argv[at + 1]):
                if name in options:
                    take(name, text)
    while argv and argv[0].startswith("--"):
        if "=" in argv[0]:
            raise say.fails(f"options to scripts must be of the form --name value, got '{argv[0]}'")
        if len(argv) < 2:
            raise DataDirError(f"{argv[0]} needs a value")
        if argv[0] != "--config":
            take(argv[0][2:], argv[1])
        argv = argv[2:]
    return values, argv


def settings(path: str) -> list[tuple[str, str]]:
    """Return the assignments ``name=value`` of a configuration file for shell scripts."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = list(enumerate(file, 1))
    except OSError:
        raise DataDirError(f"missing config '{path}'") from None
    words = []
    for number, line in lines:
        try:
            words.append((number, shlex.split(line, comments=True)))
        except ValueError:  # an open quotation, or a backslash at the end
            raise DataDirError("should be name=value, with quotation marks in pairs", path, number) from None
    found = [(number, *each.partition("=")) for number, assignments in words for each in assignments]
    for number, name, equals, _ in found:
        if not equals or not name.isidentifier():
            raise DataDirError("should be name=value", path, number)
    return [(name, value) for _, name, _, value in found]


def flag_options(say: Say, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options without values, which stand anywhere."""
    names = {flag(name): name for name in options}
    return {names[each]: True for each in argv if each in names}, [each for each in argv if each not in names]


def first_option(say: Say, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read one option, which comes first."""
    names = {flag(name): name for name in options}
    if not argv or not argv[0].startswith("--"):
        return {}, argv
    if argv[0] not in names:
        if "per_utt" in options:
            return {}, argv
        raise say.fails(f"invalid option '{argv[0]}'")
    takes_value = isinstance(options[names[argv[0]]], str)
    return {names[argv[0]]: "".join(argv[1:2]) if takes_value else True}, argv[1 + takes_value :]


def any_options(say: Say, options: dict[str, Value], argv: list[str]) -> tuple[dict[str, Value], list[str]]:
    """Read options as ``kaldi-compat`` does: ``--name value``, ``--name=value`` or ``--name``, anywhere."""
    values: dict[str, Value] = {}
    rest: list[str] = []
    supply = iter(argv)
    for argument in supply:
        if argument == "--":
            rest += supply
        elif not argument.startswith("--"):
            rest.append(argument)
        else:
            name, equals, text = argument[2:].partition("=")
            key = name.replace("-", "_")
            if key not in options:
                known = ", ".join(map(flag, options)) or "none"
                raise DataDirError(f"unknown option --{name}: known are {known}", status=2)
            default = options[key]
            if not equals:
                text = str(not default).lower() if isinstance(default, bool) else next(supply, "")
            values[key] = converted(name, text, default)
    return values, rest


_READERS = {"options": shell_options, "flags": flag_options, "first": first_option}


def call(script: KaldiScript, say: Say, argv: list[str], *, people: bool = False) -> int:
    """Run a script with these arguments."""
    if script.style == "list":
        try:
            return script.function(say, argv)
        except DataDirError as error:
            error.message = error.message or f"Usage: {os.path.basename(say.name)} {script.usage}"
            raise
    options = script.options(people)
    if script.command == "combine" and not people:
        say.write(f"{say.name} {' '.join(argv)}")
    if argv[:1] in (["--help"], ["-h"]) and (people or script.style == "options"):
        listed = "".join(
            f"\n  {flag(name):<24} default: {str(value).lower() if isinstance(value, bool) else repr(value)}"
            for name, value in options.items()
        )
        warn(f"Usage: {say.name} {script.usage}{listed}")
        return 0
    reader = any_options if people else _READERS.get(script.style)
    values, rest = reader(say, options, argv) if reader else ({}, argv)
    low, high = script.arguments(values)
    if not low <= len(rest) <= high or (script.style != "flags" and "" in rest[:1]):
        say.write(f"Usage: {say.name} {script.usage}")
        raise DataDirError("", partly=True, status=2 if people else 1)
    return script.function(say, *rest, **values)


class Ended(KeyboardInterrupt):
    """A signal ends the script, as ^C does: commands of wav.scp are not waited for. Has the status of the script."""


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP be an exception, so that a script removes its temporary files, and a second one end it at once."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Ended(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    in_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in numbers if in_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def protected(say: Say, run: Callable[[], int], name: str = "") -> int:
    """Run something as a script: errors become a line on standard error, and its status."""
    if sys.stderr is None:  # closed, as by 2>&-
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        warn(f"{name or say.name}: standard output cannot be written to: it is closed")
        return 1
    try:
        with ending_in_order():
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
        text = error.message if isinstance(error, DataDirError) and not error.file else str(error)
        if isinstance(error, OSError) and not isinstance(error, ArkError) and error.strerror:
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if text:
            lead = "" if text.startswith(("Usage:", say.name)) else f"{name or say.name}: "
            sys.stderr.buffer.write(f"{lead}{text}\n".encode("utf-8", "surrogateescape"))
            sys.stderr.flush()
        return error.status if isinstance(error, DataDirError) else 1


def _write(text: str) -> None:
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "surrogateescape"))


def main(name: str) -> int:
    """Run a script with this process's arguments, and return its status."""
    import gc

    gc.disable()  # lists of millions of lines, and no cycles
    say = Say(sys.argv[0], _write)
    return protected(say, lambda: call(SCRIPTS[name], say, sys.argv[1:]))


def launcher(name: str, python: str, root: str) -> bytes:
    """Return the text of a program that runs a script in this installation.

    A shell starts Python, which cannot say in one line that its standard input is a directory, and whose path can be longer
    than a kernel reads. To Python, the lines for the shell are a string.
    """
    refuse = 'echo "${0##*/}: standard input is a directory: give a file" >&2; exit 1'
    instead = refuse if SCRIPTS[name].style == "list" else "exec </dev/null"
    head = f"#!/bin/sh\n''':'\nif [ -d /dev/stdin ]; then {instead}; fi\n"
    head += f'exec {shlex.quote(python)} -I "$0" "$@"\n\'\'\'\n'
    text = f"{head}# {name}, of kaldi-compat\nimport sys\n\nsys.path.append({root!r})\n"
    text += f"from {MARK.decode()} import main\n\nsys.exit(main({name!r}))\n"
    return os.fsencode(text)


def install(folder: str, *, force: bool = False) -> list[str]:
    """Write a launcher of each script into a folder, and of the shell scripts into its folder ``data``, as Kaldi has them.

    Args:
        folder: such as a recipe's ``utils``.
        force: replace files that are not launchers.

    Raises:
        DataDirError: there are other files of these names, or the folder is a link, as a recipe's ``utils`` often is to that of
            another one, which would be changed for both; nothing is written then.

    Returns:
        The paths written.
    """
    names = [*SCRIPTS, *(f"data/{name}" for name in SCRIPTS if name.endswith(".sh"))]
    paths = {os.path.join(folder, name): os.path.basename(name) for name in names}
    _refuse_links(folder)
    for path in paths:
        if os.path.lexists(path) and not force and not _is_launcher(path):
            raise DataDirError(
                "is another program: choose an empty folder, or pass --force to replace all of them", path
            )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with Stage(folder, Say("install")) as stage:
        for name in names:
            stage.write(name, [launcher(os.path.basename(name), sys.executable, root)])
            os.chmod(stage.path(name), 0o755)
    for path in paths:
        os.chmod(path, 0o755)  # also of one that was there
    return list(paths)


def _refuse_links(folder: str) -> None:
    """Raise an error if a folder is a link, is within one below the working directory, or has one in the place of ``data``."""
    path = os.path.normpath(folder)
    bases = () if os.path.isabs(path) else itertools.accumulate(path.split(os.sep), os.path.join)
    for base in (*bases, path, os.path.join(path, "data")):
        if os.path.islink(base):
            text = f"is a link to {os.path.realpath(base)}, which may be that of other recipes: choose a folder of this recipe"
            raise DataDirError(text, base)


def _is_launcher(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return MARK in file.read(1 << 12)


def data_main(argv: list[str]) -> int:
    """Run ``kaldi-compat data`` with these arguments."""
    commands = {script.command: script for script in SCRIPTS.values() if script.command != "-"}
    say = Say(f"kaldi-compat data {argv[0] if argv else ''}".rstrip(), _write, as_script=False)

    def run() -> int:
        if not argv or argv[0] in ("--help", "-h"):
            _write(
                "Checks and changes Kaldi's data directories.\n\nUsage: kaldi-compat data <command> [options] <arguments>\n"
            )
            for command, script in commands.items():
                _write(f"  {command:<20} {script.usage}")
            _write(f"  {'info':<20} <data-dir>\n  {'install':<20} [--force] <utils-dir>\n")
            _write("Every command has --help. install writes launchers of Kaldi's scripts (validate_data_dir.sh, ...).")
            return 0 if argv else 2
        name, rest = argv[0], argv[1:]
        if name == "install" and len(set(rest) - {"--force"}) == 1:
            [folder] = set(rest) - {"--force"}
            written = install(folder, force="--force" in rest)
            _write(f"wrote {len(written)} launchers into {folder} and {folder}/data")
            return 0
        if name == "info" and len(rest) == 1:
            from io_ark.data_dir.directory import DataDir

            _write(repr(DataDir(rest[0])))
            return 0
        if name not in commands:
            known = ", ".join((*commands, "info", "install"))
            raise DataDirError(f"there is no command {name!r} with these arguments: commands are {known}", status=2)
        return call(commands[name], say, rest, people=True)

    return protected(say, run)
