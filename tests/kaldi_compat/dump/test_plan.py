"""The plan of a dump: the division of utterances, and detection of changes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from io_ark.streams.unfinished import choose_temporary_name, identify_machine, remove_unfinished
from kaldi_compat.dump import plan as plan_module
from kaldi_compat.dump.errors import DumpError, PlanError
from kaldi_compat.dump.files import open_whole_file, read_sealed_file, write_sealed_file
from kaldi_compat.dump.finalize import format_frame_shift
from kaldi_compat.dump.options import DumpOptions, Layout
from kaldi_compat.dump.plan import (
    DumpPlan,
    Shard,
    collect_settings,
    make_plan,
    read_plan,
    read_shard_lines,
    update_plan,
    write_plan,
)
from kaldi_compat.errors import OptionError
from tests.support.dump_data import job_of, left_by_a_dead_process, make_data


def texts_of(plan: DumpPlan, shard: Shard, data: Path) -> list[str]:
    return [line.decode() for line in read_shard_lines(plan, shard, data)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("plan"), 10, samples=(800,))


@pytest.mark.parametrize(
    ("nj", "sizes"), [(1, [10]), (3, [4, 3, 3]), (4, [3, 3, 2, 2]), (10, [1] * 10), (99, [1] * 10)]
)
def test_utterances_are_divided_as_split_scp_divides(data: Path, nj: int, sizes: list[int]) -> None:
    """Sizes: those of the files that utils/split_scp.pl made (which refuses more jobs than lines)."""
    plan = make_plan(job_of(data, nj=nj))
    assert [shard.count for shard in plan.shards] == sizes
    lines = [line for shard in plan.shards for line in texts_of(plan, shard, data)]
    assert lines == (data / "wav.scp").read_text().splitlines()


def test_shards_of_a_chosen_size(data: Path) -> None:
    plan = make_plan(job_of(data, shard_utterances=4))
    assert [shard.count for shard in plan.shards] == [4, 3, 3]
    assert plan.count == 10


@given(parts=st.integers(1, 12))
def test_parts_cover_the_plan_once(data: Path, parts: int) -> None:
    plan = make_plan(job_of(data, nj=7))
    numbers = [shard.number for k in range(1, parts + 1) for shard in plan.select_part(k, parts)]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6, 7]


def test_plan_reads_back_as_written(data: Path, tmp_path: Path) -> None:
    job = job_of(data, nj=3, seed=5)
    plan = make_plan(job)
    write_plan(plan, tmp_path / "plan")
    assert read_plan(tmp_path / "plan") == plan
    assert update_plan(plan, job, tmp_path / "plan", []) is plan
    assert plan.seed == 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(cut=st.floats(0, 1), noise=st.binary(max_size=20))
def test_damaged_plan_is_refused(data: Path, tmp_path: Path, cut: float, noise: bytes) -> None:
    path = tmp_path / "plan"
    write_plan(make_plan(job_of(data, nj=3)), path)
    whole = path.read_bytes()
    damaged = whole[: int(cut * (len(whole) - 2))] + noise
    path.write_bytes(damaged)
    with pytest.raises(PlanError, match="cannot use the plan"):
        read_plan(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"compress": False}, "compress"),
        ({"pipes": False}, "pipes"),
        ({"network": False}, "network"),
        ({"device": "cuda"}, r"device \(CPU or GPU\)"),
    ],
)
def test_changed_decisive_options_are_refused(data: Path, change: dict[str, object], named: str) -> None:
    plan = make_plan(job_of(data))
    with pytest.raises(PlanError, match=f"{named} changed since .* every archive"):
        update_plan(plan, job_of(data, **change), Path("plan"), [])


def test_other_options_may_change_when_resuming(data: Path) -> None:
    changed = job_of(data, nj=9, resume=True, max_failures=4, readers=7)
    plan = make_plan(job_of(data))
    assert update_plan(plan, changed, Path("plan"), [1, 2]) is plan


def test_size_of_batches_may_change_when_resuming_on_a_gpu(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "parse_devices", lambda text: [text])
    plan = make_plan(job_of(data, device="cuda"))
    changed = job_of(data, device="cuda:0", batch_seconds=100.0, window_utterances=64, resume=True)
    assert update_plan(plan, changed, Path("plan"), []) is plan


@pytest.mark.parametrize("name", ["wav.scp", "utt2spk", "utt2warp"])
def test_changed_inputs_are_refused(tmp_path: Path, name: str) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    plan = make_plan(job_of(data))
    with open(data / name, "a") as file:
        file.write("more 1.0\n")
    with pytest.raises(PlanError, match=name):
        update_plan(plan, job_of(data), Path("plan"), [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a x.wav\nb y.wav\na z.wav\n", "line 3: a occurs a second time"),
        ("\ufeffa x.wav\nb y.wav\n", "line 1: the file starts with a byte order mark"),
        ("a x.wav\nb y.wav\nb z.wav\n", "line 3: b occurs a second time"),
        ("\udcff x.wav\nb y.wav\n\udcff z.wav\n", "line 3: \ufffd occurs a second time"),
        ("a x.wav\nb\x01 y.wav\n", "line 2: the key 'b.x01' has a control character, which no table can hold: rename"),
        ("a x.wav\nb\n", "line 2: nothing follows the key 'b'"),
        ("a x.wav\n\nb y.wav\n", "line 2: a blank line precedes a key"),
    ],
)
def test_invalid_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    data = make_data(tmp_path, 1, samples=(800,))
    (data / "wav.scp").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DumpError, match=message):
        make_plan(job_of(data))


@pytest.mark.parametrize("is_sorted", [True, False])
def test_blank_lines_at_the_end_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture, is_sorted: bool) -> None:
    """Kaldi's programs process everything before them, warn, and succeed."""
    data = make_data(tmp_path, 3, samples=(800,))
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    text = "".join(lines if is_sorted else lines[::-1])
    (data / "wav.scp").write_text(text + "\n  \n")
    plan = make_plan(job_of(data, nj=2))
    assert plan.count == 3
    assert [line for shard in plan.shards for line in texts_of(plan, shard, data)] == text.splitlines()
    assert "line 4: skipped blank lines at the end" in caplog.text


