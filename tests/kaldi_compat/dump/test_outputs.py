"""What a dump writes is compared with all that it reads, and with itself, before anything is written."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import io_ark
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.model import Trial
from kaldi_compat.dump.outputs import list_outputs_in_data
from kaldi_compat.dump.plan import make_plan
from tests.support.dump_data import audio, dump, edited, job_of, make_data, matrices, refused, said_by, write_wav

READ_AS_WELL, TWICE = "is read as well, and writing would destroy it", "is written twice"
TWO_VECTORS = """
def emb(audio):
    return {{"{0}": [each[:4] * 1.0 for each in audio], "{1}": [each[:3] * 1.0 for each in audio]}}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 3, samples=(3000,))


def digests(root: Path) -> dict[str, str]:
    """Return a digest of each file below a folder, and the targets of links."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def refused_unchanged(data: Path, *arguments: str) -> str:
    """Check that a dump is refused in one line, and changes no file; return the line."""
    root = data.parent.parent
    before = digests(root)
    said = refused(data, *arguments)
    assert digests(root) == before
    return said


def place_recording(data: Path, name: str) -> None:
    """Make an archive of recordings under a name that the dump will write, and list its entries."""
    target = data / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with io_ark.writer(f"ark,scp:{target},{data}/new.scp") as writer:
        for i in range(3):
            writer[f"spk0-utt{i:03d}"] = io_ark.Wave(16000.0, audio(3000, i))
    (data / "new.scp").replace(data / "wav.scp")


def link_to_recording(data: Path, name: str) -> None:
    target = data / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(data / "wav" / "spk0-utt001.wav")


def hard_link_to_recording(data: Path, name: str) -> None:
    target = data / name
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(data / "wav" / "spk0-utt001.wav", target)


WRITTEN = (
    "data/raw_fbank_train.1.ark",
    "data/raw_fbank_train.2.scp",
    "data/cmvn_train.ark",
    "data/cmvn_train.scp",
    "log/dump_fbank_train.plan.jsonl",
    "log/dump_fbank_train.lock",
    "log/dump_fbank_train.2.log",
    "log/dump_fbank_train.1.json",
    "log/dump_fbank_train.1.utt2dur",
    "log/dump_fbank_train.2.utt2num_frames",
    "log/dump_fbank_train.failures",
    "feats.scp",
    ".backup/feats.scp",
    "utt2dur",
    "utt2num_frames",
    "frame_shift",
    "cmvn.scp",
    "cmvn.ark",
    "conf/fbank.conf",
    "feats.tar",
)


@pytest.mark.parametrize("place", [place_recording, link_to_recording, hard_link_to_recording])
@pytest.mark.parametrize("name", WRITTEN)
def test_recording_is_not_overwritten(data: Path, name: str, place: Callable[[Path, str], None]) -> None:
    place(data, name)
    said = refused_unchanged(data, "--shard-utterances=2", "--cmvn=speaker,global", "--format=webdataset")
    assert f"{data / name}: {READ_AS_WELL}" in said


def test_recording_on_a_late_line_is_not_overwritten(tmp_path: Path) -> None:
    data = make_data(tmp_path, 1, samples=(2000,))
    source = data / "wav" / "spk0-utt000.wav"
    for i in range(1200):
        os.link(source, data / "wav" / f"{i}.wav")
    write_wav(data / "wav" / "last.wav", audio(2000, 9))
    lines = [f"utt{i:04d}\t{data}/wav/{i}.wav\n" for i in range(1200)] + [f"utt9999 {data}/wav/last.wav\n"]
    (data / "wav.scp").write_text("".join(lines))
    (data / "utt2spk").unlink()
    (data / "data").mkdir()
    os.link(data / "wav" / "last.wav", data / "data" / "raw_fbank_train.1.ark")
    assert f"raw_fbank_train.1.ark: {READ_AS_WELL}" in refused_unchanged(data)


def test_recording_behind_a_change_of_speed_is_not_overwritten(data: Path) -> None:
    with edited(data / "wav.scp") as places:
        places.update({key: f"sox -t wav {path} -t wav - speed 0.9 |" for key, path in places.items()})
    link_to_recording(data, "data/raw_fbank_train.1.ark")
    assert f"raw_fbank_train.1.ark: {READ_AS_WELL}" in refused_unchanged(data)


@pytest.mark.parametrize("option", ["--resume", "--retry-failed", "--shard=1/2"])
def test_link_that_was_made_after_the_plan_is_seen(data: Path, option: str) -> None:
    part = "--shard-utterances=2"
    assert dump(data, part, *(["--shard=2/2"] if "shard" in option else [])) == 0
    (data / "data" / "raw_fbank_train.1.ark").unlink(missing_ok=True)
    link_to_recording(data, "data/raw_fbank_train.1.ark")
    assert f"raw_fbank_train.1.ark: {READ_AS_WELL}" in refused_unchanged(data, part, option)


def test_a_second_dump_is_not_refused_for_the_files_of_the_first(data: Path) -> None:
    arguments = ("--cmvn=speaker,global", "--format=npy", f"--report={data}/page.html")
    for more in ((), (), ("--resume",), ("--shard=1/1",)):
        assert dump(data, *arguments, *more) == 0
    assert len(matrices(data / "feats.scp")) == 3 and len(list((data / "feats").iterdir())) == 3


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != ".backup/feats.scp"])
@pytest.mark.parametrize("is_there", [False, True])
def test_report_that_is_another_output_is_refused(data: Path, name: str, is_there: bool) -> None:
    arguments = ("--shard-utterances=2", "--cmvn=speaker,global", "--format=webdataset")
    if is_there:
        assert dump(data, *arguments) == 0
    page = data.parent / "page.html"
    page.symlink_to(data / name)
    said = refused_unchanged(data, *arguments, f"--report={page}")
    if (data / name).parent.is_dir():
        assert TWICE in said or READ_AS_WELL in said


def dump_of(data: Path, module: str, *arguments: str) -> tuple[int, str]:
    with redirect_stderr(io.StringIO()) as said:
        status = main(["dump", f"--module={module}", str(data), *arguments])
    return status, said.getvalue()


@pytest.mark.parametrize(
    "one, other, options, name",
    [
        ("emb", "spk_emb", ["--per-speaker"], "spk_emb.scp"),
        ("data", "emb", ["--format=npy"], "data"),
        ("log", "emb", ["--format=npy"], "log"),
        ("wav", "emb", ["--format=npy", "--no-compress"], "wav"),
    ],
)
def test_outputs_of_a_module_that_would_replace_a_file_are_refused(
    data: Path, one: str, other: str, options: list[str], name: str
) -> None:
    (data.parent / "m.py").write_text(TWO_VECTORS.format(one, other))
    before = digests(data)
    status, said = dump_of(data, f"{data.parent}/m.py:emb", *options)
    assert status == 255 and name in said.splitlines()[-1]
    assert digests(data) == before and not (data / "log").exists()


def test_foreign_files_in_the_folder_of_arrays_are_refused_before_the_work(data: Path) -> None:
    (data / "feats").mkdir()
    (data / "feats" / "notes.txt").write_text("mine")
    assert "holds notes.txt, which a dump does not write" in refused_unchanged(data, "--format=npy")


def test_foreign_array_in_the_folder_of_arrays_stays_and_the_status_says_so(data: Path) -> None:
    assert dump(data, "--format=npy") == 0
    np.save(data / "feats" / "mine.npy", np.ones(3))
    before = digests(data / "feats")
    said = said_by(data, "--format=npy", status=255)
    assert "contains mine.npy, which is not an entry of the source" in said
    assert f"{data / 'feats'}/ is not complete" in said.splitlines()[-1]
    assert digests(data / "feats") == before and len(matrices(data / "feats.scp")) == 3


def test_interrupted_conversion_ends_the_dump(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("io_ark.cli.convert.show_progress", interrupted)
    page = data.parent / "page.html"
    assert "interrupted" in said_by(data, "--format=npy", f"--report={page}", status=130)
    assert not page.exists() and not (data / "feats").exists() and not list(data.rglob("*unfinished*"))


def test_links_in_the_folder_of_arrays_are_replaced(data: Path) -> None:
    assert dump(data, "--format=npy") == 0
    array = data / "feats" / "spk0-utt001.npy"
    expected = array.read_bytes()
    array.unlink()
    (data.parent / "mine.npy").write_bytes(b"mine")
    array.symlink_to(data.parent / "mine.npy")
    assert dump(data, "--format=npy") == 0
    assert array.read_bytes() == expected and not array.is_symlink()
    assert (data.parent / "mine.npy").read_bytes() == b"mine"


def test_logs_of_other_dumps_in_the_same_folder_stay(data: Path, tmp_path: Path) -> None:
    mine = [
        tmp_path / "log" / f"dump_fbank_train.{name}" for name in ("x.1.json", "notes.log", "1.2.json", "y.failures")
    ]
    mine[0].parent.mkdir()
    for path in mine:
        path.write_text("mine")
    for _ in range(2):
        assert main(["dump", "fbank", str(data), str(tmp_path / "log"), str(tmp_path / "ark"), "--dither=0"]) == 0
    assert [path.read_text() for path in mine] == ["mine"] * 4


def test_new_dump_removes_the_traces_of_its_archives_and_nothing_else(data: Path) -> None:
    log = data / "log"
    log.mkdir()
    ours = {"7.json", "7.log", "7.utt2dur", "7.utt2num_frames", "12.json"}
    others = {"7.json.bak", "failures.mine", "7.logs", "7.utt2spk", "x.json", "json", "8.json"}
    for name in ours | others - {"8.json"}:
        (log / f"dump_fbank_train.{name}").write_text("mine")
        (log / f"x.dump_fbank_train.{name}").write_text("mine")
    (log / "dump_fbank_train.8.json").mkdir()
    (log / "dump_fbank_train.failures").write_text("old")
    assert dump(data) == 0
    left = {path.name.removeprefix("dump_fbank_train.") for path in log.iterdir()}
    assert not left & ours and left >= others
    assert left >= {f"x.dump_fbank_train.{name}" for name in ours}
    assert (log / "dump_fbank_train.failures").read_text() == ""


def test_what_killed_dumps_left_on_other_disks_is_removed(data: Path) -> None:
    from tests.support.dump_data import left_by_a_dead_process

    for number in "12":
        (data / "data" / "storage" / number).mkdir(parents=True)
        left_by_a_dead_process(data / "data" / "storage" / number / "raw_fbank_train.77.ark").write_text("half")
    assert "removed 2 unfinished files" in said_by(data)
    assert not list(data.rglob("*unfinished*"))


def test_file_in_place_of_the_folder_of_arrays_is_refused_before_the_work(data: Path) -> None:
    (data / "feats").write_text("mine")
    assert "feats is not a folder: move it out of the way" in refused_unchanged(data, "--format=npy")


@pytest.mark.parametrize("kind", ["folder", "link to a folder"])
def test_folder_with_the_name_of_an_array_is_refused_before_the_work(data: Path, kind: str) -> None:
    (data / "feats").mkdir()
    (data.parent / "mine").mkdir()
    (data.parent / "mine" / "notes").write_text("mine")
    if kind == "folder":
        (data / "feats" / "spk0-utt000.npy").mkdir()
        assert "holds spk0-utt000.npy, which a dump does not write" in refused_unchanged(data, "--format=npy")
    else:
        (data / "feats" / "spk0-utt000.npy").symlink_to(data.parent / "mine")
        assert dump(data, "--format=npy") == 0
        assert (data.parent / "mine" / "notes").read_text() == "mine"
        assert (data / "feats" / "spk0-utt000.npy").is_file()


@pytest.mark.parametrize(("levels", "name"), [("speaker", "cmvn.scp"), ("global", "cmvn.ark")])
def test_statistics_of_one_level_are_compared_with_what_is_read(data: Path, levels: str, name: str) -> None:
    link_to_recording(data, name)
    assert f"{data / name}: {READ_AS_WELL}" in refused_unchanged(data, f"--cmvn={levels}")
    other = "global" if levels == "speaker" else "speaker"
    assert dump(data, f"--cmvn={other}") == 0 and (data / name).is_symlink()


def test_configuration_behind_a_link_is_not_overwritten(data: Path) -> None:
    conf, link = data / "conf" / "fbank.conf", data.parent / "link.conf"
    conf.parent.mkdir()
    conf.write_text("--dither=0\n")
    link.symlink_to(conf)
    with redirect_stderr(io.StringIO()) as said:
        assert main(["dump", "fbank", str(data), f"--conf={link}", "--num-mel-bins=40", "--nj=1"]) == 0
    assert f"{conf} was read, so it is not replaced" in said.getvalue() and conf.read_text() == "--dither=0\n"


def test_a_first_dump_looks_at_no_recording(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    stat = os.stat

    def watch(path: object, **options: object) -> os.stat_result:
        looked_at.append(os.fsdecode(path) if isinstance(path, str | bytes) else str(path))
        return stat(path, **options)  # type: ignore[arg-type]

    from kaldi_compat.dump import outputs
    from kaldi_compat.dump.plan import make_plan
    from tests.support.dump_data import job_of

    job = job_of(data)
    plan = make_plan(job)
    monkeypatch.setattr(os, "stat", watch)
    outputs.check_outputs(job, plan)
    assert not [path for path in looked_at if path.endswith(".wav")]


def test_what_killed_dumps_left_is_removed_and_named(data: Path) -> None:
    from tests.support.dump_data import left_by_a_dead_process

    assert dump(data, "--format=npy") == 0
    left_by_a_dead_process(data / "frame_shift").touch()
    disk, shared = data.parent / "disk", data.parent / "shared"
    for place, name in ((disk, "feats"), (shared, "wav.scp")):
        place.mkdir()
        (data / name).rename(place / name)
        (data / name).symlink_to(place / name)
    folder, foreign = left_by_a_dead_process(disk / "feats"), left_by_a_dead_process(shared / "wav.scp")
    folder.mkdir()
    (folder / "a.npy").touch()
    foreign.touch()
    assert "removed 2 unfinished files that killed dumps left" in said_by(data, "--format=npy")
    assert list(data.parent.rglob("*unfinished*")) == [foreign]


@pytest.mark.parametrize("name", ["data/train/spk2utt", "data/train/utt2spk", "data/train/text", "helper_of_report.py"])
def test_report_in_place_of_another_file_of_the_user_is_refused(
    data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = data.parent.parent
    monkeypatch.chdir(root)
    monkeypatch.delitem(sys.modules, "helper_of_report", raising=False)
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for other in ("text", "spk2utt"):
        (data / other).write_text("spk0-utt000 spk0-utt000\n")
    (root / "helper_of_report.py").write_text("def scaled(x):\n    return x[:4] / 2\n")
    (root / "custom.py").write_text(
        "import helper_of_report\n\n\ndef f(audio):\n    return [helper_of_report.scaled(x) for x in audio]\n"
    )
    before = digests(root)
    status, said = dump_of(data, "custom.py:f", f"--report={root / name}")
    assert status == 255 and f"{Path(name).name}: {READ_AS_WELL}" in said
    assert digests(root) == before


@pytest.mark.parametrize("is_written", [True, False])
def test_outputs_are_the_files_that_the_options_choose(tmp_path: Path, is_written: bool) -> None:
    options = {"write_utt2num_frames": is_written, "write_utt2dur": is_written, "cmvn": "global" if is_written else ""}
    job = job_of(make_data(tmp_path), **options)
    names = {path.name for path in list_outputs_in_data(job, make_plan(job))}
    assert {"feats.scp", "frame_shift", "fbank.conf"} <= names
    assert names & {"utt2num_frames", "utt2dur", "cmvn.ark"} == (
        {"utt2num_frames", "utt2dur", "cmvn.ark"} if is_written else set()
    )


@pytest.mark.parametrize(("options", "names"), [
    ({}, set()),
    ({"per_speaker": True}, {"spk_emb.scp", "spk_emb_train.ark", "spk_emb_train.scp"}),
    ({"format": "webdataset"}, {"emb.tar"}),
    ({"format": "safetensors"}, {"emb.safetensors"}),
    ({"format": "npy"}, set()),
])  # fmt: skip
def test_outputs_of_vectors_are_those_of_the_options_without_counts_of_frames(
    tmp_path: Path, options: dict[str, str | bool], names: set[str]
) -> None:
    job = job_of(make_data(tmp_path), write_utt2num_frames=True, write_utt2dur=False, **options)
    plan = make_plan(job)
    plan = replace(plan, settings=plan.settings | {"trial": asdict(Trial({"emb": ("vector", 4)}))})
    listed = {path.name for path in list_outputs_in_data(job, plan)}
    assert listed == {"emb.scp", "frame_shift", "fbank.conf"} | names
