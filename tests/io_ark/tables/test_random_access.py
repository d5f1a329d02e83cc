"""Random access: Kaldi's options and answers."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kaldi_native_io
import numpy as np
import pytest

import io_ark
from io_ark.errors import (
    ArkError,
    ClosedError,
    KeyFormatError,
    MissingKeyError,
    OpenError,
    OrderError,
    TruncatedError,
)
from tests.support.tables import write_table

RANDOM = ["ark:feats.ark", "scp:feats.scp", "ark,s:feats.ark", "ark,s,cs:feats.ark", "ark,o:feats.ark",
          "scp,p:feats.scp", "scp,s:feats.scp", "ark,s,o:feats.ark",
          "ark,p:feats.ark", "ark:cat feats.ark |"]  # fmt: skip


def answers(reader: Any, calls: str) -> Iterator[object]:
    """Yield a reader's answers up to its first error: ``?key`` asks if the key exists, ``key`` for its value."""
    try:
        for call in calls.split():
            yield call[1:] in reader if call[0] == "?" else reader[call]
    except (RuntimeError, ArkError):
        yield "refused"


@pytest.mark.parametrize("rspecifier", RANDOM)
def test_keys_are_found_with_all_options(rspecifier: str, folder: Path) -> None:
    with io_ark.RandomAccessReader(rspecifier, kind="matrix") as reader:
        assert "a" not in reader
        assert "u01_normal" in reader
        assert reader["u01_normal"].shape == (37, 13)
        assert "u01_normalx" not in reader
        assert reader.get("u02_feat").shape == (64, 40)  # type: ignore[union-attr]
        assert reader["u18_long"].shape == (300, 23)
        assert reader.get("v") is None
        with pytest.raises(MissingKeyError, match="v: the key is not in the table"):
            reader["v"]
        with pytest.raises(KeyFormatError):
            assert "a b" in reader
    with pytest.raises(ClosedError):
        assert "u01_normal" in reader


def test_unsorted_table_or_calls_are_errors(folder: Path) -> None:
    shutil.copy("feats.ark", "twice.ark")
    with open("twice.ark", "ab") as twice:
        twice.write(Path("feats.ark").read_bytes())
    for rspecifier, keys, complaint in (
        ("scp,s:unsorted.scp", [], "not sorted"),
        ("scp:dup.scp", [], "duplicate key"),
        ("scp,s:dup.scp", [], "not sorted"),
        ("ark:twice.ark", ["zzz"], "u01_normal: is a duplicate key"),
        ("ark,o:twice.ark", ["u02_feat", "zzz"], "u01_normal: is a duplicate key"),
        ("ark,s:twice.ark", ["zzz"], "u01_normal: comes after 'u18_long'"),
        ("ark,s,cs:twice.ark", ["zzz"], "u01_normal: comes after 'u18_long'"),
        ("ark,s,cs:feats.ark", ["u18_long", "u01_normal"], "looked up after 'u18_long'"),
        ("ark,o:feats.ark", ["u01_normal", "u01_normal"], "looked up twice"),
        ("ark,s,o:feats.ark", ["u01_normal", "u01_normal"], "looked up twice"),
    ):
        with pytest.raises(OrderError, match=complaint), io_ark.RandomAccessReader(rspecifier, kind="matrix") as reader:
            for key in keys:
                assert reader.get(key) is not None


