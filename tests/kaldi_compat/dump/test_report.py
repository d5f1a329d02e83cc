"""The page of ``--report``: odd audio, failures by reason, axes with units, and no dependence on colour."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import io_ark
from kaldi_compat.dump import progress, report, report_audio
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.report import draw_failure_groups
from kaldi_compat.dump.report_audio import describe_anomalies
from kaldi_compat.dump.report_charts import choose_ticks, draw_bars, draw_curve, draw_features, draw_histogram
from tests.support.dump_data import audio, dump, edited, job_of, keys_of, make_data, write_wav


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_data(tmp_path, utterances=8)


def page_of(data: Path, *arguments: str, status: int = 0) -> str:
    path = data.parent / "page.html"
    assert dump(data, f"--report={path}", *arguments) == status
    return path.read_text()


def test_silent_and_clipped_utterances_are_named(data: Path) -> None:
    silent, clipped, *_ = sorted((data / "wav").iterdir())
    write_wav(silent, np.zeros((1, 8000), np.int16))
    write_wav(clipped, np.clip(audio(8000, 1).astype(int) * 40, -32768, 32767).astype(np.int16))
    page = page_of(data)
    assert "<td>spk0-utt000</td><td>silent: the largest sample is 0</td>" in page
    assert re.search(r"<td>spk0-utt001</td><td>clipped: \d+\.\d% of the samples", page)
    assert page.count("<td>silent") == page.count("<td>clipped") == 1


def test_other_sampling_rate_is_named_and_its_failure_grouped(data: Path) -> None:
    write_wav(sorted((data / "wav").iterdir())[3], audio(8000, 1), rate=8000)
    page = page_of(data, status=1)
    assert "several sampling rates: 1 of 8000 Hz, 7 of 16000 Hz; the most frequent is 16000 Hz" in page
    assert "<b>1 utterance</b>" in page


def test_only_odd_audio_is_reported() -> None:
    assert describe_anomalies(audio(16000, 3)) == []
    assert describe_anomalies(audio(16000, 3) + np.int16(2000))[0].startswith("offset: the mean of the samples is ")
    assert describe_anomalies(np.concatenate((audio(8000, 1), np.zeros((1, 9000), np.int16)), axis=1))[0].startswith(
        "digital sil"
    )


def test_commands_run_once(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    keys = keys_of(data / "wav.scp")[:-1]
    with edited(data / "wav.scp") as places:
        places |= {key: f"echo {key} >> ran; cat {places[key]} |" for key in keys}
    assert "Among 1 utterance," in page_of(data)
    page_of(data, "--resume")
    assert sorted(Path("ran").read_text().split()) == keys


def test_failures_are_grouped_and_escaped() -> None:
    failures = [(f"utt{i}", f"/data/{i}.wav: No such file <b>") for i in range(3)] + [("x", "too short")]
    shown = draw_failure_groups(failures)
    assert shown.count("<details>") == 2 and "<b>3 utterances</b>: … No such file &lt;b&gt; (first: utt0)" in shown
    assert "/data/2.wav" in shown and "<b>1 utterance</b>: too short" in shown


def test_every_chart_and_picture_has_named_axes_with_units(data: Path) -> None:
    page = page_of(data, "--cmvn=global")
    charts = re.findall(r"<svg viewBox=.0 0 640.*?</svg>", page, flags=re.S)
    assert len(charts) >= 6
    assert all(chart.count('class="name"') == 2 and "aria-label=" in chart for chart in charts)
    assert "time in seconds" in page and "duration in seconds" in page


def test_pictures_count_frames_if_the_frame_shift_is_unknown(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "get_frame_shift", lambda plan: "")
    page = page_of(data)
    assert ">frame (dark" in page and "time in seconds" not in page


def test_page_is_self_contained_and_fits_phones_and_dark_screens(data: Path) -> None:
    sorted((data / "wav").iterdir())[0].unlink()
    page = page_of(data, status=1)
    assert page.count("data:image/png;base64,") == 4
    assert "spk0-utt000" in page and "--num-mel-bins=23" in page
    assert not re.search(r"""(src|href)=["']?https?:""", page)
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page
    assert "#" not in re.sub(r"(?s)<style>.*?</style>|&#\w+;", "", page), "a colour outside of the style sheet"


def test_lines_differ_without_colour() -> None:
    x = np.arange(5.0)
    shown = draw_curve(x, [("mean", x), ("above", x + 1), ("below", x - 1)], ("dimension", "value"))
    dashes = re.findall(r'points="[^"]*" stroke-dasharray="([^"]*)"', shown)
    assert len(set(dashes)) == 3 and all(name in shown for name in ("mean", "above", "below"))


