"""Programs do not import torch, and keep the memory of blocks."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.reference import ROOT, cases_of

Stderr = pytest.CaptureFixture[str]


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_of_a_block_is_used_for_the_next() -> None:
    code = """if True:
        import resource
        import kaldi_compat.programs
        import numpy as np
        for block in range(100):
            np.ones(1 << 16), np.ones(1 << 16), np.ones(1 << 16)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    """
    faults = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(faults.stdout) < 100 * 3 * 128  # as many as there are pages, if they are returned
