"""Reading and writing archives, side by side with kaldiio and kaldi_native_io, in one process and one run.

python benchmarks/archives.py [--rounds 9] [--cpu] [--work DIR] [--lines 10000000] [--record]

Files are in the page cache. In each round, every library does the same work in turn. The least time of each library is
printed, which is the cost of the work on an idle machine, and the ratio of the peer's time to io_ark's: line by line on
standard error, and at the end as the tables of README.md on standard output. Finally, a script file with ``--lines``
lines is opened; its time and the private memory of the process are printed (the mapped file is in the page cache).
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import kaldi_native_io
import kaldiio
import numpy as np
from figures import Table, report
from measuring import Work, make_parser, measure_least_times, measure_private_memory

import io_ark

OURS = "io_ark"
MAPPED = "io_ark mmap"
ORIGINAL = "original"
KEYS = [f"utt{i:05}" for i in range(1000)]
COMMAND = "python benchmarks/archives.py --cpu --rounds 15"


def drain(entries: Iterable[tuple[str, Any]]) -> None:
    for _ in entries:
        pass


def native(reader: Any) -> None:
    with reader:
        drain(reader)


def look_up(table: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        table[key]


def write(writer: Any, table: Mapping[str, Any]) -> None:
    with writer:
        for key, value in table.items():
            writer[key] = value


def make(folder: Path, count: int = 500) -> dict[str, dict[str, Any]]:
    """Write the archives that are read, and return their tables by name.

    These are 500 matrices of 500 x 80 (80 MB), the same compressed (by methods 2, 3 and 5), a tenth of them as text,
    10,000 small matrices, and int vectors.
    """
    rng = np.random.default_rng(0)
    matrices = {f"utt{i:05}": (rng.standard_normal((500, 80)) * 3 + 10).astype(np.float32) for i in range(count)}
    small = {f"utt{i:05}": rng.standard_normal((2, 4)).astype(np.float32) for i in range(20 * count)}
    ints = {f"utt{i:05}": rng.integers(0, 4000, 1000).astype(np.int32) for i in range(count)}
    few = dict(list(matrices.items())[: count // 10])
    for name, kind, table, options, binary in (
        ("float", "matrix", matrices, {}, "b"),
        ("small", "matrix", small, {}, "b"),
        ("compressed", "compressed-matrix", matrices, {"method": 2}, "b"),
        ("two-byte", "compressed-matrix", matrices, {"method": 3}, "b"),
        ("one-byte", "compressed-matrix", matrices, {"method": 5}, "b"),
        ("ints", "int-vector", ints, {}, "b"),
        ("text", "matrix", few, {}, "t"),
    ):
        with io_ark.Writer(f"ark,scp,{binary}:{folder}/{name}.ark,{folder}/{name}.scp", kind=kind, **options) as writer:
            write(writer, table)
    compressed = dict.fromkeys(("compressed", "two-byte", "one-byte"), matrices)
    return {"float": matrices, "small": small, **compressed, "ints": ints, "text": few}


def list_readers(folder: Path, tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Work]]:
    """Return the reading tasks by name, each with the work of every library."""
    works: dict[str, dict[str, Work]] = {}
    for name in tables:
        ark, scp = f"{folder}/{name}.ark", f"{folder}/{name}.scp"
        kind = "int-vector" if name == "ints" else "matrix"
        sequential = getattr(kaldi_native_io, f"Sequential{'Int32Vector' if name == 'ints' else 'FloatMatrix'}Reader")
        lookup = getattr(kaldi_native_io, f"RandomAccess{'Int32Vector' if name == 'ints' else 'FloatMatrix'}Reader")
        works[f"read {name} ark"] = {
            OURS: lambda kind=kind, ark=ark: drain(io_ark.SequentialReader(f"ark:{ark}", kind=kind)),
            "io_ark.read": lambda ark=ark: drain(io_ark.read(f"ark:{ark}")),
            "kaldiio": lambda ark=ark: drain(kaldiio.load_ark(ark)),
            "kaldi_native_io": lambda sequential=sequential, ark=ark: native(sequential(f"ark:{ark}")),
        }
        keys = np.random.default_rng(1).permutation(list(tables[name])).tolist()
        works[f"read {name} scp"] = {
            OURS: lambda kind=kind, scp=scp: drain(io_ark.SequentialReader(f"scp:{scp}", kind=kind)),
            "kaldiio": lambda scp=scp: drain(kaldiio.load_scp_sequential(scp)),
            "kaldi_native_io": lambda sequential=sequential, scp=scp: native(sequential(f"scp:{scp}")),
        }
        works[f"look up {name}"] = {
            OURS: lambda kind=kind, scp=scp, keys=keys: look_up(io_ark.load_scp(scp, kind=kind), keys),
            "io_ark.load_scp": lambda scp=scp, keys=keys: look_up(io_ark.load_scp(scp), keys),
            MAPPED: lambda kind=kind, scp=scp, keys=keys: look_up(io_ark.load_scp(scp, kind=kind, mmap=True), keys),
            "kaldiio": lambda scp=scp, keys=keys: look_up(kaldiio.load_scp(scp, max_cache_fd=8), keys),
            "kaldi_native_io": lambda lookup=lookup, scp=scp, keys=keys: look_up(lookup(f"scp:{scp}"), keys),
        }
    return works


def list_writers(folder: Path, tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Work]]:
    """Return the writing tasks by name, each with the work of every library."""
    out = f"{folder}/out.ark"
    matrices, ints, few = tables["float"], tables["ints"], tables["text"]
    method = kaldi_native_io.CompressionMethod.kSpeechFeature

    def compress_native() -> None:
        with kaldi_native_io.CompressedMatrixWriter(f"ark:{out}") as writer:
            for key, value in matrices.items():
                writer.write(key, value, method)

    return {
        "write float": {
            OURS: lambda: write(io_ark.Writer(f"ark:{out}", kind="matrix"), matrices),
            "kaldiio": lambda: kaldiio.save_ark(out, matrices),
            "kaldi_native_io": lambda: write(kaldi_native_io.FloatMatrixWriter(f"ark:{out}"), matrices),
        },
        "write compressed": {
            OURS: lambda: write(io_ark.Writer(f"ark:{out}", kind="compressed-matrix", method=2), matrices),
            "kaldiio": lambda: kaldiio.save_ark(out, matrices, compression_method=2),
            "kaldi_native_io": compress_native,
        },
        "write ints": {
            OURS: lambda: write(io_ark.Writer(f"ark:{out}", kind="int-vector"), ints),
            "kaldiio": lambda: kaldiio.save_ark(out, ints),
            "kaldi_native_io": lambda: write(kaldi_native_io.Int32VectorWriter(f"ark:{out}"), ints),
        },
        "write text": {
            OURS: lambda: write(io_ark.Writer(f"ark,t:{out}", kind="matrix"), few),
            "kaldiio": lambda: kaldiio.save_ark(out, few, text=True),
            "kaldi_native_io": lambda: write(kaldi_native_io.FloatMatrixWriter(f"ark,t:{out}"), few),
        },
    }


def measure_other_kinds(folder: Path) -> dict[str, dict[str, Work]]:
    """Return the tasks for each other kind of object by name: about 100,000 numbers, in binary and in text."""
    rng = np.random.default_rng(2)

    def posterior(max_pairs: int) -> list[list[tuple[int, float]]]:
        lengths = rng.integers(1, max_pairs + 1, 500).tolist()
        return [[(int(rng.integers(4000)), float(np.float32(rng.random()))) for _ in range(n)] for n in lengths]

    kinds: dict[str, tuple[str, str, list[Any]]] = {
        "vector": ("vector", "FloatVector", list(rng.standard_normal((200, 500)).astype(np.float32))),
        "short vector": ("vector", "FloatVector", list(rng.standard_normal((1000, 100)).astype(np.float32))),
        "alignment posterior": ("posterior", "Posterior", [posterior(1) for _ in range(100)]),
        "posterior": ("posterior", "Posterior", [posterior(5) for _ in range(40)]),
        "int lists": ("int-vector-vector", "Int32VectorVector", rng.integers(0, 4000, (100, 300, 3)).tolist()),
        "int pairs": ("int-pair-vector", "Int32PairVector", _to_pairs(rng.integers(0, 4000, (200, 250, 2)))),
        "float pairs": ("float-pair-vector", "FloatPairVector", _to_pairs(rng.random((200, 250, 2)))),
        "int": ("int", "Int32", rng.integers(0, 4000, 10000).tolist()),
        "scalar": ("float", "Float", rng.random(10000).astype(np.float32).tolist()),
        "token": ("token", "Token", [f"spk{i}" for i in rng.integers(0, 4000, 10000)]),
        "tokens": (
            "token-vector",
            "TokenVector",
            [[f"w{i}" for i in row] for row in rng.integers(0, 4000, (5000, 15))],
        ),
    }
    works: dict[str, dict[str, Work]] = {}
    for name, (kind, native_name, values) in kinds.items():
        table = {f"utt{i:05}": value for i, value in enumerate(values)}
        reader = getattr(kaldi_native_io, f"Sequential{native_name}Reader")
        writer = getattr(kaldi_native_io, f"{native_name}Writer")
        for mode, ending in ("ark", ""), ("ark,t", " text"):
            path = f"{folder}/{name}{ending}.ark".replace(" ", "-")
            write(io_ark.Writer(f"{mode}:{path}", kind=kind), table)
            works[f"read {name}{ending}"] = {
                OURS: lambda kind=kind, path=path: drain(io_ark.SequentialReader(f"ark:{path}", kind=kind)),
                "kaldi_native_io": lambda reader=reader, path=path: native(reader(f"ark:{path}")),
            }
            out = f"{mode}:{folder}/out.ark"
            works[f"write {name}{ending}"] = {
                OURS: lambda kind=kind, out=out, table=table: write(io_ark.Writer(out, kind=kind), table),
                "kaldi_native_io": lambda writer=writer, out=out, table=table: write(writer(out), table),
            }
    return works


def measure_small_objects(folder: Path) -> dict[str, dict[str, Work]]:
    """Return the tasks for vectors of 256 numbers (x-vectors) that are read and written one by one, by name."""
    values = np.random.default_rng(3).standard_normal((len(KEYS), 256)).astype(np.float32)
    vectors = dict(zip(KEYS, values, strict=True))
    ark, scp, out = f"{folder}/xvector.ark", f"{folder}/xvector.scp", f"{folder}/out.ark"
    write(io_ark.Writer(f"ark,scp:{ark},{scp}", kind="vector"), vectors)
    places = [line.split()[1] for line in Path(scp).read_text().splitlines()]
    shuffled = np.random.default_rng(4).permutation(KEYS).tolist()

    def each(function: Callable[[str], Any]) -> None:
        for place in places:
            function(place)

    def write_each(write_vector: Any) -> None:
        with open(out, "wb") as file:
            for key, vector in vectors.items():
                write_vector(file, vector, key=key)

    # Library, name of the row, and the work by the functions of a module.
    rows: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
        ("kaldi_native_io", "FloatVector.read", lambda m: each(m.FloatVector.read)),
        ("kaldi_native_io", "look-up", lambda m: look_up(m.RandomAccessFloatVectorReader(f"scp:{scp}"), shuffled)),
        ("kaldi_native_io", "FloatVectorWriter", lambda m: write(m.FloatVectorWriter(f"ark:{out}"), vectors)),
        ("kaldi_native_io", "same with scp", lambda m: write(m.FloatVectorWriter(f"ark,scp:{out},{out}.s"), vectors)),
        ("kaldiio", "load_mat", lambda m: each(m.load_mat)),
        ("kaldiio", "load_scp", lambda m: look_up(m.load_scp(scp), shuffled)),
        ("kaldi_io", "write_vec_flt", lambda m: write_each(m.write_vec_flt)),
        ("kaldi_io", "read_vec_flt_ark", lambda m: drain(m.read_vec_flt_ark(ark))),
        ("kaldi_io", "read_vec_flt_scp", lambda m: drain(m.read_vec_flt_scp(scp))),
    )
    works: dict[str, dict[str, Work]] = {}
    for library, name, work in rows:
        if importlib.util.find_spec(library) is not None:
            ours, original = import_module(f"kaldi_standins.{library}"), import_module(library)
            works[f"{library} {name}"] = {OURS: partial(work, ours), ORIGINAL: partial(work, original)}
    return works


def _to_pairs(arrays: Any) -> list[list[tuple[Any, Any]]]:
    return [[(first, second) for first, second in array] for array in arrays.tolist()]


Times = dict[str, dict[str, float]]


def measure(works: dict[str, dict[str, Work]], folder: Path, rounds: int, clock: Callable[[], float]) -> Times:
    """Measure all tasks in turns, and return the least seconds of each library by task. Print a line for each task."""
    times: Times = {}
    for name, candidates in works.items():
        times[name] = least = measure_least_times(candidates, rounds, clock, partial(folder.glob, "out.ark*"))
        shown = "  ".join(f"{who} {1000 * seconds:.1f} ms" for who, seconds in least.items())
        print(f"{name:25}  {shown}", file=sys.stderr, flush=True)
    return times


def format_milliseconds(seconds: float | None) -> str:
    """Format seconds as milliseconds. None, which stands for a missing measurement, becomes an empty string."""
    return "" if seconds is None else f"{1000 * seconds:.1f}"


def print_tables(times: Times) -> None:
    """Print the tables of README.md, and store them with ``--record``."""
    peers = ("kaldiio", "kaldi_native_io")
    rows = [
        [name, *(format_milliseconds(least.get(who)) for who in (OURS, MAPPED, *peers))]
        for name, least in times.items()
        if "kaldiio" in least
    ]
    columns = ["work", "io_ark: ms", "mapped: ms", *(f"{peer}: ms" for peer in peers)]
    ratios = [[f"times {peer}", f"{peer}: ms", "io_ark: ms"] for peer in peers]
    report("archives", Table(COMMAND, columns, rows, ratios))
    rows = [
        [name, *(f"{1e6 * least[who] / len(KEYS):.1f}" for who in (ORIGINAL, OURS))]
        for name, least in times.items()
        if ORIGINAL in least
    ]
    columns = ["a small object", "the original: µs", "ours: µs"]
    report("small-objects", Table(COMMAND, columns, rows, [["times", columns[1], columns[2]]]))
    # The tasks of other kinds, such as "read int lists text", are those that kaldi_native_io alone also performs.
    names = [
        name for name, least in times.items() if set(least) == {OURS, "kaldi_native_io"} and name.startswith("read ")
    ]
    kinds = [name.removeprefix("read ") for name in names if not name.endswith(" text")]
    works = ("read", "read text", "write", "write text")
    rows = []
    for kind in kinds:
        rows.append([kind])
        for work in works:
            verb, *ending = work.split()
            least = times.get(" ".join([verb, kind, *ending]), {})
            rows[-1] += [format_milliseconds(least.get(who)) for who in ("kaldi_native_io", OURS)]
    columns = ["kind", *(f"{work}, {who}: ms" for work in works for who in ("kaldi_native_io", "io_ark"))]
    report("other-kinds", Table(COMMAND, columns, rows))


def open_long_script(folder: Path, lines: int) -> None:
    """Write a script file with this number of lines, open it, look keys up, and print the figures."""
    path = folder / "long.scp"
    with open(path, "w") as out:
        for begin in range(0, lines, 100_000):
            out.writelines(
                f"spk{i % 5000:05}-utt{i:09} /data/feats/raw_fbank.{i % 100}.ark:{1234 * i}\n"
                for i in range(begin, min(begin + 100_000, lines))
            )
    before, start = measure_private_memory(), time.perf_counter()
    table = io_ark.load_scp(str(path))
    opened, memory = time.perf_counter() - start, measure_private_memory() - before
    script = table._script  # type: ignore[attr-defined]
    keys = [f"spk{i % 5000:05}-utt{i:09}" for i in np.random.default_rng(0).integers(0, lines, 100_000)]
    start = time.perf_counter()
    look_up(script, keys)
    look_up_seconds = (time.perf_counter() - start) / len(keys)
    size = f"{path.stat().st_size >> 20}"
    row = [f"{lines:,}", size, f"{opened:.1f}", f"{memory / lines:.0f}", f"{1e6 * look_up_seconds:.1f}"]
    columns = ["lines", "file: MiB", "opened and indexed: s", "memory of a line: bytes", "a key's line: µs"]
    report("script-file", Table(COMMAND, columns, [row]))


def main() -> None:
    """Measure the tasks, and print the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine that does other work, too")
    parser.add_argument("--only", default="", help="measure only works whose name has this in it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        folder = Path(name)
        tables = make(folder)
        works = (
            list_readers(folder, tables)
            | list_writers(folder, tables)
            | measure_other_kinds(folder)
            | measure_small_objects(folder)
        )
        chosen = {name: work for name, work in works.items() if arguments.only in name}
        clock = time.process_time if arguments.cpu else time.perf_counter
        print_tables(measure(chosen, folder, arguments.rounds, clock))
        if not arguments.only:
            open_long_script(folder, arguments.lines)


if __name__ == "__main__":
    main()