def test_unsorted_list_keeps_its_order(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    (data / "wav.scp").write_text("".join(reversed(lines)))
    plan = make_plan(job_of(data, nj=1))
    assert texts_of(plan, plan.shards[0], data) == [line.strip() for line in reversed(lines)]


def test_layout_is_that_of_kaldis_scripts() -> None:
    layout = Layout.from_paths("exp/data/train/", "mfcc_pitch")
    assert layout.name == "train"
    assert layout.get_archive(3) == Path("exp/data/train/data/raw_mfcc_pitch_train.3.ark").absolute()
    assert layout.log == Path("exp/data/train/log")
    assert Layout.from_paths("d", "fbank", "l", "a").get_script(1) == Path("a/raw_fbank_d.1.scp").absolute()


def test_speeds_need_a_directory() -> None:
    with pytest.raises(OptionError, match="go together"):
        DumpOptions(speeds="0.9")
    for wrong in ("0.9,-1", "0.9,1_0", "inf", "0", "nan", "1e9", "1e-9"):
        with pytest.raises(OptionError, match=r"speeds must be numbers from 0\.01 to 100"):
            DumpOptions(speeds=wrong, speed_dir="x")
    assert DumpOptions(speeds="0.9, 1.0", speed_dir="x").speed_factors == ("0.9", "1.0")


def test_every_option_is_in_the_plan_or_does_not_change_archives() -> None:
    """A new option must be listed: does it decide bytes?"""
    harmless = {
        "conf", "pitch_conf", "pitch_postprocess_conf",  # whose contents are in the plan
        "transformers", "onnx", "statistics", "kmeans", "allow_pickle",  # likewise
        "per_speaker", "format",  # of what is made of the archives
        "write_utt2num_frames", "write_utt2dur", "nj", "shard_utterances", "readers", "max_device_memory", "resume",
        "max_failures", "cmvn", "speed_dir", "report", "runner", "address", "shard",
        "device", "batch_seconds", "window_utterances",  # see processor
        "max_duration", "command_timeout", "verify", "retry_failed",  # which decide about failures alone
        "trust_extractor",  # which allows a resumption
    }  # fmt: skip
    from kaldi_compat.dump.plan import DECISIVE

    fields = {field.name for field in dataclasses.fields(DumpOptions)}
    assert fields - harmless == set(DECISIVE) - {"processor"}


def test_frame_shift_is_written_as_the_scripts_write_it() -> None:
    assert format_frame_shift("--frame-shift=10 # ms\n") == "0.010"
    assert format_frame_shift("--num-mel-bins=3\n--frame-shift=8\n") == "0.008"
    assert format_frame_shift("--frame-shift=12.5\n") == "0.0125"
    assert format_frame_shift("# --frame-shift=8\n") == "0.01"
    assert format_frame_shift("--frame-shift=8# ms\n") == "0.008"  # a comment needs no space before it
    assert format_frame_shift("--frame-shift=8\n--frame_shift=16\n") == "0.016"  # the last one holds


def test_file_is_complete_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(ValueError, match="stop"), open_whole_file(path) as file:
        file.write(b"half")
        raise ValueError("stop")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with open_whole_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_only_abandoned_temporary_files_of_a_file_are_removed(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("a[1].ark", "a[1].ark.2", "a1.ark.unfinished-00")]
    kept.append(choose_temporary_name(tmp_path / "a[1].ark"))
    left = left_by_a_dead_process(tmp_path / "a[1].ark")
    for path in (*kept, left):
        path.write_text("")
    remove_unfinished(tmp_path / "a[1].ark")
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_unfinished_file_of_another_running_process_is_kept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = choose_temporary_name(tmp_path / "a.ark").name.replace(f"-{os.getpid()}-", f"-{other.pid}-")
        (tmp_path / name).write_text("half")
        remove_unfinished(tmp_path / "a.ark")
        assert (tmp_path / name).exists()
        other.communicate(b"\n")
    remove_unfinished(tmp_path / "a.ark")
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("days", "is_kept"), [(0, True), (0.9, True), (1.1, False)])
def test_unfinished_file_of_another_machine_is_kept_for_a_day(tmp_path: Path, days: float, is_kept: bool) -> None:
    name = choose_temporary_name(tmp_path / "a.ark").name.replace(identify_machine(), "another")
    (tmp_path / name).write_text("half")
    written = time.time() - days * 86400
    os.utime(tmp_path / name, (written, written))
    remove_unfinished(tmp_path / "a.ark")
    assert (tmp_path / name).exists() == is_kept


