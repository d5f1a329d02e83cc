"""The package as imported: start-up cost and public names."""

from __future__ import annotations

import subprocess
import sys


def test_import_loads_neither_torch_nor_subprocess() -> None:
    script = (
        "import sys, io_ark; "
        "print([name for name in ('torch', 'kaldi_compat', 'subprocess', 'tempfile') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {script}"], capture_output=True
    )
    assert done.stdout.strip() == b"[]", done
