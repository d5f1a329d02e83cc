"""A dump's archives have the bytes of utterances that are computed and encoded one by one."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest

from io_ark import DataDir, Wave, load
from io_ark.codecs import codec
from kaldi_compat.dump.speed_perturb import change_speed
from kaldi_compat.numpy import Fbank
from tests.support.dump_data import RATE, archive_bytes, dump, keys_of, make_data, matrices


def waves_of(data: Path, *, with_segments: bool) -> dict[str, Wave]:
    """Return the audio of the utterances of a directory, cut into two segments if it should have segments."""
    waves = {key: load(str(data / "wav" / f"{key}.wav")) for key in keys_of(data / "wav.scp")}
    if not with_segments:
        return waves
    cuts = (("a", 0, 3200), ("b", 1600, 5600))
    places = [(f"{key}-{name}", key, start, end) for key in waves for name, start, end in cuts]
    lines = [f"{name} {key} {start / RATE} {end / RATE}\n" for name, key, start, end in places]
    (data / "segments").write_text("".join(lines))
    (data / "utt2spk").write_text("".join(f"{name} {name.split('-')[0]}\n" for name, *_ in places))
    return {
        name: Wave(waves[key].sample_frequency, waves[key].samples[:, start:end]) for name, key, start, end in places
    }


def encode(key: str, matrix: np.ndarray, method: int) -> bytes:
    """Return the entry of a matrix in an archive, uncompressed for method 0."""
    sink = io.BytesIO()
    (codec("compressed-matrix", method=method) if method else codec("matrix")).write(sink, matrix, binary=True)
    return f"{key} ".encode() + sink.getvalue()


@pytest.mark.parametrize(
    ("method", "with_segments", "speed"),
    [(0, True, ""), (0, False, "0.9"), *((method, method % 2 == 0, "") for method in range(1, 8)), (1, False, "1.1")],
)
def test_archive_has_the_bytes_of_single_utterances(
    tmp_path: Path, method: int, with_segments: bool, speed: str
) -> None:
    data = make_data(tmp_path)
    waves = waves_of(data, with_segments=with_segments)
    options = [f"--compression-method={method}"] if method else ["--no-compress"]
    options += ["--cmvn=speaker", f"--speeds={speed}", f"--speed-dir={tmp_path / 'fast'}"][: 3 if speed else 1]
    assert dump(data, *options) == 0
    if speed:
        data = tmp_path / "fast"
        waves = {f"sp{speed}-{key}": change_speed(wave, speed) for key, wave in waves.items()}
    fbank = Fbank(num_mel_bins=23, dither=0.0)
    features = {key: fbank(wave.samples[0]) for key, wave in waves.items()}
    assert list(DataDir(data).feats) == list(features)
    entries = [encode(key, matrix, method) for key, matrix in features.items()]
    (archive,) = [content for name, content in archive_bytes(data).items() if name.endswith(".ark")]
    assert archive == b"".join(entries)
    ends = itertools.accumulate(map(len, entries), initial=0)
    offsets = [end + len(key) + 1 for end, key in zip(ends, features, strict=False)]
    assert [int(line.rpartition(":")[2]) for line in (data / "feats.scp").read_text().splitlines()] == offsets
    read = pytest.importorskip("kaldiio").load_scp(str(data / "feats.scp"))
    for key, matrix in matrices(data / "feats.scp").items():
        np.testing.assert_allclose(read[key], matrix, rtol=1e-6, atol=1e-4)
        assert method or np.array_equal(matrix, features[key])