def test_plan_is_lines_of_json(data: Path, tmp_path: Path) -> None:
    write_plan(make_plan(job_of(data, nj=2)), tmp_path / "plan")
    header, *shards, _ = map(json.loads, (tmp_path / "plan").read_text().splitlines())
    assert header["listing"] == "wav.scp" and header["archives"] == 2 and header["options"]["seed"] == 0
    assert [shard["count"] for shard in shards] == [5, 5]


def test_parts_of_a_plan_take_turns(data: Path) -> None:
    plan = make_plan(job_of(data, nj=8))
    assert [[shard.number for shard in plan.select_part(part, 3)] for part in (1, 2, 3)] == [
        [1, 4, 7],
        [2, 5, 8],
        [3, 6],
    ]


def test_plan_of_fewer_archives_than_it_says_is_refused(data: Path, tmp_path: Path) -> None:
    plan = make_plan(job_of(data, nj=3))
    write_plan(plan, tmp_path / "plan")
    assert read_plan(tmp_path / "plan") == plan
    header, *shards = read_sealed_file(tmp_path / "plan")
    for lines in ([header, *shards[:-1]], [header, *shards, shards[0]], [header | {"version": 1}, *shards]):
        write_sealed_file(tmp_path / "plan", lines)
        with pytest.raises(PlanError, match=r"^cannot use the plan .*: delete the plan and start again"):
            read_plan(tmp_path / "plan")


def test_plan_that_cannot_be_read_is_refused_in_one_line(data: Path) -> None:
    with pytest.raises(PlanError, match=r"^there is no plan .*/none: start without --resume$"):
        read_plan(data / "none")
    with pytest.raises(
        PlanError, match=r"^the plan .*train cannot be read: Is a directory: start again without --resume$"
    ):
        read_plan(data)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 6, 9, 10, 13])
@pytest.mark.parametrize("nj", [1, 5])
def test_archives_of_a_size_have_at_most_that_many_utterances_and_differ_by_one(data: Path, size: int, nj: int) -> None:
    counts = [shard.count for shard in make_plan(job_of(data, shard_utterances=size, nj=nj)).shards]
    assert sum(counts) == 10 and len(counts) == -(-10 // size)
    assert max(counts) <= size and max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    ("nj", "part", "archives"), [(1, "", 1), (5, "", 5), (99, "", 10), (2, "1/4", 4), (4, "2/2", 4)]
)
def test_each_process_and_each_part_has_an_archive(data: Path, nj: int, part: str, archives: int) -> None:
    plan = make_plan(job_of(data, nj=nj, shard=part))
    assert [shard.number for shard in plan.shards] == list(range(1, archives + 1))
    listed = (data / "wav.scp").read_bytes().splitlines()
    assert [line for shard in plan.shards for line in read_shard_lines(plan, shard, data)] == listed


