"""Processor time of reading and packing audio for a GPU: files read in place, and copied into a packed row.

    python benchmarks/gpu_packing.py [--seconds 12 1] [--hours 1] [--rounds 5]

Needs no GPU: memory that would be pinned is ordinary memory, which is touched and reused as PyTorch reuses pinned
memory. Prints a line of JSON for each length of utterances and each way, with the least microseconds of an utterance
over some rounds, which take turns. Copies to the GPU itself are not measured.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import tempfile
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kaldi_compat.dump import packed_batch
from kaldi_compat.dump.batching import batches
from kaldi_compat.dump.entries import Audio
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import Lines, RowMemory, TaskReader
from kaldi_compat.options.spectral import FbankOptions

RATE = 16000
FRAMES = FbankOptions()


class Pool:
    """Stands for PyTorch's cache of pinned memory: blocks that were touched before, in turn."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.blocks: dict[int, Iterator[torch.Tensor]] = {}

    def empty(self, size: int) -> torch.Tensor:
        """Return int16 memory; its size is rounded up to a power of two."""
        room = 1 << (size - 1).bit_length()
        if room not in self.blocks:
            self.blocks[room] = itertools.cycle([torch.ones(room, dtype=torch.int16) for _ in range(self.ways)])
        return next(self.blocks[room])[:size]


def write(folder: Path, count: int, seconds: float) -> list[bytes]:
    """Write wave files, and return their lines of a script file."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(count):
        path = folder / f"utt{i}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(rng.integers(-9999, 9999, int(seconds * RATE), dtype=np.int16).tobytes())
        lines.append(f"utt{i} {path}".encode())
    return lines


def read(lines: list[bytes], reader: TaskReader) -> Iterator[Audio]:
    """Read all lines, as the dump does, in one thread."""
    done = 0
    while done < len(lines):
        task = Lines(done, lines[done : done + reader.lines_at_once])
        for each in reader(task):
            assert isinstance(each, Audio | Lines)
            if isinstance(each, Audio):
                done += len(each)
                yield each


def seconds_taken(lines: list[bytes], memory: Callable[[], RowMemory] | None) -> float:
    """Return the processor time of reading and packing all utterances."""
    options = DumpOptions()
    begun = time.process_time()
    reader = TaskReader(options, memory)
    for batch in batches(read(lines, reader), options.window_utterances, options.seconds_in_batch):
        utterances: list[Any] = [one for audio in batch for one in audio.each()]
        places = [each.place for each in utterances]
        packed_batch.pack([each.wave.samples[0] for each in utterances], FRAMES, pinned=True, places=places)
    return time.process_time() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="+", default=[12.0, 1.0], help="lengths of utterances")
    parser.add_argument("--hours", type=float, default=0.5, help="audio of each length")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    rows, blocks = Pool(2), Pool(64)
    torch_zeros = torch.zeros

    def zeros(size: int, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
        assert pin_memory
        return rows.empty(size).zero_() if dtype == torch.int16 else torch_zeros(size, dtype=dtype)

    def empty(size: int, **_: object) -> torch.Tensor:
        return blocks.empty(size)

    in_place = functools.partial(packed_batch.PinnedMemory, FRAMES.window_shift)
    for seconds in chosen.seconds:
        with tempfile.TemporaryDirectory() as folder:
            lines = write(Path(folder), int(chosen.hours * 3600 / seconds), seconds)
            taken: dict[str, list[float]] = {"copied": [], "in place": []}
            torch.zeros, torch_empty, torch.empty = zeros, torch.empty, empty  # type: ignore[assignment]
            try:
                for _ in range(chosen.rounds + 1):
                    taken["copied"].append(seconds_taken(lines, None))
                    taken["in place"].append(seconds_taken(lines, in_place))
            finally:
                torch.zeros, torch.empty = torch_zeros, torch_empty
        for way, each in taken.items():
            least = min(each[1:]) / len(lines)
            print(json.dumps({"utterance_s": seconds, "way": way, "microseconds": round(1e6 * least, 1)}), flush=True)


if __name__ == "__main__":
    main()
