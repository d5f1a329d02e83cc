"""The bulk dump as a whole: its results are compared with those of the programs, file by file."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch

import io_ark
import kaldi_compat
from kaldi_compat.dump import cli as command
from kaldi_compat.dump import finalize as finish
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.files import lock_dump
from kaldi_compat.dump.finalize import link_to_storage
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.spectral import SpectralComputer
from kaldi_compat.dump.workers import describe_ending
from kaldi_compat.dump.write import Manifest
from kaldi_compat.pitch.process import process_pitch
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_compat.programs import (
    compute_cmvn_stats,
    compute_fbank_feats,
    compute_kaldi_pitch_feats,
    compute_mfcc_feats,
    copy_feats,
    extract_segments,
    paste_feats,
    process_kaldi_pitch_feats,
)
from tests.support import dump_data
from tests.support.dump_data import (
    archive_bytes,
    audio,
    dump,
    edited,
    failures,
    job_of,
    keys_of,
    make_data,
    matrices,
    refused,
    said_by,
    write_wav,
)
from tests.support.processes import python


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path)


def stored(script: Path) -> dict[str, bytes]:
    """Return the bytes of the features that a script file names."""
    return {key: value.tobytes() for key, value in matrices(script).items()}


def by_programs(data: Path, wav_rspecifier: str, out: Path, conf: str = "fbank.conf") -> None:
    """Run the programs of Kaldi's make_fbank.sh: compute-fbank-feats, then copy-feats --compress."""
    config = data.parent.parent / "conf" / conf
    durations = f"--write-utt2dur=ark,t:{out}.utt2dur"
    assert compute_fbank_feats.main([f"--config={config}", durations, wav_rspecifier, f"ark:{out}.plain"]) == 0
    frames = f"--write-num-frames=ark,t:{out}.utt2num_frames"
    assert copy_feats.main(["--compress=true", frames, f"ark:{out}.plain", f"ark,scp:{out}.ark,{out}.scp"]) == 0


def test_leaves_what_the_recipe_script_leaves(data: Path, tmp_path: Path) -> None:
    assert dump(data) == 0
    by_programs(data, f"scp,p:{data}/wav.scp", tmp_path / "ref")
    assert (data / "data" / "raw_fbank_train.1.ark").read_bytes() == (tmp_path / "ref.ark").read_bytes()
    for name in ("utt2dur", "utt2num_frames"):
        assert (data / name).read_bytes() == (tmp_path / f"ref.{name}").read_bytes()
    expected = (tmp_path / "ref.scp").read_text().replace(f"{tmp_path}/ref.ark", f"{data}/data/raw_fbank_train.1.ark")
    assert (data / "feats.scp").read_text() == (data / "data" / "raw_fbank_train.1.scp").read_text() == expected
    assert (data / "frame_shift").read_text() == "0.01\n"
    assert (data / "conf" / "fbank.conf").read_text() == (tmp_path / "conf" / "fbank.conf").read_text()
    assert not list(data.glob("**/*unfinished*"))


def test_lists_are_written_only_on_request(data: Path) -> None:
    assert dump(data, "--write-utt2dur=false") == 0
    assert (data / "utt2num_frames").exists() and not (data / "utt2dur").exists()
    (data / "utt2num_frames").unlink()
    assert dump(data, "--write-utt2num-frames=false") == 0
    assert (data / "utt2dur").exists() and not (data / "utt2num_frames").exists()


def test_kaldiio_reads_the_archives(data: Path) -> None:
    assert dump(data) == 0
    ours = matrices(data / "feats.scp")
    theirs = kaldiio.load_scp(str(data / "feats.scp"))
    assert list(theirs) == list(ours)
    for key, value in ours.items():
        np.testing.assert_allclose(theirs[key], value, atol=1e-5)


def test_workers_and_archives_do_not_change_the_features(data: Path, tmp_path: Path) -> None:
    assert dump(data) == 0
    alone = stored(data / "feats.scp")
    assert dump(data, "--shard-utterances=5", nj=2) == 0
    assert not list((data / "log").glob("*.log")), "a quiet archive has no log"
    assert stored(data / "feats.scp") == alone
    assert len(archive_bytes(data)) == 2 * 3


def test_noise_depends_only_on_key_and_seed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "conf" / "fbank.conf").write_text("--dither=1\n")

    def features(*arguments: str) -> dict[str, bytes]:
        assert dump(data, "--no-compress", *arguments) == 0
        return stored(data / "feats.scp")

    first = features("--shard-utterances=12")
    assert features("--shard-utterances=2", "--window-utterances=1") == first
    other = features("--seed=7")
    assert all(other[key] != value for key, value in first.items())
    with edited(data / "wav.scp") as places:
        for key in list(first)[:3] + list(first)[5:]:
            del places[key]
    (data / "utt2spk").unlink()
    assert features() == {key: first[key] for key in list(first)[3:5]}


def test_bad_utterances_are_recorded_and_stop_nothing(data: Path, tmp_path: Path) -> None:
    keys = keys_of(data / "wav.scp")
    corrupt, missing, stereo, slow, piped = (data / "wav" / f"{name}.wav" for name in "abcde")
    corrupt.write_bytes(b"RIFF\x10\0\0\0WAVEfmt \x10\0\0\0\x01")
    write_wav(stereo, audio(9000, 50, channels=2))
    write_wav(slow, audio(9000, 51), rate=8000)
    write_wav(piped, audio(9000, 52))
    replaced = [corrupt, missing, stereo, slow, "false |", f"cat {piped} |"]
    with edited(data / "wav.scp") as places:
        places.update(zip(keys, replaced, strict=False))
    assert dump(data) == 1  # 8 of 12 are fewer than 95%
    by_programs(data, f"scp,p:{data}/wav.scp", tmp_path / "ref")
    ours = stored(data / "feats.scp")
    assert ours == stored(tmp_path / "ref.scp")
    assert keys[2] in ours and keys[5] in ours  # of stereo the first channel, as the programs take
    reasons = dict(line.split(" ", 1) for line in failures(data).splitlines())
    assert list(reasons) == [keys[0], keys[1], keys[3], keys[4]]
    assert str(corrupt) in reasons[keys[0]] and str(missing) in reasons[keys[1]]
    assert "8000 .vs 16000" in reasons[keys[3]]
    assert not set(ours) & set(reasons) and set(ours) | set(reasons) == set(keys)


