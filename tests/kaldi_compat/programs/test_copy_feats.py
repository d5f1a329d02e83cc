"""Tests of copy-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable

import kaldiio
import numpy as np
import pytest

from kaldi_compat.programs import (
    copy_feats,
    copy_feats_to_htk,
)
from tests.support.tables import load, matrices, save

Run = Callable[..., int]


@pytest.mark.parametrize("method", range(1, 8))
def test_compressed_matrices_are_read_by_kaldiio(method: int) -> None:
    values = {key: np.round(np.abs(value) * 50).clip(0, 255) for key, value in matrices(20, 9).items()}
    source = save("in.ark", values)
    assert copy_feats.main(["--compress", f"--compression-method={method}", source, "ark:out.ark"]) == 0
    for key, value in load("out.ark").items():
        if method == 7:  # made for values from 0 to 1
            assert value.shape == values[key].shape
        else:
            np.testing.assert_allclose(value, values[key], atol=2.0)


def test_single_files_are_converted_between_formats(capfd: pytest.CaptureFixture[str]) -> None:
    matrix = matrices(4)["u0"]
    kaldiio.save_mat("a.mat", matrix)
    assert copy_feats.main(["--binary=false", "a.mat", "-"]) == 0
    assert np.array(capfd.readouterr().out.strip(" []\n").split(), float) == pytest.approx(matrix.ravel(), rel=1e-5)
    assert copy_feats_to_htk.main(["--output-dir=htk", "--sample-kind=6", save("a.ark", {"k": matrix})]) == 0
    assert copy_feats.main(["--htk-in", "htk/k.fea", "b.mat"]) == 0
    np.testing.assert_array_equal(kaldiio.load_mat("b.mat"), matrix)
    assert copy_feats.main(["--htk-in", "scp:echo k htk/k.fea |", "ark:b.ark"]) == 0
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)


def test_memory_does_not_grow_with_the_table() -> None:
    """A hundred megabytes pass through a program that may hold a fraction of them."""
    # Not getrusage's figure: that begins with what the process had before exec, which is pytest's.
    code = (
        "import sys; from kaldi_compat.programs.copy_feats import main; status = main(sys.argv[1:]);"
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0];"
        "sys.stderr.write(f'\\n{peak}'); sys.exit(status)"
    )
    entry = b"\0BFM \4" + struct.pack("<i", 1000) + b"\4" + struct.pack("<i", 250) + bytes(10**6)
    command = [sys.executable, "-c", code, "ark:-", "ark:/dev/null"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for i in range(100):
            process.stdin.write(b"k%03d " % i + entry)
        process.stdin.close()
        kilobytes = int(process.stderr.read().split()[-1])
        assert process.wait() == 0
    assert kilobytes < 80_000
