"""Programs do not import torch."""

from __future__ import annotations

import json
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
