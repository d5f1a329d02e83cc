"""Programs on alignments and posteriors: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark.blocks import PosteriorArrays
from io_ark.models import split_to_phones
from kaldi_compat.cli import orders
from kaldi_compat.cli.alignments import read_symbols
from kaldi_compat.errors import OptionError
from kaldi_compat.programs import (
    convert_ali,
    copy_post,
    ivector_normalize_length,
    post_to_pdf_post,
    show_transitions,
    vector_sum,
    weight_silence_post,
)
from tests.support.programs import run
from tests.support.tables import text

MODELS = Path(__file__).parents[3] / "reference_data" / "inputs" / "models"


@pytest.mark.parametrize("factor", [1, 2])
def test_random_paths_of_another_topology_have_the_phones(tmp_path: Path, factor: int) -> None:
    source, target = f"ark:{MODELS}/chain_ali.txt", f"ark:{tmp_path}/ali"
    names = [str(MODELS / name) for name in ("chain.mdl", "mono.mdl", "mono.tree")]
    status, log = run(convert_ali.main, f"--frame-subsampling-factor={factor}", *names, source, target)
    assert status == 0
    assert log.count("Won't warn again") == 1
    old, new = (io_ark.load(name, kind="transition-model") for name in names[:2])
    before = dict(io_ark.read(source, kind="int-vector"))
    for key, ids in io_ark.read(target, kind="int-vector"):
        segments = split_to_phones(new, ids)
        assert segments.complete.all()
        assert segments.phones.tolist() == split_to_phones(old, before[key]).phones.tolist()
        assert len(ids) == (len(before[key]) + factor - 1) // factor


def inserted_one_by_one(keys: list[int]) -> list[int]:
    """Keys in the order of GNU's std::unordered_map, by its rules: buckets that are linked lists within one list."""
    order: list[int] = []
    buckets = 1
    for key in keys:
        if len(order) + 1 > (buckets if buckets > 1 else 0):
            buckets = next(each for each in orders.BUCKETS if each > buckets)
            old, order = order, []
            for each in old:
                insert(order, each, buckets)
        insert(order, key, buckets)
    return order


def insert(order: list[int], key: int, buckets: int) -> None:
    places = [at for at, each in enumerate(order) if each % buckets == key % buckets]
    order.insert(places[0] if places else 0, key)


@given(st.lists(st.integers(0, 400), unique=True, max_size=140), st.integers(0, 3))
def test_pdfs_of_a_frame_are_in_the_order_of_a_hash_table(keys: list[int], empty: int) -> None:
    counts = np.array([0] * empty + [len(keys), 1])
    pdfs, frames = np.array([*keys, 5], np.int64), np.repeat(np.arange(len(counts)), counts)
    order = orders.order_keys_by_hash(pdfs, frames, counts)
    assert pdfs[order].tolist() == [*inserted_one_by_one(keys), 5]


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0.5, -0.5, 0.25, 0.0])), max_size=17), max_size=6)
)
def test_weights_of_a_pdf_are_added_up(frames: list[list[tuple[int, float]]]) -> None:
    model = io_ark.load(MODELS / "mono.mdl", kind="transition-model")
    expected = []
    for frame in frames:
        sums: dict[int, float] = {}
        for tid, weight in frame:
            pdf = int(model.pdfs(tid))
            sums[pdf] = sums.get(pdf, 0.0) + weight
        expected.append([(pdf, sums[pdf]) for pdf in inserted_one_by_one(list(sums)) if sums[pdf] != 0])
    columns = zip(*(pair for frame in frames for pair in frame), strict=True) if any(frames) else ((), ())
    integers, weights = (np.array(column, kind) for column, kind in zip(columns, "if", strict=True))
    counts = np.array([len(frame) for frame in frames], np.int64)
    assert post_to_pdf_post.sum_by_pdf(PosteriorArrays(counts, integers, weights), model).to_lists() == expected


def test_infinite_vectors_become_zero() -> None:
    assert ivector_normalize_length.main([text("vectors", "a [ inf 1 ]\n"), "ark,t:out"]) == 0
    assert Path("out").read_text() == "a  [ 0 0 ]\n"  # as Kaldi's; inf * 0 would be NaN


