"""Output files: whole or not at all, and never a rename over what is not a regular file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.support.dump_data import dump, make_data


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


def test_archive_that_would_replace_a_fifo_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "data").mkdir()
    archive = data / "data" / "raw_fbank_train.1.ark"
    os.mkfifo(archive)
    assert dump(data) == 255
    assert stat.S_ISFIFO(archive.stat().st_mode)
    assert f"{archive} is not a regular file" in capsys.readouterr().err


def test_replaced_link_leads_to_the_new_content(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("old")
    (data / "utt2dur").symlink_to(target)
    assert dump(data) == 0
    assert (data / "utt2dur").is_symlink() and target.read_text().startswith("spk0-utt000 ")