def write_conf(data: Path, text: str) -> None:
    (data.parent.parent / "conf" / "fbank.conf").write_text(text)


MENDING = ("pipes", "network")


@pytest.mark.parametrize("mend", MENDING)
def test_change_that_mends_beside_a_change_of_all_features_is_refused(data: Path, mend: str) -> None:
    """Every change must keep the existing features, not only one of them."""
    plan = make_plan(job_of(data, **{mend: False}))
    with pytest.raises(PlanError, match=f"^{mend}, seed changed since .* every archive would be created again"):
        update_plan(plan, job_of(data, seed=1, retry_failed=True), Path("plan"), [])


@pytest.mark.parametrize("mend", MENDING)
def test_change_that_mends_creates_only_archives_with_failures_again(data: Path, mend: str) -> None:
    plan = make_plan(job_of(data, **{mend: False}))
    with pytest.raises(PlanError, match=rf"^{mend} changed since .* failed utterances \(2, 10\) .* add --retry-failed"):
        update_plan(plan, job_of(data), Path("plan"), [10, 2])
    for failed, options in ([], {}), ([10, 2], {"retry_failed": True}):
        updated = update_plan(plan, job_of(data, **options), Path("plan"), failed)
        assert updated == make_plan(job_of(data)) != plan


@pytest.mark.parametrize(
    ("before", "now", "mends"),
    [
        ("--min-duration=0.5", "--min-duration=0.2", True),
        ("--min-duration=0.2", "--min-duration=0.5", False),
        ("--allow-downsample=false", "--allow-downsample=true", True),
        ("--allow-downsample=true", "--allow-downsample=false", False),
        ("--allow-upsample=false", "--allow-upsample=true", True),
        ("--allow-upsample=true", "--allow-upsample=false", False),
        ("--use-energy=false", "--use-energy=true", False),
        ("--min-duration=0.5\n--num-mel-bins=23", "--min-duration=0.2\n--num-mel-bins=24", False),
        ("--min-duration=0.5", "--min-duration=0.2\n--allow-upsample=true", True),
    ],
)
def test_options_of_a_feature_that_change_no_existing_features(
    tmp_path: Path, before: str, now: str, mends: bool
) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    write_conf(data, before + "\n")
    plan = make_plan(job_of(data))
    write_conf(data, now + "\n")
    if mends:
        updated = update_plan(plan, job_of(data), Path("plan"), [])
        assert updated.settings["confs"] == {"fbank.conf": now + "\n"} and updated.shards == plan.shards
    else:
        with pytest.raises(PlanError, match="every archive would be created again"):
            update_plan(plan, job_of(data), Path("plan"), [])


def test_comments_and_written_defaults_are_no_change(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    plan = make_plan(job_of(data))
    write_conf(data, "--dither=0.0  # none\n--use-energy=false\n--num-mel-bins=23\n")
    assert update_plan(plan, job_of(data), Path("plan"), []) is plan


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"program": "0"}, "program"),
        ({"feature": "mfcc"}, "feature"),
        ({"confs": {"fbank.conf": "--no-such-option=1\n"}}, "fbank.conf"),
        ({"confs": {}}, "fbank.conf"),
        ({"inputs": {}}, "utt2spk, wav.scp"),
        ({"program": "0", "feature": "mfcc"}, "feature, program"),
    ],
)
def test_plan_of_something_else_is_refused(data: Path, change: dict[str, object], named: str) -> None:
    plan = make_plan(job_of(data))
    other = dataclasses.replace(plan, settings=plan.settings | change)
    with pytest.raises(PlanError, match=rf"^{named} changed since the plan plan was made, so every archive"):
        update_plan(other, job_of(data), Path("plan"), [])


def test_configuration_that_appears_or_disappears_is_a_change(data: Path) -> None:
    plan = make_plan(job_of(data))
    other = dataclasses.replace(plan, settings=plan.settings | {"confs": plan.settings["confs"] | {"pitch.conf": ""}})
    with pytest.raises(PlanError, match=r"^pitch.conf changed since"):
        update_plan(other, job_of(data), Path("plan"), [])