@pytest.mark.parametrize(("bad", "status"), [(1, 0), (2, 1)])
def test_status_follows_the_95_percent_rule(tmp_path: Path, bad: int, status: int) -> None:
    data = make_data(tmp_path, 20, samples=(4000,))
    for path in sorted((data / "wav").iterdir())[:bad]:
        path.unlink()
    assert dump(data) == status


def test_blank_lines_at_the_end_of_utt2spk_are_no_utterances(data: Path) -> None:
    with open(data / "utt2spk", "a") as file:
        file.write("\n \n")
    assert "lists 14 utterances" not in said_by(data)


def test_segments_are_cut_as_extract_segments_cuts(data: Path, tmp_path: Path) -> None:
    write_wav(data / "wav" / "long.wav", audio(80000, 1))
    write_wav(data / "wav" / "two.wav", audio(40000, 2, channels=2))
    (data / "wav.scp").write_text(f"rec1 {data}/wav/long.wav\nrec2 cat {data}/wav/two.wav |\n")
    good = ["u1 rec1 0.0 1.23456", "u2 rec1 1.1 -1", "u3 rec1 4.5 5.3", "u6 rec2 0.25 2.0 1"]
    bad = ["u4 rec1 9 10", "u5 rec3 0 1", "u7 rec2 0 1", "u8 rec2 0 1 2", "u9 rec1 1 1.05"]
    (data / "segments").write_text("".join(line + "\n" for line in sorted(good + bad)))
    (data / "utt2spk").write_text("".join(f"{line.split()[0]} s\n" for line in sorted(good + bad)))
    assert dump(data) == 1
    (tmp_path / "segments").write_text("".join(line + "\n" for line in good))
    cut = tmp_path / "cut.ark"
    assert extract_segments.main([f"scp,p:{data}/wav.scp", f"{tmp_path}/segments", f"ark:{cut}"]) == 0
    by_programs(data, f"ark:{cut}", tmp_path / "ref")
    assert (data / "data" / "raw_fbank_train.1.ark").read_bytes() == (tmp_path / "ref.ark").read_bytes()
    assert (data / "utt2dur").read_bytes() == (tmp_path / "ref.utt2dur").read_bytes()
    assert re.findall(r"^(u\d)", failures(data), re.M) == ["u4", "u5", "u7", "u8", "u9"]


def test_segments_that_cannot_be_cut_fail_alone(data: Path) -> None:
    lines = ["s1 spk0-utt000 0 0.2", "s2 spk0-utt000 0.2 0.1", "s3 lost 0 0.1", "s4 spk0-utt000 0.1 0.3", "s5 lost x"]
    (data / "segments").write_text("".join(f"{line}\n" for line in lines))
    (data / "utt2spk").unlink()
    assert dump(data) == 1
    assert keys_of(data / "feats.scp") == ["s1", "s4"]
    reasons = dict(line.split(" ", 1) for line in failures(data).splitlines())
    assert list(reasons) == ["s2", "s3", "s5"] and len({*reasons.values()}) == 3
    assert reasons["s3"] == "the recording lost is not in wav.scp: add the recording"


def test_vtln_by_speaker(data: Path, tmp_path: Path) -> None:
    (data / "spk2warp").write_text("spk0 0.9\nspk1 1.1\nspk2 1.0\n")  # spk3 has none
    assert dump(data) == 1
    conf = tmp_path / "conf" / "vtln.conf"
    conf.write_text(
        (tmp_path / "conf" / "fbank.conf").read_text()
        + f"--vtln-map=ark:{data}/spk2warp\n--utt2spk=ark:{data}/utt2spk\n"
    )
    by_programs(data, f"scp,p:{data}/wav.scp", tmp_path / "ref", "vtln.conf")
    assert (data / "data" / "raw_fbank_train.1.ark").read_bytes() == (tmp_path / "ref.ark").read_bytes()


def test_pitch_of_other_sampling_rates_is_that_of_resampled_audio(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(16000,))
    rates = {"spk0-utt001": 8000, "spk0-utt002": 44100, "spk1-utt003": 32000}
    for i, (key, rate) in enumerate(rates.items()):
        write_wav(data / "wav" / f"{key}.wav", audio(rate, 3 + i), rate)
    process = tmp_path / "process.conf"
    process.write_text("--delta-pitch-noise-stddev=0\n")
    arguments = ("--no-compress", f"--pitch-postprocess-conf={process}")
    for allowed, failed in (
        ((), [*rates]),
        (("--allow-downsample=true",), ["spk0-utt001"]),
        (("--allow-upsample=true",), ["spk0-utt002", "spk1-utt003"]),
        (("--allow-downsample=true", "--allow-upsample=true"), []),
    ):
        assert dump(data, *arguments, *allowed, feature="fbank_pitch") == (1 if failed else 0)
        assert [line.split()[0] for line in failures(data).splitlines()] == failed
    ours = matrices(data / "feats.scp")
    options = {"delta_pitch_noise_stddev": 0.0}
    for key in keys_of(data / "wav.scp"):
        wave = io_ark.load(str(data / "wav" / f"{key}.wav"))
        samples = wave.samples[0].astype(np.float32)
        if key in rates:
            samples = np.asarray(kaldi_compat.resample_waveform(torch.from_numpy(samples), rates[key], 16000))
        pitch = process_pitch(track_pitch(samples, sample_frequency=16000), **options)
        assert ours[key].shape == (98, 26)
        np.testing.assert_allclose(ours[key][:, 23:], pitch[:98], rtol=1e-4, atol=1e-4)


