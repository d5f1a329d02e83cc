"""Inputs that change while a dump runs: nothing is made of two versions of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat.dump import cli as command
from kaldi_compat.dump import inputs
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.errors import PlanError
from kaldi_compat.dump.files import get_stamp as _stamp
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.spectral import SpectralComputer
from tests.support.dump_data import archive_bytes, dump, job_of, keys_of, make_data, matrices, refused, said_by

INPUTS = ("wav.scp", "segments", "utt2spk", "spk2warp", "--vtln-map", "--utt2spk", "utt2warp")


def replace_by_reversed(path: Path) -> None:
    """Replace a file by one with the same lines in another order, and of the same size."""
    other = path.with_name("other")
    other.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    other.replace(path)


def overwrite_in_place(path: Path) -> None:
    """Change a file without a new one in its place."""
    text = path.read_text()
    path.write_text("".join(reversed(text.splitlines(keepends=True))))


def data_with(root: Path, name: str) -> tuple[Path, Path]:
    """Make a data directory in which an input has a part; return it and the input."""
    data = make_data(root, 6, samples=(2000,))
    keys = keys_of(data / "wav.scp")
    if name == "segments":
        (data / name).write_text("".join(f"{key} {key} 0.0 0.12\n" for key in keys))
    elif name == "spk2warp":
        (data / name).write_text("spk0 0.9\nspk1 1.1\n")
    elif name == "--vtln-map":
        conf, warps = root / "conf" / "fbank.conf", root / "warps"
        warps.write_text("".join(f"{key} 1.0\n" for key in keys))
        conf.write_text(f"{conf.read_text()}--vtln-map=ark:{warps}\n")
        return data, warps
    elif name == "--utt2spk":
        conf, speakers = root / "conf" / "fbank.conf", root / "speakers"
        speakers.write_bytes((data / "utt2spk").read_bytes())
        (root / "warps").write_text("spk0 0.9\nspk1 1.1\n")
        conf.write_text(f"{conf.read_text()}--vtln-map=ark:{root}/warps\n--utt2spk=ark:{speakers}\n")
        return data, speakers
    elif name == "utt2warp":  # which does not exist, and appears
        return data, data / name
    return data, data / name


def when(moment: str, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen once: between plan and archives, in the first archive, or between archives and end."""
    happened: list[bool] = []

    def once() -> None:
        if not happened:
            happened.append(True)
            act()

    if moment == "in an archive":
        submit = SpectralComputer.submit
        monkeypatch.setattr(SpectralComputer, "submit", lambda self, batch: (once(), submit(self, batch))[1])
        return
    runner = command._choose_runner

    def disturbed(job: Any) -> Any:
        def run(*arguments: Any) -> None:
            if moment == "before":
                once()
            runner(job)(*arguments)
            once()

        return run

    monkeypatch.setattr(command, "_choose_runner", disturbed)


@pytest.mark.parametrize("moment", ["before", "in an archive", "after"])
@pytest.mark.parametrize("name", ["wav.scp", "utt2spk", "spk2warp"])
def test_deletion_of_an_input_ends_the_job(
    tmp_path: Path, name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = data_with(tmp_path, name)
    when(moment, path.unlink, monkeypatch)
    said = said_by(data, "--shard-utterances=2", status=255).splitlines()[-1]
    assert f"{path} changed" in said and "--resume" in said
    assert not (data / "feats.scp").exists()


CHANGES = {"before": replace_by_reversed, "in an archive": overwrite_in_place, "after": replace_by_reversed}


@pytest.mark.parametrize("moment", CHANGES)
@pytest.mark.parametrize("name", INPUTS)
def test_change_of_an_input_ends_the_job(
    tmp_path: Path, name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = data_with(tmp_path, name)
    before = path.read_bytes() if path.exists() else None
    act = (lambda: CHANGES[moment](path)) if path.exists() else (lambda: path.write_text("spk0-utt000 1.0\n"))
    with monkeypatch.context() as patched:
        when(moment, act, patched)
        said = said_by(data, "--shard-utterances=2", "--cmvn=speaker", status=255).splitlines()[-1]
    assert f"{path} changed" in said and "--resume" in said
    assert not (data / "feats.scp").exists() and not list(tmp_path.glob("**/*unfinished*"))
    if moment == "after":
        assert len(archive_bytes(data)) == 6
    else:
        assert not archive_bytes(data)
    # With the old file back, the job ends as it would have.
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)
    assert dump(data, "--shard-utterances=2", "--cmvn=speaker", "--resume") == 0
    resumed = archive_bytes(data)
    assert dump(data, "--shard-utterances=2", "--cmvn=speaker") == 0
    assert archive_bytes(data) == resumed and len(resumed) == 6


@pytest.mark.parametrize("name", ["wav.scp", "utt2spk", "wav/spk0-utt001.wav", "conf/fbank.conf"])
def test_report_that_is_an_input_is_refused(tmp_path: Path, name: str) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    path = tmp_path / name if name.startswith("conf") else data / name
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    assert "is read as well" in refused(data, f"--report={tmp_path}/link")
    assert path.read_bytes() == before and not (data / "log").exists()


def test_configuration_in_the_data_directory_keeps_its_content(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    conf = data / "conf" / "fbank.conf"
    conf.parent.mkdir()
    conf.write_text("--dither=0\n")
    said = said_by(data, f"--conf={conf}", "--num-mel-bins=40")
    log = data / "log" / "dump_fbank_train.fbank.conf"
    assert f"{conf} was read, so it is not replaced: the configuration of this dump is in {log}" in said
    assert log.read_text() == "--dither=0\n--num-mel-bins=40\n"
    assert next(iter(matrices(data / "feats.scp").values())).shape[1] == 40
    log.unlink()
    assert dump(data, f"--conf={conf}") == 0
    assert conf.read_text() == "--dither=0\n" and not log.exists()


@pytest.mark.parametrize("link", [False, True])
def test_configuration_of_an_earlier_dump_can_be_used_with_another_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    if link:
        (data / "conf").symlink_to(tmp_path / "conf")
    monkeypatch.chdir(data)
    if not link:
        assert main(["dump", "fbank", ".", "--num-mel-bins=30", "--dither=0"]) == 0
    before = (data / "conf" / "fbank.conf").read_bytes()
    assert main(["dump", "fbank", ".", "--low-freq=100"]) == 0
    assert main(["dump", "fbank", ".", "--low-freq=100", "--resume"]) == 0
    assert (data / "conf" / "fbank.conf").read_bytes() == before
    assert (data / "log" / "dump_fbank_train.fbank.conf").read_bytes() == before + b"--low-freq=100\n"


def test_worker_processes_see_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 6, samples=(2000,))
    when("before", lambda: replace_by_reversed(data / "wav.scp"), monkeypatch)
    assert dump(data, nj=2) == 255
    assert not (data / "feats.scp").exists() and not archive_bytes(data)


def test_a_copy_with_the_same_bytes_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))

    def copied() -> None:
        (data / "copy").write_bytes((data / "wav.scp").read_bytes())
        (data / "copy").replace(data / "wav.scp")

    when("before", copied, monkeypatch)
    assert dump(data) == 0


