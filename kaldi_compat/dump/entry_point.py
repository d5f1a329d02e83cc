"""Entry point of the program ``kaldi-compat``: takes ^C quietly while the rest of the program is still imported."""

from __future__ import annotations

import os
import signal
import sys

from kaldi_compat.errors import INTERRUPTED_STATUS


def main() -> int:
    """Run this process's command line and return the exit status; the process may end here."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)  # until the command installs its own handler; nothing has begun yet
    if sys.argv[1:2] == ["data"]:
        from io_ark.data_dir.scripts import data_main

        return data_main(sys.argv[2:])
    if sys.argv[1:2] in (["frontend"], ["explain"], ["conform"]):
        from kaldi_compat.cli.program import end_of_process, open_closed_streams, printing

        open_closed_streams()
        if sys.argv[1] == "frontend":
            from kaldi_compat.cli.frontends import main as command
        elif sys.argv[1] == "explain":
            from kaldi_compat.explain.command import main as command
        else:
            from kaldi_compat.explain.conform_command import main as command
        return end_of_process(printing(command))
    from kaldi_compat.dump.cli import main

    return main()


def _end(*_: object) -> None:
    os._exit(INTERRUPTED_STATUS)
