"""No job loses an utterance silently, and an error in its last step leaves the target as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from io_ark import ArkError, DataDir, DataDirError
from io_ark.data_dir import perturb, scripts
from io_ark.data_dir.scripts import SCRIPTS
from io_ark.data_dir.stage import Printer
from tests.io_ark.data_dir.test_files import BY_RECORDING, BY_SPEAKER, BY_UTTERANCE, full

MARK = b"\xef\xbb\xbf"
READERS = [
    "subset_data_dir.sh data 4 out",
    "subset_data_dir.sh --per-spk data 1 out",
    "combine_data.sh --skip-fix true out data",
    "combine_data.sh out data",
    "copy_data_dir.sh --validate-opts --no-spk-sort data out",
    "split_data.sh data 2",
    "split_data.sh --per-utt data 2",
    "modify_speaker_info.sh --utts-per-spk-max 1 data out",
    "remove_dup_utts.sh 2 data out",
    "get_utt2dur.sh data",
    "fix_data_dir.sh data",
    "validate_data_dir.sh --no-spk-sort data",
]


def run(command: str) -> int:
    name, *argv = command.split()
    return scripts.call_script(SCRIPTS[name], Printer(name, lambda line: None), argv)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("names", [[name] for name in ("wav.scp", "utt2spk", "segments", "cmvn.scp")] + [[]])
def test_byte_order_mark_loses_an_utterance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = full(Path("data"))
    for name in names or [*BY_UTTERANCE, *BY_SPEAKER, *BY_RECORDING, "segments"]:
        (data / name).write_bytes(MARK + (data / name).read_bytes())
    before = content(tmp_path)
    with pytest.raises(DataDirError, match=None if "validate" in command else "byte-order mark"):
        run(command)
    assert content(tmp_path) == before


def test_byte_order_mark_of_a_file_without_keys_is_valid(tmp_path: Path) -> None:
    data = full(tmp_path / "data")
    (data / "glm").write_bytes(MARK + b";; x\n")
    with pytest.raises(DataDirError, match=r"data/glm:1: ;;: starts with a byte-order mark"):
        run(f"validate_data_dir.sh {data}")


def test_byte_order_mark_of_a_list_loses_an_utterance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    full(Path("data"))
    Path("list").write_bytes(MARK + b"a-1\nb-1\n")
    for command in ("subset_data_dir.sh --utt-list list data out", "filter_scp.pl list data/text"):
        with pytest.raises(DataDirError, match="list:1: starts with a byte-order mark"):
            run(command)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "command",
    ["combine_data.sh out data", "remove_dup_utts.sh 2 data out", "perturb_data_dir_speed.sh 0.9 data out"],
)
@pytest.mark.parametrize("exists", [True, False])
def test_error_of_fix_leaves_another_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, exists: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = full(Path("data"))
    (data / "text").write_text("a-1 x\na-1 y\n")
    if exists:
        full(Path("out"))
        Path("out/segments").write_text("old r1 0 1\n")
    before = content(tmp_path)
    with pytest.raises(DataDirError, match="differs from line 1"):
        run(command)
    assert content(tmp_path) == before and Path("out").exists() == exists


def test_error_of_fix_leaves_whole_recordings(tmp_path: Path) -> None:
    data = DataDir(full(tmp_path / "data"))
    target = full(tmp_path / "out")
    Path(data.path, "reco2dur").write_text("r1 1\nr1 2\n")
    before = content(target)
    with pytest.raises(DataDirError, match="differs from line 1"):
        data.to_whole_recordings(target)
    assert content(target) == before


def test_error_of_durations_leaves_half_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = full(tmp_path / "data", segments=False)
    (data / "utt2dur").unlink()
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    with pytest.raises(ArkError):
        perturb.resample_directory(Printer("x", lambda line: None), "8000", str(data))  # The audio does not exist.
    assert {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()} == before


def test_subset_reads_audio_of_an_older_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = full(Path("data"), segments=False)
    (data / "wav.scp").unlink()
    full(Path("out"), segments=False)
    run("subset_data_dir.sh data 5 out")
    assert not Path("out/reco2dur").read_bytes()  # No recordings remain: the new directory has no wav.scp.


@pytest.mark.parametrize("name", ["wav.scp", "feats.scp"])
def test_fifo_is_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    data = tmp_path / "data"
    data.mkdir()
    (data / "utt2spk").write_text("u u\n")
    (data / name).write_text(f"u {tmp_path / 'fifo'}\n")
    jobs: list[Any] = [DataDir.utt2dur] if name == "wav.scp" else [DataDir.num_frames, DataDir.utt2dur]
    for job in jobs:
        with pytest.raises(ArkError, match=rf"{name}:1: u: .* is not a regular file: name a file, or a command"):
            job(DataDir(data))
    if name == "wav.scp":
        (data / "segments").write_text("u u 0 -1\n")
        with pytest.raises(ArkError, match="is not a regular file"):
            DataDir(data).hours()


def test_speakers_of_new_files_are_not_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "xy":
        full(Path(name))
        (Path(name) / "utt2spk").write_text("a-1 b\na-2 a\n")
    with pytest.raises(DataDirError, match="is not in sorted order"):  # of speakers, as from Kaldi's script
        run("combine_data.sh out x y")
    assert not Path("out").exists()
