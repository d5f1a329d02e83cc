"""The trial of an extractor, and what becomes of its outputs: threads, tolerances, means, names, integers."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
import kaldi_compat
from kaldi_compat.dump import model
from kaldi_compat.dump.entries import Audio, Failure
from kaldi_compat.dump.errors import DumpError, PlanError
from kaldi_compat.dump.model import try_extractor
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from tests.support.dump_data import audio, failures, keys_of, make_data, write_wav
from tests.support.extractors import add_fault, arrays, waves


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
    job = Job(
        Layout.from_paths(data, "x"), DumpOptions(module=":x", nj=nj), extractor=lambda audio: [x[:3] for x in audio]
    )
    assert try_extractor(job, cores)[0].threads == threads


def test_mean_over_many_rows_has_no_rounding_of_32_bits(data: Path) -> None:
    rows = np.ones((1001, 2), np.float32)
    rows[0] = 2.0**24  # to which a sum of 32 bits can add no 1
    kaldi_compat.dump(data, lambda audio: [rows for _ in audio], nj=1, pool="mean", name="f")
    expected = np.float32((2**24 + 1000) / 1001)
    assert all((value == expected).all() for value in arrays(data / "xvector.scp").values())
    assert (data / "utt2dur").exists() and not (data / "utt2num_frames").exists()


@pytest.mark.parametrize("reduction", ["pool", "kmeans"])
def test_audio_without_rows_to_reduce_is_said_to_be_too_short(data: Path, tmp_path: Path, reduction: str) -> None:
    np.save(tmp_path / "centroids.npy", np.eye(2, dtype=np.float32))
    write_wav(data / "wav" / "spk0-utt001.wav", audio(50, seed=1))

    def cut(samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [x[: len(x) // 160 * 160].reshape(-1, 160)[:, :2] for x in samples]

    value = {"pool": "mean", "kmeans": str(tmp_path / "centroids.npy")}[reduction]
    options: dict[str, Any] = {reduction: value}
    assert kaldi_compat.dump(data, cut, nj=1, name="cut", **options).failures == (
        ("spk0-utt001", "the matrix is empty, perhaps because the audio is too short: remove the utterance"),
    )


def test_failure_without_torch_is_not_that_of_a_lost_device(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "get_torch_extractors", lambda: None)
    write_wav(data / "wav" / "spk0-utt001.wav", audio(50, seed=1))

    def strict(samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        if any(len(x) == 50 for x in samples):
            raise ValueError("too short")
        return [x[:3] for x in samples]

    assert kaldi_compat.dump(data, strict, nj=1, name="strict").failures == (("spk0-utt001", "too short"),)


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
    assert (
        failures(data) == f"{key} codes has integers beyond 2^24, which a matrix of 32-bit floats cannot hold exactly: "
        "return vectors of integers\n"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_extractor_whose_matrices_have_no_columns_is_refused(data: Path, dtype: type) -> None:
    def empty(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.zeros((5, 0), dtype) for _ in audio]

    with pytest.raises(DumpError, match=r"fails in a trial .* has 5 rows without columns: return one column or more$"):
        kaldi_compat.dump(data, empty, nj=1)
    assert not (data / "log").exists()


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
        source = make_source(Job(Layout.from_paths(data, "x"), DumpOptions(module=name)))
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
    source = make_source(Job(Layout.from_paths(data, "x"), DumpOptions(preset="wenet", engine="torch")))
    assert source and (opened := source.open(device, 1)).sample_rate == (None if device == "cpu" else 16000)
    assert moved == [device] and not opened.checks_rows


class Samples:
    """Returns the samples that it is given, as a matrix of one column, and what it was called with."""

    sample_rate = 8000

    def __init__(self) -> None:
        self.version = 1
        self.sizes: list[list[int]] = []

    def __call__(self, audio: Sequence[np.ndarray]) -> dict[str, Any]:
        self.sizes.append([len(each) for each in audio])
        return {"samples": [each[:, None] for each in audio]}


def test_audio_of_other_rates_and_channels_is_that_of_the_extractor(data: Path) -> None:
    from kaldi_compat.exact.resample import resample_waveform

    key, *others = keys_of(data / "wav.scp")
    first = waves(data)[key][0]
    stereo, slow, empty = audio(6000, seed=3, channels=2), audio(5001, seed=4), audio(0, seed=5)
    for name, samples, rate in zip(others, (stereo, slow, empty), (16000, 8000, 16000), strict=True):
        write_wav(data / "wav" / f"{name}.wav", samples, rate)
    assert kaldi_compat.dump(data, Samples(), nj=1).utterances == 3
    assert failures(data).startswith(f"{others[2]} ") and failures(data).endswith(
        "has no samples: remove the recording\n"
    )
    found = arrays(data / "samples.scp")
    expected = {key: resample_waveform(first, 16000, 8000), others[1]: slow[0].astype(np.float32) / 32768}
    expected[others[0]] = resample_waveform(stereo[0].astype(np.float32) / 32768, 16000, 8000)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name][:, 0], value) for name, value in expected.items())
    log = next((data / "log").glob("*.1.log")).read_text()
    assert f"{others[0]}: only the first of 2 channels is used" in log and log.count("channels") == 1


@pytest.mark.parametrize(
    ("options", "declared", "limit"), [({}, None, 60.0), ({}, 2.0, 2.0), ({"batch_seconds": 1.5}, 2.0, 1.5)]
)
def test_batch_holds_as_many_utterances_of_like_length_as_its_seconds_allow(
    data: Path, options: dict[str, Any], declared: float | None, limit: float
) -> None:
    keys = keys_of(data / "wav.scp")
    lengths = dict(zip(keys, (12000, 4000, 8000, 4800), strict=True))
    for seed, (key, length) in enumerate(lengths.items()):
        write_wav(data / "wav" / f"{key}.wav", audio(length, seed), 8000)
    extractor: Any = Samples()
    extractor.max_batch_seconds = declared
    kaldi_compat.dump(data, extractor, nj=1, **options)
    calls: list[list[int]] = []
    for length in sorted(lengths.values()):
        calls = (
            [*calls[:-1], [*calls[-1], length]]
            if calls and (len(calls[-1]) + 1) * length / 8000 <= limit
            else [*calls, [length]]
        )
    assert extractor.sizes[-len(calls) :] == calls
    assert {key: len(value) for key, value in arrays(data / "samples.scp").items()} == lengths
    assert keys_of(data / "samples.scp") == keys


def test_batch_that_does_not_fit_into_memory_is_halved(data: Path) -> None:
    keys = keys_of(data / "wav.scp")
    for seed, key in enumerate(keys):
        write_wav(data / "wav" / f"{key}.wav", audio(8000, seed), 8000)
    kaldi_compat.dump(data, Samples(), nj=1)
    whole = arrays(data / "samples.scp")

    class Small(Samples):
        def __call__(self, audio: Sequence[np.ndarray]) -> dict[str, Any]:
            self.sizes.append([len(each) for each in audio])
            if len(audio) > 2 and {*self.sizes[-1]} == {8000}:
                raise MemoryError
            return {"samples": [each[:, None] for each in audio]}

    small = Small()
    assert kaldi_compat.dump(data, small, nj=1).utterances == 4
    assert [len(sizes) for sizes in small.sizes[-3:]] == [4, 2, 2]
    found = arrays(data / "samples.scp")
    assert found.keys() == whole.keys() and all(np.array_equal(found[key], whole[key]) for key in keys)


@pytest.mark.parametrize("error", [MemoryError("of the host"), RuntimeError("CUDA error: out of memory")])
def test_utterance_that_no_memory_holds_fails_alone(data: Path, error: Exception) -> None:
    key = keys_of(data / "wav.scp")[1]
    write_wav(data / "wav" / f"{key}.wav", audio(9000, seed=1), 8000)

    class Full(Samples):
        def __call__(self, audio: Sequence[np.ndarray]) -> dict[str, Any]:
            if any(len(each) == 9000 for each in audio):
                raise error
            return super().__call__(audio)

    assert kaldi_compat.dump(data, Full(), nj=1).utterances == 3
    assert failures(data) == f"{key} the memory is too small for this utterance: cut the audio into segments\n"


def test_audio_that_cannot_be_resampled_is_one_failed_utterance(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, *others = keys_of(data / "wav.scp")
    sizes = {len(samples) for name, (samples, _) in waves(data).items() if name == key}

    def resample(samples: np.ndarray, *rates: float) -> np.ndarray:
        if {len(samples)} == sizes:
            raise MemoryError
        return samples

    monkeypatch.setattr(model, "resample_waveform", resample)
    assert kaldi_compat.dump(data, Samples(), nj=1).utterances == len(others)
    assert failures(data) == f"{key} the memory is too small for this utterance: cut the audio into segments\n"
    assert keys_of(data / "samples.scp") == others


@pytest.mark.parametrize("wing", ["torch", "numpy"])
def test_front_end_as_an_object_resamples_the_audio_itself(data: Path, wing: str) -> None:
    from kaldi_compat.frontends.numpy import Frontend

    key, *_ = keys_of(data / "wav.scp")
    write_wav(data / "wav" / f"{key}.wav", audio(6000, seed=3), 8000)
    frontend = Frontend("wespeaker")
    extractor = kaldi_compat.Frontend("wespeaker") if wing == "torch" else frontend
    assert kaldi_compat.dump(data, extractor, nj=1, name="f").utterances == 4
    assert trial_of(data)["batching"] == "alone"
    found = arrays(data / "feats.scp")
    for name, (samples, rate) in waves(data).items():
        np.testing.assert_allclose(found[name], frontend(samples, sampling_rate=rate), atol=2e-3)


@pytest.mark.parametrize(("extra", "is_good"), [(-11, False), (-10, True), (0, True), (10, True), (11, False)])
def test_rows_may_differ_from_the_declared_shift_by_five_and_a_twentieth(data: Path, extra: int, is_good: bool) -> None:
    def rows(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.ones((len(each) // 160 + extra, 2), np.float32) for each in audio]

    rows.frame_shift = 0.01  # type: ignore[attr-defined]
    for seed, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(16000, seed))
    assert kaldi_compat.dump(data, rows, nj=1).utterances == 4 * is_good
    reason = f"returned {100 + extra} rows, but the declared frame shift of 0.01 s requires 100:"
    assert failures(data).count(reason) == 4 * (not is_good)


@pytest.mark.parametrize(("output", "said"), [({}, "returned nothing"), ([], "returned 0 results for a batch of 1")])
def test_extractor_without_outputs_is_refused(data: Path, output: Any, said: str) -> None:
    with pytest.raises(DumpError, match=f"^nothing fails in a trial call with noise as audio: {said}"):
        kaldi_compat.dump(data, _named(lambda audio: output, "nothing"), nj=1)


def test_extractor_with_other_columns_for_very_short_audio_fails_or_compares_it(data: Path) -> None:
    def change_columns(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.ones((len(samples) // 160, 2 + (len(samples) < 5000)), np.float32) for samples in audio]

    assert kaldi_compat.dump(data, change_columns, nj=1).utterances == 4
    assert trial_of(data)["shortest"] == 16000


class _WithoutTextError(Exception):
    def __str__(self) -> str:
        raise ValueError("this exception has no text")


def test_exception_without_a_text_is_a_reason(data: Path) -> None:
    def fail(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        raise _WithoutTextError

    with pytest.raises(
        DumpError, match=r"fails in a trial call with noise as audio: _WithoutTextError: _WithoutTextError$"
    ):
        kaldi_compat.dump(data, fail, nj=1)


@pytest.mark.parametrize("calls", range(6))
def test_exception_in_any_call_of_the_trial_is_a_reason(data: Path, calls: int) -> None:
    remaining = iter(range(calls))

    def fail_later(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        if next(remaining, None) is None:
            raise ValueError("spent")
        return [np.abs(samples).mean(keepdims=True) for samples in audio]

    with pytest.raises(DumpError, match=r"^fail_later fails in a trial call with noise as audio: spent$"):
        kaldi_compat.dump(data, fail_later, nj=1)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


@pytest.mark.parametrize("value", [np.ones(3, bool), np.array(["a"]), np.ones(3, complex), np.array([None])])
def test_arrays_of_neither_floats_nor_integers_are_refused(value: np.ndarray) -> None:
    from kaldi_compat.dump.sources import convert_to_array

    with pytest.raises(ValueError, match=r"expected floats or integers$"):
        convert_to_array(value)


def test_types_of_outputs_are_single_precision_and_32_bits() -> None:
    from kaldi_compat.dump.sources import convert_to_array

    for value in (
        np.ones(2),
        torch.ones(2, dtype=torch.float64),
        torch.ones(2, dtype=torch.bfloat16),
        np.ones(2, "f2"),
    ):
        assert convert_to_array(value).dtype == np.float32 and convert_to_array(value).tolist() == [1.0, 1.0]
    for kind in ("u1", "i8", "u8", ">i4"):
        assert convert_to_array(np.array([1, 2], kind)).dtype == np.int32
    for number in (2**31 - 1, -(2**31)):
        assert convert_to_array(np.array([number, 0])).tolist() == [number, 0]
    for number in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="do not fit into 32 bits"):
            convert_to_array(np.array([0, number]))
    assert convert_to_array(torch.ones(2, requires_grad=True)).tolist() == [1.0, 1.0]
    memory = np.ones((2, 2), np.float32)
    copied = convert_to_array(memory.T)
    memory[:] = 0
    assert copied.flags.c_contiguous and copied.sum() == 4


@pytest.mark.parametrize("takes", ["lists", "", 1, "Padded"])
def test_unknown_kind_of_argument_is_refused(data: Path, takes: Any) -> None:
    extractor: Any = Samples()
    extractor.takes = takes
    with pytest.raises(DumpError, match=r"^Samples\.takes is .*: expected 'list' or 'padded'"):
        kaldi_compat.dump(data, extractor, nj=1)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            np.ones(3, np.float32),
            r"expected an array of floats of shape \(clusters, dim\), not float32 of shape \(3,\)",
        ),
        (np.ones((2, 3), np.int32), "expected an array of floats"),
        (np.ones((0, 3)), "expected an array of floats"),
        (np.array([[1, np.nan]]), "has NaN or infinities"),
        (np.array([[1, 1e300]]), "has NaN or infinities"),
        (None, "kmeans needs a .npy file with an array of floats: "),
    ],
)
def test_file_that_holds_no_centroids_is_refused(data: Path, tmp_path: Path, array: Any, said: str) -> None:
    if array is None:
        (tmp_path / "k.npy").write_text("text")
    else:
        np.save(tmp_path / "k.npy", array)
    with pytest.raises(DumpError, match=said), np.errstate(over="ignore"):
        kaldi_compat.dump(data, Samples(), nj=1, kmeans=str(tmp_path / "k.npy"))


def test_labels_are_the_nearest_centroids(data: Path, tmp_path: Path) -> None:
    centroids = np.array([[0.0, 3.0], [1.0, 0.0], [-2.0, 0.5]])
    np.save(tmp_path / "k.npy", centroids)

    def features(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [40 * each[: len(each) // 2 * 2].reshape(-1, 2)[:50] for each in audio]

    kaldi_compat.dump(data, features, nj=1, kmeans=str(tmp_path / "k.npy"))
    labels = arrays(data / "labels.scp")
    for key, (samples, _) in waves(data).items():
        rows = 40 * samples[:100].reshape(-1, 2)
        distances = ((rows[:, None] - centroids) ** 2).sum(2)
        assert labels[key].tolist() == distances.argmin(1).tolist() and labels[key].dtype == np.int32
    with pytest.raises(DumpError, match="2 columns, but the centroids of kmeans have 3"):
        np.save(tmp_path / "k.npy", np.ones((2, 3)))
        kaldi_compat.dump(data, features, nj=1, kmeans=str(tmp_path / "k.npy"))


def test_manifests_and_the_outcome_describe_the_files_and_the_audio(data: Path) -> None:
    key, *others = keys_of(data / "wav.scp")
    (data / "wav" / f"{key}.wav").unlink()
    made = kaldi_compat.dump(data, Samples(), nj=1, shard_utterances=2)
    seconds = {name: len(samples) / rate for name, (samples, rate) in waves_of_files(data, others).items()}
    assert (made.utterances, made.wanted, [name for name, _ in made.failures]) == (3, 4, [key])
    assert made.seconds == pytest.approx(sum(seconds.values()), abs=1e-6)
    for number, keys in ((1, others[:1]), (2, others[1:])):
        manifest = json.loads((data / "log" / f"dump_Samples_train.{number}.json").read_text().splitlines()[0])
        assert (manifest["shard"], manifest["utterances"]) == (number, len(keys))
        assert manifest["seconds"] == pytest.approx(sum(seconds[name] for name in keys), abs=1e-6)
        assert [name for name, _ in manifest["failures"]] == [key] * (number == 1)
        found = {tuple(pair) for pair in manifest["files"].values()}
        paths = [path for path in data.rglob(f"*.{number}.*") if path.suffix not in (".json", ".log")]
        contents = [path.read_bytes() for path in paths]
        assert len(manifest["files"]) == len(paths) == 4
        assert found == {(len(content), zlib.crc32(content)) for content in contents}
    durations = dict(line.split() for line in (data / "utt2dur").read_text().splitlines())
    assert {name: float(value) for name, value in durations.items()} == pytest.approx(seconds, abs=1e-3)
    assert list(durations) == keys_of(data / "samples.scp") == keys_of(data / "utt2num_frames") == others


def waves_of_files(data: Path, keys: Sequence[str]) -> dict[str, tuple[np.ndarray, int]]:
    found = {}
    for key in keys:
        wave = io_ark.load(data / "wav" / f"{key}.wav")
        found[key] = wave.samples[0], int(wave.sample_frequency)
    return found


def test_counts_of_an_extractor_start_at_zero_for_each_archive(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((data / "wav").iterdir()):
        write_wav(path, audio(5000, seed=1), 16000)
    assert kaldi_compat.dump(data, Samples(), nj=1, shard_utterances=1).utterances == 4
    assert "4 utterances with another sampling rate are resampled" in capsys.readouterr().err


@pytest.mark.parametrize("rate", [8000, 32000])
def test_utterances_that_a_preset_resamples_are_counted(
    rate: int, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sorted((data / "wav").iterdir()):
        write_wav(path, audio(20000, seed=1), rate)
    assert kaldi_compat.dump(data, "campplus", nj=1).utterances == 4
    assert "4 utterances with another sampling rate are resampled" in capsys.readouterr().err


def test_first_part_that_differs_from_the_plan_is_named_and_the_others_are_counted() -> None:
    digests = {"a": "1", "b": "1", "same": "1"}
    model._check_digests(digests, digests, "Scale", is_new=False)
    for planned, part, others in (
        ({"a": "1", "b": "2", "same": "1"}, "b", ""),
        ({"a": "2", "b": "2", "same": "1"}, "a", r" \(as does 1 other part\)"),
        ({"b": "2", "c": "1", "same": "1"}, "a", r" \(as do 2 other parts\)"),
    ):
        with pytest.raises(PlanError, match=f"^{part} of Scale differs from the plan{others}: pass the same extractor"):
            model._check_digests(digests, planned, "Scale", is_new=False)
        with pytest.raises(PlanError, match=f"^{part} of Scale differs from process to process{others}: load it"):
            model._check_digests(digests, planned, "Scale", is_new=True)


@pytest.mark.parametrize(("array", "name"), [
    (np.ones((3, 2), np.float32), "feats"), (np.ones(3), "xvector"), (np.arange(3), "labels"),
    (np.ones((3, 2), np.int64), "codes"),
])  # fmt: skip
def test_output_without_a_name_has_the_name_of_its_kind(data: Path, array: np.ndarray, name: str) -> None:
    kaldi_compat.dump(data, lambda audio: [array for _ in audio], nj=1, name="f")
    assert sorted(path.name for path in data.glob("*.scp")) == sorted([f"{name}.scp", "wav.scp"])
    assert all(np.array_equal(value, array) for value in arrays(data / f"{name}.scp").values())


class InBatches:
    """Adds to the samples, in a batch: the share of padding ("equal"), or the number of utterances ("alone")."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        longest = max(map(len, audio))
        return [each[:4, None] + (longest / len(each) if self.kind == "equal" else len(audio)) for each in audio]


