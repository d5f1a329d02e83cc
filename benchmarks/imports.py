"""Cost of imports: processor time and peak memory of a process, minus the cost of a process that imports NumPy only.

    python benchmarks/imports.py [--runs 15] [--record]

The statements take turns. Each runs in a new process, and the least cost counts. Bytecode is compiled beforehand.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
from pathlib import Path

from figures import Table, report
from measuring import make_parser

ROOT = Path(__file__).parents[1]
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/imports.py"
BASES = {"numpy": "import numpy", "Python": "pass"}
STATEMENTS = {
    "`import io_ark`": ("Python", "import io_ark"),
    "`from io_ark import load_scp, read, writer`": ("numpy", "from io_ark import load_scp, read, writer"),
    "`import kaldi_compat.numpy`": ("numpy", "import kaldi_compat.numpy"),
    "`Fbank(dither=0)` of a second of audio": (
        "numpy",
        "from kaldi_compat.numpy import Fbank; Fbank(dither=0)(numpy.zeros(16000, 'f4'))",
    ),
    "`import kaldi_native_fbank`": ("Python", "import kaldi_native_fbank"),
}
MEASURED = "; import time; print(time.process_time(), *open('/proc/self/status').read().split('VmHWM:')[1].split()[:1])"


def measure_cost(code: str) -> tuple[float, float]:
    """Run a statement in a new process, and return its processor time in milliseconds and its peak memory in MiB."""
    done = subprocess.run([sys.executable, "-c", code + MEASURED], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, kilobytes = done.stdout.split()
    return 1e3 * float(seconds), int(kilobytes) / 1024


def main() -> None:
    """Measure the statements, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    for package in ("io_ark", "kaldi_compat"):
        compileall.compile_dir(ROOT / package, quiet=1)
    codes = BASES | {
        name: ("import numpy; " if base == "numpy" else "") + code for name, (base, code) in STATEMENTS.items()
    }
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in codes}
    for _ in range(runs):
        for name, code in codes.items():
            costs[name].append(measure_cost(code))
    least = {
        name: [min(costs_of_runs) for costs_of_runs in zip(*rounds, strict=True)] for name, rounds in costs.items()
    }
    rows = []
    for name, (base, _) in STATEMENTS.items():
        milliseconds, megabytes = (mine - other for mine, other in zip(least[name], least[base], strict=True))
        rows.append([name, base, f"{max(milliseconds, 0):.0f}", f"{max(megabytes, 0):.1f}"])
    report("imports", Table(COMMAND, ["statement", "beyond", "processor time: ms", "memory: MiB"], rows))


if __name__ == "__main__":
    main()
