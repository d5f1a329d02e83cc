"""Processor time of every program on typical, short and long data, against Kaldi's programs.

    python benchmarks/tables.py --kaldi /path/to/kaldi/bin --work /tmp/corpus
    python benchmarks/tables.py --kaldi /path/to/kaldi/bin --work /tmp/corpus --data short --only copy-post post-to
    python benchmarks/tables.py --kaldi /path/to/kaldi/bin --work /tmp/corpus --again --record

Typical: 4 hours in 1,200 utterances. Short: 20,000 utterances of 0.1 s. Long: one utterance of 2 hours. Each command
runs on one core, and the time of the same command on an empty table (of ``--help`` for programs without tables) is
subtracted. Processor time (user and system) is compared, because other work on the machine disturbs it least: the least
of some rounds, in which our program and Kaldi's take turns.

Rows are kept in ``results.json`` in the work directory and are not measured again without ``--again``, so an
interrupted run can be resumed. ``long`` takes 6 GB of memory, most of it in Kaldi's pitch tracker. Kaldi's programs are
taken from ``--kaldi``, or from PATH if they are not ours. Without them, only our programs are measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from corpus import RATE, make, repeat, write_short_pieces
from figures import Table as Figures
from figures import report
from measuring import make_parser

import io_ark
from io_ark.blocks import PosteriorArrays
from io_ark.codecs.wave import Wave
from io_ark.models import (
    PDF_CLASS,
    ContextDependency,
    EventMap,
    HmmState,
    HmmTopology,
    Leaf,
    Split,
    Table,
    TransitionModel,
)

COMMAND = "python benchmarks/tables.py --kaldi DIR --work DIR --again"
SHORT, LONG_HOURS = 20_000, 2
HEADERS = 20_000  # Number of wave files for programs that read only headers.
JOINED = 100  # Number of utterances that are joined for programs that read single files.
DATA = ("typical", "short", "long")
CLOCK = 0.02  # Variation of the start-up time in seconds. Times below it on both sides are not compared.

# Arguments of each program. {wav}, {feats}, {pitch} ... are tables of `kinds`; {out} is a new file.
COMMANDS: dict[str, str] = {
    "add-deltas": "{feats} ark:{out}",
    "add-deltas-sdc": "{feats} ark:{out}",
    "ali-to-pdf": "{mono} {ali} ark:{out}",
    "ali-to-phones": "{mono} {ali} ark:{out}",
    "ali-to-phones --ctm-output": "--ctm-output {mono} {ali} {out}",
    "ali-to-phones --per-frame": "--per-frame {mono} {ali} ark:{out}",
    "ali-to-phones --write-lengths": "--write-lengths {mono} {ali} ark,t:{out}",
    "ali-to-post": "{ali} ark:{out}",
    "append-post-to-feats": "--post-dim=4 {feats} {post} ark:{out}",
    "append-vector-to-feats": "{feats} {vectors} ark:{out}",
    "apply-cmvn": "{stats} {feats} ark:{out}",
    "apply-cmvn-online": "{global_stats} {feats} ark:{out}",
    "apply-cmvn-online --spk2utt": "--spk2utt={spk2utt} {global_stats} {feats} ark:{out}",
    "apply-cmvn-sliding": "{feats} ark:{out}",
    "compare-feats": "{feats} {feats}",
    "compose-transforms": "{transforms} {transforms} ark:{out}",
    "compute-and-process-kaldi-pitch-feats": "{wav} ark:{out}",
    "compute-cmvn-stats": "{feats} ark:{out}",
    "compute-cmvn-stats-two-channel": "{calls} {sides} ark:{out}",
    "compute-eer": "{scores}",
    "compute-fbank-feats": "--dither=0 --num-mel-bins=80 {wav} ark,scp:{out},{out}.scp",
    "compute-kaldi-pitch-feats": "{wav} ark:{out}",
    "compute-mfcc-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-plp-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-spectrogram-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-vad": "{feats} ark:{out}",
    "concat-feats": "{one} {one} {out}",
    "convert-ali": "{mono} {tri} {tree} {ali} ark:{out}",
    "convert-ali --frame-subsampling-factor": "--frame-subsampling-factor=3 {mono} {tri} {tree} {ali} ark:{out}",
    "copy-feats": "{feats} ark,scp:{out},{out}.scp",
    "copy-feats --compress": "--compress=true {feats} ark,scp:{out},{out}.scp",
    "copy-feats to text": "{feats} ark,t:{out}",
    "copy-feats-to-htk": "--output-dir={folder} {feats}",
    "copy-feats-to-sphinx": "--output-dir={folder} {feats}",
    "copy-gselect": "{gselect} ark:{out}",
    "copy-gselect --n": "--n=5 {gselect} ark:{out}",
    "copy-int-vector": "{ints} ark:{out}",
    "copy-matrix": "{feats} ark:{out}",
    "copy-post": "{post} ark:{out}",
    "copy-transition-model": "{tri} {out}",
    "copy-tree": "{tree} {out}",
    "copy-vector": "{vectors} ark:{out}",
    "extend-transform-dim": "--new-dimension=20 {transforms} ark:{out}",
    "extract-feature-segments": "--min-segment-length=0.01 {feats} {feature_segments} ark:{out}",
    "extract-segments": "--min-segment-length=0.01 {wav} {segments} ark:{out}",
    "feat-to-dim": "{feats} ark,t:{out}",
    "feat-to-len": "{feats} ark,t:{out}",
    "feat-to-post": "{feats} ark:{out}",
    "get-full-lda-mat": "{lda} {full_lda} {out}",
    "get-post-on-ali": "{tid_post} {ali} ark:{out}",
    "interpolate-pitch": "{pitch} ark:{out}",
    "ivector-mean": "{spk2utt} {vectors} ark:{out}",
    "ivector-mean of a table": "{vectors} {out}",
    "ivector-normalize-length": "{vectors} ark:{out}",
    "ivector-subtract-global-mean": "{vectors} ark:{out}",
    "matrix-dim": "{feats}",
    "matrix-sum": "{feats} {feats} ark:{out}",
    "matrix-sum of a table": "{stats} {out}",
    "matrix-sum-rows": "{feats} ark:{out}",
    "modify-cmvn-stats": "0:1 {stats} ark:{out}",
    "multiply-vectors": "{vad} {vad} ark:{out}",
    "paste-feats": "{feats} {feats} ark:{out}",
    "paste-vectors": "{vectors} {vectors} ark:{out}",
    "post-to-feats": "--post-dim=4 {post} ark:{out}",
    "post-to-pdf-post": "{mono} {tid_post} ark:{out}",
    "post-to-weights": "{tid_post} ark:{out}",
    "process-kaldi-pitch-feats": "{pitch} ark:{out}",
    "process-pitch-feats": "{pov_pitch} ark:{out}",
    "scale-post": "{tid_post} 0.5 ark:{out}",
    "select-feats": "0-5,8,12 {feats} ark:{out}",
    "select-voiced-frames": "{feats} {vad} ark:{out}",
    "shift-feats": "--shift=2 {feats} ark:{out}",
    "show-alignments": "{phones} {mono} {ali}",
    "show-transitions": "{phones} {tri}",
    "splice-feats": "{feats} ark:{out}",
    "subsample-feats": "--n=3 {feats} ark:{out}",
    "subset-feats": "--n=1000000 {feats} ark:{out}",
    "sum-post": "{tid_post} {tid_post} ark:{out}",
    "sum-post --merge=false": "--merge=false {tid_post} {post} ark:{out}",
    "transform-feats": "{matrix} {feats} ark:{out}",
    "transform-vec": "{lda_vectors} {vectors} ark:{out}",
    "vector-sum": "{vad} {vad} ark:{out}",
    "vector-sum of a table": "{vectors} {out}",
    "wav-copy": "{wav} ark:{out}",
    "wav-reverberate": "--impulse-response={rir} {one_wav} {out}",
    "wav-to-duration": "{headers} ark,t:{out}",
    "weight-post": "{tid_post} {vad} ark:{out}",
    "weight-silence-post": "0.1 1:2:3 {mono} {tid_post} ark:{out}",
    "weight-silence-post --distribute": "--distribute 0.1 1:2:3 {mono} {tid_post} ark:{out}",
}
# Programs of single files.
SINGLE = ("concat-feats", "compute-eer", "copy-transition-model", "copy-tree", "get-full-lda-mat")
SINGLE += ("show-transitions", "wav-reverberate")
# Files that commands read in addition to tables. Commands on empty tables also read them.
BESIDE = ("matrix", "lda_vectors", "global_stats", "mono", "tri", "tree", "phones")
STARTED = ("copy-feats", "feat-to-len", "compute-fbank-feats", "compute-kaldi-pitch-feats")
PHONES, STATES, PHONE_FRAMES = 40, 3, 9  # Phones of the models, states of a phone, and mean frames of a phone.


def get_program(name: str) -> str:
    return name.split(" ")[0]


def write_long_audio(folder: Path, like: Path) -> Path:
    """Write one file of two hours and return a script file."""
    samples = np.concatenate([wave.samples for _, wave in io_ark.SequentialReader(f"scp:{like}", kind="wave")], axis=1)
    samples = np.resize(samples, (1, LONG_HOURS * 3600 * RATE))
    io_ark.save(f"{folder}/long.wav", Wave(RATE, samples), kind="wave")
    (folder / "wav.scp").write_text(f"utt0 {folder}/long.wav\n")
    return folder / "wav.scp"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def prepare(folder: Path, script: Path) -> dict[str, str]:
    """Make the tables that the commands read out of the audio in a script file, and return their specifiers by name."""
    tables = ("feats", "sides", "pitch", "pov_pitch", "stats", "vad", "post", "vectors", "ints", "transforms")
    tables += ("ali", "tid_post", "gselect", "spk2utt")
    names = {name: f"ark:{folder}/{name}.ark" for name in tables}
    names |= {"wav": f"scp:{script}", "calls": f"{folder}/calls", "segments": f"{folder}/segments"}
    names |= {"feature_segments": f"{folder}/feature_segments", "matrix": f"{folder}/lda.mat"}
    names |= {"rir": f"{folder}/rir.wav", "one_wav": f"{folder}/one.wav", "one": f"{folder}/one.mat"}
    names |= {"lda": f"{folder}/lda_rows.mat", "full_lda": f"{folder}/full_lda.mat"}
    names |= {name: f"{folder}/{name}" for name in (*BESIDE[1:], "scores")}
    names["headers"] = f"scp:{write_many_headers(folder, script)}"
    if (folder / "done").exists():
        return names
    prepare_models(names)
    run("compute-mfcc-feats", "--dither=0", names["wav"], f"ark,scp:{folder}/feats.ark,{folder}/feats.scp")
    run("compute-kaldi-pitch-feats", names["wav"], names["pitch"])
    run("compute-cmvn-stats", names["feats"], names["stats"])
    run("compute-vad", "--vad-energy-threshold=-100", names["feats"], names["vad"])
    with io_ark.Writer(names["pov_pitch"], kind="matrix") as pov_pitch:
        for key, pitch in io_ark.SequentialReader(names["pitch"], kind="matrix"):
            pov_pitch[key] = np.column_stack((pitch[:, 0].clip(0, 1), pitch[:, 1]))
    rng = np.random.default_rng(2)
    with (
        io_ark.Writer(names["sides"], kind="matrix") as sides,
        io_ark.Writer(names["post"], kind="posterior") as post,
        io_ark.Writer(names["vectors"], kind="vector") as vectors,
        io_ark.Writer(names["ints"], kind="int-vector") as ints,
        io_ark.Writer(names["transforms"], kind="matrix") as transforms,
        io_ark.Writer(names["ali"], kind="int-vector") as ali,
        io_ark.Writer(names["tid_post"], kind="posterior") as tid_post,
        io_ark.Writer(names["gselect"], kind="int-vector-vector") as gselect,
        io_ark.Writer(names["spk2utt"], kind="token-vector") as spk2utt,
        (folder / "calls").open("w") as calls,
        (folder / "segments").open("w") as segments,
        (folder / "feature_segments").open("w") as feature_segments,
    ):
        members: list[str] = []
        for number, (key, feats) in enumerate(io_ark.SequentialReader(names["feats"], kind="matrix")):
            classes = rng.integers(0, 4, len(feats)).tolist()
            post[key] = [[(label, 1.0)] for label in classes]
            ali[key] = make_random_alignment(len(feats), rng)
            ids = rng.integers(1, 2 * PHONES * STATES + 1, (len(feats), 3), np.int32)
            tid_post[key] = PosteriorArrays(
                np.full(len(feats), 3), ids.reshape(-1), rng.random(ids.size, np.float32)
            ).to_lists()
            gselect[key] = rng.integers(0, 2048, (len(feats), 20)).tolist()
            if number % 10 == 0 and members:
                spk2utt[members[0]], members = members, []
            members.append(key)
            vectors[key] = rng.standard_normal(100).astype(np.float32)
            ints[key] = np.array(classes, np.int32)
            transforms[key] = np.eye(13, dtype=np.float32)
            if number % 2 == 0:
                for side in "AB":
                    sides[f"{key}-{side}"] = feats + rng.standard_normal(feats.shape, np.float32)
                    calls.write(f"{key}-{side} call{number} {side}\n")
            end = len(feats) / 100
            segments.write(f"{key}-0 {key} 0 {end:.2f}\n")
            feature_segments.write(f"{key}-0 {key} 0 {end:.2f}\n")
        spk2utt[members[0]] = members
    run("matrix-sum", names["stats"], names["global_stats"])
    with (
        io_ark.SequentialReader(names["feats"], kind="matrix") as feats_reader,
        io_ark.SequentialReader(names["wav"], kind="wave") as wave_reader,
    ):
        feats = np.concatenate([feats for _, feats in itertools.islice(feats_reader, JOINED)])
        samples = np.concatenate([wave.samples for _, wave in itertools.islice(wave_reader, JOINED)], axis=1)
    io_ark.save(names["one"], feats, kind="matrix")
    io_ark.save(names["one_wav"], Wave(RATE, samples), kind="wave")
    io_ark.save(names["matrix"], np.eye(13, dtype=np.float32), kind="matrix")
    io_ark.save(names["lda"], rng.standard_normal((40, 440)).astype(np.float32), kind="matrix")
    io_ark.save(names["full_lda"], rng.standard_normal((440, 440)).astype(np.float32), kind="matrix")
    io_ark.save(names["lda_vectors"], rng.standard_normal((60, 101)).astype(np.float32), kind="matrix")
    scores = zip(rng.standard_normal(SHORT), rng.integers(0, 2, SHORT), strict=True)
    Path(names["scores"]).write_text("".join(f"{s + t:.5f} {'target' if t else 'nontarget'}\n" for s, t in scores))
    decay = np.exp(-np.arange(4000) / 400) * rng.standard_normal(4000) * 8000
    io_ark.save(f"{folder}/rir.wav", Wave(RATE, decay.astype(np.int16)[None]), kind="wave")
    (folder / "done").touch()
    return names


def write_many_headers(folder: Path, script: Path) -> Path:
    """Write a script file of at least :data:`HEADERS` lines, which names each file as often as needed."""
    lines = script.read_text().splitlines(keepends=True)
    times = -(-HEADERS // len(lines)) if len(lines) > 1 else 1
    path = folder / "headers.scp"
    path.write_text(
        "".join(f"{line.partition(' ')[0]}-{i} {line.partition(' ')[2]}" for i in range(times) for line in lines)
    )
    return path


def prepare_models(names: dict[str, str]) -> None:
    """Write a model of monophones, and a model and a tree of triphones with four contexts on each side."""
    states = tuple(HmmState(i, i, ((i, 0.75), (i + 1, 0.25))) for i in range(STATES))
    topology = HmmTopology.of(dict.fromkeys(range(1, PHONES + 1), (*states, HmmState())))
    number = itertools.count()
    pdfs: list[tuple[int, int, int, int]] = []

    def leaf(phone: int, state: int) -> Leaf:
        pdf = next(number)
        pdfs.append((phone, state, pdf, pdf))
        return Leaf(pdf)

    def asked(position: int, child: Callable[[], EventMap]) -> EventMap:
        quarters = [tuple(range(begin, begin + 10)) for begin in (1, 11, 21)]
        node = child()
        for quarter in quarters:
            node = Split(position, quarter, child(), node)
        return node

    def of_phone(phone: int) -> EventMap:
        of_states = (asked(0, lambda s=s: asked(2, lambda: leaf(phone, s))) for s in range(STATES))
        return Table(PDF_CLASS, tuple(of_states))

    root = Table(1, (None, *map(of_phone, range(1, PHONES + 1))))
    mono = ((phone + 1, s, STATES * phone + s, STATES * phone + s) for phone in range(PHONES) for s in range(STATES))
    io_ark.save(names["tree"], ContextDependency(3, 1, root))
    io_ark.save(names["mono"], TransitionModel.of(topology, mono))
    io_ark.save(names["tri"], TransitionModel.of(topology, pdfs))
    symbols = ("<eps> 0", *(f"P{phone} {phone}" for phone in range(1, PHONES + 1)))
    Path(names["phones"]).write_text("".join(f"{line}\n" for line in symbols))


def make_random_alignment(frames: int, rng: np.random.Generator) -> np.ndarray:
    """Return the transition-ids of random phones, with the self-loops after the other transition of each state."""
    count = max(frames // PHONE_FRAMES, 1)
    phones = rng.integers(0, PHONES, count)
    lengths = 1 + rng.multinomial(frames - STATES * count, np.full(STATES * count, 1 / (STATES * count)))
    states = np.repeat((STATES * phones[:, None] + np.arange(STATES)).reshape(-1), lengths)
    ids = 2 * states + 1
    ids[np.cumsum(lengths) - lengths] += 1
    return ids.astype(np.int32)


@dataclass
class Best:
    """The least processor time of some runs in seconds, and the most memory in MiB."""

    seconds: float = float("inf")
    memory: int = 0
    runs: int = 0


class FailedError(Exception):
    """A program failed."""


def run_once(command: list[str], environment: dict[str, str], best: Best, *, may_fail: bool) -> float:
    """Run a command on one core, update ``best``, and return the wall clock time in seconds.

    Raises:
        FailedError: the command failed, and ``may_fail`` is False.
    """
    started = time.monotonic()
    # The peak memory of a new process includes the memory of its parent, so the small program `time` is the parent.
    line = ["taskset", "-c", "0", "/usr/bin/time", "-f", "%M", *command]
    child = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert child.stderr is not None
    log = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status and not may_fail:
        raise FailedError(f"{' '.join(command)}: {log.decode(errors='replace')[-500:]}")
    best.seconds = min(best.seconds, usage.ru_utime + usage.ru_stime)
    best.memory = max(best.memory, int(log.split()[-1]) // 1024)
    best.runs += 1
    return time.monotonic() - started


def measure_in_turns(
    programs: list[str], arguments: str, names: dict[str, str], runs: int, seconds: float, *, may_fail: bool = False
) -> list[Best]:
    """Measure programs in turns, up to ``runs`` times or until ``seconds`` have passed, but once at least."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # A user's programs are compiled to bytecode once.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    fastest = [Best() for _ in programs]
    passed = 0.0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as folder:
        filled = arguments.format(out=f"{folder}/out", folder=folder, **names).split()
        for _ in range(runs):
            for program, best in zip(programs, fastest, strict=True):
                passed += run_once([program, *filled], environment, best, may_fail=may_fail)
            if passed >= seconds:
                break
    return fastest


