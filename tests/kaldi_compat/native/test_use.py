"""Programs call all functions of the C libraries. Tests that compare C with NumPy pass even if C is never called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
import kaldi_compat.native as native
from io_ark.native import library
from io_ark.native.signatures import Signatures
from tests.support.programs import log_of
from tests.support.tables import audio_archive, noise, save, wav_bytes
from tools.generate.packages import PRODUCT

pytestmark = pytest.mark.skipif(not (native.library() and library()), reason="the C libraries are missing")

ROOT = Path(__file__).parents[3]
COMMANDS = [
    "compute-fbank-feats --dither=0 scp:wav.scp ark,scp:feats.ark,feats.scp",
    "wav-to-duration scp:wav.scp ark,t:durations",
    "wav-copy ark:audio.ark ark:copy.ark",
    "wav-reverberate --impulse-response=room.wav --shift-output=true one.wav reverberated.wav",
    "compute-mfcc-feats --allow-downsample=true --sample-frequency=8000 ark:audio.ark ark:mfcc.ark",
    "copy-feats --compress=true ark:feats.ark ark:compressed.ark",
    "copy-feats ark:compressed.ark ark,t:text",
    "copy-feats ark,t:text ark:again.ark",
    "feat-to-len ark:feats.ark ark,t:lengths",
    "add-deltas ark:feats.ark ark:deltas.ark",
    "compute-cmvn-stats ark:feats.ark ark:cmvn.ark",
    "apply-cmvn-sliding ark:feats.ark ark:sliding.ark",
    "matrix-sum ark:cmvn.ark global",
    "apply-cmvn-online global ark:feats.ark ark:online.ark",
    "compute-vad ark:mfcc.ark ark:vad.ark",
    "transform-feats square ark:feats.ark ark:transformed.ark",
    "compute-kaldi-pitch-feats ark:audio.ark ark:pitch.ark",
    "process-kaldi-pitch-feats ark:pitch.ark ark:processed.ark",
    "process-pitch-feats ark:voicing.ark ark:processed.ark",
    "interpolate-pitch ark:voicing.ark ark:interpolated.ark",
    "compare-feats ark:feats.ark ark:feats.ark",
    "copy-int-vector ark,t:integers ark:integers.ark",
    "copy-int-vector ark:integers.ark ark,t:-",
    "copy-post ark,t:posteriors ark:posteriors.ark",
    "copy-post ark:posteriors.ark ark,t:-",
]


def test_a_function_in_c_is_never_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    function: Callable[..., Any] = Signatures.get_function

    def record(self: Signatures, name: str, *args: Any, **kwargs: Any) -> Any:
        function_in_c = function(self, name, *args, **kwargs)

        def call(*values: Any) -> Any:
            called.add(name)
            return function_in_c(*values)

        return call

    monkeypatch.setattr(Signatures, "get_function", record)
    monkeypatch.setattr(native, "get_function", functools.partial(record, native.NATIVE))
    monkeypatch.chdir(tmp_path)
    for key in "a", "b", "c":
        Path(f"{key}.wav").write_bytes(wav_bytes(noise(16000)))
    Path("wav.scp").write_text("".join(f"{key} {key}.wav\n" for key in "abc"))
    audio_archive("audio.ark", **{key: wav_bytes(noise(16000)) for key in "abc"})
    for name in "one", "room":
        Path(f"{name}.wav").write_bytes(wav_bytes(noise(4000)))
    io_ark.save("square", np.eye(23, dtype=np.float32))
    save("voicing.ark", {key: np.tile(np.array([[0.5, 100], [0.9, 120]], np.float32), (9, 1)) for key in "ab"})
    Path("integers").write_text("a 1 2 3\nb 4 5\n")
    Path("posteriors").write_text("a [ 1 0.5 2 0.5 ] [ 3 1 ]\nb [ 1 1 ]\n")
    for command in COMMANDS:
        log_of(command)
    lists: list[tuple[Any, Any]] = [("posterior", [[(1, 0.5)], [(2, 1.0)]]), ("int-vector-vector", [[1, 2]] * 9)]
    for kind, value in lists:
        with io_ark.writer(f"ark:{kind}.ark", kind=kind) as writer:
            writer["a"] = writer["b"] = value
        assert [len(each) for _, each in io_ark.read(f"ark:{kind}.ark", kind=kind)] == [len(value)] * 2
    assert len(io_ark.load("posterior.ark:2", kind="posterior")) == 2
    expected = set()
    for package in PRODUCT:
        lines = (ROOT / package / "native/signatures.txt").read_text().splitlines()
        expected |= {line.split()[0] for line in lines if not line.startswith("struct")}
    assert expected - called == {"native_interface", "simd_levels"}
