"""Warnings have the words of Kaldi's programs, which scripts search logs for. The expected ones are from Kaldi's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import run_words
from tests.support.tables import save, wav_bytes

NOT_FINITE = ["Reading NaN value into %s.", "Reading infinite value into %s."]


@pytest.mark.parametrize(
    ("command", "warnings"),
    [
        ("copy-feats ark:nan.txt ark:o.ark", [each % "matrix" for each in NOT_FINITE]),
        ("copy-vector ark:vec.txt ark:o.ark", [each % "vector" for each in NOT_FINITE]),
        ("copy-feats scp,p:bad.scp ark:o.ark", ["Failed to open file /nosuch/x.ark"]),
        ("copy-feats scp,p:blank.scp ark:o.ark", ["We got an invalid line in the scp file. "]),
        ("copy-feats ark,p:cut.ark ark:o.ark", ["Object read failed, reading archive cut.ark"]),
        ("compute-cmvn-stats --spk2utt=ark:spk2utt scp,p:bad.scp ark:o.ark", ["Failed to open file /nosuch/x.ark"]),
        ("select-voiced-frames ark:a.ark ark,p:3.txt ark:o.ark", ["Object read failed, reading archive 3.txt"]),
        (
            "wav-copy scp,p:pipe.scp ark:o.ark",
            [
                "Failed to load object from exit 4 |",
                " had nonzero return status 1024",
                "Pipe cat a.wav; exit 3 | had nonzero return status 768",
                "Pipe cat a.wav; kill -15 $$ | had nonzero return status 15",
            ],
        ),
        ("copy-matrix 'cat two.mat; exit 3|' o.mat", ["Pipe cat two.mat; exit 3| had nonzero return status 768"]),
        (
            "transform-feats zero.mat ark:a.ark ark:o.ark",
            ["Matrix has bad logdet -inf", "Overall average [pseudo-]logdet is -nan over 0 frames."],
        ),
        ("transform-feats nan.mat ark:a.ark ark:o.ark", ["Matrix has bad logdet nan"]),
        (
            "transform-feats two.mat ark:a.ark ark:o.ark",
            [
                "Transform matrix for utterance a has bad dimension 1x4 versus feat dim 2",
                "[perhaps the transform was created by compose-transforms, and you forgot the --b-is-affine option?]",
            ],
        ),
        (
            "extract-segments scp:wav.scp segments ark:o.ark",
            ["Segment end is too far out of file data range [0,1.6s]; skipping segment 's1 w   0.10  88.80'"],
        ),
    ],
)
def test_warnings_have_kaldis_words(command: str, warnings: list[str]) -> None:
    texts = {
        "nan.txt": "a  [\n  1 nan\n  infinity 2 ]\n",
        "vec.txt": "a  [ NaN 1 inf ]\n",
        "3.txt": "a 3\n",
        "bad.scp": "a a.ark:2\nbad /nosuch/x.ark:3\n",
        "blank.scp": "a a.ark:2\n\nb a.ark:2\n",
        "spk2utt": "s bad a\n",
        "pipe.scp": "c exit 4 |\nd cat a.wav; exit 3 |\ne cat a.wav; kill -15 $$ |\n",
        "wav.scp": "w a.wav\n",
        "segments": "s1 w   0.10  88.80\n",
        "zero.mat": " [ 0 0 ]\n",
        "nan.mat": " [ 0 nan ]\n",
        "two.mat": " [ 1 2 3 4 ]\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("a.wav").write_bytes(wav_bytes(np.zeros((1600, 1), np.int16), 1000))
    save("a.ark", {"a": np.ones((3, 2), np.float32)})
    Path("cut.ark").write_bytes(Path("a.ark").read_bytes() * 2 + b"b \0BFM \4")
    _, log = run_words(shlex.split(command))
    for warning in warnings:
        assert re.search(rf"^(WARNING|LOG) .*{re.escape(warning)}", log, re.M), log
    assert "RuntimeWarning" not in log and "invalid value" not in log


def test_matrix_dim_warns_of_an_empty_table_only() -> None:
    Path("empty.ark").write_bytes(b"")
    save("a.ark", {"a": np.ones((3, 2), np.float32)})
    status, log = run_words(["matrix-dim", "ark:empty.ark"])
    assert status == 1 and "No features read from rspecifier 'ark:empty.ark'" in log
    status, log = run_words(["matrix-dim", "ark:a.ark"])
    assert status == 0 and "WARNING" not in log
