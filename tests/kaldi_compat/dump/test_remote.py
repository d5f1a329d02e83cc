"""A dump of audio at URLs: files and places in archives, over HTTP and in S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import io_ark
from io_ark.streams.access import PRIVATE_VARIABLE
from tests.support.dump_data import dump, edited, failures, keys_of, make_data, matrices, said_by
from tests.support.object_store import s3_bucket
from tests.support.range_server import RangeServer, range_server

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 6)


@pytest.fixture
def server(data: Path) -> Iterator[RangeServer]:
    with range_server(data) as serving:
        yield serving


def features(data: Path) -> dict[str, bytes]:
    return {key: value.tobytes() for key, value in matrices(data / "feats.scp").items()}


def archive_waves(data: Path, specifier: str) -> None:
    """Write the audio of a data directory to an archive, and its places to a script file."""
    with io_ark.Writer(specifier, kind="wave") as writer:
        for key, wave in io_ark.read(f"scp:{data}/wav.scp", kind="wave"):
            writer[key] = wave


@pytest.mark.parametrize(
    ("archived", "segments", "nj"), [(False, False, 1), (False, True, 1), (True, False, 1), (True, True, 2)]
)
def test_audio_over_http_has_the_same_features(
    data: Path, server: RangeServer, archived: bool, segments: bool, nj: int
) -> None:
    keys = keys_of(data / "wav.scp")
    if segments:
        (data / "segments").write_text("".join(f"{key} {key} 0.05 0.3\n" for key in keys))
    assert dump(data) == 0
    local = features(data)
    assert list(local) == keys
    if archived:
        archive_waves(data, f"ark,scp:{data}/wav.ark,{data}/remote.scp")
        (data / "wav.scp").write_bytes((data / "remote.scp").read_bytes())
    (data / "wav.scp").write_text((data / "wav.scp").read_text().replace(str(data), server.url))
    assert server.url in (data / "wav.scp").read_text()
    assert dump(data, nj=nj) == 0
    assert features(data) == local
    assert server.requests


def test_audio_in_s3_has_the_same_features(data: Path) -> None:
    assert dump(data) == 0
    local = features(data)
    with s3_bucket() as url:
        archive_waves(data, f"ark,scp:{url}/wav.ark,{data}/remote.scp")
        (data / "wav.scp").write_bytes((data / "remote.scp").read_bytes())
        assert dump(data) == 0
    assert features(data) == local


def test_url_that_cannot_be_read_is_one_failed_utterance(data: Path, server: RangeServer) -> None:
    with edited(data / "wav.scp") as places:
        places["spk0-utt002"] = f"{server.url}/nosuch.wav"
    dump(data)
    assert len(features(data)) == 5
    (failed,) = failures(data).splitlines()
    assert failed.startswith("spk0-utt002 ") and f"{server.url}/nosuch.wav" in failed


def test_secrets_of_urls_are_in_no_file(data: Path, tmp_path: Path) -> None:
    url = "https://me:hidden@host/x.wav?X-Amz-Signature=hidden"
    changed = [f"cat {data}/wav/spk0-utt000.wav; : '{url}'; false |", f": '{url}'; false |", url]
    (data / "wav.scp").write_text("".join(f"u{i} {place}\n" for i, place in enumerate(changed)))
    (data / "utt2spk").unlink()
    said = said_by(data, "--no-network", f"--report={tmp_path}/page.html", status=1)
    written = [*(data / "log").iterdir(), tmp_path / "page.html"]
    assert "(exit status 1)" in (data / "log" / "dump_fbank_train.1.log").read_text()
    assert not [path.name for path in written if b"hidden" in path.read_bytes()]
    assert "hidden" not in said


def test_audio_at_a_private_address_is_not_read(
    data: Path, server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PRIVATE_VARIABLE)
    with edited(data / "wav.scp") as places:
        places["spk0-utt002"] = places["spk0-utt002"].replace(str(data), server.url)
    dump(data)
    assert len(features(data)) == 5
    assert "private network" in failures(data)
    assert not server.connections


def test_no_network_reads_no_url(data: Path, server: RangeServer) -> None:
    with edited(data / "wav.scp") as places:
        places["spk0-utt002"] = places["spk0-utt002"].replace(str(data), server.url)
    dump(data, "--no-network")
    assert len(features(data)) == 5
    assert "network" in failures(data)
    assert not server.requests