def test_short_bars_have_values_that_differ() -> None:
    shown = draw_bars([("a", 0.048), ("b", 0.021), ("c", 12.34)], "ms")
    assert re.findall(r"width:(.*?)%", shown) == ["0.4", "0.2", "100.0"]
    assert all(f">{value} ms<" in shown for value in ("0.048", "0.021", "12.3"))


def test_charts_of_equal_values_do_not_divide_by_zero() -> None:
    names = ("x", "y")
    for shown in (
        draw_curve(np.arange(3.0), [("", np.zeros(3))], names),
        draw_histogram(np.array([4]), np.array([1.0, 1.0]), names),
        draw_features(np.full((2, 3), np.nan), 0.01, "dimension", "features"),
    ):
        assert "nan" not in shown and "inf" not in shown


@pytest.mark.parametrize("span", [(0.0, 1e-7), (-3.2, 8.1), (0.0, 98765.0), (5.0, 5.0)])
def test_ticks_are_round_and_inside(span: tuple[float, float]) -> None:
    found = choose_ticks(*span)
    assert 1 <= len(found) <= 7 and all(span[0] - 1e-9 <= tick <= span[1] + 1e-9 for tick in found)


def test_page_says_when_by_what_and_from_which_configuration_it_was_made(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kaldi-compat", "dump", "fbank", "https://user:secret@host/data"])
    Path("conf").mkdir(exist_ok=True)
    Path("conf/fbank.conf").write_text("--num-mel-bins=30\n")
    page = page_of(data)
    assert re.search(r"<td>made</td><td>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} by kaldi-compat \d", page)
    assert "<td>command line</td><td>kaldi-compat dump fbank " in page and "secret" not in page
    assert f"<td>fbank.conf</td><td>{Path.cwd()}/conf/fbank.conf</td>" in page


def test_throughput_does_not_fall_when_the_computation_has_ended() -> None:
    monitor = Monitor(2)
    monitor.start -= 1.0
    monitor.record_progress(0, 1, 10.0, 0)
    monitor.start -= 1.0
    monitor.record_progress(0, 2, 20.0, 0)
    monitor.start -= 5.0
    monitor.close()
    times, seconds = zip(*monitor.speed_points, strict=True)
    assert list(seconds) == [0.0, 10.0, 20.0] and times[-1] < 3


def test_page_of_a_longer_run_has_its_throughput(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_POINTS", 0.0)
    page = page_of(data, "--nj=4")
    assert page.count("times real time over seconds of this run") == 1


def test_stages_are_not_compared_with_the_time_of_a_clock(data: Path) -> None:
    page = page_of(data)
    assert "<td>wall</td>" not in page and "<td>compute</td>" in page


def test_legend_has_only_the_names_of_lines() -> None:
    x = np.arange(3.0)
    shown = draw_curve(x, [("", x), ("mean", x)], ("dimension", "value"))
    assert shown.count('class="key"') == 1 and shown.count("polyline") == 2
    assert "legend" not in draw_curve(x, [("", x)], ("dimension", "value"))


CHART_OF_MEANS = "Mean and standard deviation of each dimension"


def test_page_has_the_mean_of_matrices_without_cmvn(data: Path) -> None:
    assert CHART_OF_MEANS in page_of(data)
    assert not (data / "cmvn.ark").exists()


def test_page_of_vectors_has_no_mean_of_frames(data: Path) -> None:
    Path("sums.py").write_text("def f(audio):\n    return [x[:3] for x in audio]\n")
    assert main(["dump", "--module=sums.py:f", str(data), "--nj=1", "--report=page.html"]) == 0
    page = Path("page.html").read_text()
    assert CHART_OF_MEANS not in page and "Durations" in page


def test_options_of_the_page_have_only_configuration_files_that_are_read(data: Path) -> None:
    Path("conf").rename("other")
    assert main(["dump", "fbank", str(data), "--nj=1", "--report=page.html"]) == 0
    page = Path("page.html").read_text()
    assert "<td>nj</td><td>1</td>" in page and "<td>fbank.conf</td>" not in page and "<td>None</td>" not in page


def test_page_lists_the_longest_and_the_shortest_utterances(data: Path) -> None:
    page = page_of(data, "--shard-utterances=3")
    durations = [line.split() for line in (data / "utt2dur").read_text().splitlines()]
    ordered = sorted(durations, key=lambda line: float(line[1]))
    rows = "".join(f"<tr><td>{key}</td><td>{float(seconds):.2f} s</td></tr>" for key, seconds in
                   [*ordered[:-4:-1], *reversed(ordered[:3])])  # fmt: skip
    assert f"<table>{rows}</table>" in page
    sizes = sum(path.stat().st_size for path in (data / "data").glob("*.ark")) / 2**20
    assert f"<td>archives</td><td>3, feats: {sizes:.1f} MiB</td>" in page
    assert "<td>utterances with features</td><td>8 of 8</td>" in page and "<td>failures</td><td>0</td>" in page
    samples = ("spk0-utt000", "spk0-utt002", "spk1-utt004", "spk2-utt007")
    assert re.findall(r"<figcaption>(\S+): \d+ frames x 23</figcaption>", page) == list(samples)


def test_long_matrix_is_cut_in_its_picture(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_FRAMES", 50)
    page = page_of(data)
    frames = dict(line.split() for line in (data / "utt2num_frames").read_text().splitlines())
    cut = [key for key, count in frames.items() if int(count) > 50]
    for key in ("spk0-utt000", "spk0-utt002", "spk1-utt004", "spk2-utt007"):
        end = ", the first 50 frames" if key in cut else ""
        assert f"<figcaption>{key}: {frames[key]} frames x 23{end}</figcaption>" in page
    assert cut and "0.5</text>" in page


def test_failures_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_FAILURES", 4)
    failures = [
        *((f"a{i}", "late") for i in range(3)),
        *((f"b{i}", "long") for i in range(3)),
        ("c", "loud"),
        ("d", "x"),
    ]
    groups = draw_failure_groups(failures).splitlines()
    assert [group.count("<tr>") for group in groups] == [3, 1, 1, 1]
    assert [re.findall(r"and (\d+) more", group) for group in groups] == [[], ["2"], [], []]
    assert draw_failure_groups([]) == ""


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], ["empty"]),
        ([32, -32], ["silent: the largest sample is 32"]),
        ([-33, 30], []),
        ([32767, *[100, -100] * 499, 0], ["clipped: 0.1% of the samples are at full scale"]),
        ([-32768, *[100, -100] * 499, 0], ["clipped: 0.1% of the samples are at full scale"]),
        ([32767, *[100, -100] * 500], []),
        ([32766, *[100, -100] * 499, 0], []),
        ([900, -900, 0, 0], ["digital silence: 50% of the samples are 0"]),
        ([900, -900, 900, -900, 0, 0, 0, 1], []),
        ([120, -80], []),
        ([122, -78], ["offset: the mean of the samples is 22"]),
        ([-122, 78], ["offset: the mean of the samples is -22"]),
        ([1022, -978], []),
    ],
)
def test_limits_of_odd_audio(samples: list[int], expected: list[str]) -> None:
    assert describe_anomalies(np.array([samples], np.int16)) == expected