@pytest.mark.parametrize("options", ["ark", "ark,s"])
def test_reading_on_after_an_entry_out_of_order_fails_again(options: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("b 1\nb 2\nc 3\nd 4\n")
    with io_ark.RandomAccessReader(f"{options}:{tmp_path}/t", kind="int") as reader:
        assert reader["b"] == 1
        for keys in (["b", "c"], ["d"]):
            with pytest.raises(OrderError):
                reader.get_many(keys)
            with pytest.raises(OrderError):
                assert keys[-1] in reader
        assert reader["b"] == 1


@pytest.mark.parametrize("options", ["ark", "ark,o", "ark,s", "ark,s,o"])
@pytest.mark.parametrize("table", ["a 1\nb 2\nc 3\n", "a 1\nb 2\na 3\nc 4\n"])
@pytest.mark.parametrize(
    "calls", ["a ?a", "a a", "a b ?b b", "a b ?b ?a", "a c", "a c a ?a", "b c a ?a", "?a a b c ?b", "?d ?b", "c b ?c"]
)
def test_answers_equal_kaldis(options: str, table: str, calls: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table)
    specifier = f"{options}:{tmp_path}/t"
    kaldi, ours = kaldi_native_io.RandomAccessInt32Reader(specifier), io_ark.RandomAccessReader(specifier, kind="int")
    assert list(answers(ours, calls)) == list(answers(kaldi, calls))


def test_truncated_archive_fails_when_a_key_needs_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with io_ark.RandomAccessReader("ark:truncated.ark", kind="matrix") as reader:
        assert reader["u02_feat"].shape == (64, 40)
        with pytest.raises(TruncatedError, match="u18_long"):
            assert "u18_long" in reader
    with io_ark.RandomAccessReader("ark,p:truncated.ark", kind="matrix") as permissive:
        assert "u18_long" not in permissive
        assert permissive["u02_feat"].shape == (64, 40)
    assert len(caplog.records) == 1


def test_permissive_lookup_reads_the_object(folder: Path) -> None:
    with io_ark.RandomAccessReader("scp,p:badoffset.scp", kind="matrix") as reader:
        assert "u01_normal" not in reader
    with io_ark.RandomAccessReader("scp:badoffset.scp", kind="matrix") as reader:
        assert "u01_normal" in reader
        with pytest.raises(OpenError, match="u01_normal"):
            reader["u01_normal"]


def test_utt2spk_maps_keys_to_speakers(folder: Path) -> None:
    Path("utt2spk").write_text("utt1 u01_normal\nutt2 u02_feat\nutt3 nobody\n")
    with io_ark.RandomAccessReader("scp:feats.scp", kind="matrix", utt2spk="ark:utt2spk") as reader:
        assert reader["utt2"].shape == (64, 40)
        assert "utt3" not in reader
        with pytest.raises(MissingKeyError, match="utt4: is not in the utt2spk map"):
            assert "utt4" in reader


def test_option_o_releases_values_after_use(folder: Path) -> None:
    keys = [f"k{i}" for i in range(20)]
    write_table("matrix", "ark:large.ark", dict.fromkeys(keys, np.zeros((300, 100), np.float32)))
    for rspecifier, kept in ("ark:large.ark", 20), ("ark,o:large.ark", 0):
        with io_ark.RandomAccessReader(rspecifier, kind="matrix") as reader:
            values = [weakref.ref(reader[key]) for key in keys]
            assert sum(value() is not None for value in values) == kept


def test_value_of_another_key_than_the_one_that_was_asked_for_is_its_own(folder: Path) -> None:
    with io_ark.RandomAccessReader("scp,p:feats.scp", kind="matrix") as reader:
        assert "u01_normal" in reader
        assert reader["u02_feat"].shape == (64, 40)
        assert reader["u01_normal"].shape == (37, 13)


def test_duplicate_key_of_a_sorted_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.ark").write_bytes(b"a 1 \nb 2 \nb 3 \nc 4 \n")
    for options in ("s,cs", "s"):
        with (
            io_ark.RandomAccessReader(f"ark,{options}:{tmp_path}/d.ark", kind="int") as reader,
            pytest.raises(OrderError, match="not sorted or has a duplicate key"),
        ):
            assert [reader[key] for key in "abc"] == [1, 2, 4]


@pytest.mark.parametrize("options", ["", ",o", ",s,cs"])
def test_what_follows_a_damaged_entry_is_not_read(options: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text("a [ 1 ]\nb x\nc [ 3 ]\nd [ 4 ]\n")
    with io_ark.RandomAccessReader(f"ark{options}:{path}", kind="vector") as reader:
        assert reader["a"].tolist() == [1]
        for key in "c", "c", "d":
            with pytest.raises(ArkError, match="b: "):
                reader[key]
