"""Programs that work on blocks of utterances do what they do utterance by utterance, for any size of block."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.codecs.wave import Wave
from kaldi_compat import native
from kaldi_compat.programs import (
    compute_cmvn_stats,
    compute_cmvn_stats_two_channel,
    compute_fbank_feats,
    compute_mfcc_feats,
    compute_plp_feats,
    copy_feats_to_htk,
    copy_feats_to_sphinx,
    extract_feature_segments,
    wav_to_duration,
)
from tests.support.block_commands import (
    COMMANDS,
    DEVIATIONS,
    STORED,
    left,
    program,
    remove_outputs,
    words_of,
    write,
    write_tables,
)

Stderr = pytest.CaptureFixture[str]
SIZES = (2, 7, 1000)
KALDIS: dict[str, dict[str, Any]] = json.loads(STORED.read_text())
RATE = 16000
PITCH_PROGRAMS = [
    f"kaldi_compat.programs.{name}" for name in ("compute_kaldi_pitch_feats", "compute_and_process_kaldi_pitch_feats")
]


def set_block(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """Limit the blocks to some entries."""
    for name in ("io_ark.codecs.scan", "io_ark.codecs.wave", "io_ark.tables.blocks"):
        monkeypatch.setattr(f"{name}.MAX_ENTRIES", entries)
    monkeypatch.setattr(compute_cmvn_stats, "UTTERANCES_PER_BLOCK", entries)
    monkeypatch.setattr(compute_cmvn_stats_two_channel, "CALLS_PER_LOOKUP", entries)
    monkeypatch.setattr(extract_feature_segments, "LINES_PER_BLOCK", entries)


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


@pytest.mark.parametrize(
    "source", ["ark:in.ark", "scp:in.scp", "scp:files.scp", "scp,p:broken.scp", "ark,bg:cat in.ark |"]
)
def test_features_of_blocks(source: str, monkeypatch: pytest.MonkeyPatch, capsys: Stderr) -> None:
    audio = random_audio(np.random.default_rng(1), 150)
    write("wave", "in", audio)
    lines = []
    for key, wave in audio.items():
        io_ark.save(f"{key}.wav", wave, kind="wave")
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
    count, seconds = (60, 8) if native.library() else (12, 1)  # NumPy takes half an hour for these
    audio = random_audio(np.random.default_rng(5), count)
    write("wave", "rates", audio)
    audio = {key: wave for key, wave in audio.items() if wave.sample_frequency == RATE}
    audio["long"] = Wave(float(RATE), np.random.default_rng(6).normal(0, 900, (1, seconds * RATE)).astype(np.int16))
    write("wave", "in", audio)
    data = Path("in.ark").read_bytes()
    Path("cut.ark").write_bytes(data[: len(data) // 5])
    of_processing = ("--delay", "--add")
    tracking = [each for each in arguments if not each.startswith(of_processing)]
    monkeypatch.setattr("kaldi_compat.programs.compute_kaldi_pitch_feats.LOG_EVERY", 7)
    for name, flags in zip(PITCH_PROGRAMS, (["--verbose=2", *tracking], arguments), strict=True):
        main = importlib.import_module(name).main
        check_all_sizes(partial(main, [*flags, "ark,scp:out.ark,out.scp"]), monkeypatch, capsys)


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
        write_tables()
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_leave_what_kaldis_left(
    name: str, tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: Stderr
) -> None:
    monkeypatch.chdir(tables)
    command, *arguments = words_of(COMMANDS[name])
    run = partial(program(command), arguments)
    check_all_sizes(run, monkeypatch, capsys, seed=len(name))
    if not any(name in names for names in DEVIATIONS.values()):
        remove_outputs()
        assert left(run(), capsys.readouterr().err) == KALDIS[name]


@pytest.mark.parametrize(
    ("main", "options"),
    [
        (copy_feats_to_htk, []),
        (copy_feats_to_htk, ["--sample-period=125000", "--sample-kind=70000"]),
        (copy_feats_to_htk, ["--output-ext=f:3"]),
        (copy_feats_to_sphinx, []),
    ],
)
def test_files_of_blocks(
    main: Any, options: list[str], tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: Stderr
) -> None:
    def run() -> int:
        for path in Path("files").glob("*"):
            path.rmdir() if path.is_dir() else path.unlink()
        Path("files").mkdir(exist_ok=True)
        Path(f"files/utt0200.{extension}").mkdir()  # which cannot be written
        status = main.main([*options, "--output-dir=files", f"ark:{tables}/in.ark"])
        with Path("out").open("wb") as joined:
            for path in sorted(Path("files").glob("*")):
                joined.write(path.name.encode() + b" " + (b"" if path.is_dir() else path.read_bytes()))
        return int(status)

    extension = {copy_feats_to_htk: "fea", copy_feats_to_sphinx: "mfc"}[main]
    check_all_sizes(run, monkeypatch, capsys)
