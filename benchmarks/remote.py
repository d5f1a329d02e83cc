"""A training loop over a local HTTP server: requests, connections, memory and speed.

python benchmarks/remote.py [--utterances 100000] [--workers 4] [--epochs 2] [--work DIR] [--record]

The script writes archives with this number of utterances, serves them with range requests from a separate process, and
reads them in random order with the workers of a DataLoader. It prints after each epoch: seconds, requests and
connections that the server has counted, open sockets of the workers, and the workers' memory.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import Table, report
from measuring import make_parser, measure_private_memory

import io_ark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.range_server import range_server

PER_ARCHIVE = 10_000


def serve(folder: str, counts: Any, pipe: Any) -> None:
    """Serve a folder, and keep the numbers of requests and connections in ``counts``."""
    with range_server(Path(folder)) as server:
        pipe.send(server.url)
        while not pipe.poll(0.2):
            counts[0], counts[1] = len(server.requests), server.connections
        counts[0], counts[1] = len(server.requests), server.connections


class Utterances(torch.utils.data.Dataset[Any]):
    """Features by number, with the state of the worker that read them."""

    def __init__(self, script: str) -> None:
        self.table = io_ark.load_scp(script, kind="matrix", pipes=False)
        self.keys = list(self.table)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, number: int) -> tuple[float, int, int, int]:
        matrix = self.table[self.keys[number]]
        return float(matrix.sum()), os.getpid(), measure_private_memory(), count_sockets()


def count_sockets() -> int:
    """Return the number of open sockets."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count


def make(folder: Path, utterances: int) -> None:
    """Write the archives and a script file with names relative to the server."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((64, 120, 20)).astype(np.float32)
    for first in range(0, utterances, PER_ARCHIVE):
        name = folder / f"feats.{first // PER_ARCHIVE}"
        with io_ark.Writer(f"ark,scp:{name}.ark,{name}.scp", kind="matrix") as writer:
            for number in range(first, min(first + PER_ARCHIVE, utterances)):
                writer[f"utt{number:07}"] = pool[number % 64, : 30 + number % 60]


def main() -> None:
    """Read the archives over HTTP, and print a table of the epochs."""
    parser = make_parser(__doc__)
    parser.add_argument("--utterances", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    os.environ["IO_ARK_PRIVATE_HOSTS"] = "1"  # Permits the server on this machine.
    if arguments.work is not None:
        Path(arguments.work).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        folder = Path(name)
        make(folder, arguments.utterances)
        counts = multiprocessing.Array("q", 2, lock=False)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(name, counts, theirs), daemon=True)
        server.start()
        url = ours.recv()
        scripts = sorted(folder.glob("feats.*.scp"))
        (folder / "all.scp").write_text("".join(path.read_text().replace(name, url) for path in scripts))
        dataset = Utterances(f"{url}/all.scp")
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=64, shuffle=True, num_workers=arguments.workers, persistent_workers=True
        )
        rows = []
        for epoch in range(arguments.epochs):
            before, start = counts[0], time.perf_counter()
            largest: dict[int, list[int]] = {}
            for _, processes, bytes_used, open_sockets in loader:
                for process, used, opened in zip(
                    processes.tolist(), bytes_used.tolist(), open_sockets.tolist(), strict=True
                ):
                    state = largest.setdefault(process, [0, 0, 0])
                    state[1], state[2] = used, max(state[2], opened)
            seconds = time.perf_counter() - start
            time.sleep(0.5)
            print(f"epoch {epoch + 1}: {seconds:.0f} s, {len(dataset) / seconds:.0f} utterances/s", flush=True)
            memory_now, opened = (max(state[i] for state in largest.values()) for i in (1, 2))
            figures = counts[0] - before, counts[1], memory_now >> 20, opened
            rows.append([f"{epoch + 1}", *(f"{figure:,}" for figure in figures)])
        start, before = time.perf_counter(), counts[0]
        read = sum(1 for _ in io_ark.SequentialReader(f"scp:{url}/all.scp", kind="matrix", pipes=False))
        time.sleep(0.5)
        columns = ["epoch", "requests", "connections so far", "memory of a worker: MiB", "open sockets of a worker"]
        report("remote", Table("python benchmarks/remote.py", columns, rows))
        print(f"in order: {read} utterances in {time.perf_counter() - start:.1f} s, {counts[0] - before} requests")
        ours.send("stop")
        server.join()


if __name__ == "__main__":
    main()