def test_pitch_is_pasted_as_make_mfcc_pitch_does(data: Path, tmp_path: Path) -> None:
    process = tmp_path / "process.conf"
    process.write_text("--delta-pitch-noise-stddev=0\n--add-raw-log-pitch=true\n")
    (tmp_path / "conf" / "pitch.conf").write_text("--sample-frequency=16000\n--frame-shift=10\n")
    assert dump(data, "--no-compress", f"--pitch-postprocess-conf={process}", feature="mfcc_pitch") == 0
    at, source = f"ark:{tmp_path}", f"scp:{data}/wav.scp"
    for program, *arguments in (
        (compute_mfcc_feats, f"--config={tmp_path}/conf/mfcc.conf", source, f"{at}/mfcc.ark"),
        (compute_kaldi_pitch_feats, f"--config={tmp_path}/conf/pitch.conf", source, f"{at}/pitch.ark"),
        (process_kaldi_pitch_feats, f"--config={process}", f"{at}/pitch.ark", f"{at}/processed.ark"),
        (paste_feats, "--length-tolerance=2", f"{at}/mfcc.ark", f"{at}/processed.ark", f"{at}/pasted.ark"),
    ):
        assert program.main(arguments) == 0
    ours, theirs = matrices(data / "feats.scp"), dict(io_ark.read(f"ark:{tmp_path}/pasted.ark"))
    assert list(ours) == list(theirs)
    for key, expected in theirs.items():
        np.testing.assert_array_equal(ours[key][:, :13], expected[:, :13])
        # How BLAS rounds depends on its threads, and near a correlation of 1 the feature of it shows that.
        np.testing.assert_allclose(ours[key][:, 13:], expected[:, 13:], rtol=1e-4, atol=1e-4)
    assert sorted(path.name for path in (data / "conf").iterdir()) == ["mfcc.conf", "pitch.conf"]


SPEAKERS = {
    "sorted": lambda number: f"s{number // 3}",
    "mixed": lambda number: f"s{number % 4}",  # no speaker's utterances are neighbours
    "split": lambda number: f"s{number // 4}",  # a speaker's utterances are in two archives
    "backwards": lambda number: f"s{9 - number // 3}",
    "each its own": lambda number: f"spk{number // 3}-utt{number:03d}",  # what Kaldi has where speakers are not known
}


@pytest.mark.parametrize("order", SPEAKERS)
def test_cmvn_is_that_of_compute_cmvn_stats_to_the_bit(data: Path, tmp_path: Path, order: str) -> None:
    keys = keys_of(data / "wav.scp")
    utt2spk = [f"{key} {SPEAKERS[order](i)}\n" for i, key in enumerate(keys)]
    (data / "utt2spk").write_text("".join(utt2spk))
    assert dump(data, "--cmvn=speaker,global", "--shard-utterances=5") == 0
    speakers = tmp_path / "spk2utt"
    names = sorted({line.split()[1] for line in utt2spk})
    members = {name: [line.split()[0] for line in utt2spk if line.split()[1] == name] for name in names}
    speakers.write_text("".join(f"{name} {' '.join(own)}\n" for name, own in members.items()))
    source = f"scp:{data}/feats.scp"
    assert compute_cmvn_stats.main([f"--spk2utt=ark:{speakers}", source, f"ark:{tmp_path}/cmvn.ark"]) == 0
    assert compute_cmvn_stats.main([source, f"{tmp_path}/global"]) == 0
    found, expected = (dict(io_ark.read(name)) for name in (f"scp:{data}/cmvn.scp", f"ark:{tmp_path}/cmvn.ark"))
    assert list(found) == list(expected)
    assert (data / "data" / "cmvn_train.ark").read_bytes() == (tmp_path / "cmvn.ark").read_bytes()
    assert (data / "cmvn.ark").read_bytes() == (tmp_path / "global").read_bytes()
    assert (data / "cmvn.scp").read_text() == (data / "data" / "cmvn_train.scp").read_text()
    assert not list(data.glob("**/*unfinished*"))


@pytest.mark.parametrize("lines", [slice(0), slice(1, None), slice(0, 9)])
def test_global_statistics_need_no_speakers(data: Path, lines: slice) -> None:
    (data / "utt2spk").write_text("".join((data / "utt2spk").read_text().splitlines(keepends=True)[lines]))
    assert dump(data, "--cmvn=global") == 0


def test_utterances_without_a_speaker_are_counted(data: Path) -> None:
    lines = (data / "utt2spk").read_text().splitlines(keepends=True)
    (data / "utt2spk").write_text("".join(lines[:9]))
    assert "12 of 12 utterances have" in said_by(data)
    sorted((data / "wav").iterdir())[0].unlink()
    assert "11 of 12 utterances have" in said_by(data, status=1)