def test_picture_is_dark_at_the_smallest_and_light_at_the_largest_value_of_time_by_dimension() -> None:
    values = np.array([[1.0, 2.0], [3.0, np.nan], [np.inf, 6.0]])
    shown = draw_features(values, 0.5, "dimension", "features")
    (content,) = re.findall('base64,([^"]*)', shown)
    png = base64.b64decode(content)
    assert struct.unpack(">IIBBBBB", png[16:29]) == (3, 2, 8, 0, 0, 0, 0)
    size = int.from_bytes(png[33:37], "big")
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(2, 4)
    assert rows.tolist() == [[0, 51, 0, 255], [0, 0, 102, 0]]  # A row begins with its filter, and dimension 0 is last.
    assert "time in seconds (dark: 1, light: 6)" in shown and ">1.5</text>" in shown
    without_shift = draw_features(values, 0.0, "dimension", "features")
    assert ">frame (dark: 1, light: 6)" in without_shift and ">3</text>" in without_shift
    assert "seconds" not in without_shift


def test_inspected_utterances_are_the_segments(data: Path) -> None:
    keys = keys_of(data / "wav.scp")
    write_wav(data / "wav" / f"{keys[0]}.wav", np.zeros((1, 8000), np.int16))
    (data / "segments").write_text("".join(f"{key}-{part} {key} {part / 5} {part / 5 + 0.15}\n"
                                           for key in keys for part in (0, 1)))  # fmt: skip
    (data / "utt2spk").unlink()
    page = page_of(data)
    assert "Among 16 utterances" in page
    assert re.findall(r"<td>(\S+)</td><td>silent", page) == [f"{keys[0]}-0", f"{keys[0]}-1"]


def test_picture_of_equal_values_is_dark() -> None:
    with np.errstate(all="raise"):
        shown = draw_features(np.full((2, 3), 7.0), 0.01, "dimension", "features")
    (content,) = re.findall('base64,([^"]*)', shown)
    assert not np.frombuffer(zlib.decompress(base64.b64decode(content)[41:-16]), np.uint8).any()


