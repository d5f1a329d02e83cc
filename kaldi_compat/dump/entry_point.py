"""Entry point of the program ``kaldi-compat``, which ends without a traceback if Ctrl-C comes during the imports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from kaldi_compat.errors import INTERRUPTED_STATUS

# Packages that implement commands of ``kaldi-compat``. They declare the commands as entry points of the group COMMANDS.
PACKAGE_OF_COMMAND = {"conform": "explain", "explain": "explain"}
COMMANDS = "kaldi_compat.commands"
INVALID_STATUS = 2  # Exit status for an invalid command line.


def main() -> int:
    """Run the command line of this process. Return the exit status, unless the command ends the process itself."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)  # A command installs its own handler before it changes any file.
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name == "data":
        from io_ark.data_dir.scripts import run_data_command

        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # The exception lets jobs remove temporary files.
        status = run_data_command(sys.argv[2:])
        if status != INTERRUPTED_STATUS:
            return status
        from kaldi_compat.cli.program import end_process

        return end_process(status)
    if name == "frontend":
        from kaldi_compat.cli.frontends import main as frontend_main

        return _run_printing_command(frontend_main)
    if name in PACKAGE_OF_COMMAND:
        return _run_command_of_package(name)
    from kaldi_compat.dump.cli import main as dump_main

    return dump_main()


def _run_command_of_package(name: str) -> int:
    """Run the command ``name`` of an optional package, or print how to install the package. Return the exit status."""
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=COMMANDS, name=name):
        return _run_printing_command(entry_point.load())
    package = PACKAGE_OF_COMMAND[name]
    print(
        f"kaldi-compat: {name} is a command of kaldi-{package}, which is not installed: install it with pip "
        f"(in a checkout: pip install ./packages/{package})",
        file=sys.stderr,
    )
    return INVALID_STATUS


def _run_printing_command(command: Callable[[], int]) -> int:
    """Run a command that prints, and end the process with its exit status. Under a debugger, return the status."""
    from kaldi_compat.cli.program import end_process, open_closed_streams, run_printing_command

    open_closed_streams()
    return end_process(run_printing_command(command))


def _end(*_: object) -> None:
    os._exit(INTERRUPTED_STATUS)
