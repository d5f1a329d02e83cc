"""A local HTTP server with range requests, which counts requests and fails on demand."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from io_ark.streams.access import PRIVATE_VARIABLE


class RangeServer(ThreadingHTTPServer):
    """Serves the files of a folder.

    Attributes:
        port: port of the server.
        url: the URL of the folder.
        requests: pairs of a method and the range of bytes asked for ("" if none).
        connections: number of connections accepted so far.
        failures: statuses to answer with, in place of the next files; 0 cuts the connection.
        ranges: answer range requests.
        etag: version of the files.
        modified: when the files were modified, in seconds since 1970.
        special: called with the handler of each GET; True if it has answered.
    """

    daemon_threads = True

    def __init__(self, folder: Path, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.folder = folder
        self.port = self.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self.requests: list[tuple[str, str]] = []
        self.connections = 0
        self.failures: list[int] = []
        self.ranges = True
        self.etag = '"1"'
        self.modified: float | None = None
        self.special: Callable[[Any], bool] | None = None

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients may close a connection at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: RangeServer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, body: bool) -> None:
        range_header = self.headers.get("Range", "")
        self.server.requests.append((self.command, range_header.removeprefix("bytes=")))
        if body and self.server.failures:
            status = self.server.failures.pop(0)
            if status == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if body and self.server.special and self.server.special(self):
            return
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        first, last = 0, size - 1
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", range_header)
        if byte_range and int(byte_range[1]) >= size:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if byte_range and self.server.ranges and self.headers.get("If-Range", self.server.etag) == self.server.etag:
            first, last = int(byte_range[1]), min(int(byte_range[2] or last), last)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        if self.server.modified is not None:
            self.send_header("Last-Modified", self.date_time_string(self.server.modified))
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if body:
            with open(path, "rb") as file:
                file.seek(first)
                self.wfile.write(file.read(last + 1 - first))


@contextmanager
def range_server(folder: Path, host: str = "127.0.0.1") -> Iterator[RangeServer]:
    """Serve a folder in a thread, at this address of the loopback."""
    server = RangeServer(folder, host)
    before = os.environ.get(PRIVATE_VARIABLE, "")
    os.environ[PRIVATE_VARIABLE] = "1"  # names in script files may be of this machine
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        os.environ[PRIVATE_VARIABLE] = before
        server.shutdown()
        server.server_close()