def test_input_that_appears_or_disappears_is_a_change(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    plan = make_plan(job_of(data))
    (data / "spk2warp").write_text("spk0 1.0\n")
    with pytest.raises(PlanError, match=r"^spk2warp changed since"):
        update_plan(plan, job_of(data), Path("plan"), [])
    plan = make_plan(job_of(data))
    (data / "spk2warp").unlink()
    with pytest.raises(PlanError, match=r"^spk2warp changed since"):
        update_plan(plan, job_of(data), Path("plan"), [])


def test_file_that_an_extractor_used_in_its_trial_is_compared(data: Path, tmp_path: Path) -> None:
    used = tmp_path / "weights"
    used.write_text("1")
    files = {"file weights": str(used)}
    job, trial = job_of(data), {"trial": {"files": files}}
    plan = make_plan(job)
    plan = dataclasses.replace(plan, settings=plan.settings | collect_settings(job, files) | trial)
    assert update_plan(plan, job, Path("plan"), []) is plan
    used.write_text("2")
    with pytest.raises(PlanError, match=r"^file weights changed since"):
        update_plan(plan, job, Path("plan"), [])
    used.write_text("1")
    options = plan.settings["options"] | {"pipes": False}
    mending = dataclasses.replace(plan, settings=plan.settings | {"options": options})
    updated = update_plan(mending, job, Path("plan"), [])
    assert updated == plan  # The trial and the digest of its file are kept.


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, "start again"),
        ({"resume": True}, "start again without --resume"),
        ({"retry_failed": True}, "start again without --retry-failed"),
        ({"resume": True, "retry_failed": True}, "start again without --resume and --retry-failed"),
        ({"shard": "1/2"}, "delete the plan and start again"),
        ({"shard": "1/2", "resume": True}, "delete the plan and start again without --resume"),
    ],
)
def test_advice_to_start_over_names_what_to_leave_out(data: Path, options: dict[str, object], advice: str) -> None:
    plan = make_plan(job_of(data))
    with pytest.raises(PlanError, match=f"undo this change, or {advice}$"):
        update_plan(plan, job_of(data, seed=1, **options), Path("plan"), [])


@pytest.mark.parametrize(("options", "archives"), [
    ({"device": "cuda", "nj": 2}, 3), ({"device": "cuda", "nj": 5}, 5), ({"nj": 2}, 2),
    ({"device": "cuda", "runner": "ray", "nj": 2}, 2), ({"device": "cuda", "nj": 2, "shard_utterances": 5}, 2),
])  # fmt: skip
def test_each_gpu_of_this_machine_has_an_archive(
    data: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], archives: int
) -> None:
    monkeypatch.setattr(plan_module, "parse_devices", lambda text: ["cuda:0", "cuda:1", "cuda:2"])
    assert len(make_plan(job_of(data, **options)).shards) == archives


@pytest.mark.parametrize("is_sorted", [True, False])
def test_list_that_is_not_sorted_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture, is_sorted: bool) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    (data / "wav.scp").write_text("".join(lines if is_sorted else [lines[1], lines[2], lines[0]]))
    assert make_plan(job_of(data)).count == 3
    assert (f"{data}/wav.scp is not sorted" in caplog.text) is not is_sorted


def test_longest_key(tmp_path: Path) -> None:
    data = make_data(tmp_path, 1, samples=(800,))
    (data / "wav.scp").write_text(f"{'k' * 4096} x.wav\n")
    assert make_plan(job_of(data)).count == 1
    (data / "wav.scp").write_text(f"{'k' * 4097} x.wav\n")
    with pytest.raises(DumpError, match="line 1: the key has 4097 bytes, but at most 4096 are supported"):
        make_plan(job_of(data))


def test_last_line_without_a_newline_is_an_utterance(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    text = (data / "wav.scp").read_text()
    (data / "wav.scp").write_text(text.removesuffix("\n"))
    plan = make_plan(job_of(data, nj=2))
    assert [line for shard in plan.shards for line in texts_of(plan, shard, data)] == text.splitlines()


def test_warping_by_speaker_needs_the_speakers(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(800,))
    (data / "utt2spk").unlink()
    assert make_plan(job_of(data)).count == 3
    (data / "spk2warp").write_text("spk0 1.0\n")
    with pytest.raises(DumpError, match=r"utt2spk is missing: the fbank features of .*train need this file"):
        make_plan(job_of(data))


def test_folder_in_place_of_the_list_is_said(tmp_path: Path) -> None:
    data = make_data(tmp_path, 1, samples=(800,))
    (data / "wav.scp").unlink()
    (data / "wav.scp").mkdir()
    with pytest.raises(DumpError, match=r"wav\.scp is not a file: the fbank features"):
        make_plan(job_of(data))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "3", "1/2/3", "-1/3", "1/+3", "1/1000000000", "a/b", " 1/2"])
