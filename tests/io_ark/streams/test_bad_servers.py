"""Servers that misbehave: an archive is read whole and right, or an error says why; never a missing file or a hang."""

from __future__ import annotations

import gzip
import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.errors import MissingFileError, OpenError
from io_ark.streams import remote
from tests.support.range_server import range_server
from tests.support.reading_ways import same
from tests.support.tables import write_table

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

TABLE = {f"utt{i}": np.random.default_rng(i).standard_normal((50, 20)).astype(np.float32) for i in range(20)}
FINE = ""


class Asked:
    """A request for bytes of the archive, and ways to answer it."""

    def __init__(self, handler: Any, data: bytes) -> None:
        self.handler, self.all = handler, data
        first, last = handler.headers["Range"][6:].split("-")
        self.first, self.last = int(first), min(int(last), len(data) - 1)
        self.data = data[self.first : self.last + 1]
        self.range = f"bytes {self.first}-{self.last}/{len(data)}"

    def raw(self, *parts: bytes, wait: float = 0.0) -> None:
        """Send bytes as they are, and close the connection."""
        try:
            for part in parts:
                self.handler.wfile.write(part)
                self.handler.wfile.flush()
                time.sleep(wait)
        except OSError:
            pass
        self.handler.close_connection = True

    def answer(self, data: bytes | None = None, status: str = "206 Partial Content", **headers: str | None) -> None:
        """Answer as it should be, but for the arguments; a header of None is left out."""
        body = self.data if data is None else data
        usual = {"Content-Range": self.range, "Content-Length": str(len(body)), "ETag": '"1"', "Connection": "close"}
        lines = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        self.raw(f"HTTP/1.1 {status}\r\n{text}\r\n".encode() + body)

    def reset(self) -> None:
        """Answer the half, and reset the connection."""
        self.raw(f"HTTP/1.1 206 OK\r\nContent-Length: {len(self.data)}\r\n\r\n".encode() + self.data[:100])
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.handler.connection.close()