def test_configuration_is_the_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    assert dump(data) == 0
    expected = archive_bytes(data)
    conf = tmp_path / "conf" / "fbank.conf"
    when("before", lambda: conf.write_text("--num-mel-bins=40\n"), monkeypatch)
    assert dump(data) == 0
    assert archive_bytes(data) == expected
    assert (data / "conf" / "fbank.conf").read_text() == "--num-mel-bins=23\n--dither=0\n"


def test_module_that_an_extractor_has_imported_changes_during_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data(tmp_path, 6, samples=(2000,))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = tmp_path / "helper_that_changes.py"
    helper.write_text("SCALE = 2\n")
    (tmp_path / "scaled.py").write_text(
        "import helper_that_changes\n\n\ndef f(audio):\n    return [x[:3] * helper_that_changes.SCALE for x in audio]\n"
    )
    for name in ("helper_that_changes", "dumped_scaled"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with monkeypatch.context() as patched:
        when("after", lambda: helper.write_text("SCALE = 3\n"), patched)
        assert main(["dump", "--module=scaled.py:f", str(data), "--nj=1"]) == 255
    assert f"{helper} changed while it was being used" in capsys.readouterr().err
    assert not (data / "xvector.scp").exists()
    for name in ("helper_that_changes", "dumped_scaled"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    helper.write_text("SCALE = 2\n")
    assert main(["dump", "--module=scaled.py:f", str(data), "--nj=1", "--resume"]) == 0


def test_time_of_a_file_tells_versions_of_one_size_apart(tmp_path: Path) -> None:
    path = tmp_path / "utt2warp"
    path.write_text("a 1.0\n")
    before = _stamp(path)
    with open(path, "r+") as file:
        file.write("a 1.1\n")
    os.utime(path, ns=(0, 10))
    assert before and _stamp(path) != before and _stamp(tmp_path / "none") is None


def test_stamp_changes_if_a_file_of_equal_size_and_time_replaces_the_file(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1e9, 1e9))
    before = _stamp(tmp_path / "old")
    os.replace(tmp_path / "new", tmp_path / "old")
    assert _stamp(tmp_path / "old") != before


def test_inputs_are_read_again_only_if_their_stamps_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    job = job_of(data)
    settings = make_plan(job).settings
    read: list[str] = []
    digest = inputs.compute_digest

    def counted(path: Path) -> str:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(inputs, "compute_digest", counted)
    stamps = inputs.get_stamps(job, settings["confs"])
    inputs.InputWatch(job, settings, stamps).check()
    assert not read
    other_node = inputs.InputWatch(job, settings, {})
    for _ in range(2):
        other_node.check()
    assert sorted(read) == ["utt2spk", "wav.scp"]
    os.utime(data / "utt2spk", ns=(0, 0))
    other_node.check()
    assert sorted(read) == ["utt2spk", "utt2spk", "wav.scp"]
    assert stamps["utt2warp"] is None and stamps["wav.scp"] == _stamp(data / "wav.scp")
    replace_by_reversed(data / "wav.scp")
    for _ in range(2):  # It has not become the new state.
        with pytest.raises(PlanError, match=r"wav\.scp changed while it was being used"):
            other_node.check()


@pytest.mark.parametrize(
    ("rspecifier", "expected"),
    [
        ("", None), ("ark:warps", "warps"), ("scp,p:dir/warps.scp", "dir/warps.scp"), ("ark:cat warps |", None),
        ("ark:-", None), ("ark,t,s,cs:/w", "/w"), ("nonsense", None),
    ],
)  # fmt: skip
def test_file_of_a_table_is_that_of_its_rspecifier(rspecifier: str, expected: str | None) -> None:
    assert inputs._find_table_file(rspecifier) == (Path(expected) if expected else None)
