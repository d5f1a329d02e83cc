"""The C code never touches memory outside of its buffers, whatever the input is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.table_samples import VALUES, archive

SOURCES = Path(__file__).resolve().parents[3] / "io_ark" / "native"
DRIVER = Path(__file__).with_name("driver.c")
FLAGS = "-std=c99 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -ffp-contract=off -DSIMD_LEVEL=plain"
COPIES = os.environ.get("IO_ARK_DRIVER_COPIES", "100")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver, compiled with sanitizers."""
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    for source, target in (folder / "empty.c", folder / "empty"), (DRIVER, folder / "driver"):
        command = [*compiler.split(), *FLAGS.split(), f"-I{SOURCES}", str(source), "-o", str(target), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode and target.name == "empty":
            pytest.skip("the C compiler has no sanitizers")
        assert done.returncode == 0, done.stderr
    return folder / "driver"


def test_c_code_stays_within_its_buffers(driver: Path, tmp_path: Path) -> None:
    tables = []
    for number, kind in enumerate(VALUES):  # in the order of `enum kind`
        for binary in True, False:
            path = tmp_path / f"{kind}-{binary}"
            path.write_bytes(archive(kind, binary))
            if (kind, binary) != ("int8-vector", False):  # which Python reads
                tables.append(f"{number}:{path}")
    done = subprocess.run([str(driver), COPIES, *tables], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
