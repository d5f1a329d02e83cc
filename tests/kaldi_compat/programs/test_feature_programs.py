"""Programs that copy and select features: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import OptionError
from kaldi_compat.programs import copy_feats, extract_feature_segments, select_feats
from tests.support.programs import check_refused, log_of, main_of, run_words
from tests.support.tables import load, matrices, save


@pytest.mark.parametrize("method", range(1, 8))
def test_compressed_matrices_are_read_by_kaldiio(method: int) -> None:
    values = {key: np.round(np.abs(value) * 50).clip(0, 255) for key, value in matrices(20, 9).items()}
    log_of(f"copy-feats --compress --compression-method={method} {save('in.ark', values)} ark:out.ark")
    for key, value in load("out.ark").items():
        if method == 7:  # made for values from 0 to 1
            assert value.shape == values[key].shape
        else:
            np.testing.assert_allclose(value, values[key], atol=2.0)


def test_lengths_may_differ_by_the_tolerance() -> None:
    save("long.ark", matrices(9))
    save("short.ark", matrices(7))
    assert load_pasted(2)["u0"].shape == (7, 6)
    assert not load_pasted(1)


def load_pasted(tolerance: int) -> dict[str, np.ndarray]:
    main_of("paste-feats")([f"--length-tolerance={tolerance}", "ark:long.ark", "ark:short.ark", "ark:out.ark"])
    return load("out.ark")


def test_all_columns_may_be_selected_by_truncate() -> None:
    save("in.ark", matrices(9))
    for name in ("add-deltas", "add-deltas-sdc"):
        log_of(f"{name} ark:in.ark ark:all.ark")
        log_of(f"{name} --truncate=3 ark:in.ark ark:out.ark")
        assert Path("all.ark").read_bytes() == Path("out.ark").read_bytes()


def test_single_files_are_converted_between_formats(capfd: pytest.CaptureFixture[str]) -> None:
    matrix = matrices(4)["u0"]
    kaldiio.save_mat("a.mat", matrix)
    assert copy_feats.main(["--binary=false", "a.mat", "-"]) == 0
    assert np.array(capfd.readouterr().out.strip(" []\n").split(), float) == pytest.approx(matrix.ravel(), rel=1e-5)
    log_of(f"copy-feats-to-htk --output-dir=htk --sample-kind=6 {save('a.ark', {'k': matrix})}")
    log_of("copy-feats --htk-in htk/k.fea b.mat")
    np.testing.assert_array_equal(kaldiio.load_mat("b.mat"), matrix)
    log_of("copy-feats --htk-in 'scp:echo k htk/k.fea |' ark:b.ark")
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)


def test_memory_does_not_grow_with_the_table() -> None:
    """A hundred megabytes pass through a program that may hold a fraction of them."""
    # Not getrusage's figure: that begins with what the process had before exec, which is pytest's.
    code = (
        "import sys; from kaldi_compat.programs.copy_feats import main; status = main(sys.argv[1:]);"
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0];"
        "sys.stderr.write(f'\\n{peak}'); sys.exit(status)"
    )
    entry = b"\0BFM \4" + struct.pack("<i", 1000) + b"\4" + struct.pack("<i", 250) + bytes(10**6)
    command = [sys.executable, "-c", code, "ark:-", "ark:/dev/null"]
    table = b"".join(b"k%03d " % i + entry for i in range(100))
    done = subprocess.run(command, input=table, capture_output=True, check=True)
    assert int(done.stderr.split()[-1]) < 80_000  # KiB


@pytest.mark.parametrize(("kind", "stored"), [("-1", b"\xff\xff"), ("65545", b"\0\x09")])
def test_sample_kind_keeps_its_lowest_bits_as_in_kaldi(kind: str, stored: bytes) -> None:
    log_of(f"copy-feats-to-htk --sample-kind={kind} --output-ext=htk {save('a.ark', matrices(4))}")
    assert Path("u0.htk").read_bytes()[10:12] == stored


def test_files_of_sphinx_are_little_endian() -> None:
    matrix = matrices(5, dim=13)["u0"]
    Path("k.mfc").write_bytes(struct.pack(">i", matrix.size) + matrix.astype(">f4").tobytes())
    log_of("copy-feats --sphinx-in 'scp:echo k k.mfc |' ark:b.ark")
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)
    log_of("copy-feats-to-sphinx --output-dir=out ark:b.ark")
    assert Path("out/k.mfc").read_bytes() == struct.pack("<i", matrix.size) + matrix.astype("<f4").tobytes()


@pytest.mark.parametrize("option", ["--include=u0", "--exclude=u1"])
def test_files_of_other_utterances_need_not_exist(option: str) -> None:
    save("a.ark", matrices(2))
    for key in ("u0", "u1"):
        Path(key).write_text(f"{key}\n")
    Path("a.scp").write_text("u0 a.ark:3\nu1 nothing.ark:3\n")
    assert "Wrote 1 out of 2 utterances" in log_of(f"subset-feats {option} scp:a.scp ark:b.ark")
    assert Path("b.ark").read_bytes() == Path("a.ark").read_bytes()


def test_listed_keys_with_wide_spaces_are_found() -> None:
    Path("list").write_text("u\u30000 x\n")
    save("a.ark", {key: np.ones((1, 2), "f4") for key in ("u", "u\u30000")})
    log_of("subset-feats --include=list ark:a.ark ark:b.ark")
    assert list(load("b.ark")) == ["u\u30000"]


def test_an_unsorted_second_table_fails_between_blocks() -> None:
    values = {key: np.ones((rows, 13), np.float32) for key, rows in (("b", 1), ("a", 1), ("c", 9000), ("d", 1))}
    first, second = save("in.ark", values), "ark,s:in.ark"
    message = "a: comes after 'b': the table has the option s, but is not sorted"
    check_refused(main_of("paste-feats"), first, second, "ark:out.ark", message=message)


def test_digits_of_a_comparison_are_kaldis() -> None:
    rng = np.random.default_rng(15)
    x = (rng.integers(-999, 999, (1000, 3)) / 8).astype(np.float32)
    y = (x + rng.integers(-99, 99, (1000, 3)) / 8).astype(np.float32)
    log = log_of(f"compare-feats {save('x.ark', {'u': x})} {save('y.ark', {'u': y})}")
    # Written by Kaldi. In double, the second product would be 5.01901e+06.
    assert "cross-product for each column dimension:  [ 5.01907e+06 5.019e+06 5.14514e+06 ]" in log
    assert "Overall similarity for the two feats is:0.99496 " in log
    assert "Features are considered similar since 1 >= 1" in log_of("compare-feats --threshold=1 ark:x.ark ark:x.ark")


def test_the_threshold_of_a_comparison_is_a_float_as_in_kaldi() -> None:
    save("x.ark", {"u": np.ones((1, 1), np.float32)})
    save("y.ark", {"u": np.full((1, 1), 2, np.float32)})
    # The similarity is 0.8 in double precision, which is less than the float 0.8.
    status, log = run_words(["compare-feats", "--threshold=0.8", "ark:x.ark", "ark:y.ark"])
    assert status == 1 and "Features are considered dissimilar since 0.8 < 0.8" in log
    assert "since 0.8 >= 0.123457" in log_of("compare-feats --threshold=0.1234565 ark:x.ark ark:y.ark")


def test_numbers_in_logs_are_rounded_like_kaldis() -> None:
    """The numbers that C++ prints for the expressions of Kaldi's programs, which mix float and double."""
    save("v.ark", {"u": np.ones(2, np.float32)})
    assert "scaled by 0.123457" in log_of("copy-vector --scale=0.1234565 ark:v.ark ark:o.ark")
    Path("t.mat").write_text(" [ 199 ]\n")
    save("f.ark", {"u": np.ones((3, 1), np.float32)})
    assert "Overall average logdet is 5.29331 over 3 frames" in log_of("transform-feats t.mat ark:f.ark ark:o.ark")
    save("long.ark", {"u": np.full((1234567, 1), 20, np.float32)})
    assert "was 1 over 1.23457e+06 frames" in log_of("compute-vad ark:long.ark ark:o.ark")
    log = log_of("transform-feats t.mat ark:long.ark ark:o.ark")
    assert "over 1.23457e+06 frames" in log
    track = np.tile(np.float32([0.5, 200]), (31, 1))
    track[4:27, 1], track[30, 1] = 0, 60
    assert "74.1936% were zero at input" in log_of(f"interpolate-pitch {save('track.ark', {'u': track})} ark:o.ark")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_selected_ranges_run_in_both_directions(ranges: list[tuple[int, int]]) -> None:
    expected = [c for a, b in ranges for c in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    assert select_feats.parse_selection(",".join(f"{a}-{b}" for a, b in ranges), 10) == expected


def test_one_comma_at_the_end_of_a_selection_is_ignored() -> None:
    # std::getline in select-feats.cc gives no empty last part
    assert select_feats.parse_selection("2,0-1,", 3) == [2, 0, 1]


def test_start_of_a_selection_is_cut_to_the_length_of_the_end_as_in_kaldi(caplog: pytest.LogCaptureFixture) -> None:
    # istringstream(token.substr(0, token.length() - p - 1)) in select-feats.cc
    assert select_feats.parse_selection("10-8", 20) == list(range(1, 9))
    assert "Kaldi reads the selection 10-8 as 1-8" in caplog.text


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("", "No ranges or indices"),
        ("1-", "no number after the hyphen"),
        ("3", "Invalid range start: 3"),
        ("0-3", "Invalid range end: 3"),
        ("--1", "Invalid range end: -1"),
        # Kaldi's program reads memory that is not set: 1,,2 gave 1,1,2 once.
        (",2", "a number is missing"),
        ("1,,2", "a number is missing"),
        ("1, ,2", "a number is missing"),
        ("1,-,2", "no number after the hyphen"),
        ("1- ,2", "a number is missing"),
    ],
)
def test_selections_that_kaldi_refuses_or_makes_up_are_refused(selection: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        select_feats.parse_selection(selection, 3)


@pytest.mark.parametrize(
    ("selection", "columns"),
    # What Kaldi's program writes: of each number it parses as much as looks like one, else it is 0.
    [("-3", [0, 1, 2, 3]), ("3-5-", [3, 4, 5]), ("a", [0]), ("1.5", [1])],
)
def test_odd_selections_are_parsed_as_in_kaldi(
    selection: str, columns: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert select_feats.parse_selection(selection, 13) == columns
    assert "Kaldi reads the selection" in caplog.text


def test_a_segment_that_ends_as_far_outside_as_allowed_is_skipped_as_in_kaldi() -> None:
    save("m.ark", {"u": np.zeros((10, 2), np.float32)})
    Path("segments").write_text("".join(f"s{end} u 0 {end / 100}\n" for end in (10, 14, 15, 16)))
    options = "--min-segment-length=0 --snip-edges=false --max-overshoot=0.05"
    log = log_of(f"extract-feature-segments {options} ark:m.ark segments ark:o.ark")
    assert {key: len(each) for key, each in load("o.ark").items()} == {"s10": 10, "s14": 10}
    assert "End sample too far out of range 15 [length:] 10x2, skipping segment s15" in log


def test_a_time_just_below_half_a_frame_is_rounded_down_as_in_kaldi() -> None:
    # The time is 0.49999999999999994 frames, the largest double below one half, for which C's round() returns 0.
    save("m.ark", {"u": np.arange(20, dtype=np.float32).reshape(10, 2)})
    Path("segments").write_text("s u 0.012499999999999999 0.25\n")
    log_of("extract-feature-segments --snip-edges=false --frame-shift=25 ark:m.ark segments ark:o.ark")
    assert len(load("o.ark")["s"]) == 10


def test_half_a_frame_is_rounded_away_from_zero_as_in_c() -> None:
    options = extract_feature_segments.Options(frame_shift=10)
    times = (0.005, 0.0149, 0.015, -0.0049, -0.005, -0.015)
    assert [options.round_to_frames(time) for time in times] == [1, 1, 2, 0, -1, -2]