def start_up(programs: list[str], arguments: str, names: dict[str, str], empty: Path, runs: int) -> list[float]:
    """Return the processor time of programs on empty tables."""
    if Path(programs[0]).name in SINGLE:
        arguments = "--help"
    nothing = {
        name: value if name in BESIDE else str(empty) if ":" not in value else f"{value.split(':')[0]}:{empty}"
        for name, value in names.items()
    }
    return [best.seconds for best in measure_in_turns(programs, arguments, nothing, runs, float("inf"), may_fail=True)]


def find_our_program(name: str) -> str:
    """Return the path of our program in this Python's environment, or on PATH."""
    of_environment = Path(sys.executable).with_name(name)
    path = str(of_environment) if of_environment.exists() else shutil.which(name)
    return path or sys.exit(f"{name} is not installed: run pip install -e . first")


def find_kaldi_program(name: str, folder: Path | None) -> str | None:
    """Return the path of Kaldi's own program, or None. Scripts, such as our programs, are skipped."""
    places = [folder] if folder else map(Path, os.environ["PATH"].split(":"))
    for place in places:
        path = shutil.which(name, path=str(place))
        if path and Path(path).read_bytes()[:2] != b"#!":
            return path
    return None


@dataclass
class Row:
    """Processor time and memory of one command on one set of data, without start-up.

    Attributes:
        ours, kaldi: processor time in seconds; Kaldi's is NaN if it was not measured.
        memory, kaldi_memory: peak memory in MiB; Kaldi's is 0 if it was not measured.
        runs: number of rounds that were measured.
    """

    ours: float
    kaldi: float
    memory: int
    kaldi_memory: int
    runs: int

    @property
    def cells(self) -> list[str]:
        """Return our seconds and Kaldi's in the format of the table."""
        if not max(self.ours, self.kaldi) >= CLOCK:
            return [f"<{CLOCK}"] * 2
        return ["" if seconds != seconds else f"{max(seconds, CLOCK / 2):.3f}" for seconds in (self.ours, self.kaldi)]


