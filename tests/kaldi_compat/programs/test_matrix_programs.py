"""Programs on matrices and vectors: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark.blocks import ArrayBlock
from kaldi_compat.errors import OptionError
from kaldi_compat.programs import copy_matrix, copy_vector
from tests.support.programs import log_of, run_words
from tests.support.tables import load, mat, read, save, text


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=8),
    st.sampled_from(["apply_exp", "apply_log", "apply_softmax_per_row"]),
    st.sampled_from([1.0, 2.0, -1.0]),
)
def test_functions_are_those_of_numpy(row: list[float], function: str, power: float) -> None:
    matrix = np.array([row, row[::-1]], np.float32)
    exact = matrix.astype(np.float64)
    exact = {
        "apply_exp": np.exp(exact),
        "apply_log": np.log(np.maximum(exact, 1e-20)),
        "apply_softmax_per_row": np.exp(exact) / np.exp(exact).sum(1, keepdims=True),
    }[function]
    with np.errstate(all="ignore"):
        result = copy_matrix.change_elements(matrix, copy_matrix.Options(**{function: True}, apply_power=power))
        np.testing.assert_allclose(result, exact**power, rtol=1e-5, atol=1e-30)


def test_a_sum_of_as_many_skipped_as_added_entries_fails() -> None:
    # vector-sum.cc and matrix-sum.cc return 0 only if fewer entries are skipped than added.
    values = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32), "c": np.ones(2, np.float32)}
    save("equal.ark", {key: values[key] for key in "ab"})
    save("more.ark", values)
    assert [run_words(["vector-sum", f"ark:{name}.ark", "out"])[0] for name in ("equal", "more")] == [1, 0]


def test_a_factor_that_is_one_as_a_float_has_no_effect() -> None:
    save("a.ark", {"a": np.ones(2, np.float32)})
    assert "Copied 1 vectors.\n" in log_of("copy-vector --scale=1.00000001 ark:a.ark ark:o.ark")
    Path("a.mat").write_text(" [ 1 2 ]\n")
    for name in ("scale1", "scale2"):  # Kaldi's program aborts for other factors of files.
        log_of(f"matrix-sum --{name}=1.00000001 a.mat a.mat o.mat")


def test_two_functions_are_refused() -> None:
    with pytest.raises(OptionError):
        copy_matrix.Options(apply_exp=True, apply_log=True)


def test_the_power_of_a_half_is_no_square_root_as_in_c() -> None:
    matrix = np.array([[-0.0, -np.inf, 4]], np.float32)
    result = copy_matrix.change_elements(matrix, copy_matrix.Options(apply_power=0.5))
    np.testing.assert_array_equal(result, [[0, np.inf, 2]])
    assert not np.signbit(result).any()


def test_a_factor_of_zero_gives_positive_zeros_as_in_openblas() -> None:
    block = ArrayBlock.from_arrays(["a"], [np.array([-1, np.nan, np.inf], np.float32)])
    for factor in 0.0, 1e-50:  # Kaldi stores the factor as a float, which is 0 for both.
        zeros = copy_vector.resize_and_scale_vectors(block, -1, factor).values
        assert zeros.tobytes() == np.zeros(3, np.float32).tobytes()


@pytest.mark.parametrize(
    ("numbers", "written"), [([1, -2, 300000], b"[ 1 -2 300000 ]\n"), ([], b"[ ]\n")], ids=["three", "none"]
)
def test_single_files_of_integers_have_kaldis_plain_layout(numbers: list[int], written: bytes) -> None:
    # Kaldi's WriteIntegerVector: not what stands in tables, where each number has a byte with its size.
    binary = b"\0B\4" + struct.pack(f"<i{len(numbers)}i", len(numbers), *numbers)
    Path("text").write_bytes(b" " + written.replace(b" ]", b"\n]").strip())
    for source in ("text", "binary"):
        log_of(f"copy-int-vector {source} binary")
        assert Path("binary").read_bytes() == binary
        log_of(f"copy-int-vector --binary=false {source} again")
        assert Path("again").read_bytes() == written


def test_tables_of_integers_have_a_size_byte_per_number() -> None:
    text("a", "u 1 -2 3\n")
    log_of("copy-int-vector ark:a ark:b")
    assert Path("b").read_bytes() == b"u \0B\4" + struct.pack("<i", 3) + struct.pack("<bibibi", 4, 1, 4, -2, 4, 3)


def test_second_transform_is_looked_up_by_speaker() -> None:
    a = {key: np.full((2, 2), number, np.float32) for number, key in enumerate(("u0", "u1", "u2"))}
    b = {"s": np.array([[1, 2], [3, 4]], np.float32), "u0": np.full((2, 2), 5, np.float32)}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\n")
    log_of(f"compose-transforms --utt2spk={utt2spk} {save('a.ark', a)} {save('b.ark', b)} ark:out.ark")
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_array_equal(out["u1"], a["u1"] @ b["s"])


def test_missing_rows_are_appended_and_the_inverse_is_written() -> None:
    lda = np.random.default_rng(1).normal(size=(4, 4))
    log_of(f"get-full-lda-mat {mat('kept.mat', [[1, 0, 0, 2]])} {mat('lda.mat', lda)} full.mat inverse.mat")
    np.testing.assert_allclose(read("full.mat"), np.vstack(([[1, 0, 0, 2]], lda[1:])), rtol=1e-6)
    np.testing.assert_allclose(read("full.mat") @ read("inverse.mat"), np.eye(4), atol=1e-5)


def test_a_single_posterior_is_converted_to_features() -> None:
    """Kaldi's program has this form in its usage, and fails."""
    Path("single").write_text("[ 1 0.5 ] [ 0 1 ]\n")
    log_of("post-to-feats --post-dim=2 single out.mat")
    assert read("out.mat").tolist() == [[0, 0.5], [1, 0]]
