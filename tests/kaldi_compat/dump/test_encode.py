"""Encoding: features that compression cannot take are written uncompressed, with a warning."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.blocks import ArrayBlock, WaveBlock
from kaldi_compat.cli.compute import SpectralExtractor
from kaldi_compat.dump import cli, read, shard, write
from kaldi_compat.dump.encode import Encoder
from kaldi_compat.dump.entries import Audio, Encoded, Failure, Features, FeaturesOrFailure
from kaldi_compat.dump.errors import OutputError
from kaldi_compat.dump.model import Trial
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import TaskReader
from kaldi_compat.dump.spectral import SpectralComputer
from kaldi_compat.dump.write import ArchiveWriter
from tests.support.dump_data import audio, dump, failures, job_of, keys_of, make_data, said_by, write_wav
from tests.support.dump_data import matrices as launch_features


def plp_data(root: Path) -> Path:
    """Utterances of which one starts with digital silence, where Kaldi's undithered PLP is NaN."""
    data = make_data(root, 3, samples=(8000,))
    samples = audio(8000, 7)
    samples[:, :4000] = 0
    write_wav(data / "wav" / "spk0-utt001.wav", samples)
    (root / "conf" / "plp.conf").write_text("--dither=0\n")
    return data


def test_nan_is_written_uncompressed_and_reported(tmp_path: Path) -> None:
    data = plp_data(tmp_path)
    said = said_by(data, "--cmvn=speaker,global", feature="plp")
    compressed = launch_features(data / "feats.scp")
    log = (data / "log" / "dump_plp_train.1.log").read_text()
    assert "spk0-utt001: " in log and "written uncompressed" in log
    assert "1 utterance with NaN or infinite features is not compressed" in said
    assert "the CMVN statistics of 1 speaker have NaN or infinities (first: spk0)" in said
    assert "the global CMVN statistics have NaN or infinities" in said
    statistics = io_ark.load(str(data / "cmvn.ark"), kind="double-matrix")
    assert not np.isfinite(statistics).all()  # as compute-cmvn-stats would have it
    assert dump(data, "--no-compress", feature="plp") == 0
    plain = launch_features(data / "feats.scp")
    assert np.isnan(plain["spk0-utt001"]).any(), "this data does not test anything"
    np.testing.assert_array_equal(compressed["spk0-utt001"], plain["spk0-utt001"])
    np.testing.assert_allclose(compressed["spk0-utt000"], plain["spk0-utt000"], atol=0.5)


@pytest.mark.parametrize("option", ["--compress", "--no-compress"])
def test_utterances_without_frames_are_counted(tmp_path: Path, option: str) -> None:
    data = make_data(tmp_path, 3, samples=(8000,))
    write_wav(data / "wav" / "spk0-utt001.wav", audio(100, 7))
    said = said_by(data, option)
    assert "3 of 3 utterances have fbank features" in said
    assert "1 utterance is written without frames, for example because the audio is too short" in said
    assert "1 utterance is written without frames" in said_by(data, option, "--resume")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate")])
def test_utterance_without_enough_memory_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    data = make_data(tmp_path, 3, samples=(2000, 9000, 3000))
    compute_block = SpectralExtractor.compute_block

    def limited(self: SpectralExtractor, block: WaveBlock, warps: Any, noise: Any) -> ArrayBlock:
        if block.lengths.max() > 8000:
            raise error
        return compute_block(self, block, warps)

    monkeypatch.setattr(SpectralExtractor, "compute_block", limited)
    assert dump(data) == 1
    assert len(launch_features(data / "feats.scp")) == 2
    assert "spk0-utt001 the memory is too small" in failures(data)


def test_interruption_while_an_archive_is_opened_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path, 2)

    class Interrupted(ArchiveWriter):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            raise KeyboardInterrupt

    monkeypatch.setattr(shard, "ArchiveWriter", Interrupted)
    assert dump(data) == 130
    assert not list(data.rglob("*unfinished*"))


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("with_warps", [False, True])
def test_dump_in_blocks_has_the_bytes_of_one_utterance_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool, with_warps: bool
) -> None:
    data = make_data(tmp_path, 40, samples=(1600, 300, 5000, 700))
    (tmp_path / "conf" / "fbank.conf").write_text("--dither=1\n")
    if with_warps:
        factors = [f"{key} {0.9 + 0.01 * i:.2f}\n" for i, key in enumerate(keys_of(data / "wav.scp"))]
        (data / "utt2warp").write_text("".join(factors[:-1]))  # without the last
    options = ["--cmvn=speaker,global", "--readers=1"] + ["--no-compress"] * (not compress)
    assert dump(data, *options) == 0
    in_blocks = results_of(data)
    calls: list[str] = []
    compute = SpectralComputer.compute

    def compute_each(self: SpectralComputer, audio: Audio) -> list[FeaturesOrFailure]:
        calls.extend(one.key for one in audio.separate())
        return [result for one in audio.separate() for result in compute(self, one)]

    monkeypatch.setattr(SpectralComputer, "compute", compute_each)
    monkeypatch.setattr(TaskReader, "_load_block", lambda self, lines, first: None)
    assert dump(data, *options) == 0
    assert results_of(data) == in_blocks and len(calls) == 40


def results_of(data: Path) -> dict[str, bytes]:
    """Read archives, script files, statistics, lengths and failures of a dump."""
    names = ("feats.scp", "utt2num_frames", "utt2dur", "cmvn.scp", "cmvn.ark", "log/dump_fbank_train.failures")
    found = {name: (data / name).read_bytes() for name in names}
    return found | {path.name: path.read_bytes() for path in (data / "data").iterdir()}


