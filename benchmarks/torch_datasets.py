"""Data sets in DataLoaders against data sets over kaldiio and lhotse.

    OMP_NUM_THREADS=1 python benchmarks/torch_datasets.py [--utterances 2000] [--seconds 3] [--rounds 3] [--record]

Prints utterances and megabytes a second, and the CPU time of all processes, of features by number, features in order
and audio by number, for 0, 2 and 4 workers. Batches of 16 are padded by the same function for all. Best of several
rounds in which the contestants take turns, files in the page cache. kaldiio and lhotse are left out where they are not
installed.
"""

from __future__ import annotations

import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import Table, report
from measuring import make_parser
from torch.utils.data import DataLoader, Dataset, IterableDataset

import io_ark
from kaldi_compat import ArchiveDataset, FeatureDataset, WaveDataset

RATE, DIM, BATCH = 16000, 80, 16
WORKERS = (0, 2, 4)
COLUMNS = ["task", "workers", "data set", "utterances/s", "MB/s", "CPU µs an utterance"]
Make = Callable[[Path], Any]


def write_corpus(folder: Path, utterances: int, seconds: float) -> None:
    """Write feats.ark, feats.scp, wav files and wav.scp."""
    rng = np.random.default_rng(0)
    frames = (rng.uniform(0.5, 1.5, utterances) * seconds * 100).astype(int)
    pool = rng.standard_normal((frames.max(), DIM)).astype(np.float32)
    noise = (rng.standard_normal(int(1.6 * seconds * RATE)) * 1000).astype(np.int16)
    (folder / "wav").mkdir()
    script = []
    with io_ark.writer(f"ark,scp:{folder}/feats.ark,{folder}/feats.scp") as features:
        for number, count in enumerate(frames):
            key = f"utt{number:05d}"
            features[key] = pool[:count]
            io_ark.save(str(folder / "wav" / f"{key}.wav"), io_ark.Wave(RATE, noise[None, : count * 160]), kind="wave")
            script.append(f"{key} {folder}/wav/{key}.wav\n")
    (folder / "wav.scp").write_text("".join(script))


class ByNumber(Dataset[torch.Tensor]):
    """Items of a list, loaded by a function."""

    def __init__(self, items: list[Any], load: Callable[[Any], np.ndarray[Any, Any]]) -> None:
        self._items, self._load = items, load

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self._load(self._items[index])))


class InOrder(IterableDataset[torch.Tensor]):
    """Arrays of an iterator of keys and arrays. Each of n workers takes every n-th array."""

    def __init__(self, read: Callable[[str], Iterator[tuple[str, np.ndarray[Any, Any]]]], path: str) -> None:
        self._read, self._path = read, path

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = torch.utils.data.get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index, (_, value) in enumerate(self._read(self._path)):
            if index % count == number:
                yield torch.from_numpy(np.array(value))


def read_locations(script: Path) -> list[str]:
    """Return the locations in the lines of a script file."""
    return [line.split(None, 1)[1] for line in script.read_text().splitlines()]


def read_kaldiio_features(folder: Path) -> Any:
    """Return a data set of features that kaldiio reads one by one by the locations in a script file."""
    import kaldiio

    return ByNumber(read_locations(folder / "feats.scp"), kaldiio.load_mat)


def read_kaldiio_archive(folder: Path) -> Any:
    """Return a data set of features that kaldiio reads from an archive in order."""
    import kaldiio

    return InOrder(kaldiio.load_ark, f"{folder}/feats.ark")


def _load_kaldiio_samples(place: str) -> np.ndarray[Any, Any]:
    import kaldiio

    samples: np.ndarray[Any, Any] = kaldiio.load_mat(place)[1]
    return samples


def read_kaldiio_audio(folder: Path) -> Any:
    """Return a data set of audio files that kaldiio reads one by one."""
    import kaldiio  # noqa: F401  so that it is left out if it is not installed

    return ByNumber(read_locations(folder / "wav.scp"), _load_kaldiio_samples)


