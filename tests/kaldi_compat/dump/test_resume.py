"""Resuming verifies the archives that it keeps, and computes damaged and missing ones again, and no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kaldi_compat.dump import cli as command
from kaldi_compat.dump.files import read_sealed_file, write_sealed_file
from kaldi_compat.dump.options import Layout
from kaldi_compat.dump.write import DamagedError, read_manifest, verify_manifest
from tests.support.dump_data import archive_bytes, audio, dump, make_data, refused, results, said_by, write_wav

OPTIONS = ("--cmvn=speaker,global", "--shard-utterances=2")
FILES = {
    "archive": "data/raw_fbank_train.2.ark",
    "script": "data/raw_fbank_train.2.scp",
    "manifest": "log/dump_fbank_train.2.json",
    "plan": "log/dump_fbank_train.plan.jsonl",
    "feats.scp": "feats.scp",
    "utt2dur": "utt2dur",
    "cmvn": "data/cmvn_train.ark",
}


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 1
    path.write_bytes(content)


def change_digit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = max(i for i, byte in enumerate(content[: 2 * len(content) // 3]) if byte in b"012345678")
    content[place] += 1
    path.write_bytes(content)


def replace_by_neighbour(path: Path) -> None:
    other = path.with_name(path.name.replace(".2.", ".3."))
    path.write_bytes(other.read_bytes() if other != path else b"x 1\n")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit flipped": flip_bit,
    "a digit changed": change_digit,
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": lambda path: path.unlink(),
    "with more at its end": lambda path: path.write_bytes(path.read_bytes() + b"more 1\n"),
    "replaced by its neighbour": replace_by_neighbour,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data directory after a dump, and a copy of it to restore it from."""
    data = make_data(tmp_path_factory.mktemp("resume"), 6, samples=(2000, 3000))
    assert dump(data, *OPTIONS) == 0
    copy = data.parent / "copy"
    shutil.copytree(data, copy)
    return data, copy


@pytest.fixture
def data(whole: tuple[Path, Path]) -> Path:
    shutil.rmtree(whole[0])
    shutil.copytree(whole[1], whole[0])
    return whole[0]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_damage_is_repaired_or_refused(
    data: Path, whole: tuple[Path, Path], file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage](data / FILES[file])
    status = dump(data, *OPTIONS, "--resume")
    if file == "plan" and status == 255:
        said = capsys.readouterr().err
        assert "plan" in said and "internal" not in said and len(said.splitlines()) == 1
    else:
        assert status == 0
        assert results(data) == results(whole[1])


@pytest.mark.parametrize("file", ["archive", "script", "manifest"])
def test_damage_costs_one_archive(data: Path, file: str) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in (data / "data").glob("raw_*.ark")}
    DAMAGES["a digit changed"](data / FILES[file])
    assert f"archive 2 is created again: {data / FILES[file]} " in said_by(data, *OPTIONS, "--resume")
    changed = [path.name for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp]
    assert changed == ["raw_fbank_train.2.ark"]


def test_verification_can_be_switched_off(data: Path) -> None:
    archive = data / FILES["archive"]
    flip_bit(archive)
    damaged = archive.read_bytes()
    assert dump(data, *OPTIONS, "--resume", "--no-verify") == 0
    assert archive.read_bytes() == damaged
    archive.write_bytes(damaged[:-1])  # sizes are compared in either case
    assert dump(data, *OPTIONS, "--resume", "--no-verify") == 0
    assert archive.read_bytes() != damaged and len(archive.read_bytes()) == len(damaged)


@pytest.mark.parametrize("directory", ["data", "log"])
def test_deleted_directory_is_made_again(data: Path, whole: tuple[Path, Path], directory: str) -> None:
    shutil.rmtree(data / directory)
    assert dump(data, *OPTIONS, "--resume") == 0
    assert results(data) == results(whole[1])


def test_deleted_directory_on_storage_disks_is_linked_again(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(2000,))
    for disk in ("1", "2"):
        (data / "data" / "storage" / disk).mkdir(parents=True)
    assert dump(data, "--shard-utterances=1") == 0
    before = archive_bytes(data)
    archive = data / "data" / "raw_fbank_train.3.ark"
    link = archive.readlink()
    archive.unlink()
    assert dump(data, "--shard-utterances=1", "--resume") == 0
    assert archive.readlink() == link and archive_bytes(data) == before


