"""Speakers are looked up as in a dictionary of all lines, but in a sorted file without reading all lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import io_ark
from kaldi_compat.dump import speakers
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.speakers import read_values
from tests.support.dump_data import dump, make_data, refused

NAMES = st.text("ab-é", min_size=1, max_size=6).map(str.encode)


@pytest.mark.parametrize("searched", [1, 8, 1 << 12])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(lines=st.dictionaries(NAMES, st.sampled_from([b"s", b"t u", b""])), is_sorted=st.booleans(), data=st.data())
def test_values_are_those_of_all_lines(
    tmp_path: Path, searched: int, lines: dict[bytes, bytes], is_sorted: bool, data: st.DataObject
) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(lines))) if lines else st.just([])) + data.draw(st.lists(NAMES))
    path = tmp_path / "utt2spk"
    path.write_bytes(b"".join(key + b" " + lines[key] + b"\n" for key in (sorted(lines) if is_sorted else lines)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(speakers, "MIN_SEARCH_BYTES", searched)
        assert read_values(path, keys) == {key: lines[key] for key in keys if key in lines}


def test_few_keys_of_a_sorted_file_need_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "utt2spk"
    path.write_text("".join(f"utt{i:06d} spk{i // 100}\n" for i in range(100_000)))
    seen = []
    find_matches = speakers._find_matches

    def find_counted_matches(lines: Any, keys: Any, last_key: bytes | None) -> Any:
        return find_matches((seen.append(1) or line for line in lines), keys, last_key)

    monkeypatch.setattr(speakers, "_find_matches", find_counted_matches)
    wanted = [b"utt%06d" % i for i in range(70_000, 70_100)]
    assert read_values(path, wanted) == dict.fromkeys(wanted, b"spk700")
    assert len(seen) < 500


def test_part_looks_up_its_own_speakers(tmp_path: Path) -> None:
    """Its archives have the statistics of the whole, and a speaker that it lacks ends it."""
    data = make_data(tmp_path, 6, samples=(2000,))
    assert dump(data, "--cmvn=speaker", "--shard-utterances=3") == 0
    whole = (data / "data" / "cmvn_train.ark").read_bytes()
    (data / "log" / "dump_fbank_train.plan.jsonl").unlink()
    for part in ("1/2", "2/2"):
        assert dump(data, "--cmvn=speaker", f"--shard={part}") == 0
    assert (data / "data" / "cmvn_train.ark").read_bytes() == whole
    lines = (data / "utt2spk").read_text().splitlines(keepends=True)
    (data / "utt2spk").write_text("".join(lines[:-1]))
    (data / "log" / "dump_fbank_train.plan.jsonl").unlink()
    assert dump(data, "--cmvn=global", "--shard=1/2") == 0
    said = refused(data, "--cmvn=speaker", "--shard=2/2")
    assert f"lacks 1 of the utterances in {data}/wav.scp, such as spk1-utt005" in said


VECTORS = """
import numpy as np

def two(audio):
    return {"first": [np.float32([x[0], len(x), 1]) for x in audio], "second": [np.float32([x[1], -3]) for x in audio]}
"""


@pytest.mark.parametrize("split_by_utterance", ["aabbb", "abbbb", "abcde", "babab", "cbaaa"])
def test_every_vector_has_the_mean_of_every_speaker(tmp_path: Path, split_by_utterance: str) -> None:
    data = make_data(tmp_path, 5, samples=(900,))
    keys = [line.split()[0] for line in (data / "wav.scp").read_text().splitlines()]
    (data / "utt2spk").write_text(
        "".join(f"{key} {name}\n" for key, name in zip(keys, split_by_utterance, strict=True))
    )
    (tmp_path / "two.py").write_text(VECTORS)
    assert main(["dump", f"--module={tmp_path}/two.py:two", str(data), "--per-speaker", "--shard-utterances=2"]) == 0
    for output, dim in ("first", 3), ("second", 2):
        vectors = dict(io_ark.load_scp(str(data / f"{output}.scp")))
        means = dict(io_ark.load_scp(str(data / f"spk_{output}.scp")))
        assert list(vectors) == keys and list(means) == sorted(set(split_by_utterance))
        for speaker, mean in means.items():
            own = [vectors[key] for key, name in zip(keys, split_by_utterance, strict=True) if name == speaker]
            assert mean.shape == (dim,)
            np.testing.assert_allclose(mean, np.mean(own, 0, np.float64), rtol=1e-6)


@pytest.mark.parametrize("split_by_utterance", ["abbbb", "babab"])
def test_statistics_of_every_speaker_are_sums_over_the_frames(tmp_path: Path, split_by_utterance: str) -> None:
    data = make_data(tmp_path, 5, samples=(2000, 405))  # of which some have one frame
    keys = [line.split()[0] for line in (data / "wav.scp").read_text().splitlines()]
    (data / "utt2spk").write_text(
        "".join(f"{key} {name}\n" for key, name in zip(keys, split_by_utterance, strict=True))
    )
    assert dump(data, "--no-compress", "--cmvn=speaker,global") == 0
    features = dict(io_ark.load_scp(str(data / "feats.scp")))
    found = dict(io_ark.load_scp(str(data / "cmvn.scp"))) | {"": io_ark.load(str(data / "cmvn.ark"))}
    assert list(found) == [*sorted(set(split_by_utterance)), ""]
    for speaker, sums in found.items():
        own = [features[key] for key, name in zip(keys, split_by_utterance, strict=True) if name.startswith(speaker)]
        frames = np.concatenate(own).astype(np.float64)
        np.testing.assert_allclose(sums[0], [*frames.sum(0), len(frames)], rtol=1e-5)
        np.testing.assert_allclose(sums[1], [*(frames**2).sum(0), 0], rtol=1e-5)
