"""The shell commands of the tutorial on speaker verification give the rate of its Python code."""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import DOCS, python_blocks

PAGE = DOCS / "tutorials" / "speaker_verification.md"
PROGRAMS = Path(sys.executable).parent


@pytest.mark.costly
@pytest.mark.skipif(
    shutil.which("bash") is None or not (PROGRAMS / "ivector-plda-scoring").exists(), reason="needs bash and programs"
)
def test_shell_commands_print_the_rate_of_the_python_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    page = doctest.DocTestParser().get_doctest(python_blocks(text), {}, PAGE.stem, str(PAGE), 0)
    assert page is not None
    assert doctest.DocTestRunner().run(page, clear_globs=False).failed == 0
    for vectors in tmp_path.glob("*/xvector.scp"):
        vectors.unlink()
    of_plda, _, of_cosines, *_ = (block.split("```")[0] for block in text.split("```sh\n")[1:])
    commands = f"{of_plda}echo\n{of_cosines}"
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "LC_ALL": "C"}
    result = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-2:] == [f"{100 * page.globs[rate]:.4g}" for rate in ("rate", "cosine_rate")]
