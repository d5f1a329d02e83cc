"""JSON of users: what has two meanings or no end is refused in one line, in presets and in statistics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.json_file import parse_json, read_regular_file

PRESET, STATISTICS = '{"name": "mine", "feature": "fbank"%s}', '{"mean": [1.0], "std": [2.0]%s}'
Reader = tuple[Callable[[str], Any], str, type[Exception], str]
READERS: list[Reader] = [
    (Preset.read, PRESET, OptionError, ', "sample_scale": '),
    (Statistics.read, STATISTICS, FeatureError, ', "mean_stat": '),
]
ids = ["preset", "statistics"]


@pytest.mark.parametrize(("read", "document", "kind", "number"), READERS, ids=ids)
def test_ambiguous_and_endless_documents_are_refused_in_one_line(
    read: Callable[[str], Any], document: str, kind: type[Exception], number: str, tmp_path: Path
) -> None:
    key = document[2:6]
    mistakes = {
        b"\xef\xbb\xbf" + document.replace("%s", "").encode(): "starts with a byte-order mark: save it as UTF-8",
        (document % f', "{key}": 1').encode(): f'the key "{key}" occurs twice',
        (document % f"{number}1{400 * '0'}").encode(): "an integer has 401 digits",
        (document % f"{number}-{5000 * '1'}").encode(): "an integer has 5000 digits",
        (document % f"{number}{200_000 * '['}").encode(): "nested too deeply",
    }
    path = str(tmp_path / "a.json")
    for content, message in mistakes.items():
        Path(path).write_bytes(content)
        with pytest.raises(kind, match=message) as caught:
            read(path)
        assert path in str(caught.value) and "\n" not in str(caught.value)
    Path(path).write_text(document.replace("%s", ""))
    assert read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize(("read", "document", "kind", "number"), READERS, ids=ids)
def test_pipes_and_devices_are_refused_without_waiting(
    read: Callable[[str], Any], document: str, kind: type[Exception], number: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "link.json"):
        with pytest.raises(kind, match=f"{name}: not a regular file: pass the path of a file"):
            read(str(tmp_path / name))


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no disk
    with pytest.raises(OSError, match="the file has more than 64 MiB"):
        read_regular_file(tmp_path / "a.json")


def test_keys_may_repeat_in_different_objects() -> None:
    assert parse_json(b'[{"a": {"a": 1}}, {"a": -12}]') == [{"a": {"a": 1}}, {"a": -12}]
    assert parse_json(b"9" + 307 * b"0") == 9 * 10**307
