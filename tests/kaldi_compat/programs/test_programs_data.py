"""The programs that only move data: what the stored cases of Kaldi do not show."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark.codecs.wave import Wave
from kaldi_compat.cli.loop import Skip, map_table
from kaldi_compat.cli.pipeline import WAITING, WriteBehind
from kaldi_compat.cli.segments import SegmentOptions, cut, parse_segment
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.programs import (
    concat_feats,
    copy_feats,
    copy_feats_to_htk,
    copy_feats_to_sphinx,
    copy_int_vector,
    copy_matrix,
    copy_vector,
    extract_feature_segments,
    extract_segments,
    feat_to_dim,
    feat_to_len,
    paste_feats,
    select_feats,
    shift_feats,
    subsample_feats,
    subset_feats,
    wav_copy,
    wav_to_duration,
)
from tests.support.tables import load, matrices, save, text, wav

Run = Callable[..., int]


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("method", range(1, 8))
def test_copy_feats_compresses_as_kaldiio_understands(method: int) -> None:
    values = {key: np.round(np.abs(value) * 50).clip(0, 255) for key, value in matrices(20, 9).items()}
    source = save("in.ark", values)
    assert copy_feats.main(["--compress", f"--compression-method={method}", source, "ark:out.ark"]) == 0
    for key, value in load("out.ark").items():
        if method == 7:  # made for values from 0 to 1
            assert value.shape == values[key].shape
        else:
            np.testing.assert_allclose(value, values[key], atol=2.0)


def test_copy_feats_between_files_and_formats(capfd: pytest.CaptureFixture[str]) -> None:
    matrix = matrices(4)["u0"]
    kaldiio.save_mat("a.mat", matrix)
    assert copy_feats.main(["--binary=false", "a.mat", "-"]) == 0
    assert np.array(capfd.readouterr().out.strip(" []\n").split(), float) == pytest.approx(matrix.ravel(), rel=1e-5)
    assert copy_feats_to_htk.main(["--output-dir=htk", "--sample-kind=6", save("a.ark", {"k": matrix})]) == 0
    assert copy_feats.main(["--htk-in", "htk/k.fea", "b.mat"]) == 0
    np.testing.assert_array_equal(kaldiio.load_mat("b.mat"), matrix)
    assert copy_feats.main(["--htk-in", "scp:echo k htk/k.fea |", "ark:b.ark"]) == 0
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)


def test_copy_feats_reads_sphinx_and_writes_it_little_endian() -> None:
    matrix = matrices(5, dim=13)["u0"]
    Path("k.mfc").write_bytes(struct.pack(">i", matrix.size) + matrix.astype(">f4").tobytes())
    assert copy_feats.main(["--sphinx-in", "scp:echo k k.mfc |", "ark:b.ark"]) == 0
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)
    assert copy_feats_to_sphinx.main(["--output-dir=out", "ark:b.ark"]) == 0
    assert Path("out/k.mfc").read_bytes() == struct.pack("<i", matrix.size) + matrix.astype("<f4").tobytes()


@pytest.mark.parametrize("main", [copy_feats_to_htk.main, copy_feats_to_sphinx.main])
def test_a_directory_that_cannot_be_made_is_named(main: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output-dir=none/out", save("a.ark", matrices(4))]) == 255
    assert "the directory 'none/out' cannot be made: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--compress", "--write-num-frames=ark:n", "--sphinx-in"])
def test_copy_feats_refuses_table_options_for_files(option: str) -> None:
    kaldiio.save_mat("a.mat", matrices(4)["u0"])
    assert copy_feats.main([option, "a.mat", "b.mat"]) == 255
    assert not os.path.exists("b.mat")


@pytest.mark.parametrize(
    "main", [copy_feats.main, copy_matrix.main, copy_vector.main, copy_int_vector.main, wav_copy.main]
)
def test_a_table_and_a_file_do_not_mix(main: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ark:a.ark", "b.mat"]) == 255
    assert main(["a.mat", "ark:b.ark"]) == 255
    assert "is a table" in capsys.readouterr().err


def test_an_empty_table_is_no_success_and_leaves_an_empty_archive() -> None:
    assert copy_feats.main([text("a.ark", ""), "ark:b.ark"]) == 1
    assert os.path.getsize("b.ark") == 0


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=8),
    st.sampled_from(["apply_exp", "apply_log", "apply_softmax_per_row"]),
    st.sampled_from([1.0, 2.0, -1.0]),
)
def test_copy_matrix_functions(row: list[float], function: str, power: float) -> None:
    matrix = np.array([row, row[::-1]], np.float32)
    exact = matrix.astype(np.float64)
    exact = {
        "apply_exp": np.exp(exact),
        "apply_log": np.log(np.maximum(exact, 1e-20)),
        "apply_softmax_per_row": np.exp(exact) / np.exp(exact).sum(1, keepdims=True),
    }[function]
    with np.errstate(all="ignore"):
        result = copy_matrix.transformed(matrix, copy_matrix.Options(**{function: True}, apply_power=power))
        np.testing.assert_allclose(result, exact**power, rtol=1e-5, atol=1e-30)


def test_copy_matrix_takes_one_function() -> None:
    with pytest.raises(OptionError):
        copy_matrix.Options(apply_exp=True, apply_log=True)


def test_copy_vector_changes_dimension_and_scale() -> None:
    vector = np.array([1, 2, 3], np.float32)
    assert copy_vector.changed(vector, 2, 2.0).tolist() == [2, 4]
    assert copy_vector.changed(vector, 5, 1.0).tolist() == [1, 2, 3, 0, 0]
    assert copy_vector.changed(vector, 0, 1.0).tolist() == []
    assert copy_vector.changed(vector, -1, 1.0).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("numbers", "written"), [([1, -2, 300000], b"[ 1 -2 300000 ]\n"), ([], b"[ ]\n")], ids=["three", "none"]
)
def test_copy_int_vector_file(numbers: list[int], written: bytes) -> None:
    # Kaldi's WriteIntegerVector: not what stands in tables, where each number has a byte with its size.
    binary = b"\0B\4" + struct.pack(f"<i{len(numbers)}i", len(numbers), *numbers)
    Path("text").write_bytes(b" " + written.replace(b" ]", b"\n]").strip())
    for source in ("text", "binary"):
        assert copy_int_vector.main([source, "binary"]) == 0
        assert Path("binary").read_bytes() == binary
        assert copy_int_vector.main(["--binary=false", source, "again"]) == 0
        assert Path("again").read_bytes() == written


def test_copy_int_vector_table() -> None:
    assert copy_int_vector.main([text("a", "u 1 -2 3\n"), "ark:b"]) == 0
    assert Path("b").read_bytes() == b"u \0B\4" + struct.pack("<i", 3) + struct.pack("<bibibi", 4, 1, 4, -2, 4, 3)


@pytest.mark.parametrize("content", [b"1 2 3\n", b"[ 1 2\n", b"[ 1 x ]\n", b"\0B\4\2\0\0\0\1\0\0\0"])
def test_copy_int_vector_refuses_other_files(content: bytes) -> None:
    Path("a").write_bytes(content)
    assert copy_int_vector.main(["a", "b"]) == 255


def test_feat_to_len_and_dim(capfd: pytest.CaptureFixture[str]) -> None:
    source = save("a.ark", matrices(4, 7))
    assert feat_to_len.main([source]) == 0
    assert capfd.readouterr().out == "11\n"
    assert feat_to_dim.main([source, "-"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert feat_to_len.main([source, "ark,t:-"]) == 0
    assert capfd.readouterr().out == "u0 4 \nu1 7 \n"
    assert feat_to_len.main([text("none.ark", "")]) == 0
    assert capfd.readouterr().out == "0\n"


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--n=2"], ["u0", "u1"]),
        ([], ["u0", "u1", "u2"]),
        (["--include=list"], ["u0", "u2"]),
        (["--exclude=list"], ["u1"]),
    ],
)
def test_subset_feats(options: list[str], keys: list[str]) -> None:
    Path("list").write_text("u2 and more\nu0\nelsewhere\n")
    assert subset_feats.main([*options, save("a.ark", matrices(1, 2, 3)), "ark:b.ark"]) == 0
    assert list(load("b.ark")) == keys


def test_listed_utterances_may_hold_wide_spaces() -> None:
    Path("list").write_text("u\u30000 x\n")
    source = save("a.ark", {key: np.ones((1, 2), "f4") for key in ("u", "u\u30000")})
    assert subset_feats.main(["--include=list", source, "ark:b.ark"]) == 0
    assert list(load("b.ark")) == ["u\u30000"]


@pytest.mark.parametrize("options", [["--n=0"], ["--n=2", "--include=l"], ["--include=l", "--exclude=l"]])
def test_subset_feats_refuses(options: list[str]) -> None:
    assert subset_feats.main([*options, "ark:a.ark", "ark:b.ark"]) == 255


def test_subset_feats_refuses_an_empty_line() -> None:
    Path("list").write_text("u0\n\n")
    assert subset_feats.main(["--include=list", save("a.ark", matrices(1)), "ark:b.ark"]) == 255


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_selection_of_ranges(ranges: list[tuple[int, int]]) -> None:
    expected = [c for a, b in ranges for c in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    assert select_feats.selected(",".join(f"{a}-{b}" for a, b in ranges), 10) == expected


def test_one_comma_at_the_end_of_a_selection_is_overlooked() -> None:
    # std::getline in select-feats.cc gives no empty last part
    assert select_feats.selected("2,0-1,", 3) == [2, 0, 1]


def test_selection_of_longer_starts_is_kaldis(caplog: pytest.LogCaptureFixture) -> None:
    # istringstream(token.substr(0, token.length() - p - 1)) in select-feats.cc
    assert select_feats.selected("10-8", 20) == list(range(1, 9))
    assert "Kaldi reads the selection 10-8 as 1-8" in caplog.text


@pytest.mark.parametrize("selection", ["", "a", "1-", "-1", "0,,1", "3", "0-3", "1.5"])
def test_bad_selections(selection: str) -> None:
    with pytest.raises(OptionError, match="selection"):
        select_feats.selected(selection, 3)


def test_paste_feats_tolerance() -> None:
    short, long = matrices(5)["u0"], matrices(7)["u0"]
    assert paste_feats.pasted([short, long], 2).shape == (5, 6)
    with pytest.raises(Skip, match="7 and 5 frames"):
        paste_feats.pasted([short, long], 1)
    with pytest.raises(Skip):
        paste_feats.pasted([short, long[:0]], 10)


def test_paste_feats_of_files_and_missing_utterances() -> None:
    values = matrices(3, 4)
    for key, value in values.items():
        kaldiio.save_mat(f"{key}.mat", value)
    assert paste_feats.main(["u0.mat", "u0.mat", "o.mat"]) == 0
    np.testing.assert_array_equal(kaldiio.load_mat("o.mat"), np.hstack([values["u0"]] * 2))
    assert paste_feats.main(["u0.mat", "u1.mat", "o.mat"]) == 1
    both, one = save("both.ark", values), save("one.ark", {"u1": values["u1"]})
    assert paste_feats.main([both, one, "ark:o.ark"]) == 0
    assert list(load("o.ark")) == ["u1"]
    assert paste_feats.main([one, save("other.ark", {"x": values["u1"]}), "ark:o.ark"]) == 255
    assert paste_feats.main([both, "ark:o.ark"]) == 1


def test_concat_feats() -> None:
    kaldiio.save_mat("a.mat", matrices(2)["u0"])
    kaldiio.save_mat("b.mat", matrices(2, dim=4)["u0"])
    assert concat_feats.main(["a.mat", "a.mat", "a.mat", "o.mat"]) == 0
    assert kaldiio.load_mat("o.mat").shape == (6, 3)
    assert concat_feats.main(["a.mat", "b.mat", "o.mat"]) == 255


@given(st.integers(1, 9), st.integers(-12, 12))
def test_shift_is_an_index_that_stops_at_the_edges(frames: int, shift: int) -> None:
    matrix = np.arange(frames, dtype=np.float32)[:, None]
    expected = [min(max(r - shift, 0), frames - 1) for r in range(frames)]
    assert shift_feats.shifted(matrix, shift)[:, 0].tolist() == expected


def test_shift_feats_skips_empty_matrices() -> None:
    assert shift_feats.main([text("a.txt", "a [ ]\nb [\n 1 2 ]\n"), "ark:o.ark"]) == 0
    assert list(load("o.ark")) == ["b"]


@given(st.integers(0, 9), st.integers(1, 4), st.integers(0, 5))
def test_subsample(frames: int, n: int, offset: int) -> None:
    matrix = np.arange(frames, dtype=np.float32)[:, None]
    assert subsample_feats.subsampled(matrix, n, offset)[:, 0].tolist() == list(range(offset, frames, n))
    assert subsample_feats.subsampled(matrix, -n)[:, 0].tolist() == [i for i in range(frames) for _ in range(n)]


@pytest.mark.parametrize("option", ["--n=0", "--offset=-1"])
def test_subsample_refuses(option: str) -> None:
    assert subsample_feats.main([option, "ark:a.ark", "ark:b.ark"]) == 255


@pytest.mark.parametrize(
    "line",
    ["", "s r 1", "s r x 2", "s r 1 y", "s r -1 2", "s r 2 1", "s r 1 1", "s r 1 -2", "s r 0 1 x", "s r 0 1 -1",
     "s r 0 1 0 0", "s r nan 1", "s r 0 nan"],
)  # fmt: skip
def test_bad_segment_lines(line: str) -> None:
    with pytest.raises(Skip, match="Invalid line"):
        parse_segment(line)


def test_segments_of_channels_and_ends() -> None:
    wave = Wave(1000.0, np.arange(2000, dtype=np.int16).reshape(2, 1000))
    options = SegmentOptions()

    def bounds(line: str) -> tuple[int, int]:
        samples = cut(wave, parse_segment(line), options).samples
        return int(samples[0, 0]), int(samples[0, -1])

    assert bounds("s r 0.1 0.5 0") == (100, 499)
    assert bounds("s r 0.1 0.5 1") == (1100, 1499)
    assert bounds("s r 0.1 -1 0") == (100, 999)
    assert bounds("s r 0.1 1.5 0") == (100, 999)
    assert bounds("s r 0.0104 0.5006 0") == (10, 500)
    for wrong in ("s r 0.1 1.6 0", "s r 1.1 2 0", "s r 0.1 0.15 0", "s r 0.1 0.5 2"):
        with pytest.raises(Skip):
            cut(wave, parse_segment(wrong), options)
    with pytest.raises(AudioError, match="2 channels"):
        cut(wave, parse_segment("s r 0.1 0.5"), options)


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        # A float 0.1 is greater than the double 0.1, which is what most of these differences are, or nearly.
        ("0 0.1", False), ("0.2 0.3", False), ("0.3 0.4", False), ("0.5 0.6", False), ("0 0.1000000015", True),
        ("0 1.50000001", False), ("0 1.5", True), ("1.00000001 1.2", False), ("0.89999999 -1", True),
    ],
)  # fmt: skip
def test_segments_at_the_limits(times: str, kept: bool) -> None:
    # extract-segments.cc compares double with float, in double.
    wave = Wave(8000.0, np.ones((1, 8000), np.int16))
    try:
        cut(wave, parse_segment(f"s r {times}"), SegmentOptions())
    except Skip:
        assert not kept
    else:
        assert kept


def test_recordings_in_pipes_are_read_once_for_neighbouring_segments() -> None:
    wav("a.wav", 8000, np.ones((8000, 1)))
    Path("wav.scp").write_text("r echo x >> runs; cat a.wav |\n")
    Path("segments").write_text("s1 r 0 0.5\ns2 r 0.5 1.0\n")
    assert extract_segments.main(["scp:wav.scp", "segments", "ark:o.ark"]) == 0
    assert Path("runs").read_text() == "x\n"


def test_feature_segments() -> None:
    feats = np.arange(100, dtype=np.float32)[:, None]

    def bounds(line: str, **options: Any) -> tuple[int, int]:
        cut = extract_feature_segments.cut(feats, parse_segment(line), extract_feature_segments.Options(**options))
        return int(cut[0, 0]), int(cut[-1, 0])

    assert bounds("s u 0.1 0.5") == (10, 47)  # two frames fewer, as if the audio had been cut
    assert bounds("s u 0.1 0.5", snip_edges=False) == (10, 49)
    assert bounds("s u 0.105 0.505", snip_edges=False) == (11, 50)
    assert bounds("s u 0.1 1.1", snip_edges=False, max_overshoot=0.2) == (10, 99)
    for wrong in ("s u 0.1 1.5", "s u 1.0 1.2", "s u 0.1 0.2"):
        with pytest.raises(Skip):
            bounds(wrong)


def test_wav_to_duration_and_wav_copy(capfd: pytest.CaptureFixture[str]) -> None:
    wav("a.wav", 8000, np.ones((1234, 2)))
    assert wav_copy.main(["a.wav", "b.wav"]) == 0
    assert Path("b.wav").read_bytes() == Path("a.wav").read_bytes()
    Path("wav.scp").write_text("a a.wav\nb cat a.wav |\n")
    for option in ("--read-entire-file=true", "--read-entire-file=false"):
        assert wav_to_duration.main([option, "scp:wav.scp", "ark,t:-"]) == 0
        assert capfd.readouterr().out == "a 0.15425 \nb 0.15425 \n"


def test_skips_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    def function(key: str, value: int) -> int:
        if value < 0:
            raise Skip(f"{key} is negative" if value < -1 else "")
        return value

    written: dict[str, int] = {}
    counts = map_table([("a", 1), ("b", -1), ("c", -2), ("d", 2)], written, function)
    assert (counts.done, counts.failed, counts.total, counts.status) == (2, 2, 4, 0)
    assert written == {"a": 1, "d": 2}
    assert [record.getMessage() for record in caplog.records] == ["c is negative"]


class SlowWriter:
    def __init__(self, fail_at: str = "") -> None:
        self.written: list[str] = []
        self.fail_at = fail_at
        self.go_on = threading.Event()

    def __setitem__(self, key: str, value: Any, /) -> None:
        self.go_on.wait(10)
        if key == self.fail_at:
            raise OSError("disk full")
        self.written.append(key)


def test_writing_behind_keeps_the_order_and_waits_for_the_end() -> None:
    writer = SlowWriter()
    writer.go_on.set()
    with WriteBehind(writer) as behind:
        for i in range(50):
            behind[str(i)] = i
    assert writer.written == [str(i) for i in range(50)]


def test_writing_behind_is_bounded() -> None:
    writer = SlowWriter()
    handed_over = 0

    def produce() -> None:
        nonlocal handed_over
        with WriteBehind(writer) as behind:
            for i in range(100):
                behind[str(i)] = i
                handed_over += 1

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.2)
    assert handed_over <= WAITING + 1
    writer.go_on.set()
    thread.join()
    assert len(writer.written) == 100


def test_an_error_behind_is_raised_and_nothing_is_written_after_it() -> None:
    writer = SlowWriter(fail_at="3")
    writer.go_on.set()
    with pytest.raises(OSError, match="disk full"), WriteBehind(writer) as behind:
        for i in range(100):
            behind[str(i)] = i
    assert writer.written == ["0", "1", "2"]


def test_a_pipeline_streams_in_bounded_memory() -> None:
    """A hundred megabytes pass through a program that may hold a fraction of them."""
    # Not getrusage's figure: that begins with what the process had before exec, which is pytest's.
    code = (
        "import sys; from kaldi_compat.programs.copy_feats import main; status = main();"
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0];"
        "sys.stderr.write(f'\\n{peak}'); sys.exit(status)"
    )
    entry = b"\0BFM \4" + struct.pack("<i", 1000) + b"\4" + struct.pack("<i", 250) + bytes(10**6)
    command = [sys.executable, "-c", code, "ark:-", "ark:/dev/null"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for i in range(100):
            process.stdin.write(b"k%03d " % i + entry)
        process.stdin.close()
        kilobytes = int(process.stderr.read().split()[-1])
        assert process.wait() == 0
    assert kilobytes < 80_000
