"""The data directory of changed speeds: made after all checks, and without leftovers after a kill."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from io_ark.data_dir import perturb
from io_ark.errors import ArkError
from io_ark.tables import overwriting
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.speed_perturb import make_speed_directory
from tests.support.dump_data import audio, write_wav


def source(folder: Path, audio: str = "a.wav") -> Path:
    folder.mkdir(parents=True)
    (folder / "wav.scp").write_text(f"a {audio}\n")
    (folder / "utt2spk").write_text("a a\n")
    return folder


def test_killed_job_leaves_directories_of_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data, target = source(tmp_path / "data"), tmp_path / "fast"
    child = os.fork()
    if not child:
        perturb.fix_stage = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        make_speed_directory(data, target, ["0.9", "1.0"])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    make_speed_directory(data, target, ["0.9", "1.0"])
    assert sorted(os.listdir(tmp_path)) == ["data", "fast"]
    assert (target / "utt2spk").read_text() == "a a\nsp0.9-a sp0.9-a\n"
    (data / "utt2spk").write_text("b b\na a\na c\n")
    before = {path.name: path.read_bytes() for path in target.iterdir() if path.is_file()}
    with pytest.raises(ArkError, match=rf"^{target}/utt2spk:2: a: differs from line 1"):
        make_speed_directory(data, target, ["0.9", "1.0"])
    assert {path.name: path.read_bytes() for path in target.iterdir() if path.is_file()} == before
    assert sorted(os.listdir(tmp_path)) == ["data", "fast"]


@pytest.mark.parametrize("audio", ["fast/text", "archives/raw_fbank_fast.1.ark", "report.html"])
def test_speeds_are_written_before_the_outputs_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], audio: str
) -> None:
    monkeypatch.chdir(tmp_path)
    source(Path("data"), audio)
    Path(audio).parent.mkdir(exist_ok=True)
    Path(audio).write_bytes(b"RIFF")
    arguments = [
        "dump",
        "--speeds=0.9,1.0",
        "--speed-dir=fast",
        "--report=report.html",
        "fbank",
        "data",
        "log",
        "archives",
    ]
    assert main(arguments) != 0
    assert f"{audio}: is read as well, and writing would destroy it" in capsys.readouterr().err
    assert not Path("fast/utt2spk").exists() and Path(audio).read_bytes() == b"RIFF"


def test_recording_on_a_late_line_is_not_replaced_by_a_speed_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(overwriting, "MAX_COMPARED_LINES", 2)
    data = source(Path("data"), "a.wav")
    lines = [f"{name} {name}.wav\n" for name in "abcd"]
    (data / "wav.scp").write_text("".join(lines))
    (data / "utt2spk").write_text("".join(f"{name} {name}\n" for name in "abcd"))
    for name in "abcd":
        Path(f"{name}.wav").write_bytes(b"RIFF")
    Path("fast").mkdir()
    os.link("d.wav", "fast/text")
    assert main(["dump", "--speeds=0.9,1.0", "--speed-dir=fast", "fbank", "data"]) != 0
    assert "fast/text: is read as well, and writing would destroy it" in capsys.readouterr().err
    assert os.listdir("fast") == ["text"] and Path("d.wav").read_bytes() == b"RIFF"


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("name", ["wav.scp", "utt2spk"])
def test_resume_compares_the_directory_whose_speeds_are_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, *, is_complete: bool
) -> None:
    """A dump that is resumed does not make the directory of changed speeds again, so lines would be missing there."""
    monkeypatch.chdir(tmp_path)
    write_wav(tmp_path / "a.wav", audio(4000, seed=1))
    data = source(Path("data"))
    command = ["dump", "--speeds=0.9,1.0", "--speed-dir=fast", "fbank", "data", "--nj=1", "--shard-utterances=1"]
    assert main(command) == 0
    manifest = Path("fast/log/dump_fbank_fast.2.json")
    if not is_complete:
        manifest.unlink()
    path = data / name
    before = path.read_text()
    path.write_text(before + ("b a.wav\n" if name == "wav.scp" else "b b\n"))
    capsys.readouterr()
    for more in ["--resume"], ["--shard=2/2"]:
        assert main([*command, *more]) == 255
        assert f"kaldi-compat: original {name} changed since the plan" in capsys.readouterr().err
        assert manifest.exists() is is_complete
    path.write_text(before)
    assert main([*command, "--resume"]) == 0
    assert Path("fast/feats.scp").read_text().split()[::2] == ["a", "sp0.9-a"]