def test_resume_without_a_plan_starts(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2, samples=(2000,))
    assert "nothing to resume" in said_by(data, "--resume")
    assert (data / "feats.scp").exists()


@pytest.mark.parametrize(
    "plan",
    [
        b"",
        b"[]",
        b"null\n",
        b"3\n",
        b'{"listing": 5, "archives": 1, "version": 1}\n{"number": 1, "start": "a", "stop": [], "count": null}\n',
        b'{"listing": "wav.scp", "archives": 0, "version": 1}\n',
        b"[" * 100_000,
        b'{"listing": "wav.scp"\xff}',
        b"\0" * 1000,
        b'{"archives": 1e999, "listing": "../../x", "version": {}}\n',
    ],
    ids=["empty", "list", "null", "number", "types", "no options", "deep", "bytes", "zeros", "huge"],
)
def test_odd_plan_is_refused_in_one_line(data: Path, plan: bytes) -> None:
    (data / FILES["plan"]).write_bytes(plan)
    said = refused(data, *OPTIONS, "--resume")
    assert str(data / FILES["plan"]) in said and "delete the plan and start again" in said


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"shard": "x", "size": "y", "checksum": [], "utterances": 5, "failures": 3, "work": null}',
        b'{"shard": 2, "utterances": [[1, 2]], "failures": [[]]}',
        b"\xff\xfe",
    ],
)
def test_odd_manifest_costs_its_archive(data: Path, whole: tuple[Path, Path], manifest: bytes) -> None:
    (data / FILES["manifest"]).write_bytes(manifest)
    assert dump(data, *OPTIONS, "--resume") == 0
    assert results(data) == results(whole[1])


def test_manifest_of_another_archive_is_not_taken(tmp_path: Path) -> None:
    """Not even if its files have the same sizes, and checksums are not compared."""
    data = make_data(tmp_path, 2, samples=(2000,))
    write_wav(data / "wav" / "spk0-utt001.wav", audio(2000, 1))
    write_wav(data / "wav" / "spk0-utt000.wav", audio(2000, 0))
    assert dump(data, "--shard-utterances=1") == 0
    layout = Layout.from_paths(data, "fbank")
    first, second = read_manifest(layout, 1), read_manifest(layout, 2)
    assert first and second and [size for size, _ in first.files.values()] == [s for s, _ in second.files.values()]
    layout.get_manifest(2).write_bytes(layout.get_manifest(1).read_bytes())
    assert read_manifest(layout, 2) is None


