"""Type checkers in strict mode accept the examples of README and the pages."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.docs.test_examples import OPTIONAL, PAGES, ROOT, python_blocks
from tools.generate.packages import PACKAGES

pytestmark = pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 wants arguments of the type ndarray")


def code_of(page: Path) -> str:
    """Return the examples of a page as one module, without those that raise an error."""
    examples = doctest.DocTestParser().get_examples(python_blocks(page.read_text(encoding="utf-8")))
    return "".join(example.source for example in examples if example.exc_msg is None)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    for page in PAGES:
        code = code_of(page)
        absent = {"kaldi_explain", "kaldi_standins"}.difference(PACKAGES)
        if (
            code
            and not any(package in code for package in absent)
            and not any(f"import {library}" in code for library in OPTIONAL)
        ):
            name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
            (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder


def test_mypy_accepts_every_example(examples: Path) -> None:
    config = examples / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nallow_redefinition = True\nignore_missing_imports = True\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--no-error-summary", str(examples)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list(examples.glob("*.py"))) > 20


def test_pyright_accepts_every_example(examples: Path) -> None:
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(examples)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright cannot run here (it downloads Node.js on its first run): {done.stderr[-200:]}")
    errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    assert [(Path(found["file"]).name, found["range"]["start"]["line"] + 1, found["message"]) for found in errors] == []