class Measurement:
    """Measures rows of one set of data.

    Args:
        chosen: the options of the command line.
        work: the work directory.
    """

    def __init__(self, chosen: argparse.Namespace, work: Path) -> None:
        self._chosen, self._work = chosen, work
        self.start_up: dict[str, list[float]] = {}

    def row(self, name: str, names: dict[str, str]) -> Row:
        """Measure one command."""
        chosen, program, arguments = self._chosen, get_program(name), COMMANDS[name]
        own = find_kaldi_program(program, chosen.kaldi)
        programs = [find_our_program(program)] + ([own] if own else [])
        if name not in self.start_up:
            self.start_up[name] = start_up(programs, arguments, names, self._work / "empty", chosen.runs)
        timings = measure_in_turns(programs, arguments, names, chosen.runs, chosen.seconds)
        work = [best.seconds - before for best, before in zip(timings, self.start_up[name], strict=True)]
        memory = [best.memory for best in timings]
        return Row(*(work if own else (*work, float("nan"))), *(memory if own else (*memory, 0)), timings[0].runs)


def prepare_tables(work: Path, data: str) -> dict[str, str]:
    """Make the tables of a set of data, such as "short", unless they exist. Return their specifiers by name."""
    typical = repeat(make(work / "corpus"), 4)
    folder = work / f"tables_{data}"
    folder.mkdir(exist_ok=True)
    if data == "typical":
        return prepare(folder, typical)
    script = folder / "wav.scp"
    if not (folder / "done").exists():
        script = write_short_pieces(folder, typical, SHORT) if data == "short" else write_long_audio(folder, typical)
    return prepare(folder, script)