def test_curves_ticks_and_names_are_at_their_places_on_the_axes() -> None:
    lines = [("", np.array([2.0, 5.0, 3.0])), ("", np.array([-1.0, 0.0, 1.0]))]
    shown = draw_curve(np.array([1.0, 2.0, 5.0]), lines, ("dimension", "value"))
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', shown)[0])
    left, top, bottom, right = map(float, re.findall(r'class="axis" d="M(\d+) (\d+)V(\d+)H(\d+)"', shown)[0])
    assert 0 < left < right < width and 0 < top < bottom < height

    def across(value: float) -> float:
        return left + (value - 1) / 4 * (right - left)

    def up(value: float) -> float:
        return bottom - (value + 1) / 6 * (bottom - top)

    curves = re.findall(r'points="([^"]*)"', shown)
    points = [[tuple(map(float, point.split(","))) for point in curve.split()] for curve in curves]
    expected = [[(across(x), up(y)) for x, y in zip((1, 2, 5), line, strict=True)] for _, line in lines]
    np.testing.assert_allclose(points, expected, atol=0.06)
    ticks = re.findall(r'<line class="grid" x1="(.*?)" x2="(.*?)" y1="(.*?)" y2="(.*?)"/>'
                       r'<text x="(.*?)" y="(.*?)" text-anchor="(.*?)">(.*?)</text>', shown)  # fmt: skip
    assert [tick[6:] for tick in ticks] == [*(("middle", x) for x in "12345"), *(("end", y) for y in "024")]
    below = [(across(x), across(x), bottom, bottom + 4, across(x), bottom + 17) for x in range(1, 6)]
    beside = [(left, right, up(y), up(y), left - 6, up(y) + 4) for y in (0, 2, 4)]
    np.testing.assert_allclose([[float(place) for place in tick[:6]] for tick in ticks], below + beside, atol=0.06)
    assert f'class="name" x="{(left + right) / 2}" y="{height - 6:g}"' in shown
    assert f"translate(14 {(top + bottom) / 2}) rotate(-90)" in shown
    assert 'aria-label="value over dimension, -1 to 5"' in shown
    assert re.findall(r'class="name" .*?>(.*?)<', shown) == ["dimension", "value"]


def test_page_has_the_warnings_and_the_slowest_utterances(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(data / "utt2spk", "a") as speakers:
        speakers.write("spk3-utt009 spk3\n")
    sample = report_audio.Inspection(3, [], [("spk0-utt000", 0.25), ("spk1-utt004", 0.1234)])
    monkeypatch.setattr(report, "inspect_audio", lambda job: sample)
    page = page_of(data, status=1)
    assert re.search(r"<td>warning</td><td>\S+utt2spk lists 9 utterances, but \S+wav.scp lists 8: ", page)
    (slowest,) = re.findall(r"<h2>Slowest to read</h2>\n(.*?)</table>", page)
    assert re.findall(r">([\d.]+ ms)<", slowest) == ["250.0 ms", "123.4 ms"] and "Among 3 utterances" in slowest
    assert "<p>None was found.</p>" in page


def test_section_without_content_has_no_heading(data: Path) -> None:
    heading = "<h2>Failures by reason</h2>"
    assert heading not in page_of(data)
    sorted((data / "wav").iterdir())[0].unlink()
    assert heading in page_of(data, status=1)
    assert not re.search(r"</h2>\s*(<h2>|</body>)", page_of(data, status=1))


def test_odd_audio_is_in_the_order_of_the_list(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = io_ark.Wave(16000.0, np.zeros((1, 100), np.int16))
    waves = {f"{number:05d}": silent for number in range(5000)}
    monkeypatch.setattr(report_audio, "_open_waves", lambda job: waves)
    keys = [key for key, _ in report_audio.inspect_audio(job_of(data)).anomalies]
    assert len(keys) == 200 and keys == sorted(keys) and (keys[0], keys[-1]) == ("00000", "04999")


def test_bars_of_a_histogram_fill_the_chart_with_gaps_of_one_unit() -> None:
    shown = draw_histogram(np.array([1.0, 3.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0]), ("x", "y"))
    bars = [tuple(map(float, bar)) for bar in re.findall(r'class="bar" x="([\d.]+)" .*?width="([\d.]+)"', shown)]
    assert len(bars) == 3 and sum(bars[-1]) < 640  # the width of the chart
    assert all(left + width + 1 == pytest.approx(right, abs=0.2) for (left, width), (right, _) in pairwise(bars))


def test_table_has_a_row_for_each_pair_of_texts() -> None:
    rows = "<tr><td>a</td><td>b &lt; c</td></tr><tr><td>d</td><td>1</td></tr>"
    assert report.draw_table([("a", "b < c"), ("d", "1")]) == f"<table>{rows}</table>"
    assert report.draw_table([]) == ""
    assert [report._describe_rest(count) for count in (-1, 0, 1)] == ["", "", '<p class="note">and 1 more</p>']