@pytest.mark.parametrize(("kind", "said"), [
    ("equal", "a padded batch of InBatches differs by .* of the largest value: only utterances of equal length share"),
    ("alone", "a batch of InBatches differs by .* of the largest value: its utterances are computed one by one"),
])  # fmt: skip
def test_difference_of_a_batch_is_said_with_its_consequence(
    data: Path, capsys: pytest.CaptureFixture[str], kind: str, said: str
) -> None:
    kaldi_compat.dump(data, InBatches(kind), nj=1)
    assert len(re.findall(said, capsys.readouterr().err)) == 1 and trial_of(data)["batching"] == kind


def test_extractor_of_the_trial_computes_the_archives_of_the_same_process(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_extractor = model.open_extractor
    monkeypatch.setattr(model, "open_extractor", lambda *args: opened.append("model") or open_extractor(*args))
    kaldi_compat.dump(data, Samples(), nj=1)
    assert opened == ["model"]


def test_preset_is_computed_by_the_engine_of_the_options(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_compat.dump.sources import make_source
    from kaldi_compat.torch import frontend

    engines: list[str] = []

    class Recorded(frontend.Frontend):
        def __init__(self, *args: Any, engine: str = "none", **more: Any) -> None:
            engines.append(engine)
            super().__init__(*args, **more)

    monkeypatch.setattr(frontend, "Frontend", Recorded)
    source = make_source(Job(Layout.from_paths(data, "x"), DumpOptions(preset="wenet", engine="torch")))
    assert source and source.open("cpu", 1).sample_rate is None and engines == ["torch"]


def test_audio_without_samples_is_a_failure_before_the_extractor_is_called(data: Path) -> None:
    extractor = Samples()
    job = Job(Layout.from_paths(data, "x"), DumpOptions(module=":x", nj=1), extractor=extractor)
    computer = model.ExtractorComputer(job, try_extractor(job, 1)[0], "cpu")
    calls = len(extractor.sizes)
    empty = io_ark.Wave(16000.0, np.zeros((1, 0), np.int16))
    (failure,) = computer.submit([Audio.from_wave(0, "a", empty)])()
    assert (
        isinstance(failure, Failure)
        and failure.reason.startswith("the audio is empty")
        and len(extractor.sizes) == calls
    )


def test_resampled_audio_has_the_rate_of_the_extractor(data: Path) -> None:
    job = Job(Layout.from_paths(data, "x"), DumpOptions(module=":x", nj=1), extractor=Samples())
    computer = model.ExtractorComputer(job, try_extractor(job, 1)[0], "cpu")
    prepared = computer._prepare_audio(Audio.from_wave(0, "a", io_ark.Wave(16000.0, np.zeros((1, 800), np.int16))))
    assert (len(prepared.samples), prepared.rate) == (400, 8000.0)
