"""Type checkers in strict mode accept the examples of README and the pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.type_checks import ROOT, examples_of_pages, in_one_run, mypy_report

pytestmark = pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 wants arguments of the type ndarray")


@pytest.mark.costly
@in_one_run
def test_mypy_accepts_every_example() -> None:
    pages = {f"{page}.py" for page in examples_of_pages()}
    assert {name: errors for name, errors in mypy_report().items() if name in pages or not name} == {}
    assert len(pages) > 20


@pytest.mark.costly
def test_pyright_accepts_every_example(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    for page, code in examples_of_pages().items():
        (tmp_path / f"{page}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright cannot run here (it downloads Node.js on its first run): {done.stderr[-200:]}")
    errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    assert [(Path(found["file"]).name, found["range"]["start"]["line"] + 1, found["message"]) for found in errors] == []
