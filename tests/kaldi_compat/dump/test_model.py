"""The trial of an extractor, and what becomes of its outputs: threads, tolerances, means, names, integers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_compat
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.model import try_extractor
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from tests.support.dump_data import failures, keys_of, make_data
from tests.support.extractors import add_fault, arrays


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 4)


def trial_of(data: Path) -> Any:
    return json.loads(next((data / "log").glob("*.plan.jsonl")).read_text().splitlines()[0])["trial"]


@pytest.mark.parametrize(
    ("variable", "cores", "nj", "threads"),
    [("", 4, 1, 4), ("", 4, 2, 2), ("", 4, 3, 1), ("", 2, 9, 1), ("1", 4, 1, 1), ("3", 4, 1, 3), ("8", 4, 1, 4),
     ("x", 4, 1, 4)],
)  # fmt: skip
def test_threads_are_shared_by_processes_and_limited_by_the_environment(
    data: Path, monkeypatch: pytest.MonkeyPatch, variable: str, cores: int, nj: int, threads: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    job = Job(Layout.of(data, "x"), DumpOptions(module=":x", nj=nj), extractor=lambda audio: [x[:3] for x in audio])
    assert try_extractor(job, cores)[0].threads == threads


def test_mean_over_many_rows_has_no_rounding_of_32_bits(data: Path) -> None:
    rows = np.ones((1001, 2), np.float32)
    rows[0] = 2.0**24  # to which a sum of 32 bits can add no 1
    kaldi_compat.dump(data, lambda audio: [rows for _ in audio], nj=1, pool="mean", name="f")
    expected = np.float32((2**24 + 1000) / 1001)
    assert all((value == expected).all() for value in arrays(data / "xvector.scp").values())


class Off:
    """Returns a mean that is off by a share in a padded batch."""

    takes = "padded"

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, samples: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(samples.shape[1]) < lengths[:, None]
        means = (samples.abs() * mask).sum(1, keepdim=True) / lengths[:, None]
        return means * (1 + self.share * (lengths < samples.shape[1]))[:, None]


@pytest.mark.parametrize(
    ("share", "dtype", "batching"),
    [(1e-6, "float32", "padded"), (1e-3, "float32", "equal"), (1e-2, "bfloat16", "padded"), (0.1, "bfloat16", "equal")],
)
def test_batch_may_change_the_last_digits_of_the_precision(data: Path, share: float, dtype: str, batching: str) -> None:
    kaldi_compat.dump(data, Off(share), nj=1, dtype=dtype)
    assert trial_of(data)["batching"] == batching


@pytest.mark.parametrize("name", ["a/b", "a b", "../a", "a\n", "", ".a", "cmvn", "wav"])
def test_name_that_no_script_file_can_have_is_refused(data: Path, name: str) -> None:
    def named(audio: Sequence[np.ndarray]) -> dict[str, Any]:
        return {name: [each[:3] for each in audio], "other": [each[:3] for each in audio]}

    if not name:  # which stands for the usual name of the kind
        assert kaldi_compat.dump(data, named, nj=1).utterances == 4 and (data / "xvector.scp").exists()
        return
    with pytest.raises(DumpError, match="cannot be the name of a file"):
        kaldi_compat.dump(data, named, nj=1)
    assert not (data / "log").exists()


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_beyond_those_of_32_bit_floats_fail_on_both_sides(data: Path, sign: int) -> None:
    def codes(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.full((len(each) // 160, 2), sign * (2**24 + (len(each) == 8000))) for each in audio]

    key = keys_of(data / "wav.scp")[2]
    add_fault(data, key, 1)  # audio of 8000 samples
    assert kaldi_compat.dump(data, codes, nj=1).utterances == 3
    assert failures(data) == f"{key} codes has integers beyond 2^24, which a matrix of 32-bit floats does not hold\n"


@pytest.mark.parametrize("version", [None, [1], {}])
def test_version_that_is_no_number_or_text_vouches_for_nothing(
    data: Path, capsys: pytest.CaptureFixture[str], version: Any
) -> None:
    class Versioned:
        def __init__(self) -> None:
            self.held, self.version = iter([1]), version

        def __call__(self, audio: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [each[:3] for each in audio]

    kaldi_compat.dump(data, Versioned(), nj=1)
    assert "held (list_iterator) of Versioned cannot be compared" in capsys.readouterr().err


def test_module_without_a_file_has_none(data: Path) -> None:
    from kaldi_compat.dump.sources import make_source

    for name in ("sys:intern", "builtins:len", "no_such_module:f", ":f"):
        source = make_source(Job(Layout.of(data, "x"), DumpOptions(module=name)))
        assert source and source.list_files() == {}, name


@pytest.mark.parametrize("attribute", ["sample_rate", "frame_shift"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "16000", True - 1])
def test_declared_number_that_is_not_positive_is_refused(data: Path, attribute: str, value: Any) -> None:
    def declared(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [each[:3] for each in audio]

    setattr(declared, attribute, value)
    with pytest.raises(DumpError, match=rf"^declared\.{attribute} is .*: expected a positive number"):
        kaldi_compat.dump(data, declared, nj=1)


class Hiding:
    """Counts its calls at two depths, beside its weights."""

    def __init__(self) -> None:
        self.state: Any = {"calls": 0, "inner": {"more": 0, "weights": np.ones(2, np.float32)}}

    def __call__(self, audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.state["calls"] += 1
        self.state["inner"]["more"] += 1
        return [each[:3] * self.state["inner"]["weights"][0] for each in audio]


def test_counts_at_several_depths_are_all_excluded(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kaldi_compat.dump(data, Hiding(), nj=1, shard_utterances=2)
    assert sorted(trial_of(data)["volatile"]) == ["state.calls", "state.inner.more"]
    (data / "log" / "dump_Hiding_train.1.json").unlink()
    assert kaldi_compat.dump(data, Hiding(), nj=1, resume=True).utterances == 4
    assert "cannot be compared" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "shift"),
    [([], "0.01"), ([{"stack_frames": {"size": 4}}], "0.04"), ([{"low_frame_rate": {"stack": 7, "stride": 6}}], "0.06"),
     ([{"stack_frames": {"size": 2}}, {"stack_frames": {"size": 3}}], "0.06")],
)  # fmt: skip
def test_frame_shift_of_a_preset_counts_the_frames_that_a_step_joins(data: Path, steps: Any, shift: str) -> None:
    description = {"name": "mine", "feature": "fbank", "sampling_rate": 16000, "sample_scale": 1,
                   "options": {"num_mel_bins": 20}, "steps": steps}  # fmt: skip
    (data.parent / "mine.json").write_text(json.dumps(description))
    kaldi_compat.dump(data, preset=str(data.parent / "mine.json"), nj=1)
    assert (data / "frame_shift").read_text() == f"{shift}\n"


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_front_end_is_moved_to_the_device(data: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    from kaldi_compat.dump.sources import make_source
    from kaldi_compat.torch.frontend import Frontend

    moved: list[str] = []
    monkeypatch.setattr(Frontend, "to", lambda self, place: moved.append(place) or self)
    source = make_source(Job(Layout.of(data, "x"), DumpOptions(preset="wenet", engine="torch")))
    assert source and source.open(device, 1).sample_rate == (None if device == "cpu" else 16000)
    assert moved == [device]
