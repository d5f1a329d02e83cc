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
    if sys.argv[1:2] in (["frontend"], ["explain"], ["conform"]):
        from kaldi_compat.cli.program import end_of_process, open_closed_streams, printing
        from kaldi_compat.frontends import cli

        open_closed_streams()
        if sys.argv[1] == "conform":
            from kaldi_compat.frontends import conform_command

            return end_of_process(printing(conform_command.main))
        return end_of_process(printing(cli.explain_main if sys.argv[1] == "explain" else cli.main))
    from kaldi_compat.dump.cli import main

    return main()


def _end(*_: object) -> None:
    os._exit(INTERRUPTED_STATUS)
