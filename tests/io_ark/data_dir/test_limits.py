"""Numbers and comparisons at which the results for data directories change: each on both sides of its limit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark import ArkError, DataDir, DataDirError, Segment, Wave
from io_ark.data_dir import directories, durations, line_chunks, lists, perturb
from io_ark.data_dir.fix import fix_directory
from io_ark.data_dir.scripts import SCRIPTS, call_script, run_protected
from io_ark.data_dir.stage import DataFiles, Printer
from tests.io_ark.data_dir.test_directory import write


def quiet(name: str = "script") -> Printer:
    return Printer(name, lambda line: None)


def make(folder: Path, count: int = 4, /, **files: str) -> DataDir:
    """Make a directory of utterances u1, u2, ..., each of its own speaker, with more files."""
    keys = [f"u{at}" for at in range(1, count + 1)]
    pairs = "".join(f"{key} {key}\n" for key in keys)
    files = {"utt2spk": pairs, "spk2utt": pairs, "wav_scp": "".join(f"{key} {key}.wav\n" for key in keys), **files}
    return write(folder, **files)


@pytest.fixture
def sox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sox").write_text("")
    (tmp_path / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_durations_of_frames_lack_the_overlap_of_windows(tmp_path: Path) -> None:
    data = make(tmp_path / "numbers", 2, utt2num_frames="u1 100\nu2 1\n", frame_shift="0.02\n")
    assert data.utt2dur() == {"u1": 2.03, "u2": 0.05}
    data = make(tmp_path / "feats", 1)
    io_ark.save(str(tmp_path / "a"), np.zeros((100, 2), np.float32))
    Path(data.file("wav.scp")).unlink()
    Path(data.path, "feats.scp").write_text(f"u1 {tmp_path / 'a'}\n")
    assert data.utt2dur() == {"u1": 1.015} and data.num_frames() == {"u1": 100}


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_lengths_of_parts_are_joined_in_order(tmp_path: Path, parts: int) -> None:
    for at in range(1, 4):
        io_ark.save(str(tmp_path / f"{at}.mat"), np.zeros((10 * at, 2), np.float32))
        io_ark.save(str(tmp_path / f"{at}.wav"), Wave(8000.0, np.zeros((1, 8000 * at), np.int16)))
    feats, audio = ("".join(f"u{at} {tmp_path}/{at}.{end}\n" for at in (1, 2, 3)) for end in ("mat", "wav"))
    data = make(tmp_path / "data", 3, wav_scp=audio, feats_scp=feats)
    durations.get_utt2num_frames(quiet(), data.path, nj=parts)
    assert Path(data.file("utt2num_frames")).read_text() == "u1 10 \nu2 20 \nu3 30 \n"
    durations.get_utt2dur(quiet(), data.path, nj=parts)
    assert Path(data.file("utt2dur")).read_text() == "u1 1 \nu2 2 \nu3 3 \n"
    assert len(list(Path(data.path).glob("split*utt/*/utt2dur"))) == parts


def test_frames_of_durations_are_not_whole_windows(tmp_path: Path) -> None:
    data = make(tmp_path / "data", 3, utt2dur="u1 1.0\nu2 0.0249\nu3 0.0251\n")
    durations.get_utt2num_frames(quiet(), data.path)
    assert data.num_frames() == {"u1": 98, "u2": 0, "u3": 1}
    Path(data.path, "utt2num_frames").unlink()
    assert data.num_frames(frame_shift=0.02, frame_overlap=0.005)["u1"] == 49


@pytest.mark.parametrize(("made", "fails"), [(8, False), (4, False), (3, True)])
def test_durations_of_less_than_half_are_enough(tmp_path: Path, made: int, fails: bool) -> None:
    said: list[str] = []
    text = "".join(f"u{at} r 0 1\n" for at in range(1, made + 1))
    data = make(tmp_path / "data", 8, segments=text)
    try:
        durations.get_utt2dur(Printer("script", said.append), data.path)
        assert not fails
    except DataDirError:
        assert fails
    assert any("warning: length of utt2dur" in line for line in said) == (made < 8)
    assert any("less than half" in line for line in said) == fails


@pytest.mark.parametrize(("seconds", "remade"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("name", ["utt2spk", "wav.scp", "utt2lang"])
def test_split_is_remade_if_it_is_not_older(tmp_path: Path, name: str, seconds: int, remade: bool) -> None:
    data = make(tmp_path / "data", utt2lang="".join(f"u{at} x\n" for at in range(1, 5)))
    first = Path(data.split(2)[0].path)
    for path in (*Path(data.path).iterdir(), *first.iterdir()):
        os.utime(path, (1e9, 1e9))
    (first / "utt2spk").write_text("changed\n")
    os.utime(first / "utt2spk", (1e9, 1e9))
    os.utime(Path(data.path, name), (1e9 + seconds, 1e9 + seconds))
    data.split(2)
    assert ((first / "utt2spk").read_text() != "changed\n") == remade


def test_split_is_not_remade_with_a_new_file(tmp_path: Path) -> None:
    data = make(tmp_path / "data")
    first = data.split(2)[0]
    Path(data.path, "text").write_text("".join(f"u{at} x\n" for at in range(1, 5)))
    os.utime(Path(data.path, "text"), (1, 1))
    data.split(2)
    assert dict(first.text) == {"u1": "x", "u2": "x"}


@pytest.mark.parametrize(("per_utt", "count"), [(True, 5), (False, 5)])
def test_parts_are_of_other_sizes(tmp_path: Path, per_utt: bool, count: int) -> None:
    data = make(tmp_path / "data", count)
    assert [part.utterances() for part in data.split(2, per_utt=per_utt)] == [["u1", "u2", "u3"], ["u4", "u5"]]
    assert all(len(part) == 1 for part in data.split(count, per_utt=per_utt))
    with pytest.raises(DataDirError):
        data.split(count + 1, per_utt=per_utt)


def test_count_of_lines_is_not_that_of_newlines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\nb\nc")
    source = DataFiles(str(tmp_path))
    assert source.count_lines("a") == 2 and source.count_lines("none") == 0


@pytest.mark.usefixtures("sox")
def test_incomplete_durations_of_a_source_are_not_made_again(tmp_path: Path) -> None:
    data = make(tmp_path / "data", 2, utt2dur="u1 1\n", reco2dur="u1 4\n")
    fast = data.perturb_speed(tmp_path / "fast", 2)
    assert Path(data.file("utt2dur")).read_text() == "u1 1\n" and Path(data.file("reco2dur")).read_text() == "u1 4\n"
    assert fast.utterances() == ["sp2-u1"]


@pytest.mark.usefixtures("sox")
def test_shortest_segments_are_kept_at_another_speed(tmp_path: Path) -> None:
    data = make(
        tmp_path / "data",
        wav_scp="r a.wav\n",
        reco2dur="r 9\n",
        segments="u1 r 0 0.02\nu2 r 0 0.0202\nu3 r 1 2\nu4 r 0 0.01\n",
    )
    fast = data.perturb_speed(tmp_path / "fast", 2)
    assert Path(fast.file("segments")).read_text() == "sp2-u2 sp2-r 0.00 0.01\nsp2-u3 sp2-r 0.50 1.00\n"
    assert fast.reco2dur() == {"sp2-r": 4.5}


@pytest.mark.parametrize(
    ("start", "end", "samples"),
    [
        (0, 0.099, r"^a: the segment from 0 s to 0\.099 s of r is shorter than 0\.1 s: remove the segment, or reduce"),
        (0, 0.1001, 801),
        (0.5, 1.5, 4000),
        (
            0.5,
            1.501,
            r"^a: the segment from 0\.5 s to 1\.501 s of r is outside the recording of 1 s: correct the times",
        ),
        (1.01, -1, r"^a: the segment from 1\.01 s to the end of r is outside the recording of 1 s: correct the times"),
        (0.5, -1, 4000),
        (0.00007, 0.50006, 3999),
        (0.00006, 0.50007, 4001),
    ],
)
def test_segment_is_cut_elsewhere(start: float, end: float, samples: int | str) -> None:
    wave = Wave(8000.0, np.zeros((1, 8000), np.int16))
    segment = Segment("a", "r", start, end)
    if isinstance(samples, str):
        with pytest.raises(ArkError, match=samples):
            segment.cut(wave)
    else:
        assert segment.cut(wave).samples.shape == (1, samples)


@pytest.mark.parametrize(
    ("line", "is_good"),
    [
        ("a r 0 0.01", True),
        ("a r 0.5 0.5", False),
        ("a r 1 0.5", False),
        ("a r -0.1 1", False),
        ("a r 1 -1", True),
        ("a r 0 1 0", True),
        ("a r 0 1 -1", False),
        ("a r 0 1x", False),
        ("a r 0x 1", False),
        ("a r 0 1 1x", False),
        ("a r 0 1 1 1", False),
        ("a r 0", False),
    ],
)
def test_bad_line_of_segments_is_read(line: str, is_good: bool) -> None:
    if is_good:
        assert io_ark.data_dir.parse_segment(line).recording == "r"
    else:
        with pytest.raises(ArkError):
            io_ark.data_dir.parse_segment(line)


# Values of files: good, bad.
VALUES = {
    "utt2dur reco2dur": ("0.001 1e-3 x", "0 -1 0.0 -x"),
    "utt2num_frames": ("1 3.0", "0 -1 1.5 1x"),
    "utt2warp spk2warp": ("0.51 1.49 1.4x", "0.5 1.5 0 2 x 1.5x"),
    "spk2gender": ("m f", "x M"),
}


@pytest.mark.parametrize(("name", "names"), [(name, names) for names in VALUES for name in names.split()])
def test_value_out_of_range_is_valid(tmp_path: Path, name: str, names: str) -> None:
    good, bad = VALUES[names]
    for value in good.split():
        make(tmp_path / "data", 1, **{name: f"u1 {value}\n"}).validate()
    for value in bad.split():
        with pytest.raises(DataDirError, match=rf"{name}:1"):
            make(tmp_path / "data", 1, **{name: f"u1 {value}\n"}).validate()


@pytest.mark.parametrize(("end", "is_good"), [("0.51", True), ("0.5", False), ("0.49", False)])
def test_empty_segment_is_valid(tmp_path: Path, end: str, is_good: bool) -> None:
    data = make(tmp_path / "data", 1, wav_scp="r a.wav\n", segments=f"u1 r 0.5 {end}\n")
    if is_good:
        data.validate()
    else:
        with pytest.raises(DataDirError, match="start < end"):
            data.validate()


@pytest.mark.parametrize("name", ["utt2dur", "utt2num_frames"])
def test_utterance_without_a_length_is_kept(tmp_path: Path, name: str) -> None:
    data = make(tmp_path / "data", **{name: "u1 1\nu2 0\nu3 -1\nu4 2\n"})
    assert data.fix().utterances() == ["u1", "u4"]


def test_channel_of_a_recording_is_another(tmp_path: Path) -> None:
    for channel, is_good in (("A", True), ("B", True), ("1", True), ("C", False), ("2", False)):
        data = make(tmp_path / "data", 1, reco2file_and_channel=f"u1 a {channel}\n")
        if is_good:
            data.validate()
        else:
            with pytest.raises(DataDirError, match="A or B"):
                data.validate()


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"utts_per_spk_max": 2}, [2, 2, 1]),
        ({"seconds_per_spk_max": 2.0}, [2, 2, 1]),
        ({"seconds_per_spk_max": 1.9}, [1, 1, 1, 1, 1]),
        ({"seconds_per_spk_max": 0.5}, [1, 1, 1, 1, 1]),
        ({"seconds_per_spk_max": 9.0, "utts_per_spk_max": 3}, [3, 2]),
    ],
)
def test_new_speakers_have_other_numbers_of_utterances(
    tmp_path: Path, options: dict[str, Any], groups: list[int]
) -> None:
    pairs = "".join(f"s-{at} s\n" for at in range(5))
    files = {"utt2spk": pairs, "spk2utt": "s s-0 s-1 s-2 s-3 s-4\n", "utt2dur": pairs.replace(" s", " 1")}
    data = make(tmp_path / "data", wav_scp=pairs.replace(" s", " a"), **files)
    directories.divide_speakers(quiet(), data.path, str(tmp_path / "new"), **options)
    assert [len(each) for each in DataDir(tmp_path / "new").spk2utt.values()] == groups
    directories.divide_speakers(quiet(), data.path, str(tmp_path / "one"), respect_speaker_info=False, **options)
    new = {
        key: f"speaker-{at}" for at, keys in enumerate(DataDir(tmp_path / "new").spk2utt.values(), 1) for key in keys
    }
    assert dict(DataDir(tmp_path / "one").utt2spk) == new


@pytest.mark.parametrize("size", [20, 1 << 20])
def test_utterance_without_a_duration_gets_a_speaker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", size)
    pairs = "".join(f"s-{at} s\n" for at in range(9))
    times = pairs.replace(" s", " 1").replace("s-7 1", "x-7 1")
    data = make(tmp_path / "data", utt2spk=pairs, spk2utt="s " + pairs.replace(" s\n", " ") + "\n", utt2dur=times)
    with pytest.raises(DataDirError, match="utt2dur: s-7: has no duration"):
        directories.divide_speakers(quiet(), data.path, str(tmp_path / "new"), seconds_per_spk_max=3.0)


def test_repetitions_are_kept_or_others_removed(tmp_path: Path) -> None:
    texts = ["a"] * 2 + ["b"] * 3 + ["c"] * 9
    keys = [f"u{at:02d}" for at in range(len(texts))]
    pairs = "".join(f"{key} {key}\n" for key in keys)
    text = "".join(f"{key} {text}\n" for key, text in zip(keys, texts, strict=True))
    data = make(tmp_path / "data", utt2spk=pairs, spk2utt=pairs, wav_scp=pairs, text=text)
    directories.remove_repetitions(quiet(), "3", data.path, str(tmp_path / "less"))
    state, kept = 0, keys[:2]
    for key, share in zip(keys[2:], [1.0] * 3 + [3 / 9] * 9, strict=True):
        state = (state + 103349) % 71147
        kept += [key] * (state / 71147 < share)
    assert DataDir(tmp_path / "less").utterances() == kept and 5 < len(kept) < 14


def test_repeated_transcripts_are_counted_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 40)
    file = tmp_path / "text"
    lines = [b"u%02d%s text %d\n" % (at, b" " * (at % 2), at if at < 20 else 20) for at in range(40)]
    file.write_bytes(b"".join(lines))
    kept = b"".join(directories._thin_out_repetitions(str(file), 5))
    states = [at * 103349 % 71147 / 71147 for at in range(1, 21)]
    numbers = [*range(20), *(at for at, state in enumerate(states, 20) if state < 5 / 20)]
    assert kept == b"".join(lines[at] for at in numbers)


@pytest.mark.parametrize(("wanted", "keys"), [(1, "b"), (2, "b c"), (3, "a b c"), (4, "a b c d"), (5, "a b c d e")])
def test_shortest_utterances_are_others(wanted: int, keys: str) -> None:
    lengths = [b"a 3\n", b"b 1\n", b"c 2\n", b"d 3\n", b"e 3\n"]
    assert directories._find_shortest_utterances(lengths, wanted) == set(keys.encode().split())


def test_last_speaker_of_an_utterance_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("utt2spk").write_text("u1 a\nu2 b\nu3 a\nu1 b\n")
    Path("text").write_text("u1 1\nu3 3\nu2 2")
    assert lists.split_scp(quiet(), ["--utt2spk=utt2spk", "text", "one", "two"]) == 0
    assert (Path("one").read_text(), Path("two").read_text()) == ("u1 1\nu2 2", "u3 3\n")


@pytest.mark.parametrize("options", [[], ["--utt2spk=utt2spk"]])
@pytest.mark.parametrize("output", ["text", "link", "./text"])
def test_part_may_take_the_place_of_the_list_that_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 20)
    Path("text").write_text("".join(f"u{at} {at}\n" for at in range(1000)))
    Path("utt2spk").write_text("".join(f"u{at} s{at}\n" for at in range(1000)))
    os.link("text", "link")
    assert lists.split_scp(quiet(), [*options, "text", output, "two"]) == 0
    assert Path("text").read_text() == "".join(f"u{at} {at}\n" for at in range(500))
    assert Path("two").read_text() == "".join(f"u{at} {at}\n" for at in range(500, 1000))


@pytest.mark.parametrize(("at", "again"), [(99, False), (100, True)])
def test_volume_is_changed_twice(tmp_path: Path, at: int, again: bool) -> None:
    text = [f"{number:03d} a.wav\n" for number in range(120)]
    text[at] = f"{at:03d} sox --vol 0.5 -t wav a.wav -t wav - |\n"
    data = make(tmp_path / "data", wav_scp="".join(text))
    perturb.perturb_volume(quiet(), data.path)
    found = Path(data.file("wav.scp")).read_text().splitlines()
    assert ("sox" in found[0]) == again
    if again:
        volumes = [float(line.split()[3]) for line in found if line.count("sox") == 1]
        assert 0.125 <= min(volumes) < 0.3 and 1.8 < max(volumes) <= 2


@pytest.mark.parametrize(("wanted", "is_good"), [(4, True), (5, False)])
def test_subset_of_all_is_refused_or_of_more_is_not(tmp_path: Path, wanted: int, is_good: bool) -> None:
    data = make(tmp_path / "data")
    if is_good:
        assert len(data.subset(tmp_path / "part", wanted)) == wanted
    else:
        with pytest.raises(DataDirError, match="more utterances"):
            data.subset(tmp_path / "part", wanted)


def test_pipe_is_read_twice(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"a\nb\nc\n")
    os.close(write)
    assert b"".join(lists.choose_lines(f"/dev/fd/{read}", 2, "--last")) == b"b\nc\n"
    os.close(read)


@pytest.mark.parametrize(
    ("audio", "times", "text"),
    [
        ("r1 a\n\nr2 b\n", "r2 0 1", r"wav\.scp:1: Invalid id-list"),
        ("r1 a\n", "", r"segments:2: Bad line without a recording"),
    ],
)
def test_error_of_fix_empties_segments(tmp_path: Path, audio: str, times: str, text: str) -> None:
    data = make(tmp_path / "data", 3, segments=f"u1 r1 0 1\nu2 {times}\nu3 r1 0 1\n", wav_scp=audio)
    before = Path(data.file("segments")).read_bytes()
    with pytest.raises(DataDirError, match=text):
        fix_directory(Printer("fix"), data.path)
    assert Path(data.file("segments")).read_bytes() == before


def test_recording_with_a_carriage_return_before_it_is_lost(tmp_path: Path) -> None:
    data = make(tmp_path / "data", 2, segments="u1 r1 0 1\nu2 \rr2 0 1\n", wav_scp="r1 a\nr2 b\n").fix()
    assert Path(data.file("wav.scp")).read_text() == "r1 a\nr2 b\n"
    assert Path(data.split(2)[1].file("wav.scp")).read_text() == "r2 b\n"


def test_copy_without_speakers_ends_with_another_status(tmp_path: Path) -> None:
    data = make(tmp_path / "data")
    os.unlink(data.file("spk2utt"))
    with pytest.raises(DataDirError) as found:
        directories.copy_directory(quiet(), data.path, str(tmp_path / "new"))
    assert found.value.status == 255  # that of apply_map.pl, whose map of speakers is empty
    Path(data.path, "spk2utt").write_text("u1 u1\n\n")
    with pytest.raises(DataDirError) as found:
        directories.copy_directory(quiet(), data.path, str(tmp_path / "new"))
    assert found.value.status == 25


def test_speaker_whose_utterances_are_apart_is_divided(tmp_path: Path) -> None:
    pairs = "u1 a\nu2 b\nu3 a\nu4 c\n"
    data = make(tmp_path / "data", 4, utt2spk=pairs, spk2utt="a u1 u3\nb u2\nc u4\n")
    assert [part.utterances() for part in data.split(3)] == [["u1", "u3"], ["u2"], ["u4"]]


@pytest.mark.parametrize("seconds", [0.5, 7, 123456, 999999, 1000000, 123456789, 1234567.25, 2**53 - 1, 2**53])
def test_numbers_are_not_printed_as_by_awk(tmp_path: Path, seconds: float) -> None:
    data = make(tmp_path / "data", 2, segments=f"u1 r 0 {seconds}\nu2 r 1 2.5\n", wav_scp="r a.wav\n")
    durations.get_utt2dur(quiet(), data.path)
    printed = f"{seconds:.0f}" if float(seconds).is_integer() and seconds < 2**53 else f"{seconds:.6g}"
    assert Path(data.file("utt2dur")).read_text() == f"u1 {printed}\nu2 1.5\n"


def test_utterances_after_many_without_text_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 20)
    keys = [f"u{at:03d}" for at in range(100)]
    pairs = "".join(f"{key} {key}\n" for key in keys)
    data = make(tmp_path / "data", utt2spk=pairs, spk2utt=pairs, wav_scp=pairs, text=f"{keys[-1]} yes\n")
    assert data.fix().utterances() == keys[-1:]


@pytest.mark.parametrize("at", [0, 29, 30, 31, 32, 98])
def test_blank_line_of_many_recordings_is_not_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sox: None, at: int
) -> None:
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 40)
    rows = [f"u{n:02d} a.wav\n" for n in range(100)]
    rows[at] = "\n"
    data = make(tmp_path / "data", 1, utt2dur="u1 1\n", wav_scp="".join(rows))
    with pytest.raises(DataDirError, match=f"wav.scp:{at + 1}: is a blank line"):
        data.resample(8000)


@pytest.mark.parametrize("blanks", ["\n", " \n\n"])
def test_blank_lines_at_the_end_have_no_volume(tmp_path: Path, blanks: str) -> None:
    text = f"u1 u1.wav\nu2 u2.wav\n{blanks}"
    data = make(tmp_path / "data", 2, wav_scp=text)
    with pytest.raises(DataDirError, match=r"wav\.scp:3: is a blank line, which has no recording"):
        data.perturb_volume()
    assert Path(data.file("wav.scp")).read_text() == text


@pytest.mark.parametrize("options", [{"frame_shift": np.inf}, {"frame_shift": -0.01}, {"frame_overlap": -np.inf}])
def test_times_of_frames_are_finite(tmp_path: Path, options: dict[str, float]) -> None:
    data = make(tmp_path / "data", 1, utt2dur="u1 1\n")
    with pytest.raises(DataDirError, match="must be finite numbers of seconds, the shift above 0"):
        data.num_frames(**options)


HUGE = "99999999999"


@pytest.mark.parametrize(
    ("command", "files", "said"),
    [
        ("get_utt2num_frames.sh --frame-shift 0 data", {}, "--frame-shift 0 .* must be finite numbers of seconds"),
        ("get_utt2num_frames.sh --frame-shift nan data", {}, "--frame-shift needs a finite number, not 'nan'"),
        ("get_utt2num_frames.sh --frame-overlap inf data", {}, "--frame-overlap needs a finite number, not 'inf'"),
        ("perturb_data_dir_volume.sh --scale-low inf data", {}, "--scale-low needs a finite number, not 'inf'"),
        (
            "perturb_data_dir_volume.sh --reco2vol data/vol data",
            {"vol": "u1 loud\n"},
            "vol:1: u1: expected a recording and its volume",
        ),
        (
            "modify_speaker_info.sh --seconds-per-spk-max 3 data out",
            {"utt2dur": "u1 x\n"},
            "utt2dur: u1: expected an utterance and its duration",
        ),
        (f"split_data.sh data {HUGE}", {}, "number of speakers 1 is less"),
        (f"split_data.sh --per-utt data {HUGE}", {}, "into too many pieces"),
        ("get_utt2dur.sh data", {"wav_scp": "u1 sph2pipe -f wav x.sph |\n"}, "problem getting the durations"),
    ],
    ids=lambda value: value if isinstance(value, str) and ".sh" in value else "",
)
def test_bad_numbers_have_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str, files: dict[str, str], said: str
) -> None:
    make(tmp_path / "data", 1, **files)
    monkeypatch.chdir(tmp_path)
    Path("x.sph").write_text("NIST_1A\n   1024\nsample_rate -i 0\nsample_count -i 5\nend_head\n")
    name, *arguments = command.split()
    say = Printer(name)
    assert run_protected(say, lambda: call_script(SCRIPTS[name], say, arguments)) != 0
    assert re.search(said, "".join(capfd.readouterr()))


@pytest.mark.parametrize("how", [DataDir.num_frames, lambda data: data.perturb_speed(f"{data.path}-fast", 0.9)])
@pytest.mark.usefixtures("sox")
def test_durations_are_infinite(tmp_path: Path, how: Any) -> None:
    data = make(tmp_path / "data", 2, utt2dur="u1 1e999\nu2 2\n", reco2dur="u1 1e999\nu2 2\n")
    with pytest.raises(ArkError, match="u1: has a number that is too large"):
        how(data)
    segments = make(tmp_path / "seg", 2, segments="u1 r 0 1e999\nu2 r 1 2\n", wav_scp="r a.wav\n")
    with pytest.raises(ArkError, match="u1: has a number that is too large"):
        segments.utt2dur()
