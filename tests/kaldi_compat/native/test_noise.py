"""The noise of dithering in C, for everything that can occur."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which(os.environ.get("CC", "gcc"))
LEVELS = {
    "sse2": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512f": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"],
}


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries round otherwise")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the levels are those of x86")
@pytest.mark.parametrize("level", LEVELS)
def test_every_draw_and_every_number_is_as_in_the_c_library(level: str, tmp_path: Path) -> None:
    if level not in f"sse2 {Path('/proc/cpuinfo').read_text()}":
        pytest.skip("the processor does not support this level")
    program = tmp_path / "noise"
    flags = ["-O2", "-std=gnu99", "-ffp-contract=off", "-fno-builtin", f"-I{ROOT / 'kaldi_compat' / 'native'}"]
    source = str(Path(__file__).with_name("noise.c"))
    subprocess.run([str(COMPILER), *flags, *LEVELS[level], source, "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.startswith("0 draws are wrong"), done.stdout[-2000:]