@pytest.mark.parametrize("scale", ["0", "0.5"])
def test_silence_is_weighted_in_every_utterance_of_a_block(tmp_path: Path, scale: str) -> None:
    model = io_ark.load(MODELS / "mono.mdl", kind="transition-model")
    post, target = f"ark:{MODELS}/post.txt", f"ark:{tmp_path}/post"
    assert weight_silence_post.main([scale, "1:7", str(MODELS / "mono.mdl"), post, target]) == 0
    before, after = (dict(io_ark.read(name, kind="posterior")) for name in (post, target))
    assert list(before) == list(after)
    for key, frames in before.items():
        for old, new in zip(frames, after[key], strict=True):
            silence = [int(model.phones(tid)) in (1, 7) for tid, _ in old]
            kept = [pair for pair, is_silence in zip(old, silence, strict=True) if scale != "0" or not is_silence]
            assert [tid for tid, _ in new] == [tid for tid, _ in kept]


def test_several_tables_and_a_file_are_a_usage_error(tmp_path: Path) -> None:
    vectors = text("vectors", "a [ 1 2 ]\n")
    status, log = run(vector_sum.main, vectors, vectors, str(tmp_path / "sum"))
    assert status == 1 and "Usage" in log and not (tmp_path / "sum").exists()


def test_sizes_of_hash_tables_ascend() -> None:
    assert all(2 * few <= many for few, many in pairwise(orders.BUCKETS))


@pytest.mark.parametrize(
    ("content", "names"),  # names of 0, 1 and 2 by Kaldi's show-transitions, or the line that it refuses
    [
        (b"e 0\nA 1\nB 2", "e A B"),
        (b"e 0\n \t\n\0B C D\n\tA \t 1  \nB 2\0x\n", "e A B"),
        (b"e 0\nA +1\nB \x0b2\nC -0\n", "e A B"),
        (b"e 0\nA\x0cA 1\nB\xff 2\n", "e A\x0cA B\udcff"),
        (b"e 0\nA 1\nA 2\nB 2\n", "e A B"),
        (b"e 0\nA 1\nX 1\nB 2\nY 2\n", "e A Y"),
        (b"A 1\nX 1\ne 0\nB 2\nY 2\n", "e X Y"),
        (b"e 0\nA\0A 1\n", 2),
        (b"e 0\r\nA 1\r\n", 1),
        (b"e 0\nA -1\n", 2),
        (b"e 0\nA 1_0\n", 2),
        (b"e 0\n\nA 1 2\n", 3),
        (b"\n", "empty"),
    ],
)
def test_symbol_tables_are_read_by_openfsts_rules(content: bytes, names: str | int) -> None:
    Path("phones").write_bytes(content)
    if names == "empty" or isinstance(names, int):
        with pytest.raises(OptionError, match=str(names)):
            read_symbols("phones")
    else:
        symbols = read_symbols("phones")
        assert " ".join(symbols[number] for number in range(3)) == names


def test_a_symbol_beyond_the_gaps_of_a_symbol_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("phones").write_text("<eps> 0\nSIL 1\nA 2\nB 3\nT 7\nZ 5\n")
    assert run(show_transitions.main, "phones", str(MODELS / "mono.mdl"))[0] == 0
    printed = capsys.readouterr().out
    assert ": phone = T hmm-state" in printed
    assert ": phone =  hmm-state" in printed  # of phone 4, as in Kaldi
    Path("phones").write_text("<eps> 0\nSIL 1\nA 2\nB 3\n")
    assert "no symbol for phone 4" in run(show_transitions.main, "phones", str(MODELS / "mono.mdl"))[1]


def test_the_deviation_of_lengths_is_rounded_as_kaldis() -> None:
    lengths = (741, 845, 108, 161, 458, 558, 761, 368, 36, 215, 456, 386)
    vectors = text("vectors", "".join(f"u{i} [ {length} ]\n" for i, length in enumerate(lengths)))
    log = run(ivector_normalize_length.main, "--scaleup=false", vectors, "ark:out")[1]
    assert "was 424.417, standard deviation was 254.831\n" in log


def test_posteriors_scaled_by_zero_in_single_precision_are_removed_as_in_kaldi(tmp_path: Path) -> None:
    source, target = text(f"{tmp_path}/post", "u [ 0 0.5 1 0.25 ] [ 2 1 ]\n"), f"ark,t:{tmp_path}/out"
    assert run(copy_post.main, "--scale=1e-50", source, target)[0] == 0
    assert Path(f"{tmp_path}/out").read_text() == "u [ ] [ ] \n"
