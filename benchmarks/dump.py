"""The bulk dump against a pipe of our programs, and against kaldi-native-fbank with kaldiio in a process pool.

python benchmarks/dump.py [--hours 4] [--jobs N] [--runs 3] [--work DIR]          on the CPU, whole processes
python benchmarks/dump.py --short 100000 [--jobs N] [--runs 3] [--work DIR]       utterances of 0.1 s, in an archive

All contestants compute 80 mel bins without dithering from WAV files in the page cache, on as many processes as --jobs
says, and write compressed archives; they run in turn, --runs times. Printed are medians: wall clock, hours of audio a
minute, the same for a minute of processor time, which a busy machine changes less; and the stage that bounds the dump.

With --short: the dump alone, in utterances a second, and the processor time of an utterance.

gpu_dump.py dumps on a GPU, and resident.py computes features of audio that is already there.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpus import SECONDS, make, write_short_pieces
from figures import Table, report
from measuring import make_parser, measure_core_seconds

PEERS = Path(__file__).parent / "peers"
CONF = "--num-mel-bins=80\n--dither=0\n"
COMPUTE = "compute-fbank-feats --config={conf} scp:{script} ark:-"
PIPE = COMPUTE + " | copy-feats --compress=true ark:- ark,scp:{out}.ark,{out}.scp"


def prepare(work: Path, hours: int, jobs: int) -> Path:
    """Return a data directory with ``hours`` of audio, whose wav.scp is also divided into one file for each job."""
    data = work / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    once = make(work / "corpus").read_text().splitlines(keepends=True)
    lines = [f"{copy:04d}-{line}" for copy in range(hours) for line in once]
    (data / "wav.scp").write_text("".join(lines))
    (work / "fbank.conf").write_text(CONF)
    for job in range(jobs):
        (work / f"part{job}.scp").write_text("".join(lines[len(lines) * job // jobs : len(lines) * (job + 1) // jobs]))
    return data


def measure_our_dump(data: Path, work: Path, jobs: int, *more: str) -> tuple[float, str]:
    """Return the seconds of a dump, and the name of the slowest stage."""
    code = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
    line = ["dump", "fbank", str(data), f"--conf={work / 'fbank.conf'}", f"--nj={jobs}", *more]
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if result.returncode:
        sys.exit(result.stderr)
    match = re.search(r"bound by: (\w+)", result.stderr)
    return seconds, match[1] if match else ""


def measure_together(commands: list[str]) -> float:
    """Start all shell commands at once, and return the seconds until the last one has ended."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    start = time.perf_counter()
    running = [
        subprocess.Popen(command, shell=True, stderr=subprocess.DEVNULL, env=environment) for command in commands
    ]
    if any(process.wait() for process in running):
        sys.exit(f"failed: {commands[0]}")
    return time.perf_counter() - start


@dataclass(frozen=True)
class Run:
    """Measurement of a run: wall clock, processor time of all its processes, and the limiting stage."""

    seconds: float
    core_seconds: float
    bound: str


def compare_on_cpu(work: Path, hours: int, jobs: int, runs: int) -> None:
    """Print a table of the contestants."""
    data = prepare(work, hours, jobs)

    def pipes() -> tuple[float, str]:
        parts = [{"script": work / f"part{job}.scp", "out": work / f"out{job}"} for job in range(jobs)]
        return measure_together([PIPE.format(conf=work / "fbank.conf", **part) for part in parts]), ""

    def native() -> tuple[float, str]:
        program = f"{sys.executable} {PEERS / 'native_fbank.py'}"
        return measure_together([f"{program} {work}/part{job}.scp {work}/native{job}.ark 0" for job in range(jobs)]), ""

    def measured(contest: Callable[[], tuple[float, str]]) -> Run:
        before = measure_core_seconds()
        seconds, bound = contest()
        return Run(seconds, measure_core_seconds() - before, bound)

    contestants: dict[str, Callable[[], tuple[float, str]]] = {
        "kaldi-native-fbank + kaldiio, uncompressed": native,
        "our programs in a pipe": pipes,
        "kaldi-compat dump": lambda: measure_our_dump(data, work, jobs),
    }
    rounds = [{name: measured(contest) for name, contest in contestants.items()} for _ in range(runs)]
    rows = []
    for name in contestants:
        seconds = statistics.median(measured_round[name].seconds for measured_round in rounds)
        cores = statistics.median(measured_round[name].core_seconds for measured_round in rounds)
        minutes = SECONDS * hours / 60
        rows.append([name, f"{seconds:.2f}", f"{minutes / seconds:.1f}", f"{minutes / cores:.1f}"])
    columns = ["program", "seconds", "hours of audio per minute", "hours of audio per minute of processor time"]
    report("dump", Table(f"python benchmarks/dump.py --hours {hours} --jobs {jobs} --runs {runs}", columns, rows))
    print("bound by:", rounds[-1]["kaldi-compat dump"].bound)


def measure_short_utterances(work: Path, count: int, jobs: int, runs: int) -> None:
    """Print the time of a dump of many short utterances."""
    data = work / "short"
    data.mkdir(parents=True, exist_ok=True)
    write_short_pieces(data, make(work / "corpus"), count)
    (work / "fbank.conf").write_text(CONF)
    seconds, cores = [], []
    for _ in range(runs):
        before = measure_core_seconds()
        seconds.append(measure_our_dump(data, work, jobs)[0])
        cores.append(measure_core_seconds() - before)
    wall, used = statistics.median(seconds), statistics.median(cores)
    row = [f"{count:,}", f"{wall:.2f}", f"{count / wall:,.0f}", f"{1e6 * used / count:.0f}"]
    columns = ["utterances of 0.1 s", "seconds", "utterances a second", "processor time of an utterance: µs"]
    command = f"python benchmarks/dump.py --short {count} --jobs {jobs} --runs {runs}"
    report("dump-short", Table(command, columns, [row]))


def main() -> None:
    """Measure dumps, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--hours", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keep the audio here between runs")
    parser.add_argument("--short", type=int, default=0, help="number of short utterances")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = (chosen.work or Path(scratch)).absolute()
        if chosen.short:
            measure_short_utterances(work, chosen.short, chosen.jobs, chosen.runs)
        else:
            compare_on_cpu(work, chosen.hours, chosen.jobs, chosen.runs)


if __name__ == "__main__":
    main()
