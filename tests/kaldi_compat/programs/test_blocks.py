"""Programs that work on blocks of utterances do what they do utterance by utterance, for any size of block."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import io_ark
from io_ark.codecs.wave import Wave
from kaldi_compat.programs import (
    add_deltas,
    add_deltas_sdc,
    append_post_to_feats,
    append_vector_to_feats,
    apply_cmvn,
    apply_cmvn_sliding,
    compare_feats,
    compose_transforms,
    compute_cmvn_stats,
    compute_cmvn_stats_two_channel,
    compute_fbank_feats,
    compute_mfcc_feats,
    compute_plp_feats,
    compute_vad,
    copy_feats,
    copy_feats_to_htk,
    copy_feats_to_sphinx,
    copy_int_vector,
    copy_matrix,
    copy_post,
    copy_vector,
    extend_transform_dim,
    extract_feature_segments,
    feat_to_dim,
    feat_to_len,
    interpolate_pitch,
    modify_cmvn_stats,
    multiply_vectors,
    paste_feats,
    paste_vectors,
    post_to_feats,
    process_kaldi_pitch_feats,
    process_pitch_feats,
    select_feats,
    select_voiced_frames,
    shift_feats,
    splice_feats,
    subsample_feats,
    subset_feats,
    transform_feats,
    wav_to_duration,
)

Stderr = pytest.CaptureFixture[str]
SIZES = (2, 7, 1000)
RATE = 16000
PITCH_PROGRAMS = [
    f"kaldi_compat.programs.{name}" for name in ("compute_kaldi_pitch_feats", "compute_and_process_kaldi_pitch_feats")
]


def set_block(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """Limit the blocks to some entries."""
    for name in ("io_ark.codecs.scan", "io_ark.codecs.wave", "io_ark.tables.blocks"):
        monkeypatch.setattr(f"{name}.MAX_ENTRIES", entries)
    monkeypatch.setattr(compute_cmvn_stats, "UTTERANCES_AT_ONCE", entries)
    monkeypatch.setattr(compute_cmvn_stats_two_channel, "CALLS_AT_ONCE", entries)
    monkeypatch.setattr(extract_feature_segments, "LINES_AT_ONCE", entries)


def random_matrices(rng: np.random.Generator, count: int) -> dict[str, npt.NDArray[np.float32]]:
    """Features of 3 columns, mostly of a few frames; some are empty, one is long."""
    lengths = rng.choice([0, 1, 2, 3, 5, 8, 20], count, p=[0.02, 0.1, 0.1, 0.2, 0.2, 0.28, 0.1])
    lengths[count // 2] = 700
    return {f"utt{i:04d}": rng.normal(15, 4, (n, 3)).astype(np.float32) for i, n in enumerate(lengths.tolist())}


def random_audio(rng: np.random.Generator, count: int) -> dict[str, Wave]:
    """Audio of some frames; some is too short, of two channels, or of another rate."""
    audio = {}
    for i in range(count):
        samples = rng.normal(0, 900, (2 if i % 29 == 5 else 1, int(rng.integers(300, 2000)))).astype(np.int16)
        audio[f"utt{i:04d}"] = Wave(8000.0 if i % 31 == 7 else float(RATE), samples)
    return audio


def outputs(run: Callable[[], int], capsys: Stderr) -> tuple[int, str, dict[str, bytes]]:
    """Run a program in an empty directory; return its status, what it logs (without line numbers) and its files."""
    for name in os.listdir("."):
        if name.startswith("out"):
            os.remove(name)
    capsys.readouterr()
    status = run()
    log = re.sub(r"\([^)]*\)", "", capsys.readouterr().err)
    return status, log, {name: Path(name).read_bytes() for name in sorted(os.listdir(".")) if name.startswith("out")}


def check_all_sizes(run: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: Stderr, seed: int = 0) -> None:
    """Check that a program does the same for single entries as for blocks of some sizes up to 1,000, some random."""
    with monkeypatch.context() as patch:
        set_block(patch, 1)
        expected = outputs(run, capsys)
    assert expected[1]
    for size in (*SIZES, *np.random.default_rng(seed).integers(1, 1000, 2).tolist()):
        with monkeypatch.context() as patch:
            set_block(patch, size)
            assert outputs(run, capsys) == expected, f"blocks of {size}"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A thread that reads ahead may log before this thread does.
    monkeypatch.setattr("kaldi_compat.cli.tables.has_second_core", lambda: False)


def write(kind: Any, name: str, values: dict[str, Any]) -> None:
    with io_ark.Writer[Any](kind, f"ark,scp:{name}.ark,{name}.scp") as writer:
        for key, value in values.items():
            writer[key] = value


@pytest.mark.parametrize(
    "source", ["ark:in.ark", "scp:in.scp", "scp:files.scp", "scp,p:broken.scp", "ark,bg:cat in.ark |"]
)
def test_features_of_blocks(source: str, monkeypatch: pytest.MonkeyPatch, capsys: Stderr) -> None:
    audio = random_audio(np.random.default_rng(1), 150)
    write("wave", "in", audio)
    lines = []
    for key, wave in audio.items():
        io_ark.write_object("wave", f"{key}.wav", wave)
        lines.append(f"{key} {key}.wav\n")
    Path("files.scp").write_text("".join(lines))
    Path("short.wav").write_bytes(Path("utt0003.wav").read_bytes()[:300])
    lines[20:20] = ["absent nothing.wav\n", "short short.wav\n", "piped cat utt0001.wav |\n", "two  utt0002.wav \n"]
    Path("broken.scp").write_text("".join(lines) + "\n\n")
    Path("warps").write_text("".join(f"{key} {1 + i % 3 / 20}\n" for i, key in enumerate(audio) if i % 17))
    options = {
        "ark:in.ark": ["--min-duration=0.04", "--write-utt2dur=ark,t:out_durations", "--vtln-map=ark:warps"],
        "scp:files.scp": ["--subtract-mean", "--snip-edges=false"],
        "scp,p:broken.scp": ["--dither=0", "--channel=1"],
    }.get(source, [])
    for main in (compute_fbank_feats.main, compute_mfcc_feats.main, compute_plp_feats.main)[: 3 if not options else 1]:
        arguments = [*options, source, "ark,scp:out.ark,out.scp"]
        check_all_sizes(partial(main, arguments), monkeypatch, capsys)
    if not options:
        check_all_sizes(lambda: main(["--output-format=htk", source, "ark:out.ark"]), monkeypatch, capsys)


def test_error_in_the_middle_of_a_block_comes_after_the_utterances_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Stderr
) -> None:
    audio = random_audio(np.random.default_rng(2), 60)
    write("wave", "in", audio)
    Path("speakers").write_text("".join(f"{key} speaker\n" for key in list(audio)[:40]))
    Path("warps").write_text("speaker 1.1\n")
    arguments = ["--vtln-map=ark:warps", "--utt2spk=ark:speakers", "ark:in.ark", "ark:out.ark"]
    check_all_sizes(lambda: compute_fbank_feats.main(arguments), monkeypatch, capsys)
    data = Path("in.ark").read_bytes()
    Path("cut.ark").write_bytes(data[: len(data) // 2])
    check_all_sizes(lambda: compute_fbank_feats.main(["ark:cut.ark", "ark:out.ark"]), monkeypatch, capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ark:in.ark"],
        ["--snip-edges=false", "--delay=2", "scp:in.scp"],
        ["--frames-per-chunk=10", "--simulate-first-pass-online", "ark:in.ark"],
        ["--frames-per-chunk=7", "--recompute-frame=9", "--add-raw-log-pitch", "scp:in.scp"],
        ["--nccf-ballast-online", "--add-normalized-log-pitch=false", "ark:cat in.ark |"],
        ["ark:rates.ark"],
        ["ark:cut.ark"],
    ],
    ids=" ".join,
)
def test_pitch_of_blocks(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Stderr) -> None:
    audio = random_audio(np.random.default_rng(5), 60)
    write("wave", "rates", audio)
    audio = {key: wave for key, wave in audio.items() if wave.sample_frequency == RATE}
    audio["long"] = Wave(float(RATE), np.random.default_rng(6).normal(0, 900, (1, 8 * RATE)).astype(np.int16))
    write("wave", "in", audio)
    data = Path("in.ark").read_bytes()
    Path("cut.ark").write_bytes(data[: len(data) // 5])
    of_processing = ("--delay", "--add")
    tracking = [each for each in arguments if not each.startswith(of_processing)]
    monkeypatch.setattr("kaldi_compat.cli.pitch.LOG_EVERY", 7)
    for name, flags in zip(PITCH_PROGRAMS, (["--verbose=2", *tracking], arguments), strict=True):
        main = importlib.import_module(name).main
        check_all_sizes(partial(main, [*flags, "ark,scp:out.ark,out.scp"]), monkeypatch, capsys)


IN, OUT = "ark:in.ark", "ark,scp:out.ark,out.scp"
COMMANDS: dict[str, tuple[Any, list[str]]] = {
    "copy-feats": (copy_feats, ["--write-num-frames=ark,t:out_frames", IN, OUT]),
    "copy-feats from a script": (copy_feats, ["scp:in.scp", OUT]),
    "copy-feats to text": (copy_feats, [IN, "ark,t:out.txt"]),
    "copy-feats from text": (copy_feats, ["ark:text.ark", OUT]),
    "copy-feats from doubles": (copy_feats, ["ark:doubles.ark", OUT]),
    "copy-feats from a pipe": (copy_feats, ["ark:cat in.ark |", "ark,f:out.ark"]),
    "copy-feats to files": (copy_feats, ["scp:in.scp", "scp:targets.scp"]),
    "copy-feats --compress": (copy_feats, ["--compress", "--write-num-frames=ark:out_frames", IN, OUT]),
    **{
        f"copy-feats --compression-method={method}": (
            copy_feats,
            ["--compress", f"--compression-method={method}", "ark:hard.ark", OUT],
        )
        for method in range(2, 8)
    },
    "copy-feats --compress to text": (copy_feats, ["--compress", IN, "ark,t:out.ark"]),
    "add-deltas": (add_deltas, [IN, OUT]),
    "add-deltas --truncate": (add_deltas, ["--truncate=2", "--delta-order=3", IN, OUT]),
    "add-deltas too many": (add_deltas, ["--truncate=4", IN, OUT]),
    "add-deltas-sdc": (add_deltas_sdc, [IN, OUT]),
    "splice-feats": (splice_feats, ["ark:full.ark", OUT]),
    "splice-feats of nothing": (splice_feats, [IN, OUT]),
    "compute-vad": (compute_vad, ["--vad-energy-threshold=3", IN, OUT]),
    "compute-vad of silence": (compute_vad, ["--vad-energy-threshold=18", "--omit-unvoiced-utts", IN, OUT]),
    "apply-cmvn-sliding": (apply_cmvn_sliding, ["--cmn-window=5", "--min-cmn-window=3", IN, OUT]),
    "apply-cmvn-sliding --center": (apply_cmvn_sliding, ["--center", "--norm-vars", "--cmn-window=7", IN, OUT]),
    "compute-cmvn-stats": (compute_cmvn_stats, [IN, OUT]),
    "compute-cmvn-stats of all": (compute_cmvn_stats, [IN, "out.stats"]),
    "compute-cmvn-stats of dimensions": (compute_cmvn_stats, ["ark:mixed.ark", "out.stats"]),
    "compute-cmvn-stats --spk2utt": (compute_cmvn_stats, ["--spk2utt=ark:spk2utt", IN, OUT]),
    "apply-cmvn": (apply_cmvn, ["ark:stats.ark", IN, OUT]),
    "apply-cmvn --norm-vars": (apply_cmvn, ["--norm-vars", "--skip-dims=1", "scp:stats.scp", IN, OUT]),
    "apply-cmvn --reverse": (apply_cmvn, ["--reverse", "--norm-vars", "ark:stats.ark", IN, OUT]),
    "apply-cmvn --utt2spk": (apply_cmvn, ["--utt2spk=ark:utt2spk", "ark:speakers.ark", IN, OUT]),
    "apply-cmvn of all": (apply_cmvn, ["all.stats", IN, OUT]),
    "apply-cmvn --norm-means=false": (apply_cmvn, ["--norm-means=false", "all.stats", IN, OUT]),
    "select-feats": (select_feats, ["2,0", "ark:full.ark", OUT]),
    "select-feats of dimensions": (select_feats, ["1", "ark:mixed.ark", OUT]),
    "shift-feats": (shift_feats, ["--shift=-2", IN, OUT]),
    "subsample-feats": (subsample_feats, ["--n=3", "--offset=1", IN, OUT]),
    "subsample-feats repeated": (subsample_feats, ["--n=-2", IN, OUT]),
    "subset-feats": (subset_feats, ["--include=some", IN, OUT]),
    "subset-feats --exclude": (subset_feats, ["--exclude=some", "scp:in.scp", OUT]),
    "append-vector-to-feats": (append_vector_to_feats, [IN, "ark:vectors.ark", OUT]),
    "append-vector-to-feats sorted": (append_vector_to_feats, ["ark:full.ark", "ark,s,cs:vectors.ark", OUT]),
    "append-vector-to-feats once": (append_vector_to_feats, ["ark:full.ark", "ark,o:vectors.ark", OUT]),
    "append-vector-to-feats lacking one": (append_vector_to_feats, ["ark:full.ark", "ark:some_vectors.ark", OUT]),
    "append-vector-to-feats out of order": (append_vector_to_feats, [IN, "ark,s,cs:reversed.ark", OUT]),
    "paste-feats": (paste_feats, ["ark:full.ark", "scp:in.scp", "ark:mixed.ark", OUT]),
    "paste-feats --length-tolerance": (paste_feats, ["--length-tolerance=1", IN, "ark:longer.ark", OUT]),
    "multiply-vectors": (multiply_vectors, ["ark:vad.ark", "ark:vad.ark", "scp:vad.scp", OUT]),
    "multiply-vectors of lengths": (multiply_vectors, ["ark:vectors.ark", "ark:vad.ark", OUT]),
    "paste-vectors": (paste_vectors, ["ark:vad.ark", "ark:vectors.ark", OUT]),
    "paste-vectors lacking one": (paste_vectors, ["ark:vectors.ark", "ark:some_vectors.ark", OUT]),
    "select-voiced-frames": (select_voiced_frames, [IN, "ark:vad.ark", OUT]),
    "copy-vector": (copy_vector, ["--scale=2", "ark:vad.ark", OUT]),
    "copy-matrix": (copy_matrix, ["--apply-exp", IN, OUT]),
    "compare-feats": (compare_feats, [IN, "scp:in.scp"]),
    "transform-feats, linear": (transform_feats, ["square.mat", "ark:mixed.ark", OUT]),
    "transform-feats": (transform_feats, ["transform.mat", "ark:full.ark", OUT]),
    "copy-post": (copy_post, ["--scale=0.5", "ark:post.ark", OUT]),
    "post-to-feats": (post_to_feats, ["--post-dim=4", "ark:post.ark", OUT]),
    "copy-post as it is": (copy_post, ["ark:post.ark", OUT]),
    "copy-post to text": (copy_post, ["ark:post.ark", "ark,t:out.txt"]),
    "copy-int-vector of text": (copy_int_vector, ["ark:ints.txt", OUT]),
    "subset-feats --n": (subset_feats, ["--n=70", IN, OUT]),
    "modify-cmvn-stats": (modify_cmvn_stats, ["0:2", "ark:stats.ark", OUT]),
    "modify-cmvn-stats to means": (modify_cmvn_stats, ["--convert-to-mean-and-var", "ark:stats.ark", OUT]),
    "extend-transform-dim": (extend_transform_dim, ["--new-dimension=5", "ark:transforms.ark", OUT]),
    "extend-transform-dim too small": (extend_transform_dim, ["--new-dimension=2", "ark:transforms.ark", OUT]),
    "compose-transforms": (compose_transforms, ["ark:transforms.ark", "ark:transforms.ark", OUT]),
    "compare-feats of dimensions": (compare_feats, ["ark:mixed.ark", "ark:mixed.ark"]),
    "copy-int-vector": (copy_int_vector, ["ark:ints.ark", OUT]),
    "copy-int-vector from a script": (copy_int_vector, ["scp:ints.scp", "ark,t:out.txt"]),
    "copy-vector --change-dim": (copy_vector, ["--change_dim=3", "ark:lengths.ark", OUT]),
    "copy-vector to text": (copy_vector, ["ark:lengths.ark", "ark,t:out.txt"]),
    "copy-matrix as it is": (copy_matrix, ["ark:mixed.ark", OUT]),
    "copy-matrix --apply-softmax-per-row": (copy_matrix, ["--apply-softmax-per-row", "--scale=0.5", IN, OUT]),
    "copy-post --scale=0": (copy_post, ["--scale=0", "scp:hard_post.scp", OUT]),
    "copy-post from text": (copy_post, ["--scale=0.3", "ark:hard_post.txt", OUT]),
    "copy-post of a damaged archive": (copy_post, ["ark:cut_post.ark", OUT]),
    "copy-post of a damaged archive, permissive": (copy_post, ["ark,p:cut_post.ark", OUT]),
    "post-to-feats of odd frames": (post_to_feats, ["--post-dim=6", "ark:hard_post.ark", OUT]),
    "post-to-feats from text": (post_to_feats, ["--post-dim=6", "ark:hard_post.txt", "ark,t:out.txt"]),
    "post-to-feats out of range": (post_to_feats, ["--post-dim=3", "scp:post.scp", OUT]),
    "post-to-feats of a damaged archive": (post_to_feats, ["--post-dim=6", "ark:cut_post.ark", OUT]),
    "append-post-to-feats": (append_post_to_feats, ["--post-dim=4", IN, "ark:post.ark", OUT]),
    "append-post-to-feats of odd frames": (
        append_post_to_feats,
        ["--post-dim=6", "ark:full.ark", "ark:hard_post.ark", OUT],
    ),
    "append-post-to-feats sorted": (append_post_to_feats, ["--post-dim=6", IN, "ark,s,cs:hard_post.ark", OUT]),
    "append-post-to-feats from a script": (append_post_to_feats, ["--post-dim=6", IN, "scp:hard_post.scp", OUT]),
    "append-post-to-feats lacking some": (append_post_to_feats, ["--post-dim=6", IN, "ark:some_post.ark", OUT]),
    "append-post-to-feats out of range": (append_post_to_feats, ["--post-dim=3", IN, "ark:post.ark", OUT]),
    "append-post-to-feats, damaged": (append_post_to_feats, ["--post-dim=6", IN, "ark:cut_post.ark", OUT]),
    "append-post-to-feats, damaged and permissive": (
        append_post_to_feats,
        ["--post-dim=6", IN, "ark,p:cut_post.ark", OUT],
    ),
    "compose-transforms with one": (compose_transforms, ["affine.mat", "ark:transforms.ark", OUT]),
    "compose-transforms onto one": (compose_transforms, ["ark:transforms.ark", "square.mat", OUT]),
    "compose-transforms of shapes": (compose_transforms, ["ark:transforms.ark", "ark:some_transforms.ark", OUT]),
    "compose-transforms --utt2spk": (
        compose_transforms,
        ["--utt2spk=ark:utt2spk", "ark:transforms.ark", "ark:speaker_transforms.ark", OUT],
    ),
    "two-channel statistics": (compute_cmvn_stats_two_channel, ["calls", "ark:in.ark", OUT]),
    "two-channel statistics of frames": (compute_cmvn_stats_two_channel, ["full_calls", "ark:full.ark", OUT]),
    "two-channel statistics from a script": (compute_cmvn_stats_two_channel, ["full_calls", "scp:in.scp", OUT]),
    "two-channel statistics of dimensions": (compute_cmvn_stats_two_channel, ["full_calls", "ark:mixed.ark", OUT]),
    "two-channel statistics, damaged": (compute_cmvn_stats_two_channel, ["full_calls", "ark:cut.ark", OUT]),
    "extract-feature-segments": (extract_feature_segments, ["ark:in.ark", "segments", OUT]),
    "extract-feature-segments, short": (
        extract_feature_segments,
        ["--min-segment-length=0.01", "--snip-edges=false", "--max-overshoot=0.1", "ark:in.ark", "segments", OUT],
    ),
    "extract-feature-segments, plain": (
        extract_feature_segments,
        ["--min-segment-length=0", "--snip-edges=false", "ark:full.ark", "plain_segments", OUT],
    ),
    "extract-feature-segments, once": (
        extract_feature_segments,
        ["--min-segment-length=0", "--snip-edges=false", "ark,o:full.ark", "plain_segments", OUT],
    ),
    "extract-feature-segments, damaged": (
        extract_feature_segments,
        ["--min-segment-length=0", "--snip-edges=false", "ark:cut.ark", "plain_segments", OUT],
    ),
    "extract-feature-segments, damaged and permissive": (
        extract_feature_segments,
        ["--min-segment-length=0", "--snip-edges=false", "ark,p:cut.ark", "plain_segments", OUT],
    ),
    "process-kaldi-pitch-feats": (process_kaldi_pitch_feats, ["ark:pitch.ark", OUT]),
    "process-kaldi-pitch-feats --delay": (
        process_kaldi_pitch_feats,
        ["--delay=3", "--add-raw-log-pitch", "--srand=3", "--normalization-right-context=-1", "scp:pitch.scp", OUT],
    ),
    "process-kaldi-pitch-feats of gaps": (process_kaldi_pitch_feats, ["ark:gaps.ark", OUT]),
    "process-pitch-feats": (process_pitch_feats, ["ark:voicing.ark", OUT]),
    "process-pitch-feats of correlations": (process_pitch_feats, ["ark:pitch.ark", OUT]),
    "interpolate-pitch": (interpolate_pitch, ["ark:gaps.ark", OUT]),
    "interpolate-pitch --linear-interpolation": (interpolate_pitch, ["--linear-interpolation", "ark:gaps.ark", OUT]),
    "interpolate-pitch of correlations": (interpolate_pitch, ["--pitch-interval=3", "ark:negative.ark", OUT]),
    "feat-to-len": (feat_to_len, [IN, "ark,t:out_len"]),
    "feat-to-len of a script": (feat_to_len, ["scp:in.scp", "ark:out_len"]),
    "feat-to-dim": (feat_to_dim, ["ark:mixed.ark", "ark,t:out_dim"]),
}


@pytest.mark.parametrize("arguments", [[], ["--read-entire-file"]])
def test_durations_of_blocks(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Stderr) -> None:
    write("wave", "in", random_audio(np.random.default_rng(4), 100))
    for source in "ark:in.ark", "scp:in.scp":
        run = partial(wav_to_duration.main, [*arguments, source, "ark,t:out"])
        check_all_sizes(run, monkeypatch, capsys)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that the commands read."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        rng = np.random.default_rng(3)
        feats = random_matrices(rng, 240)
        full = {key: value for key, value in feats.items() if value.size}
        write("matrix", "in", feats)
        write("matrix", "full", full)
        hard = {key: value.round() if i % 3 else value * 1e30 for i, (key, value) in enumerate(full.items())}
        hard |= {"constant": np.full((9, 3), -7, np.float32), "zeros": np.array([[-0.0, 0.0], [3, 2]], np.float32)}
        hard |= {"not_a_number": np.array([[np.nan]], np.float32), "end": np.eye(30, dtype=np.float32)}
        write("matrix", "hard", hard)
        write("double-matrix", "doubles", feats)
        mixed = {key: value[:, : 2 + i % 90 // 60] for i, (key, value) in enumerate(full.items())}
        write("matrix", "mixed", mixed)
        with io_ark.Writer[Any]("matrix", "ark,t:text.ark") as text:
            for key, value in feats.items():
                text[key] = value
        Path("targets.scp").write_text("".join(f"{key} out_{key}\n" for key in feats))
        Path("some").write_text("".join(f"{key}\n" for key in list(feats)[::3]))
        Path("spk2utt").write_text(f"a {' '.join(list(feats)[:50])}\nb {' '.join(list(feats)[90:])} absent\n")
        Path("utt2spk").write_text("".join(f"{key} {'ab'[i % 2]}\n" for i, key in enumerate(list(feats)[:200])))
        stats = compute_cmvn_stats.main
        for source, target in (IN, "ark,scp:stats.ark,stats.scp"), ("ark:full.ark", "all.stats"):
            assert stats([source, target]) == 0
        assert stats(["--spk2utt=ark:spk2utt", IN, "ark:speakers.ark"]) == 0
        assert compute_vad.main(["--vad-energy-threshold=12", IN, "ark,scp:vad.ark,vad.scp"]) == 0
        vectors = {key: rng.normal(size=4).astype(np.float32) for key in feats}
        write("vector", "vectors", vectors)
        write("vector", "reversed", dict(sorted(vectors.items(), reverse=True)))
        write("vector", "some_vectors", {key: each for i, (key, each) in enumerate(vectors.items()) if i % 60})
        write("matrix", "longer", {key: each.repeat(1 + (len(each) == 2), axis=0) for key, each in feats.items()})
        io_ark.write_object("matrix", "square.mat", rng.normal(size=(3, 3)).astype(np.float32))
        io_ark.write_object("matrix", "transform.mat", rng.normal(size=(2, 4)).astype(np.float32))
        posteriors = {key: [[(int(row[0]) % 4, float(row[1]))] for row in each] for key, each in feats.items()}
        write("posterior", "post", posteriors)
        hard_posteriors = {
            key: [
                [(int(rng.integers(0, 6)), float(np.float32(rng.normal()))) for _ in range(rng.integers(0, 4))]
                for _ in each
            ]
            for key, each in feats.items()
        }
        write("posterior", "hard_post", hard_posteriors)
        write("posterior", "some_post", {key: each for key, each in hard_posteriors.items() if int(key[3:]) % 40})
        with io_ark.Writer[Any]("posterior", "ark,t:hard_post.txt") as text:
            for key, frames in hard_posteriors.items():
                text[key] = frames
        for name in "hard_post", "full":
            data = Path(f"{name}.ark").read_bytes()
            Path(f"cut{name.removeprefix('hard').removeprefix('full')}.ark").write_bytes(data[: 2 * len(data) // 3])
        write("vector", "lengths", {key: rng.normal(size=len(each)).astype(np.float32) for key, each in feats.items()})
        for name, keys in ("calls", list(feats)), ("full_calls", list(full)):
            lines = [f"{key} {'call' if i % 50 else 'three'}{i // 2} {'AB'[i % 2]}\n" for i, key in enumerate(keys)]
            Path(name).write_text("".join(lines) + ("absent call7000 A\n" if name == "calls" else ""))
        ends = {key: len(each) / 100 for key, each in feats.items()}
        lines = [
            f"{key}-0 {key} {end * 0.2 if i % 7 else 0:g} {end + (i % 9 == 8):.3f}\n"
            for i, (key, end) in enumerate(ends.items())
        ]
        lines[30:30] = [
            "bad\n",
            "a utt0005 1x 2\n",
            "b utt0006\t0 1e-1 0\n",
            "c absent 0 1\n",
            "d utt0100 0 -1\n",
            "\n",
        ]
        Path("segments").write_text("".join(lines))
        Path("plain_segments").write_text(
            "".join(f"{key}-{i} {key} 0 {ends[key]:.2f}\n" for key in full for i in range(2))
        )
        write("matrix", "speaker_transforms", {key: np.eye(4, dtype=np.float32)[:, : 3 + (key == "b")] for key in "ab"})
        io_ark.write_object("matrix", "affine.mat", rng.normal(size=(2, 4)).astype(np.float32))
        shapes = {key: (4, 2 + i // 100) for i, key in enumerate(feats) if i % 60 != 59}
        write(
            "matrix", "some_transforms", {key: rng.normal(size=each).astype(np.float32) for key, each in shapes.items()}
        )
        transforms = {key: rng.normal(size=(3, 4)).astype(np.float32) for key in feats}
        write("matrix", "transforms", transforms)
        with io_ark.Writer[Any]("int-vector", "ark,t:ints.txt") as numbers:
            for i, key in enumerate(feats):
                numbers[key] = np.arange(i % 5, dtype=np.int32)
        tracks = {key: each[:, :2] * [0.05, 9] for key, each in feats.items()}
        write("matrix", "pitch", {key: np.abs(each).astype(np.float32) for key, each in tracks.items()})
        write("matrix", "negative", {key: each.astype(np.float32) for key, each in tracks.items()})
        voicing = {key: np.abs(each[:, [0, 1, 0]]).clip(0.05, [1, 900, 1]) for key, each in tracks.items()}
        write("matrix", "voicing", {key: each.astype(np.float32) for key, each in voicing.items()})
        gaps = {key: np.where(each > 95, 0, each) for key, each in tracks.items()}
        write("matrix", "gaps", {key: np.abs(each).astype(np.float32) for key, each in gaps.items()})
        write("int-vector", "ints", {key: each[:, 0].astype(np.int32) for key, each in feats.items()})
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_on_blocks(name: str, tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: Stderr) -> None:
    monkeypatch.chdir(tables)
    program, arguments = COMMANDS[name]
    check_all_sizes(partial(program.main, arguments), monkeypatch, capsys, seed=len(name))


@pytest.mark.parametrize(
    ("program", "options"),
    [
        (copy_feats_to_htk, []),
        (copy_feats_to_htk, ["--sample-period=125000", "--sample-kind=70000"]),
        (copy_feats_to_htk, ["--output-ext=f:3"]),
        (copy_feats_to_sphinx, []),
    ],
)
def test_files_of_blocks(
    program: Any, options: list[str], tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: Stderr
) -> None:
    def run() -> int:
        for path in Path("files").glob("*"):
            path.rmdir() if path.is_dir() else path.unlink()
        Path("files").mkdir(exist_ok=True)
        Path(f"files/utt0200.{extension}").mkdir()  # which cannot be written
        status = program.main([*options, "--output-dir=files", f"ark:{tables}/in.ark"])
        with Path("out").open("wb") as joined:
            for path in sorted(Path("files").glob("*")):
                joined.write(path.name.encode() + b" " + (b"" if path.is_dir() else path.read_bytes()))
        return int(status)

    extension = {copy_feats_to_htk: "fea", copy_feats_to_sphinx: "mfc"}[program]
    check_all_sizes(run, monkeypatch, capsys)
