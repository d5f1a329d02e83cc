"""Programs do not import torch, end at ^C while they import, and keep the memory of blocks."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import io_ark
from tests.support.processes import output_of
from tests.support.reference import ROOT, cases_of


def test_running_them_does_not_import_torch() -> None:
    inputs = ROOT / "inputs"
    programs = "add-deltas add-deltas-sdc compute-cmvn-stats apply-cmvn apply-cmvn-sliding splice-feats transform-feats"
    wanted = {*programs.split(), "compute-vad", "wav-reverberate"}
    commands = [case["cmd"].split() for case in cases_of("tools", "reverb") if "|" not in case["cmd"]]
    ours = [words for words in commands if words[0] in wanted]
    code = (
        "import importlib, json, sys\n"
        "for name, *arguments in json.loads(sys.argv[1]):\n"
        "    importlib.import_module('kaldi_compat.programs.' + name.replace('-', '_')).main(arguments)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    out = [[word.replace("{out}", str(Path.cwd())) for word in words] for words in ours]
    subprocess.run([sys.executable, "-c", code, json.dumps(out)], check=True, cwd=inputs, capture_output=True)
    assert Path("o.ark").exists()


@pytest.mark.parametrize(
    ("script", "status", "said"), [("copy-feats", -signal.SIGINT, b""), ("train.py", 130, b"caught")]
)
def test_interrupt_during_imports_ends_a_program_without_a_traceback(script: str, status: int, said: bytes) -> None:
    code = f"""if True:
        import os, signal, sys
        sys.argv = ["/bin/{script}"]
        import kaldi_compat.programs
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            sys.exit(print("caught", end="") or 130)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (status, said, b"")


def test_commands_have_the_environment_and_the_signals_of_the_program() -> None:
    """Not the settings of a program's own NumPy, which would slow down what computes in a command."""
    code = (
        "import sys; sys.argv[0] = 'copy-feats'; from kaldi_compat.programs.copy_feats import main; main(sys.argv[1:])"
    )
    ignored = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # by Python
    shown = f"env; echo IGN_=$((0x$(sed -n 's/SigIgn:.//p' /proc/self/status) & {ignored}))"
    given = {name: value for name, value in os.environ.items() if not re.search("_NUM_THREADS|HUGEPAGE", name)}
    lists = []
    for command in [["sh", "-c", shown], [sys.executable, "-c", code, f"ark:({shown}) >&2 |", "ark:/dev/null"]]:
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
        lists.append({line for line in (done.stdout + done.stderr).splitlines() if re.match("[A-Z]+_", line)})
    assert lists[0] == lists[1]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_of_a_block_is_used_for_the_next() -> None:
    frames = np.zeros((1000, 13), np.float32)
    for name, count in ("one", 1), ("many", 500):
        with io_ark.Writer(f"ark:{name}", kind="matrix") as writer:
            for i in range(count):
                writer[f"utt{i}"] = frames
    code = """if True:
        import resource, sys
        sys.argv = ["/bin/copy-feats"]
        from kaldi_compat.programs.copy_feats import main
        faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        main(["ark:one", "ark:/dev/null"])
        before = faults()
        main(["ark:many", "ark:/dev/null"])
        print(faults() - before)
    """
    assert int(output_of(code)) < 500 * frames.nbytes / 4096 / 2  # of the pages of the table


STATE = """if True:
    import gc, os, signal, sys, warnings
    import kaldi_compat.cli.memory as memory
    import numpy
    changes = []
    memory.keep_freed_memory = lambda: changes.append("malloc")
    def state():
        signals = [signal.getsignal(each) for each in signal.valid_signals()]
        return [dict(os.environ), gc.get_threshold(), signals, warnings.filters[:], numpy.geterr()]
    before = state()
    sys.argv = [sys.argv[1]]
    import kaldi_compat.programs.copy_feats
    changed = [old != new for old, new in zip(before, state())]
"""


def test_importing_a_program_changes_nothing_of_a_process_of_another_program() -> None:
    """Its main may be called there."""
    call = "    status = kaldi_compat.programs.copy_feats.main(['ark:/dev/null', 'ark:/dev/null'])\n"
    changed = "    print(any(changed), before == state(), changes, status)"
    given = {name: value for name, value in os.environ.items() if not re.search("_NUM_THREADS|HUGEPAGE", name)}
    command = [sys.executable, "-c", STATE + call + changed, "train.py"]
    assert subprocess.run(command, env=given, capture_output=True, text=True).stdout == "False True [] 1\n"


@pytest.mark.parametrize("script", ["/bin/copy-feats", r"copy-feats.exe"])
def test_program_prepares_its_own_process(script: str) -> None:
    given = {name: value for name, value in os.environ.items() if not re.search("_NUM_THREADS|HUGEPAGE", name)}
    command = [sys.executable, "-c", STATE + "    print(changed[:2], changes)", script]
    assert subprocess.run(command, env=given, capture_output=True, text=True).stdout == "[True, True] ['malloc']\n"