def test_log_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    with shard.write_log_file(tmp_path / "missing" / "1.log", takes_stderr=True):
        shard.logger.warning("lost")
    assert not list(tmp_path.iterdir())


def list_files(monkeypatch: pytest.MonkeyPatch, limit: int = 100) -> list[write.WholeFile]:
    """Return the list of the files that an archive's writer opens. Opening more than ``limit`` files fails."""
    files: list[write.WholeFile] = []
    create = write.WholeFile

    def create_listed(*arguments: Any, **options: Any) -> write.WholeFile:
        if len(files) == limit:
            raise OutputError("no more files")
        files.append(create(*arguments, **options))
        return files[-1]

    monkeypatch.setattr(write, "WholeFile", create_listed)
    return files


def test_archive_whose_last_file_cannot_be_opened_leaves_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path, 2)
    files = list_files(monkeypatch, limit=3)
    assert "no more files" in said_by(data, status=255)
    assert len(files) == 3 and all(file._file.closed for file in files) and not list(data.rglob("*unfinished*"))


def test_archive_that_reads_back_otherwise_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change comes behind the part that was read back while the archive was written, or before it is complete."""
    data = make_data(tmp_path, 12)
    monkeypatch.setattr(write, "VERIFICATION_BYTES", 2000)
    add, spoilt = ArchiveWriter.add_block, []

    def spoil(self: ArchiveWriter, entry: Encoded | Failure) -> None:
        add(self, entry)
        (path,) = (data / "data").glob("*.ark.unfinished-*")
        if path.stat().st_size and not spoilt:
            spoilt.append(path)
            with open(path, "r+b") as file:
                file.seek(path.stat().st_size - 1)
                last = file.read(1)
                file.seek(path.stat().st_size - 1)
                file.write(bytes([last[0] ^ 1]))

    files = list_files(monkeypatch)
    monkeypatch.setattr(ArchiveWriter, "add_block", spoil)
    monkeypatch.setattr(write._Verification, "follow", lambda self: None)  # nothing is read before the change
    assert "reads back with other bytes than were written" in said_by(data, status=255) and spoilt
    assert not list((data / "data").iterdir()) and len(files) == 4 and all(file._file.closed for file in files)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("verify")]


def test_archive_is_read_back_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 12)
    monkeypatch.setattr(write, "VERIFICATION_BYTES", 2000)
    monkeypatch.setattr(read, "BLOCK_BYTES", 1)
    monkeypatch.setattr(read, "FIRST_LINES", 1)
    ends: list[int] = []
    read_up_to = write._Verification._read_up_to

    def counted(self: write._Verification, size: int) -> None:
        ends.append(size)
        read_up_to(self, size)

    monkeypatch.setattr(write._Verification, "_read_up_to", counted)
    assert dump(data, "--window-utterances=1") == 0
    assert len(ends) > 5 and ends == sorted(ends)
    assert all(end < (data / "data" / "raw_fbank_train.1.ark").stat().st_size for end in ends[:-2])
    manifest = write.read_manifest(job_of(data).layout, 1)
    assert manifest and set(manifest.files) == {"archive", "script", "utt2num_frames", "utt2dur"}


def test_list_that_lost_lines_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path, 6)
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)

    def changed(*_: object, **__: object) -> None:
        (data / "wav.scp").write_text("".join(lines[:4]))

    monkeypatch.setattr(cli, "prepare_archives", changed)
    assert "wav.scp changed" in said_by(data, status=255)
    assert not (data / "feats.scp").exists()


@pytest.mark.parametrize("method", ["separate", "halve"])
def test_parts_of_features_have_their_own_positions_and_durations(method: str) -> None:
    block = ArrayBlock(b"a\nb\nc\n", np.zeros(8, np.float32), np.array([[1, 2], [0, 2], [3, 2]]))
    parts = getattr(Features(5, block, np.array([0.25, 0.5, 1.0])), method)()
    seconds = {"a": 0.25, "b": 0.5, "c": 1.0}
    assert [part.index for part in parts] == ([5, 6, 7] if method == "separate" else [5, 6])
    assert [part.durations.tolist() for part in parts] == [
        [seconds[name] for name in part.block.decode_keys()] for part in parts
    ]


def test_matrices_that_are_encoded_alone_keep_their_durations() -> None:
    block = ArrayBlock(b"a\nb\nc\n", np.zeros(8, np.float32), np.array([[1, 2], [0, 2], [3, 2]]))
    entries = Encoder(DumpOptions(), Trial())(Features(5, block, np.array([0.25, 0.5, 1.0])))
    rows = [(entry.index, entry.durations.tolist(), entry.frames.tolist()) for entry in entries]
    assert rows == [(5, [0.25], [1]), (6, [0.5], [0]), (7, [1.0], [3])]


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize(("rows", "together"), [((2, 3, 1), [3]), ((2, 0, 1), [1, 1, 1])])
def test_only_blocks_with_an_empty_matrix_are_encoded_one_by_one(
    compress: bool, rows: tuple[int, ...], together: list[int]
) -> None:
    """Encoding a whole block takes less time, and the bytes are the same."""
    values = np.random.default_rng(0).normal(size=(sum(rows), 4)).astype(np.float32)
    block = ArrayBlock(b"a\nb\nc\n", values.reshape(-1), np.array([(n, 4 if n else 0) for n in rows]))
    features = Features(0, block, np.ones(3))
    encode = Encoder(DumpOptions(compress=compress), Trial())
    encoded = [part for part in encode(features) if isinstance(part, Encoded)]
    assert [len(part) for part in encoded] == together
    alone = [part for utterance in features.separate() for part in encode(utterance) if isinstance(part, Encoded)]
    assert b"".join(part.block.data.tobytes() for part in encoded) == b"".join(
        part.block.data.tobytes() for part in alone
    )
