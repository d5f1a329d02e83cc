"""Output files: whole or not at all, and never a rename over what is not a regular file."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaldi_compat.dump.errors import OutputError, format_error
from kaldi_compat.dump.files import WholeFile, check_writable, open_whole_file
from kaldi_compat.dump.model import Trial
from kaldi_compat.dump.options import Layout
from kaldi_compat.dump.write import ArchiveWriter
from tests.support.dump_data import dump, failures, left_by_a_dead_process, make_data, matrices, refused, said_by


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 3, samples=(3000,))


class FifoReader:
    """Reads a FIFO until its writer closes it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.content = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self.content = self.path.read_bytes()

    def finish(self) -> bytes:
        """Return what was written; nothing if nobody wrote."""
        self._thread.join(5)
        return self.content


@pytest.mark.parametrize("through_link", [False, True])
def test_report_into_a_fifo_does_not_replace_it(data: Path, tmp_path: Path, through_link: bool) -> None:
    fifo, page = tmp_path / "fifo", tmp_path / "page.html"
    reader = FifoReader(fifo)
    if through_link:
        page.symlink_to(fifo)
    assert dump(data, f"--report={page if through_link else fifo}") == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert reader.finish().startswith(b"<!DOCTYPE html>")


def test_tables_into_a_fifo_do_not_replace_it(data: Path, tmp_path: Path) -> None:
    assert dump(data) == 0
    expected = (data / "utt2dur").read_bytes()
    (data / "utt2dur").unlink()
    reader = FifoReader(data / "utt2dur")
    assert dump(data, "--resume") == 0
    assert stat.S_ISFIFO((data / "utt2dur").stat().st_mode)
    assert reader.finish() == expected