def figures(results: dict[str, dict[str, Row]]) -> Figures:
    """Return the rows as the table of the pages."""
    columns = [column for data in DATA for column in (f"{data}: s", f"{data}, Kaldi: s")]
    rows = []
    for name in COMMANDS:
        measured_rows = [results.get(data, {}).get(name) for data in DATA]
        cells = [cell for row in measured_rows for cell in (row.cells if row else ["", ""])]
        last = measured_rows[-1]
        memory = [str(last.memory), str(last.kaldi_memory or "")] if last else ["", ""]
        # Without a time that is long enough to compare, a row shows only the memory of starting a program.
        if any(cell and not cell.startswith("<") for cell in cells):
            rows.append([name, *cells, *memory])
    ratios = [[f"{data}: times", f"{data}, Kaldi: s", f"{data}: s"] for data in DATA]
    return Figures(COMMAND, ["program", *columns, "long: MiB", "long, Kaldi: MiB"], rows, ratios)


def main() -> None:
    """Measure the programs, and print the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--kaldi", type=Path, help="directory of Kaldi's own programs")
    parser.add_argument("--work", type=Path, help="keep the data and the results here between runs")
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=DATA, help="sets of data")
    parser.add_argument("--only", nargs="*", default=[""], help="only programs whose name contains one of these")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each program at most")
    parser.add_argument("--seconds", type=float, default=3.0, help="no further round of a program after this time")
    parser.add_argument("--again", action="store_true", help="measure rows of which there are results, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        (work / "empty").write_bytes(b"")
        results_file = work / "results.json"
        stored = json.loads(results_file.read_text()) if results_file.exists() else {}
        results = {data: {name: Row(**row) for name, row in rows.items()} for data, rows in stored.items()}
        measurement = Measurement(chosen, work)
        failed: list[str] = []
        for data in chosen.data:
            of_data = results.setdefault(data, {})
            selected = [name for name in COMMANDS if any(part in name for part in chosen.only)]
            selected = [name for name in selected if chosen.again or name not in of_data]
            if selected:
                names = prepare_tables(work, data)
            for name in selected:
                try:
                    row = of_data[name] = measurement.row(name, names)
                except FailedError as error:
                    failed.append(f"{data}: {error}")
                    print(f"{data:8} {name:40} failed", flush=True)
                    continue
                results_file.write_text(
                    json.dumps({d: {n: asdict(r) for n, r in rows.items()} for d, rows in results.items()})
                )
                print(f"{data:8} {name:40} {row.ours:8.3f} s {row.kaldi:8.3f} s {row.memory:6} MiB "
                      f"{row.kaldi_memory:6} MiB {row.runs} runs", flush=True)  # fmt: skip
    report("every-program", figures(results))
    if measurement.start_up.keys() >= set(STARTED):
        columns = ["program on an empty table", "ours: s", *(["Kaldi: s"] if chosen.kaldi else [])]
        rows = [[name, *(f"{seconds:.3f}" for seconds in measurement.start_up[name])] for name in STARTED]
        report("start-up", Figures(COMMAND, columns, rows))
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