def test_statistics_that_cannot_be_written_leave_the_old_ones(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dump(data, "--cmvn=speaker") == 0
    paths = [data / "cmvn.scp", data / "data" / "cmvn_train.ark", data / "data" / "cmvn_train.scp"]
    before = [path.read_bytes() for path in paths]

    def full_disk(*_: object) -> Iterator[tuple[str, np.ndarray]]:
        yield "one", np.zeros((2, 24))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(finish, "sum_by_speaker", full_disk)
    said = said_by(data, "--cmvn=speaker", "--resume", status=255)
    assert said.endswith(": No space left on device: free space, then repeat the command with --resume\n")
    assert [path.read_bytes() for path in paths] == before
    assert not list(data.glob("**/*unfinished*"))


def test_cmvn_by_speaker_can_be_requested_when_resuming(data: Path, tmp_path: Path) -> None:
    assert dump(data, f"--report={tmp_path}/page.html") == 0
    assert dump(data, "--cmvn=speaker", "--resume") == 0
    speakers = {line.split()[1] for line in (data / "utt2spk").read_text().splitlines()}
    assert {line.split()[0] for line in (data / "cmvn.scp").read_text().splitlines()} == speakers


def test_other_formats_are_read_by_name(data: Path, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = audio(16000, 5)[0]
    lines = []
    for name, kind in (("a.flac", "FLAC"), ("b.wav", "WAV"), ("c.sph", "NIST")):
        soundfile.write(data / "wav" / name, samples, dump_data.RATE, format=kind, subtype="PCM_16")
        lines.append(f"{name} {data}/wav/{name}\n")
    soundfile.write(data / "wav" / "d.ogg", samples, dump_data.RATE, format="OGG", subtype="VORBIS")
    lines.append(f"d.ogg {data}/wav/d.ogg\n")
    (data / "wav.scp").write_text("".join(lines))
    (data / "utt2spk").write_text("".join(f"{line.split()[0]} s\n" for line in lines))
    assert dump(data) == 0
    features = matrices(data / "feats.scp")
    assert features["a.flac"].tobytes() == features["b.wav"].tobytes() == features["c.sph"].tobytes()
    assert features["d.ogg"].shape == features["b.wav"].shape
    assert np.abs(features["d.ogg"] - features["b.wav"]).mean() < 1.0  # lossy, but the same sound


def test_no_pipes(data: Path) -> None:
    text = (data / "wav.scp").read_text()
    (data / "wav.scp").write_text(re.sub(r" (\S+)$", r" touch ran; cat \1 |", text, count=1, flags=re.M))
    assert dump(data, "--no-pipes") == 1
    assert not Path("ran").exists()
    assert "pipe" in failures(data)


def test_old_features_are_backed_up_and_old_archives_not_trusted(data: Path) -> None:
    (data / "feats.scp").write_text("old\n")
    assert dump(data) == 0
    assert (data / ".backup" / "feats.scp").read_text() == "old\n"
    before = archive_bytes(data)
    (data / "data" / "raw_fbank_train.1.ark").write_bytes(b"damaged")
    assert dump(data, "--resume") == 0
    assert archive_bytes(data) == before


def test_resume_refuses_changed_options(data: Path, tmp_path: Path) -> None:
    assert dump(data) == 0
    (tmp_path / "conf" / "fbank.conf").write_text("--num-mel-bins=40\n")
    assert "dither, num-mel-bins, seed changed since the plan" in refused(data, "--resume", "--seed=3")


def test_resume_of_a_finished_job_computes_nothing(data: Path) -> None:
    assert "times real time; bound by: " in said_by(data)
    stamps = {path: path.stat().st_mtime_ns for path in (data / "data").iterdir()}
    (data / "feats.scp").unlink()
    said = said_by(data, "--resume")
    assert {path: path.stat().st_mtime_ns for path in (data / "data").iterdir()} == stamps
    assert (data / "feats.scp").is_file()
    assert "this run: nothing was left to compute" in said and "real time" not in said and "bound" not in said
    again = "the archives of an earlier dump are created again"
    assert again not in said and again in said_by(data)


def test_max_failures_stops_the_job(data: Path) -> None:
    for path in sorted((data / "wav").iterdir())[:4]:
        path.unlink()
    assert "4 utterances failed" in said_by(
        data, "--max-failures=3", "--window-utterances=2", "--shard-utterances=3", status=255
    )
    logs = (data / "log").glob("dump_fbank_train.*.log")
    assert sum(log.read_text().count("No such file") for log in logs) == 4
    assert not (data / "feats.scp").exists()
    assert (data / "data" / "raw_fbank_train.1.ark").exists()
    assert dump(data, "--resume", "--max-failures=4") == 1
    assert len(matrices(data / "feats.scp")) == 8


def test_missing_utterances_are_explained_when_none_failed(data: Path) -> None:
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    (data / "wav.scp").write_text("".join(lines[:8]))
    err = said_by(data, status=1)
    assert "8 of 12 utterances have fbank features" in err and "0 failures" in err
    assert f"{data}/utt2spk lists 12 utterances, but {data}/wav.scp lists 8" in err
    (data / "utt2spk").write_text("".join((data / "utt2spk").read_text().splitlines(keepends=True)[:8]))
    assert "utt2spk" not in said_by(data)


def test_parts_of_a_plan_run_one_after_the_other(data: Path, tmp_path: Path) -> None:
    assert dump(data, "--shard-utterances=4", feature="mfcc") == 0
    whole = archive_bytes(data)
    for path in (data / "data").iterdir():
        path.unlink()
    (data / "log" / "dump_mfcc_train.plan.jsonl").unlink()
    (data / "feats.scp").unlink()
    for part, left in ("3/3", "2 archives are left to other parts"), ("1/3", "1 archive is left to other parts"):
        assert left in said_by(data, f"--shard={part}", feature="mfcc")
        assert not (data / "feats.scp").exists()
    assert dump(data, "--shard=2/3", feature="mfcc") == 0
    assert archive_bytes(data) == whole
    assert len(matrices(data / "feats.scp")) == 12


def test_part_is_not_judged_by_its_failures_before_all_parts_are_done(data: Path) -> None:
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    (data / "wav.scp").write_text("".join(line.split()[0] + " /none.wav\n" for line in lines[:6]) + "".join(lines[6:]))
    said = said_by(data, "--shard=1/2")
    assert "1 archive is left to other parts" in said and "fewer than 95%" not in said
    log = data / "log" / "dump_fbank_train.1.log"
    assert said.endswith(f"kaldi-compat: the failed utterances of this part are listed in {log}\n")
    assert log.read_text().count("/none.wav: cannot be opened") == 6
    assert "fewer than 95%" in said_by(data, "--shard=2/2", status=1)


def test_call_from_python_writes_logs_and_archives_where_it_is_told(data: Path, tmp_path: Path) -> None:
    outcome = kaldi_compat.dump(data, "fbank", log=tmp_path / "logs", archives=tmp_path / "archives", nj=2)
    assert (outcome.utterances, outcome.wanted) == (12, 12)
    assert sorted(path.name for path in (tmp_path / "archives").glob("*.ark")) == [
        f"raw_fbank_train.{number}.ark" for number in (1, 2)
    ]
    assert (tmp_path / "logs/dump_fbank_train.1.json").exists()
    assert not (data / "log").exists() and not (data / "data").exists()
    assert outcome.statistics is None  # All features would have to be read.


@pytest.mark.parametrize("levels", ["speaker,global", ["speaker", "global"], ("speaker", "global")])
def test_call_from_python_takes_a_list_as_a_sequence_or_a_string(data: Path, levels: object) -> None:
    assert kaldi_compat.dump(data, "fbank", nj=1, cmvn=levels).statistics is not None
    assert (data / "cmvn.scp").exists() and (data / "cmvn.ark").exists()
    assert len(matrices(data / "feats.scp")) == 12


def test_advice_to_start_over_names_the_switches_given(data: Path) -> None:
    assert dump(data, "--shard=1/2") == 0
    for arguments, advice in (
        (["--shard=2/2", "--seed=3"], "undo this change, or delete the plan and start again"),
        (
            ["--shard=2/2", "--seed=3", "--resume"],
            "undo this change, or delete the plan and start again without --resume",
        ),
        (["--seed=3", "--resume"], "undo this change, or start again without --resume"),
    ):
        assert refused(data, *arguments).strip().rpartition(": ")[2] == advice
    (data / "log" / "dump_fbank_train.plan.jsonl").unlink()
    assert dump(data, "--shard=2/2", "--seed=3") == 0


def test_options_stand_anywhere(data: Path, tmp_path: Path) -> None:
    log, archives = tmp_path / "log", tmp_path / "archives"
    conf = data.parent.parent / "conf" / "fbank.conf"
    arguments = ["dump", "--compress", "false", "fbank", "--conf", str(conf), str(data), "--nj", "1", str(log)]
    arguments += ["--no-write-utt2dur", str(archives), "--seed=1", "--write-utt2num-frames=false"]
    assert command.main(arguments) == 0
    assert (log / "dump_fbank_train.plan.jsonl").is_file()
    assert (archives / "raw_fbank_train.1.ark").read_bytes().find(b"\0BFM ") > 0
    assert not (data / "utt2dur").exists() and not (data / "utt2num_frames").exists()


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from kaldi_compat.dump.entry_point import main
sys.exit(main())
"""


def test_an_interrupt_while_modules_are_imported_is_quiet() -> None:
    run = python(INTERRUPTED, "dump")
    assert (run.returncode, run.stderr) == (130, "")


def test_a_full_disk_keeps_what_is_complete(data: Path) -> None:
    """A limit on the size of files looks like a full disk to the writer; it is lifted later."""
    write_wav(data / "wav" / "spk3-utt011.wav", audio(900000, 9))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60000, resource.RLIM_INFINITY)); "
        "from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    conf = f"--conf={data.parent.parent}/conf/fbank.conf"
    arguments = ["dump", "fbank", str(data), conf, "--nj=1", "--shard-utterances=4"]
    run = python(code, *arguments)
    assert run.returncode == 255
    assert "File too large" in run.stderr and "Traceback" not in run.stderr
    complete = archive_bytes(data)
    assert sorted(complete) == [f"raw_fbank_train.{n}.{end}" for n in (1, 2) for end in ("ark", "scp")]
    assert not list((data / "data").glob("*unfinished*"))
    assert dump(data, "--resume", "--shard-utterances=4") == 0
    after = archive_bytes(data)
    assert {name: after[name] for name in complete} == complete
    assert len(matrices(data / "feats.scp")) == 12


def test_second_dump_at_the_same_time_is_refused(data: Path) -> None:
    (data / "log").mkdir()
    held = lock_dump(data / "log" / "dump_fbank_train.lock")
    try:
        assert "is running" in refused(data)
    finally:
        os.close(held)
    assert dump(data) == 0


def test_parts_of_a_plan_run_at_the_same_time(data: Path) -> None:
    assert dump(data, "--shard=1/2") == 0
    log = data / "log"
    other_part = lock_dump(log / "dump_fbank_train.lock", log / "dump_fbank_train.plan.jsonl")
    try:
        assert "is running" in refused(data, "--resume")  # a dump of the whole would be one too many
        assert dump(data, "--shard=2/2") == 0
    finally:
        os.close(other_part)
    assert len(matrices(data / "feats.scp")) == 12


def test_storage_links_are_those_of_kaldis_script(tmp_path: Path) -> None:
    """Expected disks: those that utils/create_data_link.pl chose."""
    archives = tmp_path / "data"
    for number in range(1, 5):
        (archives / "storage" / str(number)).mkdir(parents=True)
    for number, disk in STORAGE.items():
        archive = archives / f"raw_fbank_train_960h.{number}.ark"
        link_to_storage(archive, archives / "storage")
        assert os.readlink(archive) == f"storage/{disk}/{archive.name}"


def test_disks_of_the_storage_are_numbered_without_a_gap(tmp_path: Path) -> None:
    archive, storage = tmp_path / "a.1.ark", tmp_path / "storage"
    (storage / "other").mkdir(parents=True)
    link_to_storage(archive, storage)
    assert not archive.is_symlink()  # without disks, archives stay where they are
    for number in (1, 3):
        (storage / str(number)).mkdir()
    with pytest.raises(DumpError, match=r"storage/2 is missing: number the directories of .*/storage from 1"):
        link_to_storage(archive, storage)
    (storage / "2").mkdir()
    archive.write_text("old")
    link_to_storage(archive, storage)
    assert os.readlink(archive) == "storage/2/a.1.ark"


@pytest.mark.parametrize(
    ("code", "text"),
    [(-9, "was killed by SIGKILL: check that"), (-11, "was killed by SIGSEGV"), (-99, "was killed by signal 99"),
     (None, "closed its connection without an exit status"), (3, "ended with status 3: code in the worker")],
)  # fmt: skip
def test_end_of_a_worker_is_described(code: int | None, text: str) -> None:
    assert describe_ending(code).startswith(text) and ("memory" in describe_ending(code)) == (code == -9)


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_summary_counts_utterances_and_groups_failures(data: Path, lost: int) -> None:
    keys = keys_of(data / "wav.scp")
    for key in keys[:lost]:
        (data / "wav" / f"{key}.wav").unlink()
    said = said_by(data, status=int(lost > 0))
    hours = sum(float(line.split()[1]) for line in (data / "utt2dur").read_text().splitlines()) / 3600
    figures = f"{hours:.2f} hours of audio, {lost} failure{'s' * (lost != 1)}"
    expected = f"{12 - lost} of 12 utterances have fbank features: {figures}"
    assert expected in said and ("the failed utterances are listed in " in said) == (lost > 0)
    group = f"  {lost} utterance{'s' * (lost > 1)}: "
    assert (group in said) == (lost > 0) and (f"(first: {keys[0]})" in said) == (lost > 0)
    assert "more reason" not in said and "resampled" not in said


# archive number: disk, of raw_fbank_train_960h.<number>.ark on four disks
STORAGE = {1: 4, 2: 3, 3: 2, 4: 1, 10: 3, 37: 4}


def test_archives_are_written_through_links(data: Path) -> None:
    (data / "data" / "storage" / "1").mkdir(parents=True)
    assert dump(data) == 0
    archive = data / "data" / "raw_fbank_train.1.ark"
    assert archive.is_symlink()
    assert (data / "data" / "storage" / "1" / archive.name).stat().st_size > 0
    assert len(matrices(data / "feats.scp")) == 12


def test_speed_perturbation(data: Path, tmp_path: Path) -> None:
    assert dump(data, "--speeds=0.9,1.0,1.1", f"--speed-dir={tmp_path}/data/train_sp") == 0
    target = tmp_path / "data" / "train_sp"
    lines = (target / "utt2num_frames").read_text().splitlines()
    frames = {key: int(count) for key, count in map(str.split, lines)}
    assert len(frames) == 36
    for key in keys_of(data / "wav.scp"):
        for factor in (0.9, 1.1):
            assert abs(frames[f"sp{factor}-{key}"] - frames[key] / factor) <= 2 + abs(2 / factor - 2)
    assert (target / "data" / "raw_fbank_train_sp.1.ark").is_file()
    assert dump(data) == 0
    plain, same = matrices(data / "feats.scp"), matrices(target / "feats.scp")
    assert all(same[key].tobytes() == value.tobytes() for key, value in plain.items())


def test_speed_perturbation_does_not_overwrite_features(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "data" / "train_sp"
    target.mkdir()
    (target / "feats.scp").write_text("mine\n")
    assert dump(data, "--speeds=0.9", f"--speed-dir={target}") == 255
    assert [path.name for path in target.iterdir()] == ["feats.scp"]


def with_text(name: str, text: str) -> Callable[[Path], object]:
    """Write a file, named from the data directory."""
    return lambda data: (data / name).write_text(text)


def with_speakers(change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    """Change the lines of utt2spk."""
    return lambda data: (data / "utt2spk").write_text(
        "".join(change((data / "utt2spk").read_text().splitlines(keepends=True)))
    )


def without(*names: str) -> Callable[[Path], object]:
    return lambda data: [(data / name).unlink() for name in names]


CONF = "../../conf/fbank.conf"
# What is done to the data directory, the arguments, and what is said. Kaldi's steps/compute_cmvn_stats.sh fails without
# spk2utt, too, and utils/validate_data_dir.sh if the lists differ.
REFUSED: list[tuple[Callable[[Path], object], str, str]] = [
    (without("wav.scp"), "", "wav.scp is missing"),
    (lambda data: (without("wav.scp")(data), (data / "wav.scp").mkdir()), "", "wav.scp is not a file"),
    (without(), "--shard=0/3", "--shard must be the number of a part and the number of parts, such as 3/100, not"),
    (without(), "--cmvn=utterance", "--cmvn must be speaker, global, or speaker,global, not"),
    (without(), "--speeds=0.9", "--speeds=... and --speed-dir=... go together"),
    (without(), "--device=tpu", "expected cpu, cuda"),
    (without(), "--format=npz", "--format must be one of ark, npy, .*, not 'npz': did you mean 'npy'?"),
    (without(), "--engine=exakt", "--engine must be one of .*, not 'exakt'"),
    (without(), "--runner=slurm", "--runner must be one of local, ray, not 'slurm'"),
    (without(), "--nj=0", "--nj"),
    (without(), "--compression-method=9", "--compression-method"),
    (without(), "--report={data}/none/page.html", "cannot be written"),
    (without(), "--report={data}", "is a directory: name a file"),
    (without("utt2spk"), "--cmvn=speaker", "utt2spk is missing, and --cmvn=speaker needs it"),
    (with_speakers(lambda lines: lines[1:]), "--cmvn=speaker", "utt2spk lacks 1 of .*wav.scp, such as spk0-utt000,"),
    (with_speakers(lambda lines: lines[:9]), "--cmvn=speaker", "utt2spk lacks 3 of .*wav.scp, such as spk3-utt009,"),
    (
        with_speakers(lambda lines: ["spk0-utt000 two words\n", *lines[1:]]),
        "--cmvn=speaker",
        "utt2spk: spk0-utt000 should have one speaker, not 'two words'",
    ),
    (with_text("spk2warp", "spk0 fast\n"), "", "spk2warp:5: spk0"),
    (with_text("utt2warp", "u 1.0 2\n"), "", "utt2warp"),
    (lambda data: (with_text("spk2warp", "spk0 1.0\n")(data), without("utt2spk")(data)), "", "utt2spk is missing"),
    (with_text(CONF, "--output-format=htk\n"), "", "fbank.conf: --output-format=htk has no effect"),
    (with_text(CONF, "--write-utt2dur=ark,t:d\n"), "", "fbank.conf: --write-utt2dur=ark,t:d has no effect"),
    (with_text(CONF, "--device=cuda\n"), "", "fbank.conf: --device=cuda has no effect"),
    (with_text(CONF, "--num-mel-bin=80\n"), "", "did you mean --num-mel-bins?"),
    (with_text(CONF, "--num-mel-bins=0\n"), "", r"fbank\.conf: --num-mel-bins must be at least 3, not 0"),
    (without(), "--num-mel-bins=0", "^kaldi-compat: --num-mel-bins must be at least 3, not 0"),
    (without(), "--conf={data}/none.conf", "none.conf is missing"),
    (with_text(CONF, "--num-mel-bins=80\n--high-freq=9000\n"), "--nj=2", "high_freq=9000 Hz must lie"),
    (without(), "--vtln-map=ark:{data}/none", "none is missing: create it, or correct --vtln-map"),
    (without(), "--engine=triton", "--engine=triton computes on a GPU: also pass --device=cuda"),
]
OF_THE_COMMAND_LINE = (
    "--format",
    "--runner",
    "--shard",
    "--cmvn=utterance",
    "--speeds",
    "--nj=0",
    "--compression-method",
    "--engine",
)


@pytest.mark.parametrize(("change", "argument", "message"), REFUSED)
def test_what_is_invalid_is_refused_in_one_line_before_any_file_is_touched(
    data: Path, change: Callable[[Path], object], argument: str, message: str
) -> None:
    (data / "feats.scp").write_text("old\n")
    change(data)
    status = 2 if argument.startswith(OF_THE_COMMAND_LINE) else 255
    said = refused(data, *filter(None, [argument.format(data=data)]), status=status)
    assert re.search(message, said)
    assert (data / "feats.scp").read_text() == "old\n" and not (data / "log").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a\0b x.wav", "line 13: the key 'a\\x00b' has a control character"),
        (b"a\a x.wav", "line 13: the key 'a\\x07' has a control character"),
        (b"\x1b[2J x.wav", "line 13: the key '\\x1b[2J' has a control character"),
        (b"b\x7f x.wav", "line 13: the key 'b\\x7f' has a control character"),
        (b"k" * 100_000 + b" x.wav", "line 13: the key has 100000 bytes"),
    ],
)
def test_impossible_key_is_refused_at_the_start(data: Path, line: bytes, message: str) -> None:
    with open(data / "wav.scp", "ab") as file:
        file.write(line + b"\n")
    said = refused(data)
    assert message in said and len(said) < 1000
    assert not (data / "feats.scp").exists() and not (data / "data").exists()


def test_script_file_instead_of_the_data_directory_is_named(data: Path) -> None:
    assert "wav.scp is a file: name the data directory, the folder that contains wav.scp" in refused(data / "wav.scp")


def test_what_commands_print_goes_to_the_log(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    *whole, bad = sorted(keys_of(data / "wav.scp"), key="spk2-utt007".__eq__)
    with edited(data / "wav.scp") as places:
        places |= {key: f"cat {path}; echo from {key} >&2 |" for key, path in places.items()}
        places[bad] = "echo broken >&2; exit 7 |"
    assert dump(data, "--shard-utterances=3", nj=2) == 1
    assert "from " not in capfd.readouterr().err
    said = "".join((data / "log" / f"dump_fbank_train.{shard}.log").read_text() for shard in range(1, 5))
    assert sorted(re.findall("^from (.*)$", said, re.M)) == whole
    assert "broken" in said
    assert failures(data).startswith(bad) and "(exit status 7)" in failures(data)


@pytest.mark.parametrize("name", ["log", "data"])
def test_file_in_place_of_a_directory_is_named(data: Path, name: str) -> None:
    (data / name).write_text("")
    assert f"the directory {data / name} cannot be created: File exists" in refused(data)


def test_missing_cluster_is_named_before_any_file_is_touched(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray: Any = SimpleNamespace(__spec__=ModuleSpec("ray", None))
    monkeypatch.setitem(sys.modules, "ray", ray)
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        said = refused(data, "--runner=ray", f"--address={address}")
        assert f"no Ray cluster at --address={address}: " in said and "start a cluster, or correct the address" in said
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "--runner=ray" in refused(data, "--runner=ray") and not (data / "log").exists()
    assert dump(data) == 0  # which needs no cluster


def test_unwritable_output_is_named(data: Path) -> None:
    (data / "feats.scp").mkdir()
    assert f"cannot write {data / 'feats.scp'}: Is a directory" in said_by(data, status=255)


@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("boom"), "internal error, please report it with the .log files: RuntimeError: boom"),
     (MemoryError(), "out of memory")],
)  # fmt: skip
def test_internal_errors_are_one_line(data: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(SpectralComputer, "submit", broken)
    assert said in said_by(data, status=255).splitlines()[-1]
    assert type(error).__name__ in (data / "log" / "dump_fbank_train.1.log").read_text()
    assert not list((data / "data").iterdir())


def test_closed_standard_streams_do_not_change_the_archives(data: Path, tmp_path: Path) -> None:
    """A file opened with the descriptor of a closed standard error would receive the messages of commands."""
    text = (data / "wav.scp").read_text()
    (data / "wav.scp").write_text(re.sub(r" (\S+)$", r" echo noise >&2; cat \1 |", text, flags=re.M))
    code = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main())"
    conf = data.parent.parent / "conf" / "fbank.conf"
    for nj in (1, 2):
        command = f"{sys.executable} -c '{code}' dump fbank {data} --conf {conf} --nj {nj} <&- >&- 2>&-"
        assert subprocess.run(["sh", "-c", command], timeout=120).returncode == 0
        by_programs(data, f"scp,p:{data}/wav.scp", tmp_path / "ref")
        expected = stored(tmp_path / "ref.scp")
        assert stored(data / "feats.scp") == expected


def test_outcome_adds_up_the_archives_and_takes_the_largest_peak(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = [
        Manifest(1, utterances=5, seconds=2.5, failures=[("a", "why")], work={"read": 1.0, "peak_device_memory": 7.0}),
        Manifest(2, utterances=3, seconds=1.25, failures=[("b", "why")], work={"read": 2.0, "peak_device_memory": 4.0}),
    ]
    monkeypatch.setattr(finish, "_read_manifests", lambda layout, plan: iter(manifests))
    job = job_of(data)
    outcome = finish.compute_outcome(job, make_plan(job))
    assert (outcome.utterances, outcome.wanted, outcome.seconds) == (8, 12, 3.75)
    assert outcome.failures == (("a", "why"), ("b", "why"))
    assert outcome.work == {"read": 3.0, "peak_device_memory": 7.0}
    assert not outcome.good_enough and outcome.bound == "read"
    for done, wanted, is_enough in ((19, 20, True), (18, 20, False), (95, 100, True), (94, 100, False), (0, 0, True)):
        assert replace(outcome, utterances=done, wanted=wanted).good_enough is is_enough


@pytest.mark.parametrize(("speakers", "wanted"), [(None, 12), (0, 12), (5, 12), (12, 12), (15, 15)])
def test_utterances_that_should_have_features_are_those_of_the_longer_list(
    data: Path, monkeypatch: pytest.MonkeyPatch, speakers: int | None, wanted: int
) -> None:
    monkeypatch.setattr(finish, "_read_manifests", lambda layout, plan: iter([]))
    job = job_of(data)
    plan = make_plan(job)
    (data / "utt2spk").unlink()
    if speakers is not None:
        (data / "utt2spk").write_text("".join(f"u{i} s\n" for i in range(speakers)))
    assert finish.compute_outcome(job, plan).wanted == wanted


OPENED = """
import sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="kaldi_compat|io_ark")
from kaldi_compat.dump.entry_point import main
sys.exit(main())
"""


def test_no_file_is_read_or_written_in_the_encoding_of_the_locale(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3)
    confs = [f"--conf={tmp_path}/conf/fbank.conf", f"--pitch-conf={tmp_path}/conf/pitch.conf"]
    options = [f"--report={tmp_path}/page.html", "--cmvn=speaker,global", "--nj=1"]
    command = [sys.executable, "-X", "warn_default_encoding", "-c", OPENED, "dump", "fbank_pitch", str(data)]
    for more in ([], ["--resume"]):
        done = subprocess.run([*command, *confs, *options, *more], capture_output=True, text=True, check=False)
        assert (done.returncode, "EncodingWarning" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(("conf", "line", "reason"), [
    ("fbank", "--min-duration=0.9", "0.37"),
    ("pitch", "--sample-frequency=8000", "the pitch tracker expects --sample-frequency=8000"),
])  # fmt: skip
def test_utterance_that_fails_in_one_of_two_features_has_neither(
    tmp_path: Path, conf: str, line: str, reason: str
) -> None:
    data = make_data(tmp_path, 2, samples=(6000, 30000))
    first, second = dump_data.keys_of(data / "wav.scp")
    with open(tmp_path / "conf" / f"{conf}.conf", "a") as file:
        file.write(f"{line}\n")
    assert dump(data, feature="fbank_pitch") == 1
    failed = dict(text.split(" ", 1) for text in dump_data.failures(data).splitlines())
    assert list(failed) == ([first] if conf == "fbank" else [first, second]) and reason in failed[first]
    assert dump_data.keys_of(data / "feats.scp") == [key for key in (first, second) if key not in failed]


def test_speakers_of_missing_recordings_count_as_utterances(data: Path) -> None:
    with open(data / "utt2spk", "a") as speakers:
        speakers.writelines(f"zz{number} zz\n" for number in range(2))
    assert "fewer than 95% of the utterances have features" in said_by(data, status=1)
    (data / "utt2spk").unlink()
    assert "fewer than 95%" not in said_by(data)


def test_noise_of_pitch_depends_on_the_seed_and_not_on_the_archives(tmp_path: Path) -> None:
    data = make_data(tmp_path, 3, samples=(6000,))
    pitch = []
    for nj, seed in (1, 0), (3, 0), (1, 1):
        assert dump(data, f"--seed={seed}", "--compress=false", feature="fbank_pitch", nj=nj) == 0
        pitch.append(np.concatenate([*matrices(data / "feats.scp").values()])[:, 23:])
    assert np.array_equal(pitch[0], pitch[1])
    # Only the difference of the pitch, the third column, has noise.
    assert [np.array_equal(pitch[0][:, column], pitch[2][:, column]) for column in range(3)] == [True, True, False]
