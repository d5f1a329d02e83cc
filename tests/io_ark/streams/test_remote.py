"""Tables at URLs, from a local HTTP server with ranges and from moto's S3 server."""

from __future__ import annotations

import gc
import ipaddress
import pickle
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.errors import ArkError, MissingFileError, NetworkRefusedError, OpenError, TruncatedError, WriteError
from io_ark.specifier import is_url
from io_ark.streams import access, remote
from io_ark.streams.access import Access
from io_ark.streams.output import open_output
from tests.support.object_store import s3_bucket
from tests.support.range_server import RangeServer, range_server
from tests.support.reading_ways import same
from tests.support.tables import write_table

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

RNG = np.random.default_rng(0)
TABLE = {f"utt{i:03}": RNG.standard_normal((50 + i % 7, 20)).astype(np.float32) for i in range(100)}
SMALL = {f"utt{i:03}": RNG.standard_normal(3).astype(np.float32) for i in range(500)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    with range_server(tmp_path) as serving:
        for name, kind, table in ("feats", "matrix", TABLE), ("small", "vector", SMALL):
            write_table(kind, f"ark,scp:{tmp_path}/{name}.ark,{tmp_path}/{name}.scp", table)
            lines = (tmp_path / f"{name}.scp").read_text()
            (tmp_path / f"{name}.scp").write_text(lines.replace(str(tmp_path), serving.url))
        yield serving


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY_SECONDS", (0.0, 0.0, 0.0))


@pytest.mark.parametrize(("name", "kind", "table"), [("feats", "matrix", TABLE), ("small", "vector", SMALL)])
def test_tables_are_read_in_order_with_few_requests(name: str, kind: Any, table: Any, server: RangeServer) -> None:
    for specifier in f"ark:{server.url}/{name}.ark", f"scp:{server.url}/{name}.scp":
        server.requests.clear()
        same(dict(io_ark.SequentialReader(specifier, kind=kind)), table)
        assert len(server.requests) <= 14, server.requests
    same(dict(io_ark.read(f"{server.url}/{name}.scp")), table)


def test_objects_are_looked_up_with_about_one_request_each(server: RangeServer) -> None:
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    keys = RNG.permutation(list(TABLE)).tolist()
    server.requests.clear()
    for key in keys:
        np.testing.assert_array_equal(table[key], TABLE[key])
    assert len(server.requests) <= 1.3 * len(keys)
    assert server.connections <= 3
    with io_ark.RandomAccessReader(f"scp:{server.url}/feats.scp", kind="matrix") as reader:
        np.testing.assert_array_equal(reader["utt050"], TABLE["utt050"])


def test_read_past_the_fetched_bytes_returns_all_bytes(server: RangeServer, tmp_path: Path) -> None:
    content = (tmp_path / "feats.ark").read_bytes()
    for excess in (1, 2):
        file = remote.RemoteFile(f"{server.url}/feats.ark", Access())
        fetched = len(file._span[1])
        assert file.read(20 + excess, fetched - 20) == content[fetched - 20 : fetched + excess]


def test_ranges_offsets_and_script_parts_are_read(server: RangeServer, tmp_path: Path) -> None:
    place = dict(line.split() for line in (tmp_path / "feats.scp").read_text().splitlines())["utt007"]
    np.testing.assert_array_equal(io_ark.load(place), TABLE["utt007"])
    np.testing.assert_array_equal(io_ark.load(f"{place}[3:5,0:1]"), TABLE["utt007"][3:6, 0:2])
    with pytest.raises(OpenError, match="the offset is beyond the end"):
        io_ark.load(f"{server.url}/feats.ark:99999999")


def test_mapping_is_pickled_and_used_after_fork(server: RangeServer) -> None:
    import os

    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(table))["utt004"], TABLE["utt004"])
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(table[key], TABLE[key]) for key in ("utt090", "utt001")) else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(table["utt005"], TABLE["utt005"])


