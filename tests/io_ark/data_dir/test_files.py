"""Test which lines remain in each file after each script, in a directory that has all files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from io_ark import DataDir
from io_ark.data_dir import DataDirError, directories, perturb, scripts, stage
from io_ark.data_dir.scripts import SCRIPTS
from io_ark.data_dir.stage import Printer

SPEAKERS = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b", "c-1": "c"}
RECORDINGS = {"a-1": "r1", "a-2": "r1", "b-1": "r2", "b-2": "r3", "c-1": "r3"}
BY_UTTERANCE = ["utt2spk", "text", "feats.scp", "vad.scp", "utt2lang", "utt2dur", "utt2num_frames", "utt2uniq"]
BY_SPEAKER = ["spk2utt", "spk2gender", "cmvn.scp"]
BY_RECORDING = ["wav.scp", "reco2file_and_channel", "reco2dur"]
VALUES = {"spk2gender": "m", "utt2dur": "1", "utt2num_frames": "100", "reco2dur": "3", "reco2file_and_channel": "x A"}


def full(folder: Path, *, segments: bool = True) -> Path:
    """Make a directory with all files."""
    folder.mkdir()
    recordings = sorted(set(RECORDINGS.values())) if segments else list(SPEAKERS)
    for names, keys in ((BY_UTTERANCE, SPEAKERS), (BY_SPEAKER, "abc"), (BY_RECORDING, recordings)):
        for name in names:
            (folder / name).write_text("".join(f"{key} {VALUES.get(name, f'{name}-of-{key}')}\n" for key in keys))
    (folder / "utt2spk").write_text("".join(f"{key} {speaker}\n" for key, speaker in SPEAKERS.items()))
    (folder / "spk2utt").write_text("a a-1 a-2\nb b-1 b-2\nc c-1\n")
    if segments:
        (folder / "segments").write_text("".join(f"{key} {name} 0 1\n" for key, name in RECORDINGS.items()))
    else:
        (folder / "reco2file_and_channel").unlink()  # which Kaldi's scripts neither filter nor rename then
    return folder


def keys(path: Path) -> list[str]:
    return [line.split()[0] for line in path.read_text().splitlines()]


def run(command: str, *more: str) -> None:
    name, *argv = command.split()
    assert scripts.call_script(SCRIPTS[name], Printer(name), [*argv, *more]) == 0


def check(folder: Path, utterances: list[str], *, segments: bool = True) -> None:
    """Check the keys of all files."""
    recordings = sorted({RECORDINGS[key] for key in utterances}) if segments else utterances
    expected = dict.fromkeys(BY_UTTERANCE, utterances) | dict.fromkeys(BY_RECORDING, recordings)
    expected |= dict.fromkeys(BY_SPEAKER, sorted({SPEAKERS[key] for key in utterances}))
    if not segments:
        del expected["reco2file_and_channel"]
    assert {name: keys(folder / name) for name in expected if (folder / name).exists()} == expected
    pairs = [line.split() for line in (folder / "utt2spk").read_text().splitlines()]
    lines = [[name, *(key for key, speaker in pairs if speaker == name)] for name in expected["spk2utt"]]
    assert [line.split() for line in (folder / "spk2utt").read_text().splitlines()] == lines
    assert not segments or keys(folder / "segments") == utterances


@pytest.mark.parametrize("segments", [True, False])
def test_fixed_file_has_other_lines_or_no_backup(tmp_path: Path, segments: bool) -> None:
    data = full(tmp_path / "data", segments=segments)
    names = [path.name for path in data.iterdir()]
    for name, text in (("extra", SPEAKERS), ("speakers", "abc")):
        (data / name).write_text("".join(f"{key} x\n" for key in text))
    for name in names:
        lines = (data / name).read_text().splitlines(keepends=True)
        (data / name).write_text("".join(reversed(lines)))
    before = {name: (data / name).read_bytes() for name in names}
    (data / "text").write_text("c-1 x\na-2 x\na-1 x\n")
    run("fix_data_dir.sh", "--utt-extra-files", "extra", "--spk-extra-files", "speakers", str(data))
    check(data, ["a-1", "a-2", "c-1"], segments=segments)
    assert keys(data / "extra") == ["a-1", "a-2", "c-1"] and keys(data / "speakers") == ["a", "c"]
    by_utterance = {*BY_UTTERANCE, "extra", *(["segments"] if segments else ["wav.scp", "reco2dur"])}
    for name in {*names, "extra"} - {"text"}:
        kept = (data / ".backup" / name).read_bytes()
        assert sorted(kept.split()) == sorted(before.get(name, kept).split()), name
        assert (kept == before.get(name)) == (name not in by_utterance), name


def test_recording_without_audio_keeps_its_utterances(tmp_path: Path) -> None:
    data = full(tmp_path / "data")
    (data / "wav.scp").write_text("r1 a\nr2 a\nr4 a\n")
    (data / "spk2gender").write_text("a m\n")
    run("fix_data_dir.sh", str(data))
    check(data, ["a-1", "a-2"])


@pytest.mark.parametrize("segments", [True, False])
def test_subset_has_other_lines(tmp_path: Path, segments: bool) -> None:
    data = full(tmp_path / "data", segments=segments)
    wanted = ["a-2", "b-1"]
    recordings = ["r1", "r2"] if segments else wanted
    (tmp_path / "list").write_text("b-1 x\na-2\nz\n")
    (data / "stm").write_text(";; comment\n" + "".join(f"{name} 1 x\n" for name in ("r1", "r2", "r3", *SPEAKERS)))
    for name, some in (("spk2warp", "abc"), ("utt2warp", SPEAKERS)):
        (data / name).write_text("".join(f"{key} 1\n" for key in some))
    (data / "frame_shift").write_text("0.01\n")
    run("subset_data_dir.sh --utt-list", str(tmp_path / "list"), str(data), str(tmp_path / "out"))
    check(tmp_path / "out", wanted, segments=segments)
    assert keys(tmp_path / "out/stm") == [";;", *recordings]
    assert keys(tmp_path / "out/spk2warp") == ["a", "b"] and keys(tmp_path / "out/utt2warp") == wanted
    assert (tmp_path / "out/frame_shift").read_text() == "0.01\n"


@pytest.mark.parametrize("segments", [True, False])
def test_copied_file_has_other_names(tmp_path: Path, segments: bool) -> None:
    data, out = full(tmp_path / "data", segments=segments), tmp_path / "out"
    run(
        "copy_data_dir.sh --utt-prefix s-u- --spk-prefix s- --spk-suffix -z --validate-opts --no-spk-sort",
        str(data),
        str(out),
    )
    utterances, speakers = [f"s-u-{key}" for key in SPEAKERS], [f"s-{key}-z" for key in "abc"]
    recordings = ["r1", "r2", "r3"] if segments else utterances
    for names, expected in ((BY_UTTERANCE, utterances), (BY_SPEAKER, speakers), (["wav.scp", "reco2dur"], recordings)):
        for name in names:
            assert keys(out / name) == expected, name
    assert (out / "utt2uniq").read_text().startswith("s-u-a-1 utt2uniq-of-a-1\n")
    if segments:
        assert (out / "segments").read_text().startswith("s-u-a-1 r1 0 1\n")
        assert (out / "reco2file_and_channel").read_bytes() == (data / "reco2file_and_channel").read_bytes()
    data.joinpath("glm").write_text("x\n")
    run("copy_data_dir.sh --validate-opts --no-spk-sort", str(data), str(out))
    data.joinpath("glm").unlink()
    run("copy_data_dir.sh --validate-opts --no-spk-sort", str(data), str(out))
    assert (out / ".backup/glm").exists() and not (out / "glm").exists()


@pytest.mark.parametrize("segments", [True, False])
def test_part_has_other_lines(tmp_path: Path, segments: bool) -> None:
    data = full(tmp_path / "data", segments=segments)
    for name in ("spk2warp", "spk2gender"):
        (data / name).write_text("a 1\nb 1\nc 1\n")
    for name in ("utt2uniq", "reco2dur"):
        (data / name).unlink()  # which split_data.sh leaves out
    run("split_data.sh", str(data), "2")
    run("split_data.sh --per-utt", str(data), "3")
    run("split_data.sh --per-utt", str(data), "5")
    for part, wanted in (
        ("split2/1", ["a-1", "a-2"]),
        ("split2/2", ["b-1", "b-2", "c-1"]),
        ("split5utt/4", ["b-2"]),
        ("split3utt/2", ["b-1", "b-2"]),
    ):
        folder = data / part
        recordings = sorted({RECORDINGS[key] for key in wanted}) if segments else wanted
        for name in sorted(set(BY_UTTERANCE) - {"utt2uniq"}) + (["segments"] if segments else []):
            assert keys(folder / name) == wanted, (part, name)
        for name in (*BY_SPEAKER, "spk2warp"):
            assert keys(folder / name) == sorted({SPEAKERS[key] for key in wanted}), (part, name)
        for name in ("wav.scp", "reco2file_and_channel") if segments else ("wav.scp",):
            assert keys(folder / name) == recordings, (part, name)


def test_first_of_two_alike_lines_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = full(tmp_path / "data")
    for name, text in (("text", "a-1 x y\na-1  x y\n"), ("cmvn.scp", "a one\na two\n")):
        rest = (data / name).read_text().partition("\n")[2]
        (data / name).write_text(text + rest)
    run("fix_data_dir.sh", str(data))
    check(data, list(SPEAKERS))
    assert (data / "text").read_text().startswith("a-1 x y\n")
    assert (data / "cmvn.scp").read_text().startswith("a one\n") and "a: differs from line 1" in capsys.readouterr().err


def test_speaker_without_statistics_keeps_its_utterances(tmp_path: Path) -> None:
    data = full(tmp_path / "data")
    (data / "cmvn.scp").write_text("a x\nc x\n")
    run("fix_data_dir.sh", str(data))
    check(data, ["a-1", "a-2", "c-1"])


@pytest.mark.parametrize("chunk", [8, 12, 1 << 20])
def test_speakers_out_of_order_are_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], chunk: int
) -> None:
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    (tmp_path / "utt2spk").write_text("u1 b\nu2 b\nu3 c\nu4 a\n")
    with pytest.raises(DataDirError, match="u4: is not in sorted order"):
        run("fix_data_dir.sh", str(tmp_path))
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "utt2spk is not in sorted order when sorted first on speaker-id ",
        "(fix this by making speaker-ids prefixes of utt-ids)",
    ]


@pytest.mark.parametrize(
    ("utt2spk", "advice"),
    [
        ("ann-b-1 ann-b\nann-x ann\n", "rename a speaker whose name begins with the name of another speaker"),
        ("1-ann ann\n2-bob bob\n3-ann ann\n", "begin every utterance's name with its speaker"),
    ],
)
def test_an_error_of_order_says_what_to_rename(tmp_path: Path, utt2spk: str, advice: str) -> None:
    (tmp_path / "utt2spk").write_text(utt2spk)
    with pytest.raises(DataDirError, match=f"is not in sorted order: {advice}"):
        run("fix_data_dir.sh", str(tmp_path))
    (tmp_path / "utt2spk").write_text(utt2spk)  # The script has written this file in the order of the speakers.
    (tmp_path / "spk2utt").write_text("ann 1-ann\n")
    with pytest.raises(DataDirError, match=f"comes after .*: {advice}.*, or pass --no-spk-sort"):
        run("validate_data_dir.sh --no-feats --no-text", str(tmp_path))


@pytest.mark.parametrize(
    ("how", "number", "left"),
    [
        ("--per-spk", 1, "a-1 b-1 c-1"),
        ("--per-spk", 2, "a-1 a-2 b-1 b-2 c-1"),
        ("--speakers", 1, "c-1"),
        ("--speakers", 3, "a-1 a-2 c-1"),
        ("--speakers", 4, "a-1 a-2 b-1 b-2 c-1"),
        ("--last", 2, "b-2 c-1"),
    ],
)
def test_subset_by_a_number_is_another(tmp_path: Path, how: str, number: int, left: str) -> None:
    data = full(tmp_path / "data")
    run(f"subset_data_dir.sh {how}", str(data), str(number), str(tmp_path / "out"))
    check(tmp_path / "out", left.split())


@pytest.mark.parametrize(
    ("count", "number", "chosen"),
    [(1, 2, "0"), (3, 2, "0 1"), (4, 2, "0 2"), (5, 2, "0 2"), (6, 2, "0 3"), (7, 3, "0 2 4"), (8, 3, "0 2 4"),
     (9, 3, "0 3 6"), (5, 5, "0 1 2 3 4")],
)  # fmt: skip
def test_utterances_of_a_speaker_are_not_evenly_spread(tmp_path: Path, count: int, number: int, chosen: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/utt2spk").write_text("".join(f"s-{at} s\n" for at in range(count)) + "t-0 t\n")
    (tmp_path / "data/spk2utt").write_text("s" + "".join(f" s-{at}" for at in range(count)) + "\nt t-0\n")
    run("subset_data_dir.sh --per-spk", str(tmp_path / "data"), str(number), str(tmp_path / "out"))
    assert keys(tmp_path / "out/utt2spk") == [*(f"s-{at}" for at in chosen.split()), "t-0"]


def test_files_that_a_source_lacks_are_made_or_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = small(tmp_path / "one", utt2uniq="a x\nb y\nc z\n", segments="a r 0 1\nb r 1 2\nc r 2 3\n", mine="a 1\nc 3\n",
                wav_scp="r r.wav\n", text="a x\nb x\nc x\n")  # fmt: skip
    two = small(tmp_path / "two", utt2spk="d d\ne e\n", spk2utt="d d\ne e\n", wav_scp="d d.wav\ne e.wav\n",
                utt2dur="d 1.5\ne 2\n", mine="e 2\nd 1\n")  # fmt: skip
    run("combine_data.sh", "--extra-files", "mine yours utt2uniq", str(tmp_path / "out"), str(one), str(two))
    captured = capsys.readouterr()
    assert captured.err == f"combine_data.sh [info]: will generate missing segments for {two}\n"
    assert captured.out.count("combined utt2uniq") == captured.out.count("combined mine") == 1
    for name, what in ("text", "**not combining text as it does not exist everywhere**"), (
        "yours", "not combining yours as it does not exist",
    ):  # fmt: skip
        assert f"combine_data.sh [info]: {what}\n" in captured.out and not (tmp_path / "out" / name).exists()
    expected = {
        "utt2uniq": "a x\nb y\nc z\nd d\ne e\n", "mine": "a 1\nc 3\nd 1\ne 2\n",
        "wav.scp": "d d.wav\ne e.wav\nr r.wav\n",
        "segments": "a r 0 1\nb r 1 2\nc r 2 3\nd d 0 1.5\ne e 0 2\n",
    }  # fmt: skip
    assert {name: (tmp_path / "out" / name).read_text() for name in expected} == expected


def test_frame_shift_without_features_is_combined(tmp_path: Path) -> None:
    folders = [full(tmp_path / "one"), full(tmp_path / "two")]
    for folder, shift in zip(folders, ("0.01", "0.02"), strict=True):
        (folder / "frame_shift").write_text(shift)
        (folder / "feats.scp").unlink()
    run("combine_data.sh --skip-fix true", str(tmp_path / "out"), *map(str, folders))
    assert not (tmp_path / "out/frame_shift").exists()
    assert keys(tmp_path / "out/text") == sorted([*SPEAKERS, *SPEAKERS])


@pytest.mark.parametrize(("shift", "is_good"), [("0.02\n", False), ("0.01", False), ("0.01\n", True)])
def test_features_of_different_frame_shifts_are_combined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shift: str, is_good: bool
) -> None:
    folders = [full(tmp_path / name) for name in ("one", "two", "three")]
    for folder, text in zip(folders, ("0.01\n", "0.01\n", shift), strict=True):
        (folder / "frame_shift").write_text(text)
    command = ["combine_data.sh --skip-fix true", str(tmp_path / "out"), *map(str, folders)]
    if is_good:
        run(*command)
        assert (tmp_path / "out/frame_shift").read_text() == "0.01\n"
    else:
        with pytest.raises(DataDirError):
            run(*command)
        assert "Cannot combine features." in capsys.readouterr().out and not (tmp_path / "out").exists()


@pytest.mark.parametrize("values", [["x", "x", "y"], ["x", "y", "x"], ["x", "x", "x"]])
@pytest.mark.parametrize("name", ["text", "wav.scp", "utt2lang", "cmvn.scp"])
def test_third_value_of_a_key_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, values: list[str]
) -> None:
    data = full(tmp_path / "data")
    key, *_ = keys(data / name)
    rest = (data / name).read_text().partition("\n")[2]
    (data / name).write_text("".join(f"{key} {value}\n" for value in values) + rest)
    if name == "cmvn.scp" or len(set(values)) == 1:
        run("fix_data_dir.sh", str(data))
        assert ("differs from line 1" in capsys.readouterr().err) == (len(set(values)) > 1)
    else:
        with pytest.raises(DataDirError, match=rf"{name}:{values.index('y') + 1}: {key}: differs from line 1"):
            run("fix_data_dir.sh", str(data))


def test_file_without_a_last_newline_is_joined_with_the_next(tmp_path: Path) -> None:
    one, two = full(tmp_path / "one"), full(tmp_path / "two")
    for path in one.iterdir():
        path.write_text(path.read_text().rstrip("\n"))
    run("combine_data.sh --skip-fix true", str(tmp_path / "out"), str(one), str(two))
    for name in (*BY_UTTERANCE, *BY_RECORDING, "segments"):
        assert keys(tmp_path / "out" / name) == sorted(keys(two / name) * 2), name


def test_segment_that_is_only_a_key_takes_the_audio_away(tmp_path: Path) -> None:
    data = full(tmp_path / "data")
    (data / "segments").write_text((data / "segments").read_text().replace("a-2 r1 0 1\n", "a-2\n"))
    run("subset_data_dir.sh", str(data), "5", str(tmp_path / "out"))
    assert keys(tmp_path / "out/wav.scp") == ["r1", "r2", "r3"]
    assert keys(tmp_path / "out/segments") == list(SPEAKERS)


@pytest.mark.parametrize(
    "command", ["fix_data_dir.sh {0}", "split_data.sh {0} 1", "subset_data_dir.sh {0} 5 {0}/split1/../out"]
)
@pytest.mark.parametrize("line", ["a-1\fr1 0 1", "a-1 r1\f 0 1", "a-1 r1\f0 1", "a-1 \vr1 0 1"])
def test_form_feed_in_segments_takes_recordings_away(tmp_path: Path, command: str, line: str) -> None:
    data = full(tmp_path / "data")
    text = (data / "segments").read_text().replace("a-2 r1", "a-2 r2").replace("a-1 r1 0 1\n", f"{line}\n")
    (data / "segments").write_text(text)
    (data / "split1").mkdir()
    run(command.format(data))
    where = {"f": data, "s": data / "split1/1" if "split_data" in command else data / "out"}[command[0]]
    assert keys(where / "wav.scp") == ["r1", "r2", "r3"]
    assert [line.split()[0] for line in (where / "segments").read_text().split("\n")[:-1]] == list(SPEAKERS)


def test_key_of_audio_with_a_form_feed_has_no_duration(tmp_path: Path) -> None:
    data = full(tmp_path / "data", segments=False)
    (data / "wav.scp").write_text((data / "wav.scp").read_text().replace("a-1 ", "a-1\f", 1))
    run("subset_data_dir.sh", str(data), "5", str(tmp_path / "out"))
    assert keys(tmp_path / "out/reco2dur") == list(SPEAKERS)


@pytest.mark.parametrize(("count", "last"), [(9, "s-9"), (10, "s-10"), (11, "s-11")])
def test_names_of_new_speakers_are_not_in_order(tmp_path: Path, count: int, last: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "utt2spk").write_text("".join(f"s-{at:02d} s\n" for at in range(count)))
    (data / "spk2utt").write_text(f"s {' '.join(keys(data / 'utt2spk'))}\n")
    run("modify_speaker_info.sh --utts-per-spk-max 1", str(data), str(tmp_path / "out"))
    names = [line.split()[1] for line in (tmp_path / "out/utt2spk").read_text().splitlines()]
    assert names == [f"s-{at:0{len(str(count))}d}" for at in range(1, count + 1)] and names[-1] == last


@pytest.mark.parametrize("prefix", [True, False])
def test_file_at_another_speed_has_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: bool) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    data, out = full(tmp_path / "data"), tmp_path / "out"
    (data / "wav.scp").write_text("r1 x.wav\nr2 cat y|\nr3 z.ark:12\n")
    run(f"perturb_data_dir_speed.sh --include-spk-prefix {str(prefix).lower()} 0.9", str(data), str(out))

    def named(keys: Iterable[str]) -> list[str]:
        return [f"sp0.9-{key}" if prefix else f"{key}-sp0.9" for key in keys]

    utterances, recordings = named(SPEAKERS), named(["r1", "r2", "r3"])
    for name in ("utt2spk", "text", "utt2lang", "utt2uniq", "utt2dur", "segments"):
        assert keys(out / name) == utterances, name
    for name in BY_RECORDING:
        assert keys(out / name) == recordings, name
    for name in ("spk2utt", "spk2gender"):
        assert keys(out / name) == (named("abc") if prefix else list("abc")), name
    assert (out / "segments").read_text().startswith(f"{utterances[0]} {recordings[0]} 0.00 1.11\n")
    assert (out / "utt2dur").read_text().startswith(f"{utterances[0]} 1.11111\n")
    sox = "-t wav - speed 0.9 |"
    assert (out / "wav.scp").read_text().splitlines() == [
        f"{recordings[0]} sox -t wav x.wav {sox}",
        f"{recordings[1]} cat y | sox -t wav - {sox}",
        f"{recordings[2]} wav-copy z.ark:12 - | sox -t wav - {sox}",
    ]


@pytest.mark.parametrize("skip", ["true", "false"])
def test_combined_directory_uses_old_files_or_loses_others(tmp_path: Path, skip: str) -> None:
    data, out = full(tmp_path / "data"), tmp_path / "out"
    (data / "text").write_text("a-1 x\n")
    for folder in (out, out / "split2", out / "split2/1", out / "split3", out / "split3/1"):
        folder.mkdir()
        (folder / "spk2warp").write_text("a 1.2\n")
    for folder in (out, out / "split3"):
        (folder / "notes").write_text("x\n")
    (out / "split2/spk2warp").unlink()
    run(f"combine_data.sh --skip-fix {skip}", str(out), str(data))
    assert keys(out / "utt2spk") == (list(SPEAKERS) if skip == "true" else ["a-1"])
    assert not (out / "spk2warp").exists() and (out / ".backup/spk2warp").read_text() == "a 1.2\n"
    assert (out / "notes").exists() and sorted(path.name for path in out.glob("split*/*")) == ["notes", "spk2warp"]
    assert not (out / "split2").exists() and not (out / "split3/1").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "is_good"),
    [
        ("text", "text-of-a-1", "x<s>", True),
        ("text", "text-of-a-1", "x <s>", False),
        ("text", "text-of-c-1", "#0", False),
        ("wav.scp", "wav.scp-of-r1", "x~", True),
        ("wav.scp", "wav.scp-of-r2", "~/x", False),
        ("reco2dur", "r3 3", "r4 3", False),
        ("reco2dur", "r3 3", "r3 0", False),
        ("utt2dur", "c-1 1", "c-1 x", True),  # as awk compares strings
        ("utt2dur", "c-1 1", "c-1 -1", False),
        ("vad.scp", "b-1", "b-0", False),
        ("cmvn.scp", "b ", "bb ", False),
    ],
)
def test_value_of_a_full_directory_is_valid(tmp_path: Path, name: str, old: str, new: str, is_good: bool) -> None:
    data = full(tmp_path / "data")
    run("validate_data_dir.sh", str(data))
    text = (data / name).read_text()
    assert old in text
    (data / name).write_text(text.replace(old, new, 1))
    if is_good:
        run("validate_data_dir.sh", str(data))
    else:
        with pytest.raises(DataDirError):
            run("validate_data_dir.sh", str(data))


@pytest.mark.parametrize(
    ("name", "option", "said"),
    [
        ("feats.scp", "--no-feats", "no such file {}/feats.scp (if this is by design, specify --no-feats)"),
        ("text", "--no-text", "no such file {}/text (if this is by design, specify --no-text)"),
        ("wav.scp", "--no-wav", "no such file {}/wav.scp (if this is by design, specify --no-wav)"),
        ("utt2spk", "", "no such file utt2spk"),
        ("spk2utt", "", "no such file spk2utt"),
    ],
)
def test_missing_file_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, option: str, said: str
) -> None:
    data = full(tmp_path / "data", segments=False)
    for by_recording in ("reco2dur", name):
        (data / by_recording).unlink()
    with pytest.raises(DataDirError) as error:
        run("validate_data_dir.sh", str(data))
    assert capsys.readouterr().out == f"validate_data_dir.sh: {said.format(data)}\n" and error.value.status == 1
    if option:
        run(f"validate_data_dir.sh {option}", str(data))
    else:
        assert re.search(
            rf"data/{name}: is missing: (run kaldi-compat data fix|write a line with the key)", str(error.value)
        )
        (data / name).write_text("")
        with pytest.raises(
            DataDirError, match=rf"data/{name}: is empty: (run kaldi-compat data fix|write a line with the key)"
        ):
            run("validate_data_dir.sh", str(data))


def test_key_that_a_file_lacks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = full(tmp_path / "data")
    advice = "add the key, or let kaldi-compat data fix remove the key"
    for name, text, key in (("utt2lang", "a-1 x\nb-1 x\n", "a-2"), ("text", "a-1 x\na-2 x\na-3 x\n", "a-3")):
        before = (data / name).read_bytes()
        (data / name).write_text(text)
        lacking, having = (data / name, data / "utt2spk")[:: -1 if name == "text" else 1]
        with pytest.raises(DataDirError, match=rf"^{lacking}:\d: {key}: is missing, but is in {having}: {advice}$"):
            run("validate_data_dir.sh", str(data))
        (data / name).write_bytes(before)
    for lines, said in ((["r1 x A", "r2 x A"], "r3"), (["r1 x A", "r2 x A", "r3 x A", "r4 x A"], "r4")):
        (data / "reco2file_and_channel").write_text("".join(f"{line}\n" for line in lines))
        with pytest.raises(DataDirError, match=f"{said}: is missing, but is in "):
            run("validate_data_dir.sh", str(data))
        assert "recording-ids extracted from segments and reco2file_and_channel\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "value"), [("spk2gender", "m\r"), ("utt2num_frames", "1\r"), ("spk2gender", "f\v")])
def test_carriage_return_is_part_of_a_value(tmp_path: Path, name: str, value: str) -> None:
    data = full(tmp_path / "data")
    names = "abc" if name.startswith("spk") else SPEAKERS
    (data / name).write_bytes("".join(f"{key} {value}\n" for key in names).encode())
    with pytest.raises(DataDirError, match=f"{name}:1"):
        run("validate_data_dir.sh", str(data))


@pytest.mark.parametrize("name", BY_UTTERANCE[1:] + BY_SPEAKER[1:] + BY_RECORDING)
def test_last_line_may_lack_its_newline(tmp_path: Path, name: str) -> None:
    data = full(tmp_path / "data")
    (data / name).write_bytes((data / name).read_bytes().rstrip(b"\n"))
    with pytest.raises(DataDirError):
        run("validate_data_dir.sh", str(data))


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([1, 1, 1, 5, 5], 2, [8, 5]),
        ([1, 1, 1, 5, 5], 3, [3, 5, 5]),
        ([1, 1, 1, 1, 1, 9], 2, [5, 9]),
        ([9, 1, 1, 1, 1, 1], 3, [9, 3, 2]),
        ([2, 7, 1, 1, 8, 3, 3], 3, [10, 9, 6]),
        ([9, 8, 4, 9, 1], 3, [9, 12, 10]),
        ([4, 3, 1, 5, 4, 7], 3, [8, 9, 7]),
        ([1, 2, 1], 2, [3, 1]),
        ([5, 1, 2, 6], 2, [6, 8]),
        ([7, 2, 7], 2, [9, 7]),
    ],
)
def test_speakers_are_divided_otherwise_than_by_kaldi(
    tmp_path: Path, sizes: list[int], parts: int, expected: list[int]
) -> None:
    pairs = "".join(f"s{at}-{n} s{at}\n" for at, size in enumerate(sizes) for n in range(size))
    (tmp_path / "utt2spk").write_text(pairs)
    outputs = [str(tmp_path / f"part{at}") for at in range(parts)]
    run(f"split_scp.pl --utt2spk={tmp_path}/utt2spk {tmp_path}/utt2spk", *outputs)
    assert [len(keys(Path(output))) for output in outputs] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [("2", "a B c\n"), ("2-", "a B C\n"), ("-2", "A B c\n"), ("1-2", "A B c\n"), ("2:3", "a B C\n"), ("", "A B C\n")],
)
def test_other_fields_are_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fields: str, expected: str
) -> None:
    (tmp_path / "map").write_text("a A\nb B\nc C\n")
    (tmp_path / "in").write_text("a b c\n")
    with (tmp_path / "in").open("rb") as file:
        monkeypatch.setattr("io_ark.data_dir.lists.STDIN", file.fileno())
        run(f"apply_map.pl {f'-f {fields}' if fields else ''}", str(tmp_path / "map"))
    sys.stdout.flush()
    assert capfd.readouterr().out == expected


@pytest.mark.parametrize("prefix", ["50%-", "%b-", "%%", "%s%d-"])
def test_percent_sign_in_a_new_name_is_a_format(tmp_path: Path, prefix: str) -> None:
    data, out = full(tmp_path / "data"), tmp_path / "out"
    run("copy_data_dir.sh", "--utt-prefix", prefix, "--spk-prefix", prefix, str(data), str(out))
    for name in BY_UTTERANCE:
        assert keys(out / name) == [f"{prefix}{key}" for key in SPEAKERS], name
    assert keys(out / "spk2utt") == [f"{prefix}{key}" for key in "abc"]


def small(folder: Path, **files: str) -> Path:
    """Make a directory of the utterances a, b and c, each of its own speaker, with these files."""
    pairs = "".join(f"{key} {key}\n" for key in "abc")
    folder.mkdir(parents=True)
    names = {"utt2spk": pairs, "spk2utt": pairs, "wav_scp": "".join(f"{key} {key}.wav\n" for key in "abc")} | files
    for name, text in names.items():
        (folder / name.replace("_scp", ".scp")).write_text(text)
    return folder


def test_blanks_stay_in_quotes_and_in_names_and_not_in_plain_commands(tmp_path: Path) -> None:
    lines = ["a  sox  'a  b.wav'  -t wav - |\n", "b my  file.wav\n", "c cat  c.wav  | sox -  - |\n"]
    data = small(tmp_path / "data", wav_scp="".join(lines))
    run("copy_data_dir.sh --utt-prefix s- --spk-prefix s-", str(data), str(tmp_path / "out"))
    expected = "s-a sox  'a  b.wav'  -t wav - |\ns-b my  file.wav\ns-c cat c.wav | sox - - |\n"
    assert (tmp_path / "out/wav.scp").read_text() == expected


def test_fix_of_a_valid_directory_names_no_file_and_writes_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    segments = "a r 0 1\nb r 1 2\nc r 2 3\n"
    files = {"segments": segments, "wav_scp": "r r.wav\n", "reco2dur": "r 9\n", "text": "a x\nb y\nc z\n"}
    data = small(tmp_path / "data", **files)
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in data.iterdir()}
    capfd.readouterr()
    run("fix_data_dir.sh", str(data))
    said = capfd.readouterr().out
    assert "kept all 3 utterances" in said and "filtered" not in said and "sorting" not in said
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in data.iterdir() if path.is_file()} == before


def test_fix_says_what_each_file_has_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = small(tmp_path / "data", text="a x\nc z\n", utt2lang="c en\nb en\na en\n")
    run("fix_data_dir.sh", str(data))
    said = capfd.readouterr().out
    assert f"file {data}/utt2lang is not in sorted order or not unique, sorting it" in said
    assert "fix_data_dir.sh: kept 2 utterances out of 3" in said
    assert f"old files are kept in {data}/.backup" in said
    assert [keys(data / name) for name in ("utt2spk", "spk2utt", "wav.scp", "utt2lang")] == [["a", "c"]] * 4
    assert (data / ".backup/utt2lang").read_text() == "a en\nb en\nc en\n"  # sorted, as by Kaldi's script


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("text", "a x\nb y\nc z", "abc"), ("utt2dur", "a 1\nb 0\nc 1", "ac"), ("utt2num_frames", "a 0\nb 1\nc 2", "bc"),
        ("feats.scp", "c f:1", "c"), ("utt2lang", "a x", "a"), ("vad.scp", "a x\nb y", "abc"),
        ("spk2gender", "b f\nc m", "bc"), ("cmvn.scp", "c x", "c"), ("utt2uniq", "a 1\nb 1", "abc"),
    ],
)  # fmt: skip
def test_last_line_without_a_newline_counts(tmp_path: Path, name: str, text: str, kept: str) -> None:
    data = small(tmp_path / "data", **{name: text})
    run("fix_data_dir.sh", str(data))
    assert keys(data / "utt2spk") == keys(data / "spk2utt") == keys(data / "wav.scp") == list(kept)


def test_return_at_the_end_of_the_last_line_is_refused(tmp_path: Path) -> None:
    data = small(tmp_path / "data", text="a x\nb y\nc z\r")
    with pytest.raises(DataDirError, match=r"text:3: c: ends with a carriage return"):
        DataDir(data).fix()
    (data / "text").write_bytes(b"a x\r\nb y\r\nc z\r\n")
    with pytest.raises(DataDirError, match=r"text:1: a: ends with a carriage return"):
        DataDir.combine(tmp_path / "out", data)


def test_repeated_returns_at_ends_of_lines_are_removed(tmp_path: Path) -> None:
    data = small(tmp_path / "data", text="a x\r\r\nb y\rz\nc z\r\r")
    DataDir(data).fix(strip_cr=True)
    assert (data / "text").read_bytes() == b"a x\nb y\rz\nc z\n"


def test_byte_order_mark_of_an_additional_file_is_refused(tmp_path: Path) -> None:
    data = small(tmp_path / "data", extra="\ufeffa x\nb y\nc z\n")
    for files in ({"utt_files": ["extra"]}, {"speaker_files": ["extra"]}):
        with pytest.raises(DataDirError, match=r"extra:1: a: starts with a byte-order mark"):
            DataDir(data).fix(**files)


def test_recordings_of_no_segment_are_removed_and_segments_of_no_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"wav_scp": "r1 1.wav\nr2 2.wav\nr3 3.wav\n", "segments": "a r1 0 1 \nb r4 0 1\nc r3  1 2\n"}
    files |= {"reco2dur": "r1 5\nr2 5\nr3 5\n", "reco2file_and_channel": "r1 r1 A\nr2 r2 A\nr3 r3 A\n"}
    data = small(tmp_path / "data", cmvn_scp="a x\nc x\nd x\n", **files)
    run("fix_data_dir.sh", str(data))
    assert [line for line in capsys.readouterr().out.splitlines() if "filtered" in line] == [
        f"fix_data_dir.sh: filtered {data}/segments from 3 to 2 lines based on filter recordings.",
        f"fix_data_dir.sh: filtered {data}/wav.scp from 3 to 2 lines based on filter recordings.",
        f"fix_data_dir.sh: filtered {data}/reco2file_and_channel from 3 to 2 lines based on filter recordings.",
        f"fix_data_dir.sh: filtered {data}/reco2dur from 3 to 2 lines based on filter recordings.",
        f"fix_data_dir.sh: filtered speakers from 3 to 2 lines based on filter {data}/cmvn.scp.",
        f"fix_data_dir.sh: filtered {data}/spk2utt from 3 to 2 lines based on filter speakers.",
        f"fix_data_dir.sh: filtered {data}/cmvn.scp from 3 to 2 lines based on filter speakers.",
    ]
    assert (data / "segments").read_text() == "a r1 0 1\nc r3 1 2\n"
    for name in ("wav.scp", "reco2dur", "reco2file_and_channel"):
        assert keys(data / name) == ["r1", "r3"], name
    assert keys(data / "utt2spk") == ["a", "c"]


@pytest.mark.parametrize("text", ["a\tr\t0\t-1\nb r 0 1\nc r 1 2\n", "a r 0 -1\nb r 0 1\nc r 1 2\n"])
def test_negative_duration_of_an_open_segment_is_refused_by_fix(tmp_path: Path, text: str) -> None:
    data = small(tmp_path / "data", segments=text, wav_scp="r r.wav\n", utt2dur="a -1\nb 1\nc 1\n")
    with pytest.raises(DataDirError, match="utt2dur:1: a"):
        DataDir(data).fix()
    (data / "utt2dur").write_text("a 3\nb -1\nc 1\n")
    assert DataDir(data).fix().utterances() == ["a", "c"]


def test_endless_input_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.fifo")
    data = small(
        tmp_path / "data", wav_scp="a a.fifo\nb b.wav\nc c.wav\n", utt2dur="a 1\nb 1\nc 1\n", reco2dur="a 1\nb 1\nc 1\n"
    )
    both = os.open("a.fifo", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(both, b"fLaC and more")
        (tmp_path / "sox").write_text("")
        (tmp_path / "sox").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        fast = DataDir(data).perturb_speed(tmp_path / "fast", 2)
        assert Path(fast.file("wav.scp")).read_text().startswith("sp2-a sox -t wav a.fifo -t wav - speed 2 |\n")
        for name in ("reco2dur", "utt2dur"):
            (data / name).unlink()
        with pytest.raises(DataDirError, match=r"wav.scp:1: a: .* is not a regular file"):
            DataDir(data).reco2dur()
        assert os.read(both, 99) == b"fLaC and more"
    finally:
        os.close(both)


def test_times_are_divided_by_the_speed_and_an_open_end_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sox").write_text("")
    (tmp_path / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    segments = "a r 0 1.005\nb r 1.5 3\nc r 4 -1\n"
    data = small(
        tmp_path / "data", segments=segments, wav_scp="r r.wav\n", reco2dur="r 9\n", utt2dur="a 1.005\nb 1.5\nc 5\n"
    )
    slow = DataDir(data).perturb_speed(tmp_path / "slow", 0.5)
    times = {"a": "0.00 2.01", "b": "3.00 6.00", "c": "8.00 -1"}
    expected = "".join(f"sp0.5-{key} sp0.5-r {time}\n" for key, time in times.items())
    assert Path(slow.file("segments")).read_text() == expected
    assert slow.utt2dur() == {"sp0.5-a": 2.01, "sp0.5-b": 3.0, "sp0.5-c": 10.0} and slow.reco2dur() == {"sp0.5-r": 18.0}
    assert Path(slow.file("utt2uniq")).read_text() == "".join(f"sp0.5-{key} {key}\n" for key in "abc")
    assert Path(slow.file("utt2spk")).read_text() == "".join(f"sp0.5-{key} sp0.5-{key}\n" for key in "abc")


def test_speaker_of_one_utterance_and_unsorted_lists_are_divided(tmp_path: Path) -> None:
    pairs = "a x\nb y\nc x\nd z\ne x\n"
    files = {
        "utt2spk": pairs,
        "spk2utt": "x a c e\ny b\nz d\n",
        "wav_scp": "".join(f"{key} {key}\n" for key in "abcde"),
    }
    data = small(tmp_path / "data", **files)
    run("split_data.sh", str(data), "2")
    assert [keys(data / f"split2/{part}/spk2utt") for part in (1, 2)] == [["x"], ["y", "z"]]
    run("split_data.sh --per-utt", str(data), "2")
    assert [keys(data / f"split2utt/{part}/utt2spk") for part in (1, 2)] == [["a", "b", "c"], ["d", "e"]]
    run("subset_data_dir.sh --per-spk", str(data), "2", str(tmp_path / "two"))
    assert keys(tmp_path / "two/utt2spk") == ["a", "c", "b", "d"]
    run("subset_data_dir.sh --speakers", str(data), "1", str(tmp_path / "speakers"))
    chosen = keys(tmp_path / "speakers/spk2utt")
    assert len(chosen) == 1 and all(
        f" {chosen[0]}" in line for line in (tmp_path / "speakers/utt2spk").read_text().splitlines()
    )


@pytest.mark.parametrize("names", ["a", "a b", ""])
def test_lists_of_speakers_or_utterances_choose_in_the_order_of_the_directory(tmp_path: Path, names: str) -> None:
    data = small(tmp_path / "data", utt2spk="a s\nb t\nc s\n", spk2utt="s a c\nt b\n", text="c 3\na 1\nb 2\n")
    (tmp_path / "list").write_text("".join(f"{name} more\n" for name in reversed(names.split())))
    if names:
        run("subset_data_dir.sh --utt-list", str(tmp_path / "list"), str(data), str(tmp_path / "utt"))
        assert keys(tmp_path / "utt/utt2spk") == keys(tmp_path / "utt/wav.scp") == names.split()
        assert keys(tmp_path / "utt/text") == [key for key in "cab" if key in names]
    (tmp_path / "list").write_text("s\n")
    run("subset_data_dir.sh --spk-list", str(tmp_path / "list"), str(data), str(tmp_path / "spk"))
    assert (tmp_path / "spk/utt2spk").read_text() == "a s\nc s\n" and keys(tmp_path / "spk/text") == ["c", "a"]


def test_refused_source_leaves_no_target_and_no_lock(tmp_path: Path) -> None:
    data, target = small(tmp_path / "data", text="\ufeffa x\nb y\nc z\n"), tmp_path / "new" / "out"
    with pytest.raises(DataDirError, match="byte-order mark"):
        DataDir(data).copy(target)
    assert not target.parent.exists()
    (data / "text").write_text("a x\nb y\nc z\n")
    assert DataDir(data).copy(target).utterances() == ["a", "b", "c"]
    assert not [path.name for path in target.iterdir() if path.name.startswith(".") and path.is_file()]


@pytest.mark.parametrize("entry", ["-", "cat a.wav |", "a.wav[0:1]"])
def test_entries_that_end_are_read_for_durations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    from io_ark.data_dir.durations import refuse_endless_entries

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").write_text("")
    os.mkfifo("-")  # a name that stands for standard input
    (tmp_path / "wav.scp").write_text(f"a {entry}\nb {entry}\n")
    refuse_endless_entries("wav.scp")
    (tmp_path / "wav.scp").write_text(f"a {entry}\nb ./-\nc ./-\n")
    with pytest.raises(DataDirError, match=r"wav.scp:2: b: .* is not a regular file"):
        refuse_endless_entries("wav.scp")
    refuse_endless_entries("wav.scp", {b"a"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [("-j 2 2", "'-j 2 2'"), ("-j 2 5 --one-based", "'-j 2 5 --one-based'"),
     ("-j 2 0 --one-based", "'-j 2 0 --one-based'"), ("-j 2 -1", "'-j 2 -1'")],
)  # fmt: skip
def test_number_of_a_part_is_within_the_parts(arguments: str, said: str) -> None:
    with pytest.raises(DataDirError, match=f"Invalid job number/index values for {said}"):
        run(f"split_scp.pl {arguments}", "text")


def test_repetitions_are_removed_without_recordings_as_by_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fix_data_dir.sh stops if segments has no wav.scp, but remove_dup_utts.sh ignores its status."""
    source, target = full(tmp_path / "data"), tmp_path / "out"
    (source / "wav.scp").unlink()
    (source / "text").write_text("".join(f"{key} yes\n" for key in SPEAKERS))
    run("remove_dup_utts.sh", "2", str(source), str(target))
    assert keys(target / "utt2spk") == keys(target / "segments") == [*SPEAKERS]
    assert keys(target / "text") == ["b-1", "c-1"] and not (target / ".backup").exists()
    assert f"fix_data_dir.sh: {target}/segments exists but not {target}/wav.scp" in capsys.readouterr().out
    with pytest.raises(DataDirError, match=r"segments exists but not .*/wav\.scp"):
        directories.remove_repetitions(Printer("data", as_script=False), "2", str(source), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_copy_of_segments_without_recordings_writes_nothing(tmp_path: Path) -> None:
    data = small(tmp_path / "data", segments="a r 0 1\nb r 1 2\nc r 2 3\n")
    (data / "wav.scp").unlink()
    with pytest.raises(DataDirError, match=r"data/wav.scp: is missing, but .*data has segments: add the file"):
        DataDir(data).copy(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["reco2dur", "utt2dur"])
def test_durations_without_recordings_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data = small(tmp_path / "data")
    (data / "wav.scp").unlink()
    with pytest.raises(DataDirError):
        run(f"get_{name}.sh", str(data))
    assert f"get_{name}.sh: Expected {data}/wav.scp" in capsys.readouterr().out and not (data / name).exists()


def test_target_that_another_job_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, target = small(tmp_path / "data"), tmp_path / "out"
    make_directory, removed = stage.make_directory, []

    def make_and_remove_once(folder: str) -> list[str]:
        folders = make_directory(folder)
        if folder == str(target) and not removed:
            removed.append(folder)
            os.rmdir(folder)
        return folders

    monkeypatch.setattr(stage, "make_directory", make_and_remove_once)
    assert DataDir(data).copy(target).utterances() == ["a", "b", "c"] and removed


def test_audio_that_cannot_be_read_is_named_for_its_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small(tmp_path / "data", segments="a r 0 1\nb r 1 2\nc r 2 -1\n", wav_scp=f"r {tmp_path}/r.wav\n")
    for content in (None, b"RIFF", b""):
        if content is not None:
            (tmp_path / "r.wav").write_bytes(content)
        with pytest.raises(DataDirError, match=r"r\.wav"):
            run("get_utt2dur.sh", str(data))
        assert "get_utt2dur.sh: there was a problem getting the durations" in capsys.readouterr().out


@pytest.mark.parametrize("chunk", [5, 1 << 20])
def test_line_without_a_key_in_a_file_to_divide_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    data = small(tmp_path / "data", text="a x\n\nb y\nc z\n")
    with pytest.raises(DataDirError, match=r"data/text:2: Bad line without a key"):
        run("split_data.sh", str(data), "2")


def test_blank_lines_of_a_subset_lose_the_lines_after_them(tmp_path: Path) -> None:
    data = small(tmp_path / "data", utt2lang="a x\n\n \nb y\nc z\n")
    with pytest.raises(DataDirError, match=r"data/utt2lang:2: Bad line without a key"):
        run("subset_data_dir.sh", str(data), "3", str(tmp_path / "out"))


def test_perturbed_copies_are_fixed_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = small(tmp_path / "data", text="a x\nc z\n", utt2dur="a 1\nb 2\nc 3\n")
    run("perturb_data_dir_speed_3way.sh", str(data), str(tmp_path / "out"))
    assert keys(tmp_path / "out/utt2spk") == keys(tmp_path / "out/text") == keys(tmp_path / "out/wav.scp")
    assert keys(tmp_path / "out/text") == ["a", "c", "sp0.9-a", "sp0.9-c", "sp1.1-a", "sp1.1-c"]
    assert keys(tmp_path / "out/spk2utt") == keys(tmp_path / "out/utt2spk")
    run("perturb_data_dir_speed_3way.sh --include-spk-prefix false", str(data), str(tmp_path / "same"))
    assert keys(tmp_path / "same/utt2spk") == ["a", "a-sp0.9", "a-sp1.1", "c", "c-sp0.9", "c-sp1.1"]
    assert keys(tmp_path / "same/spk2utt") == ["a", "c"]


@pytest.mark.parametrize(
    ("line", "has_volume"),
    [
        ("a sox --vol 0.5 -t wav a.wav -t wav - |", True),
        ("a cat a.wav | sox --vol 0.5 -t wav - -t wav - |", True),
        ("a sox --vol 0.5 a.wav", True),
        ("a /x/my sox --vol a.wav", False),
        ("a b.wav", False),
        ("a sox a.wav -t wav - |", False),
        ("a 'sox --vol' |", False),
    ],
)
@pytest.mark.parametrize(("before", "is_in_reach"), [(0, True), (99, True), (100, False)])
def test_volume_is_sought_in_the_first_100_recordings(
    tmp_path: Path, line: str, has_volume: bool, before: int, is_in_reach: bool
) -> None:
    (tmp_path / "wav.scp").write_text("b b.wav\n" * before + f"{line}\n")
    assert perturb._has_volume(str(tmp_path / "wav.scp")) == (has_volume and is_in_reach)


def test_first_recording_by_name_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    names = [f"r{number:02d}" for number in range(30)]
    data = small(
        tmp_path / "data",
        segments="".join(f"a{name} {name} 0 -1\n" for name in reversed(names)),
        wav_scp="".join(f"{name} {tmp_path}/{name}.wav\n" for name in names),
    )
    with pytest.raises(DataDirError, match=r"r00\.wav"):
        run("get_utt2dur.sh", str(data))


@pytest.mark.parametrize(
    ("utt2spk", "spk2utt", "said"),
    [("a s\nb t\nc t\n", "s a b\nt c\n", "utt2spk:2: b: has 'b t', but spk2utt has 'b s': make"),
     ("a s\nb s\nc s\n", "s a b d\n", "utt2spk:3: c: has 'c s', but spk2utt has 'd s': make"),
     ("a s\nb s\nc s\n", "t a b c\n", "utt2spk:1: a: has 'a s', but spk2utt has 'a t': make"),
     ("a s\nb s\nc s\n", "s a b\n", "utt2spk:3: c: has 'c s', but spk2utt has no such line: make"),
     ("a s\nb s\n", "s a b c\n", "utt2spk:3: c: has no such line, but spk2utt has 'c s': make"),
     ("a s\nb s\n", "s a b\nt\n", "spk2utt:2: t: the speaker has no utterances: remove the line")],
)  # fmt: skip
def test_speakers_that_differ_from_their_list_are_not_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], utt2spk: str, spk2utt: str, said: str
) -> None:
    data = small(tmp_path / "data", utt2spk=utt2spk, spk2utt=spk2utt)
    with pytest.raises(DataDirError, match=f"data/{said}"):
        run("validate_data_dir.sh --no-feats --no-text", str(data))
    assert "spk2utt and utt2spk do not seem to match" in capsys.readouterr().out
