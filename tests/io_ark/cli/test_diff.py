"""``ark diff`` finds every difference, and its exit status tells scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import kaldiio
import numpy as np
import pytest

import io_ark
from io_ark.cli.diff import compare_objects, pair_entries
from io_ark.cli.entries import StoredEntry
from io_ark.codecs import codec
from io_ark.codecs.sparse import SparseVector
from io_ark.codecs.wave import Wave
from io_ark.streams import BytesSource
from tests.support.ark_program import Ark
from tests.support.codec_samples import EXAMPLES, MODELS, samples

FEATS = {f"utt{i}": np.random.default_rng(i).normal(size=(5 + i, 4)).astype("f4") for i in range(4)}


@pytest.fixture(autouse=True)
def table(ark: Ark) -> None:
    kaldiio.save_ark("a.ark", FEATS, scp="a.scp")


def changed(**values: np.ndarray) -> None:
    kaldiio.save_ark("b.ark", {**FEATS, **values}, scp="b.scp")


def test_equal_tables_in_another_order_and_precision_give_status_0(ark: Ark) -> None:
    kaldiio.save_ark("b.ark", {key: FEATS[key].astype("f8") for key in reversed(FEATS)})
    assert ark("diff a.scp b.ark").out == "4 keys compared: 4 equal, 0 different\n"


def test_worst_frames_and_the_largest_difference_are_named(ark: Ark) -> None:
    other = FEATS["utt2"].copy()
    other[3, 1] += 2
    other[5, 0] -= 4
    changed(utt2=other)
    out = ark("diff --worst=2 a.scp b.scp", 1).out
    assert "utt2\tlargest 4 at [5, 0], mean 0.214; worst frames: 5 (4), 3 (2)" in out
    assert "4 keys compared: 3 equal, 1 different\nlargest difference: 4 (utt2, at [5, 0])\n" in out
    assert (
        "mean 0.214; worst frames: 5 (4), 3 (2)\n" in ark("diff a.scp b.scp", 1).out
    )  # No frame without a difference.
    assert "mean 0.214\n" in ark("diff --worst 0 a.scp b.scp", 1).out


def test_unpaired_keys_of_two_tables_of_the_same_name_stay_apart(ark: Ark) -> None:
    command = "'ark,t:echo $$ 1 |'"  # Each table has one entry, whose key is the process ID of a shell.
    result = json.loads(ark(f"diff --json {command} {command}", 1).out)
    assert len(result["only_in_first"]) == len(result["only_in_second"]) == 1
    assert result["only_in_first"] != result["only_in_second"]


def test_tolerance_decides_the_status(ark: Ark) -> None:
    changed(utt1=FEATS["utt1"] + np.float32(0.5))
    ark("diff --tolerance=0.4 a.scp b.scp", 1)
    assert "3 equal, 1 within the tolerance, 0 different" in ark("diff --tolerance=0.6 a.scp b.scp").out


def test_difference_of_exactly_the_tolerance_is_within_it(ark: Ark) -> None:
    kaldiio.save_ark("a.ark", {"a": np.zeros((1, 2), "f4")})
    kaldiio.save_ark("b.ark", {"a": np.array([[0, 0.5]], "f4")})
    assert "1 within the tolerance" in ark("diff --tolerance=0.5 a.ark b.ark").out


def test_missing_keys_and_other_shapes_are_differences(ark: Ark) -> None:
    kaldiio.save_ark("b.ark", {"utt0": FEATS["utt0"][:4], "utt1": FEATS["utt1"], "new": FEATS["utt1"]}, scp="b.scp")
    found = json.loads(ark("diff --json a.scp b.scp", 1).out)
    assert found["only_in_first"] == ["utt2", "utt3"] and found["only_in_second"] == ["new"]
    assert (found["compared"], found["equal"], found["within_tolerance"], found["tolerance"]) == (2, 1, 0, 0)
    [difference] = found["differing"]
    assert (difference["key"], difference["reason"]) == ("utt0", "shape 5 x 4 and 4 x 4")
    assert difference["largest"] == "inf"
    found = json.loads(ark("diff --json b.scp a.scp --tolerance 0.5", 1).out)
    assert found["only_in_second"] == ["utt2", "utt3"] and found["only_in_first"] == ["new"]
    assert (found["compared"], found["equal"], found["tolerance"]) == (2, 1, 0.5)


def test_different_shapes_have_no_largest_difference(ark: Ark) -> None:
    changed(utt0=FEATS["utt0"][:4])
    assert ark("diff a.scp b.scp", 1).out.endswith(
        "largest difference: none, because 1 key cannot be compared by numbers, for example because the shapes differ\n"
    )
    changed(utt0=FEATS["utt0"][:4], utt1=FEATS["utt1"] + np.float32(0.5))
    assert "largest difference: 0.5 (utt1, at [" in ark("diff a.scp b.scp", 1).out


def test_nan_and_infinities_equal_only_themselves() -> None:
    assert compare_objects("a", np.array([np.inf]), np.array([np.inf])).is_zero
    assert compare_objects("a", np.array([np.inf]), np.array([-np.inf])).largest == np.inf
    nan = np.array([[np.nan, 1.0]])
    assert compare_objects("a", nan, nan.copy()).is_zero
    found = compare_objects("a", nan, np.array([[0.0, 1.5]]))
    assert found.largest == np.inf and found.place == (0, 0) and found.mean == 0.5
    assert found.exceeds(1e9)


def test_words_audio_and_rates_are_compared() -> None:
    assert compare_objects("a", "anna", "anna").is_zero
    assert compare_objects("a", np.zeros((9, 1)), np.ones((9, 1))).worst_frames == [(0, 1), (1, 1), (2, 1)]
    assert compare_objects("a", "anna", "ben").reason == "'anna' and 'ben'"
    samples = np.arange(6, dtype=np.int16).reshape(1, 6)
    assert compare_objects("a", Wave(8000.0, samples), Wave(8000.0, samples + np.int16(1))).largest == 1
    assert "8000 Hz and audio 16000 Hz" in compare_objects("a", Wave(8000.0, samples), Wave(16000.0, samples)).reason


def test_damaged_entry_is_a_difference_and_a_missing_table_an_error(ark: Ark) -> None:
    Path("b.ark").write_bytes(Path("a.ark").read_bytes()[:-3])
    for names in "a.ark b.ark", "b.ark a.ark":
        assert "utt3\tunreadable: b.ark:" in ark(f"diff {names}", 1).out
    ark("diff a.ark none.ark", 2)


def test_tables_in_the_same_order_are_not_held_in_memory() -> None:
    held = []

    def entries():  # type: ignore[no-untyped-def]
        for i in range(5):
            held.append(i)
            yield StoredEntry(f"utt{i}", "", "", np.zeros(1))

    for count, (key, _, _) in enumerate(pair_entries(entries(), entries()), 1):
        assert key == f"utt{count - 1}" and len(held) == 2 * count
    assert len(held) == 10


@pytest.mark.parametrize("names", ["- -", "ark:- scp:-"])
def test_standard_input_is_not_compared_with_itself(names: str, ark: Ark, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open() as empty:
        monkeypatch.setattr("sys.stdin", empty)
        assert "is named twice" in ark(f"diff {names}", 2).err


def test_diff_reads_pipes_and_refuses_them(ark: Ark) -> None:
    ark("diff a.scp 'ark:cat a.ark |'")
    assert "is not run" in ark("diff --no-pipes a.scp 'ark:cat a.ark |'", 2).err


@pytest.mark.parametrize(("missing", "listed"), [(5, "k0, k1, k2, k3, k4\n"), (7, "k0, k1, k2, k3, k4 and 2 more\n")])
def test_keys_of_one_table_are_listed_up_to_five(missing: int, listed: str, ark: Ark) -> None:
    kaldiio.save_ark("long.ark", {f"k{i}": np.zeros((1, 1), np.float32) for i in range(missing + 1)})
    kaldiio.save_ark("short.ark", {f"k{missing}": np.zeros((1, 1), np.float32)})
    assert f"{missing} keys: {listed}" in ark("diff long.ark short.ark", 1).out


@pytest.mark.parametrize("count", [100, 101])
def test_100_differences_are_printed(count: int, ark: Ark) -> None:
    for name, value in ("x.ark", 0), ("y.ark", 1):
        kaldiio.save_ark(name, {f"k{i}": np.full((1, 1), value, "f4") for i in range(count)})
    lines = ark("diff x.ark y.ark", 1).out.splitlines()
    more = ["... and 1 more"] if count > 100 else []
    assert lines[100:] == [*more, f"{count} keys compared: 0 equal, {count} different",
                           "largest difference: 1 (k0, at [0, 0])"]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ("ab", "ab", "aa bb"),
        ("ab", "ba", "aa bb"),
        ("a", "abc", "aa -b -c"),
        ("abc", "c", "cc a- b-"),
        ("", "a", "-a"),
        ("aab", "ba", "aa bb a-"),
        ("ba", "aab", "aa bb -a"),
        ("aab", "baa", "aa aa bb"),
        ("aaa", "a", "aa a- a-"),
    ],
)
def test_keys_are_paired_in_any_order(first: str, second: str, pairs: str) -> None:
    tables = [[StoredEntry(key, name, "") for key in keys] for name, keys in (("1", first), ("2", second))]
    found = []
    for key, one, other in pair_entries(*tables):
        assert (one is None or (one.key, one.where) == (key, "1")) and (other is None or other.where == "2")
        found.append((one.key if one else "-") + (other.key if other else "-"))
    assert sorted(found) == sorted(pairs.split())


SAMPLES = samples()


@pytest.mark.parametrize("at", range(len(SAMPLES)), ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(SAMPLES)])
def test_every_object_equals_itself_and_no_other(at: int) -> None:
    kind, data = SAMPLES[at]
    one, same = (codec(kind).read(BytesSource(each)) for each in (data, data))
    assert compare_objects("a", one, same).is_zero
    assert not compare_objects("a", one, "another").is_zero and not compare_objects("a", np.zeros(99), one).is_zero


def test_parts_of_models_and_examples_are_compared_number_by_number(ark: Ark) -> None:
    ark(f"diff {EXAMPLES}/nnet.ark {EXAMPLES}/nnet.ark")
    ark(f"diff {EXAMPLES}/chain.ark {EXAMPLES}/chain.txt --tolerance=1e-5")
    gmm = io_ark.load(MODELS / "diag4.gmm")
    means = gmm.precision_means.copy()
    means[1, 2] += 0.5
    io_ark.save("b.gmm", replace(gmm, precision_means=means))
    out = ark(f"diff {MODELS}/diag4.gmm b.gmm", 1).out
    assert "\tlargest 0.5 in precision_means at [1, 2], mean" in out
    ark(f"diff --tolerance=0.6 {MODELS}/diag4.gmm b.gmm")
    ark(f"diff {MODELS}/diag4.gmm {MODELS}/diag4.txt --tolerance=1e-4")


def test_lists_of_other_lengths_differ() -> None:
    assert not compare_objects("a", [[]], [[], []]).is_zero
    assert not compare_objects("a", {}, {"x": 1}).is_zero
    assert compare_objects("a", [[1, 2]], [[1, 3]]).reason == "[[1, 2]] and [[1, 3]]"
    sparse = SparseVector(3, np.array([0], np.int32), np.ones(1, np.float32))
    assert compare_objects("a", sparse, sparse._replace(dim=4)).reason == "dim: 3 and 4"
    longer = sparse._replace(values=np.ones(2, np.float32))
    assert compare_objects("a", sparse, longer).reason == "values: shape (1,) and (2,)"
    assert (
        compare_objects("a", sparse, sparse._replace(values=[1])).reason
        == "values is a part of only one of the objects"
    )
    assert (
        compare_objects("a", sparse._replace(values=[1]), sparse._replace(values=[1, 2])).reason
        == "values.length: 1 and 2"
    )
    assert compare_objects("a", {"x": 1}, {"y": 1}).largest == np.inf


@pytest.mark.slow
def test_deep_trees_are_compared(ark: Ark) -> None:
    depth = 30_000
    tree = b"ContextDependency 3 1 ToPdf " + b"SE 1 [ 1 ]\n{ " * depth + b"CE 0 " + b"CE 1 }\n" * depth
    Path("deep.tree").write_bytes(tree + b"EndContextDependency ")
    ark("diff deep.tree deep.tree")
    kaldiio.save_mat("m", np.zeros((2, 2), "f4"))
    assert "\tContextDependency and array(" in ark("diff deep.tree m", 1).out


def test_errors_of_entries_without_a_partner_are_printed(ark: Ark) -> None:
    lines = Path("a.scp").read_text().splitlines()
    Path("bad.scp").write_text("\n".join([*lines[:2], "no_place", *lines[2:], "lost missing.ark:3", ""]))
    invalid = "bad.scp: line 3 has a key ('no_place') without a value: add the value"
    lost = "missing.ark: lost: cannot be opened: No such file or directory"
    for names, where in (("bad.scp a.scp", "only_in_first"), ("a.scp bad.scp", "only_in_second")):
        assert ark(f"diff {names}", 1).out == (
            f"only in bad.scp: 1 key: lost\nunreadable: {invalid}\nunreadable: {lost}\n"
            "4 keys compared: 4 equal, 0 different, 2 unreadable\n"
        )
        found = json.loads(ark(f"diff --json {names}", 1).out)
        assert (found["unreadable"], found[where]) == ([invalid, lost], ["lost"])


def test_invalid_lines_of_two_script_files_are_both_named(ark: Ark) -> None:
    for name in ("b.scp", "c.scp"):
        Path(name).write_text("no_place\n" + Path("a.scp").read_text())
    assert ark("diff b.scp c.scp", 1).out == (
        "unreadable: b.scp: line 1 has a key ('no_place') without a value: add the value\n"
        "unreadable: c.scp: line 1 has a key ('no_place') without a value: add the value\n"
        "4 keys compared: 4 equal, 0 different, 2 unreadable\n"
    )


def test_number_of_unreadable_lines_is_limited(ark: Ark) -> None:
    Path("b.scp").write_text("no_place\n" * 120 + Path("a.scp").read_text())
    out = ark("diff b.scp a.scp", 1).out
    assert out.count("unreadable: ") == 100 and "... and 20 more\n" in out and "120 unreadable" in out


def test_damaged_single_objects_are_a_pair_and_the_shown_lines_are_limited(ark: Ark) -> None:
    values = {f"k{i}": np.full((1, 1), i, np.float32) for i in range(80)}
    kaldiio.save_ark("a.ark", values)
    kaldiio.save_ark("b.ark", {key: value + 1 for key, value in values.items()}, scp="b.scp")
    Path("cut").write_bytes(Path("a.ark").read_bytes()[3:15])
    out = ark("diff cut cut", 1).out
    assert "1 key compared: 0 equal, 1 different\n" in out and out.count("unreadable") == 1
    Path("c.scp").write_text(Path("b.scp").read_text() + "".join(f"n{i} missing:{i}\n" for i in range(60)))
    lines = ark("diff a.ark c.scp", 1).out.splitlines()
    assert sum("missing" in line or "largest" in line for line in lines[:-1]) == 100 and "... and 40 more" in lines


def test_repeated_keys_are_paired_in_their_order() -> None:
    """Both entries of the first table wait until the second table has the key."""

    def entries(*names: str) -> list[StoredEntry]:
        return [StoredEntry(name[0], name, "") for name in names]

    pairs = pair_entries(entries("k1", "k2", "a"), entries("b", "a", "k3", "k4"))
    assert [(one.where, other.where) for _, one, other in pairs if one and other] == [
        ("a", "a"), ("k1", "k3"), ("k2", "k4"),
    ]  # fmt: skip
