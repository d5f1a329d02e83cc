"""Programs on CMVN: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

import hashlib
from pathlib import Path

import kaldiio
import numpy as np
import pytest

import io_ark
from tests.support.programs import log_of, run_words
from tests.support.tables import load, matrices, save


def test_without_means_compressed_matrices_are_copied_unchanged() -> None:
    kaldiio.save_ark("in.ark", matrices(20), compression_method=2)
    log_of("apply-cmvn --norm-means=false ark:absent ark:in.ark ark:out.ark")
    assert Path("out.ark").read_bytes() == Path("in.ark").read_bytes()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("compute-cmvn-stats ark:in.ark ark:out", "The statistics of utterance b contain NaN or infinite values, "),
        ("compute-cmvn-stats --spk2utt=ark:spk2utt ark:in.ark ark:out", "The statistics of utterance b contain NaN"),
        ("compute-cmvn-stats ark:in.ark out", "The statistics of utterance b contain NaN"),
        ("apply-cmvn ark:cmvn.ark ark:in.ark ark:out", "The statistics of b contain NaN or infinite values, and there"),
        ("apply-cmvn cmvn ark:in.ark ark:out", "The statistics of cmvn contain NaN"),
        ("apply-cmvn-online good ark:in.ark ark:out", "The normalized features of utterance b contain NaN or infinite"),
        ("apply-cmvn-online --spk2utt=ark:spk2utt good ark:in.ark ark:out", "The normalized features of utterance b"),
        ("apply-cmvn-sliding ark:in.ark ark:out", "The normalized features of utterance b contain NaN"),
    ],
)
def test_values_that_are_not_finite_give_one_warning_for_a_table(command: str, message: str) -> None:
    values = matrices(20, 20, 20, 20)
    names = dict(zip("abcd", values.values(), strict=True))
    Path("spk2utt").write_text("s a b c d\n")
    save("in.ark", names)
    log_of("compute-cmvn-stats ark:in.ark good")
    log_of("compute-cmvn-stats ark:in.ark ark:cmvn.ark")
    log_of("compute-cmvn-stats ark:in.ark cmvn")
    assert "WARNING" not in log_of(command)
    for key in "bc":  # The entries b, c and d are in one block.
        names[key][3, 1] = np.nan
    save("in.ark", names)
    log_of("compute-cmvn-stats ark:in.ark ark:cmvn.ark")
    log_of("compute-cmvn-stats ark:in.ark cmvn")
    warnings = [line for line in log_of(command).splitlines() if line.startswith("WARNING")]
    advice = "features without such values" if command.startswith("apply-cmvn ") else "--dither=1"
    assert len(warnings) == 1 and message in warnings[0] and advice in warnings[0]


@pytest.mark.parametrize("command", ["apply-cmvn", "apply-cmvn-online"])
def test_statistics_that_are_not_finite_are_named_and_not_an_utterance(command: str) -> None:
    save("in.ark", {"a": np.ones((9, 2), np.float32)})
    io_ark.save("stats", np.array([[3.0, np.nan, 2.0], [9.0, 16.0, 0.0]]), kind="double-matrix")
    (warning,) = [line for line in log_of(f"{command} stats ark:in.ark ark:out").splitlines() if "WARNING" in line]
    assert "The statistics of stats contain NaN" in warning and warning.endswith("from features without such values")


@pytest.mark.parametrize(
    "command",
    [
        "apply-cmvn stats ark:in.ark ark:out",
        "apply-cmvn ark:stats.ark ark:in.ark ark:out",
        "apply-cmvn-online small ark:in.ark ark:out",
        "apply-cmvn-sliding ark:in.ark ark:out",
    ],
)
def test_large_finite_values_whose_sum_overflows_give_no_warning(command: str) -> None:
    values = np.tile(np.float32([[1e38], [-1e38]]), (9, 4))
    save("in.ark", {"a": values, "b": np.abs(values) * (np.arange(18) < 3)[::-1, None]})
    large = np.full((2, 5), 1.5e308)
    io_ark.save("stats", large, kind="double-matrix")
    io_ark.save("small", np.ones((2, 5)), kind="double-matrix")
    kaldiio.save_ark("stats.ark", {"a": large, "b": large})
    assert "WARNING" not in log_of(command)
    assert all(np.isfinite(matrix).all() for matrix in load("out").values())


@pytest.mark.parametrize(
    "command",
    [
        "apply-cmvn squares",
        "apply-cmvn ark:squares.ark",
        "apply-cmvn --norm-vars --skip-dims=1 mean",
        "apply-cmvn --skip-dims=1 ark:mean.ark",
        "apply-cmvn-online squares",
    ],
)
def test_statistics_that_are_not_used_give_no_warning(command: str) -> None:
    save("in.ark", {"a": np.ones((9, 2), np.float32)})
    for name, place in (("squares", (1, 0)), ("mean", (0, 1))):
        statistics = np.array([[3.0, 4.0, 2.0], [9.0, 16.0, 0.0]])
        statistics[place] = np.inf
        io_ark.save(name, statistics, kind="double-matrix")
        kaldiio.save_ark(f"{name}.ark", {"a": statistics})
    assert "WARNING" not in log_of(f"{command} ark:in.ark ark:out")
    assert np.isfinite(load("out")["a"]).all()


@pytest.mark.parametrize("target", ["out", "ark:out"])
@pytest.mark.parametrize("cause", ["large", "weights"])
def test_statistics_that_overflow_or_have_infinite_weights_give_a_warning(cause: str, target: str) -> None:
    names = {key: np.ones((9, 2), np.float32) for key in "abc"}
    weights = {key: np.ones(9, np.float32) for key in "abc"}
    if cause == "large":
        names["b"][3] = 1e20  # The square overflows float32, in which Kaldi computes squares.
    else:
        weights["b"][3] = np.inf
    save("in.ark", names)
    kaldiio.save_ark("weights.ark", weights)
    said = log_of(f"compute-cmvn-stats --weights=ark:weights.ark ark:in.ark {target}")
    (warning,) = [line for line in said.splitlines() if "WARNING" in line]
    assert "The statistics of utterance b contain NaN or infinite values, because its features or weights do" in warning


def test_a_skipped_dimension_gets_no_negative_zero_as_in_kaldi() -> None:
    io_ark.save("stats", np.array([[3.0, 4.0, 2.0], [9.0, 16.0, 0.0]]), kind="double-matrix")
    save("in.ark", {"a": np.full((1, 2), -0.0, np.float32)})
    log_of("apply-cmvn --skip-dims=0 stats ark:in.ark ark:out.ark")
    ((zero, _),) = load("out.ark")["a"]
    assert zero == 0
    assert not np.signbit(zero)


def test_global_statistics_without_features_are_an_empty_matrix() -> None:
    status, stderr = run_words(["compute-cmvn-stats", "scp:/dev/null", "g"])
    assert status == 1 and "no features" in stderr
    assert Path("g").read_bytes() == b"\0BFM \4\0\0\0\0\4\0\0\0\0"  # what Kaldi's program writes


def test_empty_utterances_of_a_call_have_statistics_of_nothing() -> None:
    Path("calls").write_text("u0 call0 A\nu1 call0 B\n")
    save("empty.ark", {key: np.empty((0, 0), np.float32) for key in ("u0", "u1")})
    log_of("compute-cmvn-stats-two-channel calls ark:empty.ark ark:out.ark")
    assert {key: each.tolist() for key, each in load("out.ark").items()} == {key: [[0], [0]] for key in ("u0", "u1")}


def test_call_whose_sides_differ_in_dimension_ends_the_program_after_earlier_calls() -> None:
    Path("calls").write_text("u0 call0 A\nu1 call0 B\nu2 call1 A\nu3 call1 B\n")
    sizes = {"u0": 2, "u1": 2, "u2": 2, "u3": 3}
    save("in.ark", {key: np.ones((4, size), np.float32) for key, size in sizes.items()})
    status, error = run_words(["compute-cmvn-stats-two-channel", "calls", "ark:in.ark", "ark:out.ark"])
    assert status == 255 and "dimension" in error
    assert list(load("out.ark")) == ["u0", "u1"]


@pytest.mark.parametrize(("maximum", "warnings"), [("5", 6), ("0", 1), ("-1", 9), ("8", 9), ("9", 9)])
def test_warnings_are_limited(maximum: str, warnings: int) -> None:
    save("in.ark", {"constant": np.ones((10, 2), np.float32)})
    options = f"--norm-vars=true --min-cmn-window=1 --max-warnings={maximum}"
    # The first window has a single frame, which has no variance.
    assert log_of(f"apply-cmvn-sliding {options} ark:in.ark ark:out.ark").count("WARNING") == warnings
    np.testing.assert_allclose(load("out.ark")["constant"], 0, atol=1e-10)  # Kaldi's output has the same 5.6e-12


def test_status_is_1_for_empty_matrices() -> None:
    assert run_words(["apply-cmvn-sliding", save("in.ark", {"a": np.zeros((0, 0), np.float32)}), "ark:out"])[0] == 1


@pytest.mark.parametrize(
    ("options", "digest"),
    # SHA-256 of what Kaldi 5.5 (-O1, OpenBLAS's SkylakeX kernels) writes for these features.
    [
        ("--norm-vars=true", "a257394257370fd16e7c82afdc6037a109856a6abe02ea0347e8d11437b62d29"),
        ("--norm-vars=true --center=true", "6feea41a40f5f24844b79ff6166dd110f8a406cd41ed17e098c5427397e31ff1"),
        (
            "--norm-vars=true --min-cmn-window=19 --cmn-window=63",
            "182c176b71830fc05c916e827b507fa1b2dddf5a02440ed1f8fc11c8dd946ef5",
        ),
        ("--center=true --cmn-window=100", "8826b0730000bff89a42243911e7d1215bb0daed6474a4374f1ca3a6038b65ae"),
    ],
)
def test_sums_are_in_kaldis_order(options: str, digest: str) -> None:
    # Small variances around large means: the rounding errors of the running sums are seen in the third digit.
    steps = np.arange(1000, dtype=np.float32) % 7
    features = np.stack((100 + 1e-3 * steps, 50 * steps, np.full(1000, 1000), steps, 1000 + 1e-2 * steps), 1)
    save("in.ark", {"u": features.astype(np.float32)})
    log_of(f"apply-cmvn-sliding {options} ark:in.ark ark:out.ark")
    assert hashlib.sha256(Path("out.ark").read_bytes()).hexdigest() == digest


def test_zeros_keep_their_sign_where_a_variance_is_floored() -> None:
    save("in.ark", {"a": np.array([[-0.0, 1], [-0.0, 1], [-0.0, 1]], np.float32)})
    log_of("apply-cmvn-sliding --norm-vars --center --cmn-window=2 ark:in.ark ark:out.ark")
    zero, one = load("out.ark")["a"].T
    assert (zero == 0).all()
    assert np.signbit(zero).all()
    assert not np.signbit(one).any()