def test_process_reads_on_while_its_child_reads(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(remote, "_TIMEOUT_SECONDS", 2)
    monkeypatch.setattr(remote, "_RETRY_SECONDS", ())
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    child = os.fork()
    if child == 0:
        read = np.array_equal(table["utt090"], TABLE["utt090"])
        gc.collect()
        os._exit(0 if read else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(table["utt005"], TABLE["utt005"])
    assert len(io_ark.load_scp(f"{server.url}/feats.scp")) == len(TABLE)


@pytest.mark.parametrize("failures", [[503], [500, 0], [429, 503, 502], [0]])
@pytest.mark.parametrize("first", [True, False])
def test_temporary_failures_are_retried(failures: list[int], first: bool, server: RangeServer) -> None:
    reader = None if first else io_ark.read(f"ark:{server.url}/feats.ark")
    begun = {} if reader is None else dict([next(reader)])
    server.failures = failures
    same(begun | dict(reader or io_ark.read(f"ark:{server.url}/feats.ark")), TABLE)
    assert not server.failures


def answer(handler: Any, status: int, data: bytes = b"", **headers: str) -> bool:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)
    return True


def test_file_that_changes_between_two_requests_is_an_error(server: RangeServer, tmp_path: Path) -> None:
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    server.etag = '"2"'
    with pytest.raises(OpenError, match=r"feats\.ark:\d+: utt099: has changed since it was opened"):
        table["utt099"]
    server.etag, server.modified = "", time.time() - 5  # an answer always tells it, unlike a strong ETag
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    for modified in (server.modified + 1, None):
        server.modified = modified
        with pytest.raises(OpenError, match="has changed"):
            table["utt099"]


def test_range_is_asked_of_the_version_that_was_opened(server: RangeServer) -> None:
    asked: list[str | None] = []
    server.special = lambda handler: asked.append(handler.headers["If-Range"]) or False
    dict(io_ark.read(f"ark:{server.url}/feats.ark"))
    assert asked[0] is None and len(asked) > 2 and set(asked[1:]) == {'"1"'}


WEAK: list[tuple[str, float | None]] = [("", -99.0), ('W/"1"', -99.0), ('W/"1"', None), ("Tue", None)]


@pytest.mark.parametrize(("etag", "age"), WEAK)
def test_versions_that_a_weak_validator_does_not_tell_apart_are_not_mixed(
    etag: str, age: float | None, server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.etag, server.modified = etag, None if age is None else time.time() - age
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    data = (tmp_path / "feats.ark").read_bytes()
    (tmp_path / "feats.ark").write_bytes(bytes(len(data)))  # another version of the same size within one second
    for key in "utt050", "utt099":
        np.testing.assert_array_equal(table[key], TABLE[key])
    (tmp_path / "feats.ark").write_bytes(data)
    monkeypatch.setattr(remote, "_MAX_REQUEST_BYTES", len(data) - 1)
    with pytest.raises(OpenError, match=r"feats\.ark: the server sends neither a strong ETag nor a Last-Modified"):
        io_ark.read(f"ark:{server.url}/feats.ark")


NOON = {"Date": "Sat, 28 Nov 2026 12:00:01 GMT", "Last-Modified": "Sat, 28 Nov 2026 12:00:00 GMT"}
SAME = {"Date": NOON["Last-Modified"]}


@pytest.mark.parametrize(
    ("headers", "is_strong"),
    [
        (NOON, True), (NOON | SAME, False), (NOON | {"Date": "noon"}, False), ({"Date": NOON["Date"]}, False),
        (NOON | {"ETag": 'W/"1"'}, True), (NOON | SAME | {"ETag": 'W/"1"'}, False),
        (NOON | SAME | {"ETag": '"1"'}, True),
        (NOON | {"Last-Modified": "Sat, 28 Nov 2026 12:00:00 -0000"}, False), ({}, False), ({"ETag": '""'}, True),
    ],
)  # fmt: skip
def test_strong_validators_are_those_of_http(headers: dict[str, str], is_strong: bool) -> None:
    assert remote._parse_version(headers)[1] == is_strong


def test_ranges_are_read_of_a_version_with_an_older_time(server: RangeServer) -> None:
    for etag in "", 'W/"1"':
        server.etag, server.modified = etag, time.time() - 5
        server.requests.clear()
        same(dict(io_ark.read(f"ark:{server.url}/feats.ark")), TABLE)
        assert len(server.requests) > 2


def test_file_without_a_version_is_read_by_one_request_or_refused(
    server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.etag = ""
    data = (tmp_path / "feats.ark").read_bytes()
    table = io_ark.load_scp(f"{server.url}/feats.scp")
    np.testing.assert_array_equal(table["utt003"], TABLE["utt003"])
    (tmp_path / "feats.ark").write_bytes(bytes(len(data)))  # replaced by one of the same size
    for key in "utt050", "utt099":
        np.testing.assert_array_equal(table[key], TABLE[key])
    (tmp_path / "feats.ark").write_bytes(data)
    same(dict(io_ark.read(f"ark:{server.url}/feats.ark")), TABLE)
    monkeypatch.setattr(remote, "_MAX_REQUEST_BYTES", len(data) - 1)
    with pytest.raises(OpenError, match=r"feats\.ark: the server sends neither a strong ETag nor a Last-Modified"):
        io_ark.read(f"ark:{server.url}/feats.ark")
    (tmp_path / "small.ark").write_bytes(data[:10_000])
    with pytest.raises(TruncatedError):
        dict(io_ark.read(f"ark:{server.url}/small.ark"))  # at once with the first answer
    (tmp_path / "empty.ark").write_bytes(b"")
    assert dict(io_ark.read(f"ark:{server.url}/empty.ark")) == {}


def test_size_that_a_server_only_claims_takes_no_memory(server: RangeServer) -> None:
    head = b"\0BFM \4" + (2**31 - 1).to_bytes(4, "little") + b"\4" + (100_000).to_bytes(4, "little")

    def claim(handler: Any) -> bool:
        start, stop = map(int, handler.headers["Range"][6:].split("-"))
        length = min(stop + 1 - start, 1 << 20)
        data = head + bytes(length - len(head)) if start == 0 else bytes(length)
        return answer(handler, 206, data, Content_Range=f"bytes {start}-{stop}/{10**15}", ETag='"1"')

    server.special = claim
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(OpenError, match="bytes arrived"):
        io_ark.load(f"{server.url}/huge")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_slow_failures_are_not_repeated(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_TIMEOUT_SECONDS", 0.6)

    def stall(handler: Any) -> bool:
        time.sleep(0.4)
        return answer(handler, 503, b"")

    server.special = stall
    with pytest.raises(OpenError, match=r"cannot be read: HTTP status 503$"):
        io_ark.load(f"{server.url}/stalls")


@pytest.mark.parametrize(("pause", "reason"), [(0.1, "the server is too slow; copy"), (1.0, "the server does not")])
def test_server_that_drips_or_stops_is_given_up(
    server: RangeServer, monkeypatch: pytest.MonkeyPatch, pause: float, reason: str
) -> None:
    monkeypatch.setattr(remote, "_TIMEOUT_SECONDS", 0.2)

    def drip(handler: Any) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", "bytes 0-16383/100000")
        handler.send_header("Content-Length", "16384")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(pause)
        return True

    server.special = drip
    begin = time.monotonic()
    with pytest.raises(OpenError, match=f"cannot be read: {reason}"):
        io_ark.load(f"{server.url}/slow")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("url", ["reference://a::http://127.0.0.1:1/r.json", "file:///etc/passwd", "memory://x",
                                 "http://127.0.0.1/a::file://b"])  # fmt: skip
def test_only_named_schemes_are_opened(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.scp").write_text(f"utt {url}\n")
    for call in (lambda: io_ark.load(url), lambda: io_ark.load_scp(str(tmp_path / "a.scp"))["utt"],
                 lambda: io_ark.Writer(f"ark:{url}", kind="matrix")):  # fmt: skip
        with pytest.raises(NetworkRefusedError, match=r"are not opened|chained URLs"):
            call()


def test_user_allows_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IO_ARK_SCHEMES", "memory,abfs")
    io_ark.save("memory://one.mat", TABLE["utt000"], kind="matrix")
    np.testing.assert_array_equal(io_ark.load("memory://one.mat"), TABLE["utt000"])


def test_script_file_does_not_reach_private_addresses(
    server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IO_ARK_PRIVATE_HOSTS")
    for host in "127.0.0.1", "localhost", "[0000:0000:0000:0000:0000:0000:0000:0001]", "169.254.169.254", "10.0.0.1":
        (tmp_path / "a.scp").write_text(f"utt http://{host}:1/a.ark:3\n")
        with pytest.raises(NetworkRefusedError, match="IO_ARK_PRIVATE_HOSTS=1"):
            io_ark.load_scp(str(tmp_path / "a.scp"))["utt"]
        with pytest.raises(NetworkRefusedError, match="private network"):
            dict(io_ark.read(str(tmp_path / "a.scp")))
    place = (tmp_path / "feats.scp").read_text().split()[1]
    np.testing.assert_array_equal(io_ark.load(place), TABLE["utt000"])  # the user's own name


# Spellings of an address of this machine, or of another one that is not public. ("::" would be a chain of URLs.)
SPELLINGS = ["127.0.0.1", "127.0.0.1.", "127.0.0.1..", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0",
             "localhost", "localhost.", "localhost..", "LOCALHOST...", "224.0.0.1", "169.254.169.254"]  # fmt: skip
SPELLINGS += [
    f"[{ipaddress.ip_address(each).exploded}]"
    for each in ("::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1", "fec0::1",
                 "fc00::1", "ff0e::1")
]  # fmt: skip


@pytest.fixture
def rooted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that knows localhost with the dot of the root, as that of systemd."""
    look_up = socket.getaddrinfo

    def named(host: Any, *options: Any, **more: Any) -> Any:
        return look_up("localhost" if host == "localhost." else host, *options, **more)

    monkeypatch.setattr(socket, "getaddrinfo", named)


@pytest.mark.parametrize("host", SPELLINGS)
def test_spelling_of_a_private_address_does_not_reach_it(
    host: str, server: RangeServer, rooted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IO_ARK_PRIVATE_HOSTS")
    (tmp_path / "a.scp").write_text(f"utt http://{host}:{server.port}/feats.ark:7\n")
    with pytest.raises(NetworkRefusedError) as caught:
        io_ark.load_scp(str(tmp_path / "a.scp"))["utt"]
    assert str(caught.value).startswith(f"http://{host}:{server.port}/feats.ark: utt: ")
    assert not server.connections


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    """A server at an address of the loopback that counts as public; the others are private."""
    monkeypatch.setattr(access, "is_public", lambda address: address == "127.0.0.2")
    with range_server(tmp_path, "127.0.0.2") as serving:
        monkeypatch.delenv("IO_ARK_PRIVATE_HOSTS")
        yield serving


def script_of(public: RangeServer, server: RangeServer, tmp_path: Path, host: str = "127.0.0.2") -> Any:
    """Return a table whose script file names the archive at the public server."""
    lines = (tmp_path / "feats.scp").read_text()
    (tmp_path / "public.scp").write_text(lines.replace(server.url, f"http://{host}:{public.port}"))
    server.connections = 0
    return io_ark.load_scp(str(tmp_path / "public.scp"))


@pytest.mark.parametrize("header", ["Location", "URI"])
@pytest.mark.parametrize("target", ["http://127.0.0.1:{}/feats.ark", "//127.0.0.1:{}/x", "http://localhost..:{}/x"])
def test_redirection_to_a_private_address_is_refused(
    header: str, target: str, server: RangeServer, public: RangeServer, rooted: None, tmp_path: Path
) -> None:
    table = script_of(public, server, tmp_path)
    np.testing.assert_array_equal(table["utt007"], TABLE["utt007"])
    public.special = lambda handler: answer(handler, 302, **{header: target.format(server.port)})
    for read in lambda: table["utt070"], lambda: script_of(public, server, tmp_path)["utt070"]:
        with pytest.raises(NetworkRefusedError, match=r"^http://127\.0\.0\.2:.*: utt070: .* private network"):
            read()
    assert not server.connections
    public.special = lambda handler: (
        answer(handler, 302, **{header: "/feats.ark?"}) if handler.path[-1] != "?" else False
    )
    np.testing.assert_array_equal(table["utt007"], TABLE["utt007"])


@pytest.mark.parametrize(
    ("answers", "allowed"),
    [
        ([["127.0.0.2"]], True),
        ([["127.0.0.1"]], False),
        ([["127.0.0.2", "127.0.0.1"]], False),  # the first of which could be away
        ([["127.0.0.1", "127.0.0.2"]], False),
        ([["127.0.0.2"], ["127.0.0.1"]], True),  # who asks twice is deceived
    ],
)
def test_address_that_is_connected_to_is_the_one_that_was_checked(
    answers: list[list[str]],
    allowed: bool,
    server: RangeServer,
    public: RangeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up = socket.getaddrinfo

    def named(host: Any, port: Any, *options: Any, **more: Any) -> Any:
        if host != "host.example":
            return look_up(host, port, *options, **more)
        found = answers[0] if len(answers) == 1 else answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", named)
    table = script_of(public, server, tmp_path, "host.example")
    if allowed:
        np.testing.assert_array_equal(table["utt007"], TABLE["utt007"])
        assert public.connections
    else:
        with pytest.raises(NetworkRefusedError, match=r"utt007: host\.example is this machine or in a private network"):
            table["utt007"]
        assert not public.connections
    assert not server.connections


def test_lasting_failures_are_one_line(server: RangeServer, tmp_path: Path) -> None:
    server.failures = [503] * 9
    with pytest.raises(OpenError, match=r"feats\.ark: cannot be read: HTTP status 503 \(4 attempts\)$"):
        dict(io_ark.read(f"ark:{server.url}/feats.ark"))
    server.failures = [403, 200]
    with pytest.raises(OpenError, match=r"HTTP status 403$"):
        io_ark.load(f"{server.url}/feats.ark:7")
    assert server.failures == [200]
    server.failures = []
    with pytest.raises(MissingFileError, match="the server has no such file"):
        io_ark.load(f"{server.url}/nosuch.ark:7")
    data = (tmp_path / "feats.ark").read_bytes()
    (tmp_path / "cut.ark").write_bytes(data[:-5])
    with pytest.raises(TruncatedError, match="utt099"):
        dict(io_ark.read(f"ark:{server.url}/cut.ark"))


def test_server_without_ranges_is_refused(server: RangeServer) -> None:
    server.ranges = False
    with pytest.raises(OpenError, match="ignores ranges"):
        io_ark.load(f"{server.url}/feats.ark:100")


def test_urls_are_not_written_where_they_cannot_be(server: RangeServer) -> None:
    with pytest.raises(OpenError, match="read-only"):
        io_ark.Writer(f"ark:{server.url}/new.ark", kind="matrix")
    with pytest.raises(OpenError, match="cannot be appended to"):
        open_output(f"{server.url}/new.ark", append=True)


@pytest.mark.parametrize("spelling", ["feats.ark", "./a://b", "-", "a b|", "C:/x", "s3:/x", "ark:x"])
def test_local_names_are_no_urls(spelling: str) -> None:
    assert not is_url(spelling)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_bucket() as url:
        yield url


def test_tables_are_written_to_and_read_from_s3(s3: str) -> None:
    write_table("matrix", f"ark,scp:{s3}/a.ark,{s3}/a.scp", TABLE)
    same(dict(io_ark.read(f"scp:{s3}/a.scp")), TABLE)
    table = io_ark.load_scp(f"{s3}/a.scp")
    for key in "utt099", "utt000":
        np.testing.assert_array_equal(table[key], TABLE[key])
    io_ark.save(f"{s3}/one.mat", TABLE["utt000"], kind="matrix")
    np.testing.assert_array_equal(io_ark.load(f"{s3}/one.mat"), TABLE["utt000"])
    with pytest.raises(MissingFileError):
        io_ark.load(f"{s3}/nosuch")
    with pytest.raises((WriteError, ArkError)):
        io_ark.save("s3://nosuchbucket/one.mat", TABLE["utt000"], kind="matrix")


def test_object_that_changes_in_s3_is_an_error(s3: str) -> None:
    io_ark.save(f"{s3}/big.mat", np.zeros((5000, 100), np.float32), kind="matrix")
    reader = remote.RemoteFile(f"{s3}/big.mat", Access())
    assert len(reader.read(100, 0)) == 100
    io_ark.save(f"{s3}/big.mat", np.ones((5000, 100), np.float32), kind="matrix")
    with pytest.raises(OpenError, match="has changed"):
        reader.read(100, 1_000_000)


@pytest.mark.parametrize(
    ("scheme", "field"), [("gs", "generation"), ("gs", "etag"), ("hf", "blob_id"), ("hf", "mtime")]
)
def test_object_that_changes_in_another_store_is_an_error(
    scheme: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec import AbstractFileSystem
    from fsspec.registry import _registry

    class Store(AbstractFileSystem):  # type: ignore[misc]
        """A store that tells the version under this name, and remembers what it has told, as gcsfs and hf do."""

        protocol, cachable = scheme, False
        content, number, told = b"first " * 50_000, 1, None

        def info(self, path: str, **_: object) -> dict[str, Any]:
            if self.told is None:
                self.told = {"name": path, "type": "file", "size": len(self.content), field: self.number}
            return self.told

        def invalidate_cache(self, path: str | None = None) -> None:
            self.told = None

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
            return self.content[start:end]

    monkeypatch.setitem(_registry, scheme, Store)
    reader = remote.RemoteFile(f"{scheme}://b/a.ark", Access())
    assert reader.read(6, 0) == reader.read(6, 200_004) == b"first "
    monkeypatch.setattr(Store, "content", b"other " * 50_000)
    monkeypatch.setattr(Store, "number", 2)
    with pytest.raises(OpenError, match="has changed"):
        reader.read(6, 120_000)


def test_broken_upload_does_not_appear(s3: str) -> None:
    writer = io_ark.Writer(f"ark:{s3}/broken.ark", kind="matrix")
    writer["a"] = TABLE["utt000"]
    writer._target.entry.is_broken = True  # as after an interrupt
    with pytest.raises(WriteError):
        writer.close()
    with pytest.raises(MissingFileError):
        io_ark.load(f"{s3}/broken.ark:2")


def test_older_upload_does_not_replace_the_newer(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: ignored.append(repr(error.exc_value)))
    older = io_ark.writer(f"{s3}/twice.ark")
    older["old"] = TABLE["utt000"]
    with io_ark.writer(f"{s3}/twice.ark") as newer:
        newer["new"] = TABLE["utt000"]
    with pytest.raises(WriteError, match="opened for writing again"):
        older.close()
    assert list(dict(io_ark.read(f"{s3}/twice.ark"))) == ["new"]
    del older
    gc.collect()
    assert not ignored


def test_forked_process_does_not_complete_an_upload(s3: str) -> None:
    import os

    writer = io_ark.Writer(f"ark:{s3}/forked.ark", kind="vector")
    writer["a"] = SMALL["utt000"]
    child = os.fork()
    if child == 0:
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(MissingFileError):
        io_ark.load(f"{s3}/forked.ark:2")
    writer["b"] = SMALL["utt001"]
    writer.close()
    assert list(dict(io_ark.read(f"{s3}/forked.ark"))) == ["a", "b"]
