"""The dump of presets, Python objects and ONNX models: what comes out, and what becomes of bad extractors."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, ClassVar

import kaldi_native_io
import kaldiio
import numpy as np
import pytest
import torch

import io_ark
import kaldi_compat
from io_ark.streams.unfinished import TEMPORARY, identify_machine
from kaldi_compat.dump import cli as command
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.errors import OptionError
from kaldi_compat.frontends.preset import Preset, list_presets
from tests.support.dump_data import audio, failures, keys_of, make_data, results, write_wav
from tests.support.extractors import add_fault, arrays, module_data, waves


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return module_data(tmp_path)


def said(*arguments: str, status: int = 0) -> str:
    """Run ``kaldi-compat dump`` and return what it says."""
    with redirect_stderr(io.StringIO()) as stderr:
        assert command.main(["dump", *arguments, "--nj=1"]) == status, stderr.getvalue()
    return stderr.getvalue()


def refused(*arguments: str, status: int = 255) -> str:
    """Return the one line of a dump that is refused."""
    line = said(*arguments, status=status)
    assert line.startswith("kaldi-compat: ") and len(line.splitlines()) == 1 and "internal" not in line, line
    return line


@pytest.mark.parametrize("preset", list_presets())
def test_preset_is_the_frontend_to_the_bit(tmp_path: Path, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 2, samples=(9000, 30001))
    write_wav(data / "wav" / "other.wav", audio(4000, seed=3), rate=8000)
    with open(data / "wav.scp", "a") as script:
        script.write(f"zz {data}/wav/other.wav\n")
    (data / "utt2spk").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frontend = kaldi_compat.Frontend(preset)  # type: ignore[arg-type]
        assert kaldi_compat.dump(data, preset, nj=1).utterances == 3
        expected = {
            key: frontend(torch.from_numpy(each), sampling_rate=rate).numpy()
            for key, (each, rate) in waves(data).items()
        }
    found = arrays(data / "feats.scp")
    assert list(found) == list(expected)
    assert all(found[key].tobytes() == value.tobytes() for key, value in expected.items())
    counts = dict(line.split() for line in (data / "utt2num_frames").read_text().splitlines())
    assert counts == {key: str(len(value)) for key, value in expected.items()}


def test_preset_with_statistics_and_without_torch(data: Path, tmp_path: Path) -> None:
    from kaldi_compat.frontends.numpy import Frontend

    stats = str(tmp_path / "cmvn.mat")
    io_ark.save(stats, np.array([[5.0] * 560 + [10.0], [50.0] * 560 + [0.0]]))
    said("--preset=paraformer", f"--statistics={stats}", "--engine=exact", str(data))
    frontend = Frontend("paraformer", statistics=stats)
    found = arrays(data / "feats.scp")
    for key, (samples, rate) in waves(data).items():
        np.testing.assert_array_equal(found[key], frontend(samples, sampling_rate=rate))
    assert (data / "frame_shift").read_text() == "0.06\n"
    io_ark.save(stats, np.array([[6.0] * 560 + [10.0], [50.0] * 560 + [0.0]]))
    assert "--statistics changed since the plan" in refused(
        "--preset=paraformer", f"--statistics={stats}", "--engine=exact", str(data), "--resume"
    )


def test_exact_presets_do_not_import_torch(data: Path) -> None:
    from tests.support.processes import python

    python(
        "import sys; from kaldi_compat.dump.cli import main;"
        f"assert main(['dump', '--preset', 'wenet', '--engine', 'exact', {str(data)!r}, '--nj', '1']) == 0;"
        "assert 'torch' not in sys.modules"
    )


def test_module_of_a_file_writes_a_set_for_each_name(data: Path) -> None:
    said("--module=extract.py:Mean", str(data))
    means, loudness = arrays(data / "means.scp"), arrays(data / "loudness.scp")
    assert list(means) == list(loudness) == keys_of(data / "wav.scp")
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(loudness[key], np.abs(samples).mean(keepdims=True), rtol=1e-6)
        assert means[key].shape == (len(samples) // 160, 4)
    assert (data / "frame_shift").read_text() == "0.01\n"
    counts = (data / "utt2num_frames").read_text().split()[1::2]
    assert counts == [str(len(value)) for value in means.values()]
    theirs = kaldiio.load_scp(str(data / "means.scp"))
    with kaldi_native_io.SequentialFloatVectorReader(f"scp:{data}/loudness.scp") as reader:
        for key, vector in reader:
            np.testing.assert_array_equal(vector, loudness[key])
            np.testing.assert_array_equal(theirs[key], means[key])


def test_archives_and_windows_do_not_change_the_outputs(data: Path) -> None:
    said("--module=extract.py:Mean", str(data))
    alone = arrays(data / "means.scp")
    said("--module=extract.py:Mean", str(data), "--shard-utterances=2", "--window-utterances=3", "--batch-seconds=2")
    assert {key: value.tobytes() for key, value in arrays(data / "means.scp").items()} == {
        key: value.tobytes() for key, value in alone.items()
    }


def test_list_of_matrices_is_computed_in_batches(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes: list[int] = []

    def rows(audio: list[np.ndarray]) -> list[np.ndarray]:
        sizes.append(len(audio))
        return [each[: len(each) // 160 * 160].reshape(-1, 160) for each in audio]

    assert kaldi_compat.dump(data, rows, nj=1).utterances == 9
    assert sizes[-1] == 9 and "batch" not in capsys.readouterr().err


def test_module_of_a_package_is_found_in_the_working_directory(data: Path, tmp_path: Path) -> None:
    (tmp_path / "my_features").mkdir()
    (tmp_path / "my_features" / "loud.py").write_text(
        "def make(device):\n    return lambda audio: [abs(x).mean(keepdims=True) for x in audio]\n"
    )
    try:
        said("--module=my_features.loud:make", str(data))
    finally:
        for name in [name for name in sys.modules if name.startswith("my_features")]:
            del sys.modules[name]
    assert len(arrays(data / "xvector.scp")) == 9
    assert not (data / "utt2num_frames").exists() and not (data / "frame_shift").exists()
    assert len((data / "utt2dur").read_text().splitlines()) == 9


def test_module_file_imports_other_files_of_its_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "loud_helper.py").write_text("def loud(x):\n    return abs(x).mean(keepdims=True)\n")
    (folder / "entry.py").write_text(
        "from loud_helper import loud\ndef make(device):\n    return lambda audio: [loud(x) for x in audio]\n"
    )
    arguments = ("--module=models/entry.py:make", str(data))
    said(*arguments)
    assert len(arrays(data / "xvector.scp")) == 9
    (folder / "loud_helper.py").write_text("def loud(x):\n    return abs(x).max(keepdims=True)\n")
    del sys.modules["loud_helper"]
    assert "loud_helper changed since the plan" in refused(*arguments, "--resume")
    sys.modules.pop("loud_helper", None)


def test_module_file_beside_files_with_names_of_libraries_is_computed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("concurrent", "queue", "random", "torch", "wave"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('is not the library')\n")
    (tmp_path / "entry.py").write_text("def means(audio):\n    return [x.mean(keepdims=True) for x in audio]\n")
    assert command.main(["dump", "--module=entry.py:means", str(data), "--nj=2"]) == 0
    assert len(arrays(data / "xvector.scp")) == 9


def test_module_files_import_from_their_own_folders_in_one_process(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "numbers_beside.py").write_text(f"NUMBER = {number}\n")
        (tmp_path / folder / "entry.py").write_text(
            "from numpy import full\nfrom numbers_beside import NUMBER\n"
            "def constant(audio):\n    return [full(3, NUMBER, 'f4') for _ in audio]\n"
        )
    for number, folder in ((0, "one"), (1, "two"), (0, "one")):
        target = tmp_path / f"data{number}"
        shutil.copytree(data, target, dirs_exist_ok=True)
        said(f"--module={folder}/entry.py:constant", str(target))
        assert {float(array[0]) for array in arrays(target / "xvector.scp").values()} == {number}
        plan = next((target / "log").glob("*.plan.jsonl")).read_text()
        assert "numbers_beside" in plan
    sys.modules.pop("numbers_beside", None)


def test_failure_of_very_short_audio_names_the_reason(data: Path) -> None:
    def convolve(audio: Sequence[np.ndarray]) -> list[np.ndarray]:
        if any(len(samples) < 400 for samples in audio):
            raise RuntimeError("Kernel size can't be greater than actual input size")
        return [samples[:2] for samples in audio]

    key = keys_of(data / "wav.scp")[0]
    write_wav(data / "wav" / f"{key}.wav", audio(200, seed=1))
    kaldi_compat.dump(data, convolve, nj=1)
    reason = "RuntimeError: Kernel size can't be greater than actual input size (the audio is shorter than 0.1 s)"
    assert (data / "log" / "dump_convolve_train.failures").read_text() == f"{key} {reason}\n"


FAULTS = {
    1: "RuntimeError: one bad utterance",
    2: "means has NaN or infinities: check the audio",
    3: "means has 3 columns, but had 4 in the trial call with noise: return the same number of columns for all audio",
    4: "returned a str: expected an array or a tensor",
    5: "returned nothing: return an array for each utterance",
    6: "means is empty, perhaps because the audio is too short: remove the utterance",
    7: "returned other instead of means: return the same outputs for all audio",
    8: "the memory is too small for this utterance: cut the audio into segments",
    9: "means has the type int-matrix, but had the type matrix in the trial call with noise: "
    "return the same type for all audio",
    10: "returned an array of shape (): return a vector or a matrix for each utterance",
}


def test_faults_of_an_extractor_fail_their_utterances_only(data: Path) -> None:
    keys = [*keys_of(data / "wav.scp"), "zy0", "zz0", "zz1"]
    with open(data / "wav.scp", "a") as script:
        script.writelines(f"{key} {data}/wav/{key}.wav\n" for key in keys[9:])
    for key, fault in zip(keys, FAULTS, strict=False):
        add_fault(data, key, fault)
    for key in keys[10:]:
        write_wav(data / "wav" / f"{key}.wav", audio(7000, seed=1))
    said("--module=extract.py:Faulty", str(data), status=1)
    assert keys_of(data / "means.scp") == ["zz0", "zz1"]
    lines = dict(line.split(" ", 1) for line in failures(data).splitlines())
    assert lines == {key: FAULTS[fault] for key, fault in zip(keys, FAULTS, strict=False)}


def test_wrong_number_of_rows_fails(data: Path) -> None:
    said("--module=extract.py:rows_off", str(data), status=1)
    assert "0.01 s requires" in failures(data)


def test_empty_audio_fails_alone(data: Path) -> None:
    key = keys_of(data / "wav.scp")[4]
    write_wav(data / "wav" / f"{key}.wav", audio(0, seed=1))
    said("--module=extract.py:Mean", str(data), status=1)
    assert failures(data).startswith(f"{key} ") and failures(data).endswith(
        "a wave file has no samples: remove the recording\n"
    )


def test_resume_refuses_a_changed_module_and_a_missing_one(data: Path, tmp_path: Path) -> None:
    said("--module=extract.py:Mean", str(data))
    before = results(data)
    assert said("--module=extract.py:Mean", str(data), "--resume").count("nothing was left") == 1
    (tmp_path / "extract.py").write_text((tmp_path / "extract.py").read_text().replace("160", "320"))
    assert "--module changed since the plan" in refused("--module=extract.py:Mean", str(data), "--resume")
    (tmp_path / "other.py").write_text((tmp_path / "extract.py").read_text())
    said_of_other = refused("--module=other.py:Mean", str(data), "--resume")
    assert said_of_other.startswith("kaldi-compat: --module changed since the plan")
    (tmp_path / "extract.py").unlink()
    assert "extract.py is missing" in refused("--module=extract.py:Mean", str(data), "--resume")
    assert results(data) == before


class Scale(torch.nn.Module):
    """Multiplies by its weight: (B, T) and lengths to vectors."""

    takes = "padded"

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(audio.shape[1]) < lengths[:, None]
        return self.factor * (audio.abs() * mask).sum(1, keepdim=True) / lengths[:, None]


def test_resume_refuses_an_object_with_other_weights(data: Path) -> None:
    outcome = kaldi_compat.dump(data, Scale(2.0), nj=2, shard_utterances=2)
    assert outcome.utterances == outcome.wanted == 9 and not outcome.failures
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], [2 * np.abs(samples).mean()], rtol=1e-5)
    (data / "log" / "dump_Scale_train.1.json").unlink()
    with pytest.raises(DumpError, match=r"^factor of Scale differs from the plan"):
        kaldi_compat.dump(data, Scale(3.0), nj=1, resume=True)
    assert kaldi_compat.dump(data, Scale(2.0), nj=1, resume=True).utterances == 9


class Leaky(Scale):
    """Divides by the padded length, so that padding changes the result."""

    calls: ClassVar[list[tuple[int, ...]]] = []

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.calls.append(tuple(lengths.tolist()))
        return audio.abs().mean(1, keepdim=True)


class Mixing(Scale):
    """Subtracts the mean over the batch."""

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        loud = super().forward(audio, lengths)
        return loud - loud.mean() / 2


def test_padding_that_leaks_is_found_and_avoided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_data(tmp_path, 12, samples=(6000,))
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(6000 + 1000 * (i % 3), seed=i))
    Leaky.calls.clear()
    kaldi_compat.dump(data, Leaky(1.0), nj=1)
    assert "a padded batch of Leaky differs by" in capsys.readouterr().err
    assert sorted(map(len, Leaky.calls))[-3:] == [4, 4, 4], "those of equal length are computed together"
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], [np.abs(samples).mean()], rtol=1e-5)
    kaldi_compat.dump(data, Mixing(1.0), nj=1)
    assert "a batch of Mixing differs by" in capsys.readouterr().err
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], [np.abs(samples).mean() / 2], rtol=1e-4)


class Poisoned(Scale):
    """Returns NaN for an utterance that is padded."""

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        poison = torch.where(lengths == audio.shape[1], 0.0, torch.nan)
        return super().forward(audio, lengths) + poison[:, None]


class Fragile:
    """Returns NaN for the first utterance of a batch of more than its trial has."""

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = [np.abs(each).mean(keepdims=True) for each in samples]
        return [found[0] * np.nan, *found[1:]] if len(found) > 4 else found


class Reusing:
    """Returns the same array at each call."""

    array = np.zeros(1, np.float32)

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        (only,) = samples
        self.array[:] = np.abs(only).mean()
        return [self.array]


@pytest.mark.parametrize("made", [Poisoned(1.0), Fragile(), Reusing()], ids=lambda made: type(made).__name__)
def test_odd_extractors_lose_no_utterance(data: Path, made: Any) -> None:
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(6000 + 1000 * i, seed=i))
    outcome = kaldi_compat.dump(data, made, nj=1)
    assert outcome.utterances == 9 and not outcome.failures
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], [np.abs(samples).mean()], rtol=1e-5)


class Full(Scale):
    """Has memory for 3 s of padded audio."""

    sizes: ClassVar[list[int]] = []

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(audio))
        if audio.numel() > 3 * 16000 and len(audio) != 4:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return super().forward(audio, lengths)


def test_batch_is_halved_when_memory_is_short_and_that_is_remembered(tmp_path: Path) -> None:
    data = make_data(tmp_path, 24)
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(8000, seed=i))
    Full.sizes.clear()
    assert kaldi_compat.dump(data, Full(1.0), nj=1).utterances == 24
    assert Full.sizes[Full.sizes.index(24) :] == [24, 12, 6, 6, 6, 6]


def test_speaker_means_are_those_of_the_recipes(data: Path) -> None:
    said("--module=extract.py:Mean", str(data), "--per-speaker")
    vectors, speakers = arrays(data / "loudness.scp"), arrays(data / "spk_loudness.scp")
    assert list(speakers) == ["spk0", "spk1", "spk2"] and not (data / "spk_means.scp").exists()
    for speaker, mean in speakers.items():
        own = [value for key, value in vectors.items() if key.startswith(speaker)]
        np.testing.assert_allclose(mean, np.mean(own, 0), rtol=1e-6)
    (data / "utt2spk").unlink()
    assert "--per-speaker needs it" in refused("--module=extract.py:Mean", str(data), "--per-speaker")
    (data / "utt2spk").write_text("".join(f"{key} a\n" for key in keys_of(data / "wav.scp")))
    assert "add --pool=mean" in refused("--preset=zipformer", str(data), "--per-speaker")


def test_resume_refuses_statistics_that_the_outputs_do_not_allow(data: Path) -> None:
    said("--preset=wenet", str(data))
    assert "--per-speaker needs vectors" in refused("--preset=wenet", str(data), "--resume", "--per-speaker")
    said("--preset=wenet", "--pool=mean", str(data))
    again = ("--preset=wenet", "--pool=mean", str(data), "--resume")
    assert "--cmvn needs matrices" in refused(*again, "--cmvn=global")


def test_precision_of_an_object_without_torch_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaldi_compat.dump.model.get_torch_extractors", lambda: None)
    again = ("--module=extract.py:Mean", str(data), "--dtype=float16")
    assert "--dtype=float16 has no effect on Mean, which does not use torch" in refused(*again)


def test_object_that_is_not_a_torch_module_is_not_compiled(data: Path) -> None:
    assert "--compile needs an object that is a torch.nn.Module" in refused(
        "--module=extract.py:Mean", str(data), "--compile"
    )


def test_front_end_of_a_preset_is_not_compiled(data: Path, tmp_path: Path) -> None:
    (tmp_path / "front.py").write_text(
        "import kaldi_compat\n\ndef make(device):\n    return kaldi_compat.Frontend('wespeaker')\n"
    )
    assert "--compile does not apply to front ends of presets, and make is one: leave out --compile" in refused(
        "--module=front.py:make", str(data), "--compile"
    )


def test_pool_and_kmeans_follow_any_matrix(data: Path, tmp_path: Path) -> None:
    from kaldi_compat import Frontend

    frames = {key: Frontend("wenet")(torch.from_numpy(x)).numpy() for key, (x, _) in waves(data).items()}
    centroids = np.concatenate(list(frames.values()))[::97]
    np.save(tmp_path / "centroids.npy", centroids)
    said("--preset=wenet", "--kmeans=centroids.npy", str(data))
    labels = arrays(data / "labels.scp")
    for key, value in frames.items():
        distances = ((value[:, None].astype(np.float64) - centroids) ** 2).sum(-1)
        np.testing.assert_array_equal(labels[key], distances.argmin(1))
        assert labels[key].dtype == np.int32
    counts = (data / "utt2num_frames").read_text().split()[1::2]
    assert counts == [str(len(value)) for value in frames.values()]
    said("--preset=wenet", "--pool=mean", str(data))
    for key, value in frames.items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], value.mean(0), rtol=1e-5)


@pytest.mark.parametrize(
    "wanted, name",
    [("npy", "loudness"), ("webdataset", "loudness.tar"), ("safetensors", "loudness.safetensors")],
)
def test_other_formats_hold_the_same(data: Path, wanted: str, name: str) -> None:
    said("--module=extract.py:Mean", str(data), f"--format={wanted}")
    expected = arrays(data / "loudness.scp")
    if wanted == "npy":
        found = {path.stem: np.load(path) for path in (data / "loudness").iterdir()}
    elif wanted == "safetensors":
        found = pytest.importorskip("safetensors.numpy").load_file(data / name)
    else:
        with tarfile.open(data / name) as tar:
            found = {each.name[:-4]: np.load(io.BytesIO(tar.extractfile(each).read())) for each in tar}  # type: ignore[union-attr]
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[key], value) for key, value in expected.items())


def test_compression_is_for_matrices_and_on_request(data: Path) -> None:
    said("--module=extract.py:Mean", str(data))
    plain = (data / "data" / "raw_Mean_means_train.1.ark").stat().st_size
    exact, loudness = arrays(data / "means.scp"), results(data)["raw_Mean_loudness_train.1.ark"]
    said("--module=extract.py:Mean", str(data), "--compress")
    assert (data / "data" / "raw_Mean_means_train.1.ark").stat().st_size < plain / 2
    assert results(data)["raw_Mean_loudness_train.1.ark"] == loudness
    for key, value in arrays(data / "means.scp").items():
        np.testing.assert_allclose(value, exact[key], atol=0.02)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--module=nothing.py:Mean"], "nothing.py is missing"),
        (["--module=extract.py:Mean.Other"], "AttributeError"),
        (["--module=extract.py"], "write package.module:name"),
        (["--module=no_such_package.x:y"], "No module named 'no_such_package'"),
        (["--module=json:JSONDecoder"], "cannot be called"),
        (["--module=os.path:join"], "fails in a trial"),
        (["--preset=zipformr"], "did you mean"),
        (["--onnx=none.onnx"], "none.onnx is missing"),
        (["--transformers=./none"], "none is not a folder"),
        (["--preset=wenet", "--kmeans=wav.npy"], "wav.npy is missing"),
        (["--module=extract.py:Mean", "--cmvn=global", "--pool=mean"], "--cmvn needs matrices"),
        (["--module=extract.py:Mean", "--compress", "--pool=mean"], "means has the type vector: leave out"),
        (["--module=extract.py:Nix"], "extract.py has no 'Nix': choose from Mean, Faulty, "),
        (["--module=plain.py:Net"], 'a list of float32 arrays; takes = "padded" in its class gives it a tensor (B, T)'),
        (["--module=plain.py:Padded"], "is called with a tensor (B, T) and the lengths (B,), because takes"),
        (["--module=exits.py:f"], "--module=exits.py:f cannot be created: SystemExit: 3"),
        (["--module=extract.py:rows_off", "--per-speaker"], "no output is a vector: add --pool=mean"),
    ],
)
def test_mistakes_are_one_line_at_the_start_and_leave_no_file(
    data: Path, arguments: Sequence[str], message: str
) -> None:
    Path("exits.py").write_text("raise SystemExit(3)\n")
    Path("plain.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.unfold(1, 4, 4)\n"
        "\n\nclass Padded(Net):\n    takes = 'padded'\n"
    )
    before = sorted(data.rglob("*"))
    assert message in refused(*arguments, str(data))
    assert sorted(data.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--preset=wenet", "--module=a:b"], "exclude each other"),
        (["--preset=wenet", "--num-mel-bins=80"], "is an option of Kaldi's features"),
        (["--preset=wenet", "--layers=3"], "--layers=... needs --transformers=..."),
        (["--transformers=x", "--layers=a"], "--layers must be numbers"),
        (["--module=a:b", "--kmeans=c.npy", "--pool=mean"], "exclude each other"),
        (["--module=a:b", "--format=xml"], "format"),
        (["zipformer"], "it is a preset: kaldi-compat dump --preset zipformer"),
    ],
)
def test_invalid_command_lines(data: Path, arguments: Sequence[str], message: str) -> None:
    assert message in refused(*arguments, str(data), status=2)


def test_python_options_are_those_of_the_program(data: Path) -> None:
    assert kaldi_compat.dump(data, "fbank", num_mel_bins=40, dither=0, nj=1).utterances == 9
    assert io_ark.load_scp(str(data / "feats.scp"))["spk0-utt000"].shape[1] == 40
    assert kaldi_compat.dump(data, "extract.py:Mean", nj=1, pool="mean").utterances == 9
    with pytest.raises(
        OptionError, match="num_mel_bins is an option of Kaldi's features, which cannot be combined with preset"
    ):
        kaldi_compat.dump(data, "wenet", num_mel_bins=40)
    with pytest.raises(OptionError, match="no extractor"):
        kaldi_compat.dump(data)
    with pytest.raises(DumpError, match="is missing"):
        kaldi_compat.dump(data / "none", "wenet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no extractor is given: pass a feature"),
        ({"nj": 1}, "no extractor is given: pass a feature"),
        ({"modul": "model.py:Model"}, "there is no option modul: did you mean module"),
        ({"feature": "fbank"}, "there is no option feature"),
        ({"bogus": 1}, "there is no option bogus: kaldi-compat dump --help lists all options"),
        ({"": 1}, "there is no option --: kaldi-compat dump --help lists all options"),
        ({"extractor": "fbank", "": 1}, "the option has no name"),
        ({"config": "x.conf"}, "no extractor is given: pass a feature"),
        ({"help": False}, "not options of a call from Python: run `kaldi-compat dump --help`"),
        ({"help": True}, "not options of a call from Python: run `kaldi-compat dump --help`"),
        ({"version": True}, "not options of a call from Python: .*`kaldi-compat --version`"),
        ({"extractor": "fbank", "help": True}, "not options of a call from Python: run `kaldi-compat dump --help`"),
    ],
)
def test_misspelled_option_is_named_rather_than_the_missing_extractor(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        kaldi_compat.dump("data", **options)


def test_options_are_named_as_they_were_given(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "pass --statistics='.../global_cmvn'" in said("--preset=wenet", str(data))
    assert "--resume would keep them" in said("--preset=wenet", str(data))
    kaldi_compat.dump(data, "wenet", nj=1)
    printed = capsys.readouterr().err
    assert "pass statistics='.../global_cmvn'" in printed and "; resume=True would keep them" in printed
    with pytest.raises(DumpError, match=r"^per_speaker=True needs vectors.*: add pool=mean"):
        kaldi_compat.dump(data, "wenet", nj=1, per_speaker=True)
    with pytest.raises(OptionError, match=r"^pool=\.\.\. and kmeans=\.\.\. exclude each other"):
        kaldi_compat.dump(data, "wenet", pool="mean", kmeans="c.npy")
    with pytest.raises(OptionError, match=r"module=\.\.\. and the extractor .* exclude each other"):
        kaldi_compat.dump(data, len, module="a:b")
    for _ in range(2):
        with pytest.raises(
            OptionError, match="'fbank' is a feature: pass the data directory first, and the feature second"
        ):
            kaldi_compat.dump("fbank", str(data))
        Path("fbank").mkdir(exist_ok=True)
    Path("fbank/wav.scp").touch()
    with pytest.raises(DumpError, match="fbank"):
        kaldi_compat.dump("fbank", str(data))
    with pytest.raises(OptionError, match="help and version are not options"):
        kaldi_compat.dump(data, "wenet", help=True)
    for switch in ({"help": False}, {"version": None}, {"Version": "no"}):
        with pytest.raises(OptionError, match="help and version are not options"):
            kaldi_compat.dump(data, "fbank", **switch)  # type: ignore[arg-type]


def test_output_cannot_take_the_place_of_an_input(data: Path) -> None:
    script = (data / "wav.scp").read_bytes()

    def wav(audio: list[Any]) -> dict[str, Any]:
        return {"wav": [np.ones(3, np.float32) for _ in audio]}

    with pytest.raises(DumpError, match="cannot be the name of a file"):
        kaldi_compat.dump(data, wav, nj=1)
    assert (data / "wav.scp").read_bytes() == script
    assert re.search("wenet", str(Preset.of("wenet").name))


def save_onnx(path: Path, columns: int, *, outputs: int = 1, inputs: int = 1) -> np.ndarray:
    """Save a model of the mean over frames and a projection, as of an embedding, and return its weights."""
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(0).normal(size=(columns, 5)).astype(np.float32)
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [make.make_node("ReduceMean", ["feats"], ["mean"], axes=[1], keepdims=0)]
    nodes += [make.make_node("MatMul", ["mean", "w"], [f"embs{i}"]) for i in range(outputs)]
    given = [make.make_tensor_value_info(f"feats{i or ''}", kind, ["B", "T", columns]) for i in range(inputs)]
    made = [make.make_tensor_value_info(f"embs{i}", kind, ["B", 5]) for i in range(outputs)]
    graph = make.make_graph(nodes, "g", given, made, [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8), path)
    return weights


def test_onnx_model_behind_a_preset(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from kaldi_compat.frontends.numpy import Frontend

    weights = save_onnx(tmp_path / "ecapa.onnx", 80)
    said("--onnx=ecapa.onnx", "--preset=wespeaker", str(data), "--per-speaker")
    frontend = Frontend("wespeaker")
    found = arrays(data / "xvector.scp")
    for key, (samples, rate) in waves(data).items():
        np.testing.assert_allclose(found[key], frontend(samples, sampling_rate=rate).mean(0) @ weights, atol=1e-5)
    assert list(arrays(data / "spk_xvector.scp")) == ["spk0", "spk1", "spk2"]
    assert not (data / "frame_shift").exists()
    save_onnx(tmp_path / "two.onnx", 80, outputs=2)
    said("--onnx=two.onnx", "--preset=wespeaker", str(data))
    assert arrays(data / "embs1.scp").keys() == found.keys()


def test_onnx_models_that_do_not_fit_are_one_line(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    save_onnx(tmp_path / "narrow.onnx", 40)
    assert "fails in a trial" in refused("--onnx=narrow.onnx", "--preset=wespeaker", str(data))
    save_onnx(tmp_path / "two.onnx", 80, inputs=2)
    assert "has the inputs feats, feats1" in refused("--onnx=two.onnx", "--preset=wespeaker", str(data))
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    assert "bad.onnx cannot be opened" in refused("--onnx=bad.onnx", str(data))
    assert "is missing" in refused("--onnx=none.onnx", str(data))


def test_onnx_model_of_another_rank_is_explained(data: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    kind, make = onnx.TensorProto.FLOAT, onnx.helper
    for name, shape in (("features", ["b", "t", 80]), ("audio", ["b", "t"])):
        node = make.make_node("Identity", ["x"], ["y"])
        graph = make.make_graph([node], "g", [make.make_tensor_value_info("x", kind, shape)],
                                [make.make_tensor_value_info("y", kind, shape)])  # fmt: skip
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, tmp_path / f"{name}.onnx")
    assert "add --preset if the model takes features" in refused("--onnx=features.onnx", str(data))
    assert "or leave out --preset" in refused("--onnx=audio.onnx", "--preset=wenet", str(data))


def test_report_draws_each_output(data: Path) -> None:
    said("--module=extract.py:Mean", str(data), "--report=page.html")
    page = Path("page.html").read_text()
    assert "means: 0." in page and "loudness: 0.0 MiB" in page
    assert page.count("loudness, 1 number<") == 4 and "frames x 4" in page and "Durations" in page


def test_files_of_a_killed_dump_are_removed_whatever_the_output(data: Path) -> None:
    said("--module=extract.py:Mean", str(data))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for path in (data / "means.scp", data / "data" / "spk_loudness_train.ark"):
        left = path.with_name(f"{path.name}{TEMPORARY}{identify_machine()}-{ended.pid}-1")
        left.touch()
    said("--module=extract.py:Mean", str(data), "--resume")
    assert not list(data.glob(f"**/*{TEMPORARY}*"))


def test_integers_that_a_matrix_of_floats_rounds_fail(data: Path) -> None:
    def codes(audio: list[np.ndarray]) -> list[np.ndarray]:
        return [np.full((len(each) // 160, 2), 2**24 + (len(each) == 8000)) for each in audio]

    for fault, key in enumerate(keys_of(data / "wav.scp")[:2]):
        add_fault(data, key, fault)  # audio of 8000 samples
    done = kaldi_compat.dump(data, codes, nj=1)
    assert done.utterances == 7 and all((each == 2**24).all() for each in arrays(data / "codes.scp").values())


def test_utterances_are_tried_again_with_samples_that_no_call_has_changed(data: Path) -> None:
    def changes(audio: list[np.ndarray]) -> list[np.ndarray]:
        found = [each[:4].copy() for each in audio]
        is_trial = all(len(each) in (4960, 16000, 24161, 48000) for each in audio)
        if len(audio) > 1:
            for each in audio:
                each *= 0
            if not is_trial:
                raise ValueError("one of them is to blame")
        return found

    assert kaldi_compat.dump(data, changes, nj=1).utterances == 9
    found = arrays(data / "xvector.scp")
    assert all((found[key] == each[:4]).all() for key, (each, _) in waves(data).items())


def test_extractor_may_empty_its_batch(data: Path) -> None:
    """Such a loop takes the audio from the list that it was given."""

    def call(audio: list[np.ndarray]) -> list[np.ndarray]:
        means = []
        while audio:
            means.append(np.abs(audio.pop(0)).mean(keepdims=True))
        return means

    assert kaldi_compat.dump(data, call, nj=1).utterances == 9
    expected = {key: np.abs(samples).mean() for key, (samples, _) in waves(data).items()}
    assert {key: value[0] for key, value in arrays(data / "xvector.scp").items()} == pytest.approx(expected)
