"""Chains of programs as in a recipe, from audio to a model's input, and Kaldi's own recipe scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

knf = pytest.importorskip("kaldi_native_fbank")

INPUTS = Path(__file__).parents[3] / "reference_data" / "inputs"
PROGRAMS = Path(sys.executable).parent
SPEAKERS = ("A", "B")
RECORDINGS = ("speech16k", "speech16k_b", "noise16k")
SEGMENTS = ((0.05, 0.3), (0.2, 0.48))

pytestmark = pytest.mark.skipif(not (PROGRAMS / "copy-feats").exists(), reason="the programs are not installed")


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}


def lines(path: Path, content: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in content))


def make_data_directory(data: Path, segments: bool) -> None:
    """Recordings of two speakers, every second one in a pipe; utterances are whole recordings or segments of them."""
    data.mkdir(parents=True)
    recordings = sorted(
        (f"{speaker}-{name}", INPUTS / "wav" / f"{name}.wav") for speaker in SPEAKERS for name in RECORDINGS
    )
    lines(
        data / "wav.scp", [f"{key} cat {wav} |" if i % 2 else f"{key} {wav}" for i, (key, wav) in enumerate(recordings)]
    )
    utterances = [key for key, _ in recordings]
    if segments:
        parts = [(f"{key}-{i}", key, *part) for key in utterances for i, part in enumerate(SEGMENTS)]
        lines(data / "segments", [f"{utterance} {key} {start} {end}" for utterance, key, start, end in parts])
        utterances = [utterance for utterance, *_ in parts]
    lines(data / "utt2spk", [f"{utterance} {utterance[0]}" for utterance in utterances])
    lines(data / "spk2utt", [" ".join([s, *(u for u in utterances if u[0] == s)]) for s in SPEAKERS])
    lines(data / "text", [f"{utterance} hello" for utterance in utterances])


def mfcc(utterance: str) -> np.ndarray[Any, Any]:
    """The features by kaldi-native-fbank."""
    key, part = utterance[2:].rsplit("-", 1)
    rate, samples = kaldiio.load_mat(str(INPUTS / "wav" / f"{key}.wav"))
    start, end = (int(time * rate + 0.5) for time in SEGMENTS[int(part)])
    options = knf.MfccOptions()
    options.frame_opts.dither = 0
    computer = knf.OnlineMfcc(options)
    computer.accept_waveform(rate, samples[start:end].astype(np.float32).tolist())
    computer.input_finished()
    return np.array([computer.get_frame(i) for i in range(computer.num_frames_ready)])


def frames_around(features: np.ndarray[Any, Any], offsets: list[int]) -> list[np.ndarray[Any, Any]]:
    """The features moved in time by each offset, with the frames at the edges repeated."""
    rows = np.arange(len(features))
    return [features[np.clip(rows + offset, 0, len(features) - 1)] for offset in offsets]


def test_chain_of_programs_of_a_recipe(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    make_data_directory(data, segments=True)
    rng = np.random.default_rng(0)
    transform = rng.standard_normal((5, 4 * 26 + 1)).astype(np.float32)
    kaldiio.save_mat(str(data / "transform.mat"), transform)
    script = Path(__file__).parents[2] / "support" / "chain.sh"
    run = subprocess.run(["bash", script, data, out], env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Done 12 out of 12 utterances." in run.stderr

    utterances = [line.split()[0] for line in (data / "utt2spk").read_text().splitlines()]
    compressed = kaldiio.load_scp(str(out / "feats.scp"))
    assert list(compressed) == utterances
    for utterance in utterances:
        exact = mfcc(utterance)
        step = (exact.max(axis=0) - exact.min(axis=0)) / 128 + 1e-2  # a quarter of the values has 64 steps
        assert (np.abs(compressed[utterance] - exact) <= step).all()
    counts = dict(line.split() for line in (out / "utt2num_frames").read_text().splitlines())
    assert counts == {utterance: str(len(compressed[utterance])) for utterance in utterances}
    durations = dict(line.split() for line in (out / "utt2dur").read_text().splitlines())
    assert [float(durations[f"A-noise16k-{i}"]) for i in (0, 1)] == [0.25, 0.28]

    final = dict(kaldiio.load_ark(str(out / "final.ark")))
    assert list(final) == utterances
    for speaker in SPEAKERS:
        everything = np.concatenate([compressed[u] for u in utterances if u[0] == speaker]).astype(np.float64)
        for utterance in (u for u in utterances if u[0] == speaker):
            normalized = (compressed[utterance] - everything.mean(axis=0)) / everything.std(axis=0)
            before2, before, after, after2 = frames_around(normalized, [-2, -1, 1, 2])
            deltas = np.hstack([normalized, (2 * (after2 - before2) + after - before) / 10])
            spliced = np.hstack(frames_around(deltas, [-2, -1, 0, 1]))
            expected = spliced @ transform[:, :-1].T + transform[:, -1]
            np.testing.assert_allclose(final[utterance], expected, atol=2e-3)

    voiced = {line.split()[0]: line.split()[2:-1] for line in (out / "vad.txt").read_text().splitlines()}
    for utterance, decisions in voiced.items():
        energies = compressed[utterance][:, 0]
        assert [float(d) for d in decisions] == (energies > 5.5 + 0.5 * energies.mean()).tolist()


def test_a_failing_member_fails_the_chain(tmp_path: Path) -> None:
    chain = f"copy-feats scp:{tmp_path}/none.scp ark:- | add-deltas ark:- ark:- | copy-feats ark:- ark:/dev/null"
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", chain], env=environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    run = subprocess.run(
        ["copy-feats", f"ark:copy-feats scp:{tmp_path}/none.scp ark:- |", "ark:/dev/null"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 255
    assert "exit status 255" in run.stderr


RECIPES = os.environ.get("KALDI_RECIPE", "")


@pytest.mark.skipif(not RECIPES, reason="set KALDI_RECIPE to a folder with Kaldi's steps and utils (egs/wsj/s5)")
@pytest.mark.parametrize("segments", [False, True])
def test_kaldis_own_recipe_scripts(tmp_path: Path, segments: bool) -> None:
    """They run from start to end with our programs alone; more jobs than speakers."""
    for folder in ("steps", "utils"):
        shutil.copytree(Path(RECIPES) / folder, tmp_path / folder)
    (tmp_path / "path.sh").write_text(f"export PATH=$PWD/utils:{PROGRAMS}:$PATH LC_ALL=C\n")
    (tmp_path / "conf").mkdir()
    for feature in ("mfcc", "fbank", "plp", "pitch"):
        (tmp_path / "conf" / f"{feature}.conf").write_text("--sample-frequency=16000\n")
    (tmp_path / "conf" / "vad.conf").write_text("--vad-energy-threshold=5.5\n")
    make_data_directory(tmp_path / "data" / "a", segments)
    for name in ("fbank", "plp", "mfcc_pitch", "fbank_pitch"):
        make_data_directory(tmp_path / "data" / name, segments)
    many, jobs = "--cmd run.pl --nj 3", "--cmd run.pl --nj 2"  # some scripts split by speaker, and there are two
    steps = [
        f"steps/make_mfcc.sh {many} data/a exp/a mfcc",
        "steps/compute_cmvn_stats.sh data/a exp/a mfcc",
        *(f"steps/make_{name}.sh {many} data/{name} exp/{name} {name}" for name in ("fbank", "plp")),
        *(f"steps/make_{name}.sh {many} data/{name} exp/{name} {name}" for name in ("mfcc_pitch", "fbank_pitch")),
        f"steps/compute_vad_decision.sh {jobs} data/a exp/vad vad",
        "rm data/a/utt2dur data/a/utt2num_frames",
        "utils/data/get_utt2dur.sh data/a",
        "utils/data/get_utt2num_frames.sh --cmd run.pl --nj 2 data/a",
        "utils/data/limit_feature_dim.sh 0:5 data/a data/limited",
        f"steps/select_feats.sh {jobs} 0-5 data/a data/selected exp/selected selected",
        f"steps/paste_feats.sh {jobs} data/a data/selected data/pasted exp/pasted pasted",
        f"steps/shift_feats.sh {jobs} 1 data/a exp/shifted shifted",
        "utils/fix_data_dir.sh data/a",
        "utils/validate_data_dir.sh data/a",
    ]
    script = "set -e\n. ./path.sh\n" + "\n".join(f"echo '== {step}'\n{step}" for step in steps)
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    utterances = [line.split()[0] for line in (tmp_path / "data/a/utt2spk").read_text().splitlines()]
    dims = {
        "a": 13,
        "fbank": 23,
        "plp": 13,
        "mfcc_pitch": 16,
        "fbank_pitch": 26,
        "selected": 6,
        "pasted": 19,
        "a_fs1": 13,
    }
    for name, dim in dims.items():
        features = kaldiio.load_scp(str(tmp_path / "data" / name / "feats.scp"))
        assert [len(key.removeprefix("fs1-")) for key in features] == [len(u) for u in utterances]
        assert {features[key].shape[1] for key in features} == {dim}