def chunked(data: bytes, size: bytes | None = None) -> bytes:
    parts = [data[i : i + 1000] for i in range(0, len(data), 1000)]
    return b"".join((size or b"%x" % len(part)) + b"\r\n" + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


CHUNKED: dict[str, str | None] = {"Transfer_Encoding": "chunked", "Content_Length": None}
MANY = b"X-A: " + b"a" * 4000 + b"\r\n"
COUNT = iter(range(10**9))
BOMB = gzip.compress(bytes(1 << 20)) * 1024

# name: how a request is answered, of which the first one is answered well if it begins with "later, "; what the error
# says, FINE if there is none.
KINDS: dict[str, tuple[Callable[[Asked], None], str]] = {
    "later, the status 200 with a part": (lambda at: at.answer(status="200 OK", Content_Range=None), "changed"),
    "later, the whole file": (lambda at: at.answer(at.all, "200 OK", Content_Range=None), "ignores ranges"),
    "later, another range": (
        lambda at: at.answer(Content_Range=f"bytes {at.first + 9}-{at.last + 9}/{len(at.all)}"),
        "sends bytes from offset",
    ),
    "later, another size": (lambda at: at.answer(Content_Range=f"bytes {at.first}-{at.last}/10"), "has changed"),
    "later, another version": (lambda at: at.answer(ETag='"2"'), "has changed"),
    "later, a weak version": (lambda at: at.answer(ETag='W/"1"'), "has changed"),
    "later, no version": (lambda at: at.answer(ETag=None), FINE),
    "later, no version and no size": (lambda at: at.answer(ETag=None, Content_Range=None), "ignores ranges"),
    "later, an empty answer": (lambda at: at.answer(b""), "0 of .* bytes arrived"),
    "later, too few bytes": (lambda at: at.answer(at.data[:9]), "9 of .* bytes arrived"),
    "later, too many bytes": (lambda at: at.answer(at.data + b"more"), "ignores ranges"),
    "later, no such range": (lambda at: at.answer(b"", "416 Range", Content_Range="bytes */10"), "has changed"),
    "the status 200 with a part": (lambda at: at.answer(status="200 OK"), "ignores ranges"),
    "no such range, of any file": (
        lambda at: at.answer(b"", "416 Range", Content_Range=None),
        "does not send the size",
    ),
    "no such range at once": (lambda at: at.answer(b"", "416 Range", Content_Range="bytes */10"), "."),
    "the size of a petabyte": (lambda at: at.answer(Content_Range=f"bytes {at.first}-{at.last}/{10**15}"), "."),
    "the length of a petabyte": (lambda at: at.answer(Content_Length=str(10**15)), "4 attempts"),
    "two lengths": (lambda at: at.answer(content_length="5"), "cannot be read"),
    "chunks and a length": (lambda at: at.answer(Transfer_Encoding="chunked"), "cannot be read"),
    "a chunk without an end": (lambda at: at.answer(b"5;" + b"a" * (1 << 22), **CHUNKED), "cannot be read"),
    "an unknown encoding": (lambda at: at.answer(Content_Encoding="br"), "cannot be read"),
    "frames of HTTP/2": (lambda at: at.raw(b"\0\0\x12\4\0\0\0\0\0" * 100), "cannot be read"),
    "hints without an end": (
        lambda at: at.raw(*[b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n"] * 20, wait=0.05),
        "cannot be read",
    ),
    "a version for each answer": (lambda at: at.answer(ETag=f'"{next(COUNT)}"'), "has changed"),
    "no range in the answer": (lambda at: at.answer(Content_Range=None), "does not send the size"),
    "a range of nonsense": (lambda at: at.answer(Content_Range="bytes x-y/z"), "does not send the size"),
    "a range beyond 64 bits": (lambda at: at.answer(Content_Range=f"bytes 0-9/{10**30}"), "."),
    "a range of thousands of digits": (
        lambda at: at.answer(Content_Range=f"bytes 0-9/{'9' * 5000}"),
        "does not send the size",
    ),
    "several ranges": (
        lambda at: at.answer(b"--x\r\n\r\n" + at.data, Content_Range=None, Content_Type="multipart/byteranges"),
        "does not send the size",
    ),
    "more than its length": (lambda at: at.answer(at.data + b"x", Content_Length=str(len(at.data))), "cannot be read"),
    "less than its length": (lambda at: at.answer(at.data[:-1], Content_Length=str(len(at.data))), "4 attempts"),
    "a negative length": (lambda at: at.answer(Content_Length="-1"), "cannot be read"),
    "a length of nonsense": (lambda at: at.answer(Content_Length="many"), "cannot be read"),
    "chunks": (lambda at: at.answer(chunked(at.data), **CHUNKED), FINE),
    "chunks of nonsense": (lambda at: at.answer(chunked(at.data, b"zz"), **CHUNKED), "cannot be read"),
    "chunks without an end": (lambda at: at.answer(chunked(at.data)[:-5], **CHUNKED), "cannot be read"),
    "gzip": (lambda at: at.answer(gzip.compress(at.data), Content_Encoding="gzip"), FINE),
    "gzip of nonsense": (lambda at: at.answer(Content_Encoding="gzip"), "cannot be read"),
    "gzip of a gigabyte": (lambda at: at.answer(BOMB, Content_Encoding="gzip"), "."),
    "a long header": (lambda at: at.answer(X_A="a" * 10**5), "cannot be read"),
    "headers without an end": (lambda at: at.raw(b"HTTP/1.1 206 OK\r\n", *[MANY] * 2000), "cannot be read"),
    "a header byte by byte": (lambda at: at.raw(*[b"H"] * 40, wait=0.05), "cannot be read"),
    "no answer": (lambda at: at.raw(b"", b"", wait=0.5), "cannot be read"),
    "nothing of HTTP": (lambda at: at.raw(b"SSH-2.0-OpenSSH\r\n"), "cannot be read"),
    "a closed connection": (lambda at: at.raw(), "4 attempts"),
    "a reset connection": (Asked.reset, "4 attempts"),
    "no content": (lambda at: at.answer(b"", "204 No Content"), "HTTP status 204"),
    "not modified": (lambda at: at.answer(b"", "304 Not Modified"), "HTTP status 304"),
    "a password asked for": (
        lambda at: at.answer(b"", "401 No", WWW_Authenticate='Basic realm="x"'),
        "HTTP status 401",
    ),
    "a redirection to a file": (lambda at: at.answer(b"", "302 F", Location="file:///etc/passwd"), "cannot be read"),
    "a redirection to nowhere": (lambda at: at.answer(b"", "302 F", Location="http://127.0.0.1:1/"), "4 attempts"),
    "endless redirections": (lambda at: at.answer(b"", "302 F", Location=f"/{next(COUNT)}"), "cannot be read"),
}


@pytest.mark.parametrize("name", KINDS)
def test_bad_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(remote, "_TIMEOUT_SECONDS", 0.3)
    answer, message = KINDS[name]
    write_table("matrix", f"ark:{tmp_path}/feats.ark", TABLE)
    data = (tmp_path / "feats.ark").read_bytes()

    def special(handler: Any) -> bool:
        asked = Asked(handler, data)
        (Asked.answer if name.startswith("later, ") and not asked.first else answer)(asked)
        return True

    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with range_server(tmp_path) as server:
        server.special = special
        if message:
            with pytest.raises(OpenError, match=message) as caught:
                dict(io_ark.read(f"ark:{server.url}/feats.ark"))
            assert not isinstance(caught.value, MissingFileError)
            assert "\n" not in str(caught.value)
        else:
            same(dict(io_ark.read(f"ark:{server.url}/feats.ark")), TABLE)
    assert time.monotonic() - begin < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