def test_archive_that_would_replace_a_fifo_is_refused(data: Path) -> None:
    (data / "data").mkdir()
    archive = data / "data" / "raw_fbank_train.1.ark"
    os.mkfifo(archive)
    assert f"{archive} is not a regular file" in said_by(data, status=255)
    assert stat.S_ISFIFO(archive.stat().st_mode)


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_link_in_the_data_directory_is_replaced_and_its_target_keeps_its_content(
    data: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    names = ["utt2dur", "utt2num_frames", "frame_shift", "cmvn.scp", "cmvn.ark", "feats.scp", "feats.tar"]
    names += ["conf/fbank.conf", "log/dump_fbank_train.1.json", "log/dump_fbank_train.failures"]
    names += ["log/dump_fbank_train.1.utt2dur"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    arguments = ("--cmvn=speaker,global", "--format=webdataset")
    assert dump(data, *arguments) == 0
    (data / "data" / "raw_fbank_train.1.ark").unlink()  # so that it is made again
    for name in names:
        (elsewhere / Path(name).name).write_text("mine\n")
        (data / name).unlink(missing_ok=True)
        (data / name).symlink_to(elsewhere / Path(name).name)
    assert dump(data, *arguments, *options) == 0
    assert {path.read_text() for path in elsewhere.iterdir()} == {"mine\n"}
    assert not [name for name in names if (data / name).is_symlink()]
    assert len(matrices(data / "feats.scp")) == 3


def test_report_is_written_through_a_link(data: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "site.html")
    assert dump(data, f"--report={tmp_path}/page.html") == 0
    assert (tmp_path / "page.html").is_symlink() and (tmp_path / "site.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("ending", ["ark", "scp"])
def test_archive_that_is_a_link_to_another_file_is_refused(data: Path, tmp_path: Path, ending: str) -> None:
    (data / "data").mkdir()
    (tmp_path / "thesis.txt").write_text("mine")
    archive = data / "data" / f"raw_fbank_train.1.{ending}"
    archive.symlink_to(tmp_path / "thesis.txt")
    assert f"{archive} is a link to {tmp_path}/thesis.txt, which would be replaced" in refused(data)
    assert (tmp_path / "thesis.txt").read_text() == "mine" and not (data / "log").exists()


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A directory in /dev/shm, where a file is a file like others."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is not there")
    directory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


def test_memory_is_a_place_for_files(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(in_memory, 3, samples=(3000,))
    page = in_memory / "page.html"
    page.write_text("old")
    renamed: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (renamed.append(str(target)), replace(source, target)))
    assert dump(data, f"--report={page}", "--cmvn=speaker,global") == 0
    assert len(matrices(data / "feats.scp")) == 3 and page.read_text().startswith("<!DOCTYPE html>")
    for path in (page, data / "data" / "raw_fbank_train.1.ark", data / "feats.scp", data / "cmvn.ark"):
        assert str(path) in renamed, "written in place, so a kill would leave half of it"


@pytest.mark.parametrize("what", ["directory", "link"])
@pytest.mark.parametrize("ending", ["ark", "scp"])
def test_archive_that_cannot_be_replaced_is_explained(data: Path, what: str, ending: str) -> None:
    assert dump(data) == 0
    archive = data / "data" / f"raw_fbank_train.1.{ending}"
    archive.unlink()
    if what == "directory":
        archive.mkdir()
    else:
        archive.symlink_to("/nowhere/at/all/1.ark")
    said = said_by(data, "--resume", status=255).splitlines()[-1]
    advice = {"directory": "is a directory: move it out of the way", "link": "create it, or delete the link"}
    assert str(archive) in said and said.endswith(advice[what])


@pytest.mark.parametrize("ending", ["ark", "scp"])
def test_writer_of_an_archive_checks_its_places_on_its_own_machine(data: Path, ending: str) -> None:
    layout = Layout.from_paths(data, "fbank")
    layout.archives.mkdir()
    layout.log.mkdir()
    place = layout.archives / f"raw_fbank_train.1.{ending}"
    place.symlink_to("/nowhere/at/all/1.ark")
    with pytest.raises(OutputError, match="but /nowhere/at/all does not exist: create it, or delete the link"):
        ArchiveWriter(layout, 1, Trial())


@pytest.mark.parametrize("arguments", [(), ("--resume",), ("--shard=1/1",)])
def test_what_killed_dumps_left_is_removed(data: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    page = tmp_path / "page.html"
    assert dump(data, "--cmvn=speaker,global", f"--report={page}") == 0
    files = [
        page,
        *(path for path in data.rglob("*") if path.is_file() and path.parent.name in ("train", "log", "data", "conf")),
    ]
    written = [path for path in files if path.name not in ("wav.scp", "utt2spk", "dump_fbank_train.lock")]
    for path in [*written, data / "data" / "raw_fbank_train.77.ark"]:
        left_by_a_dead_process(path).write_text("half")
    assert len(written) > 15
    assert dump(data, "--cmvn=speaker,global", f"--report={page}", *arguments) == 0
    assert not list(tmp_path.rglob("*unfinished*"))


def test_every_file_is_on_the_disk_before_it_gets_its_name(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronized: set[tuple[int, int]] = set()
    renamed: list[str] = []
    fsync, replace = os.fsync, os.replace

    def identity(status: os.stat_result) -> tuple[int, int]:
        return status.st_ino, status.st_size

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synchronized.add(identity(os.fstat(descriptor)))

    def watched_replace(source: Path, target: Path) -> None:
        if Path(source).is_file():
            assert identity(os.stat(source)) in synchronized, f"{target} gets its name before it is on the disk"
            renamed.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    assert dump(data, "--cmvn=speaker,global", "--format=webdataset", f"--report={data}/page.html") == 0
    names = {"raw_fbank_train.1.ark", "raw_fbank_train.1.scp", "feats.scp", "utt2dur", "cmvn.ark", "cmvn_train.ark"}
    names |= {"dump_fbank_train.1.json", "dump_fbank_train.plan.jsonl", "feats.tar", "page.html", "frame_shift"}
    assert names <= set(renamed)


CONTROL = "\x1b[2J\x07\x9b31m"


def test_nothing_that_a_dump_shows_has_control_characters(data: Path, tmp_path: Path) -> None:
    (data / "segments").write_text(
        f"s1 spk0-utt000 0 0.1\ns2 rec{CONTROL} 0 0.1\ns3 lost 0 0.1\ns4 gone 0 0.1\ns\x9b5 lost 0 0.1\n"
    )
    with open(data / "wav.scp", "a") as script:
        script.write(f"lost {tmp_path}/a{CONTROL}.wav\ngone echo {CONTROL} |\n")
    (data / "utt2spk").unlink()
    (tmp_path / "conf" / "fbank.conf").write_text(f"--dither=0\n# {CONTROL}\n")
    page = tmp_path / "page.html"
    said = said_by(data, f"--report={page}", status=1)
    logs = [path.read_text() for path in (data / "log").iterdir() if path.suffix in (".log", ".failures")]
    assert len(logs) == 2 and "rec\\x1b[2J" in logs[0] + logs[1] and "s\\x9b5 " in failures(data)
    for text in (said, page.read_text(), *logs):
        assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
def test_nothing_is_left_of_a_file_whatever_ends_its_writing(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises(error), open_whole_file(tmp_path / "f") as file:
        file.write(b"half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["f"] and (tmp_path / "f").read_text() == "old"


def test_finished_file_is_closed_and_has_its_size_and_checksum(tmp_path: Path) -> None:
    file = WholeFile(tmp_path / "f")
    file.write(b"a")
    file.write(memoryview(b"bc"))
    assert file.tell() == 3 and file.finish() == (3, zlib.crc32(b"abc"))
    assert file._file.closed and file.path.read_bytes() == b"abc" and not file.temporary.exists()


def test_device_that_is_not_writable_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(Path("/dev/null"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match=r"^you cannot write to /dev/null"):
        check_writable(Path("/dev/null"))


def test_names_that_are_not_utf_8_keep_their_bytes(tmp_path: Path) -> None:
    """Names of utterances, speakers, files and comments, in every file that a dump writes.

    The dump is another process, because pytest-xdist cannot send output with such names.
    """
    data = make_data(tmp_path, 6, samples=(4000,))
    (data / "wav" / "spk0-utt001.wav").unlink()
    for name in ("wav.scp", "utt2spk"):
        content = (data / name).read_bytes()
        (data / name).write_bytes(re.sub(b"(?<!/)spk0", b"sp\xe9\xff0", content))
    (tmp_path / "conf" / "fbank.conf").write_bytes(b"--dither=0  # \xfc\n")
    program = [sys.executable, "-c", "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"]
    options = ("--cmvn=speaker,global", "--shard-utterances=2", f"--report={tmp_path}/page.html", "--nj=1")
    for more in ((), ("--resume",)):
        line = [*program, "dump", "fbank", str(data), f"--conf={tmp_path}/conf/fbank.conf", *options, *more]
        assert subprocess.run(line, capture_output=True).returncode == 1
        for name, count in (("feats.scp", 5), ("utt2dur", 5), ("utt2num_frames", 5), ("cmvn.scp", 2)):
            keys = [line.split()[0] for line in (data / name).read_bytes().splitlines()]
            assert len(keys) == count and (
                keys[-1] == b"sp\xe9\xff0" if count == 2 else keys[0] == b"sp\xe9\xff0-utt000"
            ), name
        assert (data / "log" / "dump_fbank_train.failures").read_bytes().startswith(b"sp\xe9\xff0-utt001 ")
        assert (data / "conf" / "fbank.conf").read_bytes() == b"--dither=0  # \xfc\n"
    assert len(matrices(data / "feats.scp")) == 5 and b"spk0-utt001" in (tmp_path / "page.html").read_bytes()


def test_error_of_a_renaming_names_the_new_path() -> None:
    assert (
        format_error(OSError(18, "Invalid cross-device link", "old", None, "new")) == "new: Invalid cross-device link"
    )