def test_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="shard must be the number of a part and the number of parts, such as 3/100"):
        DumpOptions(shard=text)


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("paste_length_tolerance", 0, -1),
        ("compression_method", 1, 0),
        ("compression_method", 7, 8),
        ("nj", 1, 0),
        ("shard_utterances", 0, -1),
        ("readers", 1, 0),
        ("batch_seconds", 0, -0.5),
        ("window_utterances", 1, 0),
        ("max_device_memory", 0, -0.5),
        ("max_duration", 0.001, 0),
        ("command_timeout", 0, -0.5),
        ("max_failures", -1, -2),
        ("pool", "mean", "max"),
        ("dtype", "float16", "float64"),
        ("format", "npy", "npz"),
        ("engine", "exact", "exakt"),
        ("runner", "ray", "slurm"),
    ],
)
def test_option_has_its_limits(name: str, accepted: object, refused: object) -> None:
    assert getattr(DumpOptions(**{name: accepted}), name) == accepted
    with pytest.raises(OptionError, match=f"^{name} must be .*not {refused!r}"):
        DumpOptions(**{name: refused})


def test_defaults_of_options_are_those_of_the_recipes_and_the_pages() -> None:
    options = dataclasses.asdict(DumpOptions())
    switches = {name for name, value in options.items() if value is True}
    assert switches == {"compress", "write_utt2num_frames", "write_utt2dur", "verify", "pipes", "network"}
    numbers = {name: value for name, value in options.items() if type(value) in (int, float) and value}
    assert numbers == {"paste_length_tolerance": 2, "compression_method": 1, "nj": 4, "readers": 2,
                       "window_utterances": 512, "max_duration": 43200.0, "max_failures": -1}  # fmt: skip
    texts = {name: value for name, value in options.items() if isinstance(value, str) and value}
    assert texts == {"device": "cpu", "dtype": "float32", "format": "ark", "engine": "auto", "runner": "local",
                     "address": "auto"}  # fmt: skip


def test_values_that_are_computed_from_options() -> None:
    options = DumpOptions(shard="3/3", cmvn="speaker,", layers="9,0", transformers="x", retry_failed=True)
    assert (options.part, options.layer_numbers, options.cmvn_levels) == ((3, 3), [9, 0], ("speaker",))
    assert (options.source, options.resumes, options.by_speaker) == ("transformers", True, True)
    plain = DumpOptions(cmvn="global")
    assert (plain.source, plain.resumes, plain.by_speaker, plain.part) == ("", False, False, (1, 1))
    assert (plain.seconds_in_batch, plain.processor, plain.on_gpu) == (60.0, "CPU", False)
    on_gpu = DumpOptions(device="cuda:1", resume=True, per_speaker=True)
    assert (on_gpu.seconds_in_batch, on_gpu.processor, on_gpu.on_gpu) == (600.0, "GPU", True)
    assert on_gpu.resumes and on_gpu.by_speaker and DumpOptions(batch_seconds=7.0).seconds_in_batch == 7.0
    assert DumpOptions(onnx="m.onnx", preset="fbank").source == "onnx"
    assert DumpOptions(speeds="0.01,100", speed_dir="x").speed_factors == ("0.01", "100")
    for layers in ("9,,1", "12345", "a", "-1"):
        with pytest.raises(OptionError, match="layers must be numbers such as 9,12, not"):
            DumpOptions(layers=layers, transformers="x")


@pytest.mark.parametrize("options", [{"nj": 3}, {"shard_utterances": 1}, {"nj": 1}])
def test_archives_follow_each_other_in_the_list(data: Path, options: dict[str, int]) -> None:
    shards = make_plan(job_of(data, **options)).shards
    ends = [shard.stop for shard in shards]
    assert [shard.start for shard in shards] == [0, *ends[:-1]] and ends[-1] == (data / "wav.scp").stat().st_size
    content = (data / "wav.scp").read_bytes()
    assert [content[shard.start : shard.stop].count(b"\n") for shard in shards] == [shard.count for shard in shards]
