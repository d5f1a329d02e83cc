"""The command ``kaldi-compat frontend``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat import list_presets
from kaldi_compat.cli.frontends import main
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.numpy import Frontend
from tests.support.frontend_audio import am_mvn, clips
from tests.support.processes import output_of


def test_list_names_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(list_presets())


@pytest.mark.parametrize("name", list_presets())
def test_what_show_prints_as_json_is_the_preset(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name, "--json"]) == 0
    file = tmp_path / "mine.json"
    file.write_text(capsys.readouterr().out)
    assert Preset.read(file) == Preset.of(name)
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    assert Preset.of(name).source.repository in shown and Preset.of(name).title in shown


def reference(path: Path, name: str, **others: Any) -> str:
    audio = clips()["speech"]
    np.savez(path, samples=audio, features=Frontend(name)(audio), **others)
    return str(path)


def test_check_compares_with_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = reference(tmp_path / "r r.npz", "campplus")
    assert main(["check", "campplus", "--against", file]) == 0
    assert "campplus: the same; largest difference 0, mean 0" in capsys.readouterr().out
    assert main(["check", "wespeaker", "--against", file]) == 1
    different, advice = capsys.readouterr().out.splitlines()
    assert different.startswith("wespeaker: different; largest difference ")
    assert advice == f"To find the settings of your features, run: kaldi-compat explain '{file}' AUDIO.wav"
    assert main(["check", "wespeaker", "--against", file, "--tolerance", "100"]) == 0
    assert main(["check", "paraformer", "--against", file]) == 1
    captured = capsys.readouterr()
    assert "the features have the shape (158, 80), but the preset computes (27, 560)" in captured.out
    assert captured.err.startswith("WARNING: the preset 'paraformer'") and captured.err.count("\n") == 1
    assert captured.err.endswith("; pass --statistics='.../am.mvn'\n")
    statistics = tmp_path / "am.mvn"
    statistics.write_text(am_mvn(560))
    assert main(["check", "paraformer", "--against", file, "--statistics", str(statistics)]) == 1
    assert capsys.readouterr().err == ""


def test_check_takes_several_pairs_and_a_sampling_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audio = clips()["speech"][:8000]
    at_8 = Frontend("wenet", statistics=(0.0, 1.0))(audio, sampling_rate=8000)
    arrays = {"a.samples": audio, "a.features": at_8, "a.sampling_rate": np.array(8000)}
    np.savez(tmp_path / "r.npz", **arrays, **{"b.samples": audio, "b.features": at_8 * np.nan})
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"name": "mine", "feature": "fbank", "options": {"num_mel_bins": 80}}))
    assert main(["check", str(mine), "--against", str(tmp_path / "r.npz")]) == 1
    said = capsys.readouterr().out
    assert "b: the features have the shape" in said and said.endswith("kaldi-compat explain FEATURES.npy AUDIO.wav\n")
    np.savez(tmp_path / "r.npz", **arrays)
    assert main(["check", str(mine), "--against", str(tmp_path / "r.npz")]) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["export", "ast", "{dir}/none/ast.onnx"], 255, "its folder does not exist; create it"),
        (["show", "parafomer"], 2, "did you mean 'paraformer'?"),
        (["shw", "ast"], 2, "invalid choice: 'shw'"),
        ([], 2, "--help explains the command line"),
        (["check", "ast", "--against", "{dir}/none.npz"], 255, "none.npz: no such file"),
        (["check", "ast", "--against", "{dir}/text.npz"], 255, "text.npz: cannot be read as a .npz file: "),
        (["check", "ast", "--against", "{dir}/one.npz"], 255, "has no array 'samples'"),
        (["check", "ast", "--against", "{dir}/half.npz"], 255, "has no array 'features'"),
        (["check", "ast", "--against", "{dir}/half.npz", "--statistics", "x"], 2, "takes no statistics"),
        (
            ["check", "ast", "--against", "{dir}/half.npz", "--tolerance=nan"],
            2,
            "--tolerance=nan: expected a number of at least 0",
        ),
        (
            ["check", "wespeaker", "--against", "{dir}/rate.npz"],
            2,
            "whole number of Hz below 1e+09, not [1, 2]",
        ),
        (["check", "wespeaker", "--against", "{dir}/words.npz"], 255, "words.npz: features have the type"),
    ],
)
def test_mistakes_get_one_line(
    arguments: list[str], status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "one.npz", audio=np.zeros(3))
    np.savez(tmp_path / "half.npz", samples=np.zeros(3))
    whole = {"samples": np.zeros(16000), "features": np.zeros((98, 80))}
    np.savez(tmp_path / "rate.npz", **whole, sampling_rate=[1, 2])
    np.savez(tmp_path / "words.npz", **{**whole, "features": np.array(["a"])})
    assert main([each.format(dir=tmp_path) for each in arguments]) == status
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("kaldi-compat: ")
    assert captured.err.count("\n") == 1 and not captured.out


def test_export_with_an_old_pytorch_names_the_version_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("torch.export.Dim.AUTO", raising=False)
    assert main(["export", "campplus", str(tmp_path / "campplus.onnx")]) == 255
    assert "export needs PyTorch 2.6 or later" in capsys.readouterr().err


@pytest.mark.parametrize("read", ["mine.json", "am.mvn"])
def test_export_does_not_overwrite_what_it_reads(
    read: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text(json.dumps({"name": "mine", "feature": "fbank"}))
    Path("am.mvn").write_text("statistics")
    Path("link.onnx").symlink_to(read)
    before = Path(read).read_bytes()
    assert main(["export", "mine.json", "link.onnx", "--statistics=am.mvn"]) == 255
    assert "link.onnx: is read as well, and writing would destroy it" in capsys.readouterr().err
    assert Path(read).read_bytes() == before


@pytest.mark.slow
def test_export_writes_a_graph_without_an_fft(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxscript")
    file = tmp_path / "campplus.onnx"
    assert main(["export", "campplus", str(file), "--int16"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{file}: ") and "MatMul" in shown and "DFT" not in shown
    session = pytest.importorskip("onnxruntime").InferenceSession(str(file))
    audio = clips()["speech"]
    (features,) = session.run(None, {session.get_inputs()[0].name: audio[None]})
    np.testing.assert_allclose(features[0], Frontend("campplus")(audio), rtol=0, atol=1e-3)


def test_the_program_runs_without_torch() -> None:
    code = "import sys; sys.argv = ['kaldi-compat', 'frontend', 'show', 'zipformer']\n"
    code += "from kaldi_compat.dump.entry_point import main; status = main(); assert 'torch' not in sys.modules\n"
    said = output_of(code + "sys.exit(status)")
    assert "high_freq=-400.0" in said and "snip_edges=False" in said