def test_job_without_all_its_archives_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without file locks another dump may take archives away while this one runs."""
    data = make_data(tmp_path, 4, samples=(2000,))
    runner = command._choose_runner

    def disturbed(job: object) -> object:
        def run(*arguments: object) -> None:
            runner(job)(*arguments)  # type: ignore[arg-type]
            (data / "log" / "dump_fbank_train.2.json").unlink()

        return run

    monkeypatch.setattr(command, "_choose_runner", disturbed)
    for arguments in (["--shard-utterances=2"], ["--shard=1/1", "--resume"]):
        assert "archive 2 is not complete" in said_by(data, *arguments, status=255)
        assert not (data / "feats.scp").exists()


def with_bad_utterances(root: Path) -> Path:
    """Six utterances in three archives; one in the second archive has 48 kHz, and one in the third lacks its file."""
    data = make_data(root, 6, samples=(3000,))
    write_wav(data / "wav" / "spk1-utt003.wav", audio(9000, 3), rate=48000)
    (data / "wav" / "spk1-utt005.wav").rename(data / "late.wav")
    return data


def test_failed_utterances_are_tried_again_on_request(tmp_path: Path) -> None:
    data = with_bad_utterances(tmp_path)
    assert dump(data, "--shard-utterances=2") == 1
    stamps = {path: path.stat().st_mtime_ns for path in sorted((data / "data").glob("*.ark"))}
    (data / "late.wav").rename(data / "wav" / "spk1-utt005.wav")
    assert dump(data, "--shard-utterances=2", "--resume") == 1
    assert len((data / "feats.scp").read_text().splitlines()) == 4
    assert dump(data, "--shard-utterances=2", "--retry-failed") == 1
    assert len((data / "feats.scp").read_text().splitlines()) == 5
    assert [path.stat().st_mtime_ns == stamp for path, stamp in stamps.items()] == [True, False, False]


def test_option_that_mends_failures_makes_their_archives_again(tmp_path: Path) -> None:
    data = with_bad_utterances(tmp_path)
    assert dump(data, "--shard-utterances=2") == 1
    stamps = {path: path.stat().st_mtime_ns for path in sorted((data / "data").glob("*.ark"))}
    said = refused(data, "--resume", "--allow-downsample=true")
    assert "allow-downsample changed" in said and "failed utterances (2, 3) would be created again" in said
    assert "--retry-failed" in said
    assert dump(data, "--retry-failed", "--allow-downsample=true") == 1
    assert len((data / "feats.scp").read_text().splitlines()) == 5
    assert [path.stat().st_mtime_ns == stamp for path, stamp in stamps.items()] == [True, False, False]
    assert dump(data, "--resume", "--allow-downsample=true") == 1


def test_shorter_minimum_duration_mends_failures_and_a_longer_one_changes_all(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(3000, 3000, 3000, 1500))
    assert dump(data, "--shard-utterances=2", "--min-duration=0.15") == 1
    said = refused(data, "--resume", "--min-duration=0.1")
    assert "min-duration changed" in said and "archives with failed utterances (2) would be created again" in said
    assert "every archive would" in refused(data, "--resume", "--min-duration=0.2")
    stamp = (data / "data" / "raw_fbank_train.1.ark").stat().st_mtime_ns
    assert dump(data, "--retry-failed", "--min-duration=0.05") == 0
    assert len((data / "feats.scp").read_text().splitlines()) == 4
    assert (data / "data" / "raw_fbank_train.1.ark").stat().st_mtime_ns == stamp


def test_option_that_changes_all_features_names_all_archives(tmp_path: Path) -> None:
    data = with_bad_utterances(tmp_path)
    assert dump(data, "--shard-utterances=2") == 1
    for switch in ("--resume", "--retry-failed"):
        said = refused(data, switch, "--num-mel-bins=40")
        assert "num-mel-bins changed" in said and "every archive would be created again" in said
        assert "start again without" in said


def test_statistics_asked_for_later_are_made_of_the_archives_that_are_there(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(2000,))
    assert dump(data, "--shard-utterances=2") == 0
    before = archive_bytes(data)
    said = said_by(data, "--shard-utterances=2", "--resume", "--cmvn=speaker")
    assert "nothing was left to compute" in said and archive_bytes(data).items() >= before.items()
    assert (data / "cmvn.scp").exists()


def test_plan_and_manifests_are_lines_of_json(data: Path) -> None:
    for name in (FILES["plan"], FILES["manifest"]):
        assert all(json.loads(line) for line in (data / name).read_text().splitlines())


@pytest.mark.parametrize("name", ["archive", "script", "utt2num_frames", "utt2dur"])
def test_manifest_that_lacks_a_file_is_damaged(data: Path, name: str) -> None:
    layout = Layout.from_paths(data, "fbank")
    (manifest,) = read_sealed_file(layout.get_manifest(2))
    write_sealed_file(layout.get_manifest(2), [manifest])
    assert read_manifest(layout, 2)
    del manifest["files"][name]
    write_sealed_file(layout.get_manifest(2), [manifest])
    with pytest.raises(DamagedError, match=r"\.2\.json is damaged"):
        verify_manifest(layout, 2)
    assert read_manifest(layout, 2) is None


def test_part_recreates_only_its_own_archives_with_failures(tmp_path: Path) -> None:
    data = with_bad_utterances(tmp_path)
    assert dump(data, "--shard-utterances=2") == 1
    stamps = {path: path.stat().st_mtime_ns for path in sorted((data / "data").glob("*.ark"))}
    (data / "late.wav").rename(data / "wav" / "spk1-utt005.wav")
    said = said_by(data, "--shard=3/3", "--retry-failed", status=1)
    assert "archive 3 is created again" in said and "archive 2 is created again" not in said
    assert [path.stat().st_mtime_ns == stamp for path, stamp in stamps.items()] == [True, True, False]
    assert len((data / "feats.scp").read_text().splitlines()) == 5