def _load_lhotse_features(manifest: Any) -> np.ndarray[Any, Any]:
    features: np.ndarray[Any, Any] = manifest.load()
    return features


def read_lhotse_features(folder: Path) -> Any:
    """Return a data set of features that lhotse reads by manifests of the locations in a script file."""
    from lhotse.features.base import Features

    fields: dict[str, Any] = {"type": "kaldi", "num_frames": 1, "num_features": DIM, "frame_shift": 0.01, "start": 0}
    fields |= {"sampling_rate": RATE, "duration": 0.01, "storage_type": "kaldiio", "storage_key": "", "channels": 0}
    items = [Features(storage_path=place, **fields) for place in read_locations(folder / "feats.scp")]
    return ByNumber(items, _load_lhotse_features)


def _load_lhotse_samples(recording: Any) -> np.ndarray[Any, Any]:
    samples: np.ndarray[Any, Any] = recording.load_audio()[0]
    return samples


def read_lhotse_audio(folder: Path) -> Any:
    """Return a data set of audio files that lhotse reads as recordings."""
    from lhotse import Recording

    return ByNumber([Recording.from_file(place) for place in read_locations(folder / "wav.scp")], _load_lhotse_samples)


TASKS: dict[str, dict[str, Make]] = {
    "features by number": {
        "ours": lambda folder: FeatureDataset(folder / "feats.scp"),
        "kaldiio": read_kaldiio_features,
        "lhotse": read_lhotse_features,
    },
    "features in order": {
        "ours": lambda folder: ArchiveDataset(f"ark:{folder}/feats.ark"),
        "kaldiio": read_kaldiio_archive,
    },
    "audio by number": {
        "ours": lambda folder: WaveDataset(folder / "wav.scp"),
        "kaldiio": read_kaldiio_audio,
        "lhotse": read_lhotse_audio,
    },
}


def pad_batch(items: list[Any]) -> tuple[torch.Tensor, int]:
    """Return a padded batch and its bytes without padding."""
    values = [getattr(item, "input", item) for item in items]
    batch = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return batch, sum(value.numel() * value.element_size() for value in values)


def measure_cpu_seconds() -> float:
    """Return the CPU time of this process and of its workers that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure_epoch(data: Any, workers: int) -> tuple[float, float, int, int]:
    """Return the seconds of an epoch after the workers have started, its CPU seconds, utterances and bytes."""
    before = measure_cpu_seconds()
    by_number = not isinstance(data, IterableDataset)
    loader = DataLoader(data, BATCH, shuffle=by_number, num_workers=workers, collate_fn=pad_batch)
    batches = iter(loader)
    start = time.perf_counter()
    count = size = 0
    for batch, used in batches:
        count, size = count + len(batch), size + used
    seconds = time.perf_counter() - start
    del batches, loader  # The workers end, so that their processor time is counted.
    return seconds, measure_cpu_seconds() - before, count, size


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--utterances", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder, arguments.utterances, arguments.seconds)
        rows = []
        for task, contestants in TASKS.items():
            datasets = {}
            for who, make in contestants.items():
                try:
                    datasets[who] = make(folder)
                except ImportError:
                    continue
            for workers in WORKERS:
                runs: dict[str, list[tuple[float, float, int, int]]] = {who: [] for who in datasets}
                for _ in range(arguments.rounds):
                    for who, data in datasets.items():
                        runs[who].append(measure_epoch(data, workers))
                for who, figures in runs.items():
                    seconds, cpu = min(run[0] for run in figures), min(run[1] for run in figures)
                    count, size = figures[0][2:]
                    speed = [f"{count / seconds:,.0f}", f"{size / seconds / 1e6:,.0f}", f"{cpu / count * 1e6:,.0f}"]
                    rows.append([task, str(workers), who, *speed])
        report("data-sets", Table("OMP_NUM_THREADS=1 python benchmarks/torch_datasets.py", COLUMNS, rows))


if __name__ == "__main__":
    main()
