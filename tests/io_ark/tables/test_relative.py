"""Relative names in a script file are found from any folder."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.errors import ArkError, SpecifierError
from io_ark.tables.loader import folder_of, in_folder


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script file with relative names, which is not in the current folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with io_ark.Writer("ark,scp:feats.ark,feats.scp", kind="matrix") as writer:
        writer["utt1"] = np.arange(20, dtype=np.float32).reshape(10, 2)
    location = Path("feats.scp").read_text().split()[1]
    Path("feats.scp").write_text(
        f"utt1 {location}\nrange {location}[2:3]\nwhole {folder}/{location}\ncommand cat {folder}/feats.ark |\n"
        f"up ../data/{location}\n"
    )
    monkeypatch.chdir(tmp_path)
    return folder / "feats.scp"


@pytest.mark.parametrize("name", ["data/feats.scp", Path("data/feats.scp")])
def test_load_scp_reads_names_relative_to_the_script(script: Path, name: str | Path) -> None:
    with pytest.raises(ArkError, match=r"feats\.ark"):
        io_ark.load_scp(name)["utt1"]
    table = io_ark.load_scp(name, kind="matrix", relative_to="script")
    assert table["utt1"].tolist() == [[2.0 * i, 2.0 * i + 1] for i in range(10)]
    assert table["range"].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert table["whole"].shape == table["up"].shape == (10, 2)


def test_a_mapping_keeps_the_folder_when_it_is_pickled_and_the_current_folder_changes(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(io_ark.load_scp("data/feats.scp", relative_to="script"))
    monkeypatch.chdir("/")
    assert pickle.loads(data)["utt1"].shape == (10, 2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.ark", "/data/a.ark"),
        ("b/a.ark:12[0:9,1:2]", "/data/b/a.ark:12[0:9,1:2]"),
        ("/b/a.ark:12", "/b/a.ark:12"),
        ("s3://bucket/a.ark:12[0:9]", "s3://bucket/a.ark:12[0:9]"),
        ("gunzip -c a.gz |", "gunzip -c a.gz |"),
        ("gunzip -c a.gz |[0:9]", "gunzip -c a.gz |[0:9]"),
        ("-", "-"),
    ],
)
def test_only_relative_file_names_get_the_folder(name: str, expected: str) -> None:
    assert in_folder(name, "/data") == expected


def test_a_script_at_a_url_names_archives_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IO_ARK_SCHEMES", "memory")
    files = pytest.importorskip("fsspec").filesystem("memory")
    with io_ark.Writer("ark,scp:memory://train/feats.ark,memory://train/feats.scp", kind="matrix") as writer:
        writer["utt1"] = np.ones((3, 2), np.float32)
    files.pipe("/train/feats.scp", files.cat("/train/feats.scp").replace(b"memory://train/", b""))
    assert io_ark.load_scp("memory://train/feats.scp", relative_to="script")["utt1"].shape == (3, 2)
    files.rm("/train", recursive=True)


@pytest.mark.parametrize("name", ["cat feats.scp |", "-"])
def test_a_script_without_a_folder_is_refused(name: str) -> None:
    with pytest.raises(SpecifierError, match="relative_to='script' needs the name of a file"):
        io_ark.load_scp(name, relative_to="script")


def test_another_anchor_is_refused() -> None:
    with pytest.raises(SpecifierError, match="pass 'script'"):
        folder_of("feats.scp", "here")  # type: ignore[arg-type]
