"""Whole processes over four hours of audio: our feature programs against the peers, in turn, in one run.

python benchmarks/programs.py [--hours 4] [--runs 3] [--work DIR] [--kaldi DIR]

Each command runs `--runs` times, all commands in turn, files in the page cache, computing on one thread. Printed per
command: the median wall clock, times real time, and the median of the ratios to kaldi-native-fbank in the same round.
With --kaldi, the folder of Kaldi's own programs, they run too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpus import SECONDS, make, repeat

PEERS = Path(__file__).parent / "peers"
FBANK = "compute-fbank-feats --num-mel-bins=80 --dither={dither} scp:{script} ark:{out}"
FEATURES = {
    "MFCC": "compute-mfcc-feats --dither=0 scp:{script} ark:{out}",
    "PLP": "compute-plp-feats --dither=0 scp:{script} ark:{out}",
    "spectrogram": "compute-spectrogram-feats --dither=0 scp:{script} ark:{out}",
}


def commands(kaldi: Path | None, torchaudio: bool) -> dict[str, str]:
    """Name -> command line with {script} and {out}; kaldi-native-fbank first, since ratios are to it."""
    found = {
        "kaldi-native-fbank + kaldiio": f"{sys.executable} {PEERS}/native_fbank.py {{script}} {{out}} 0",
        "ours, fbank": FBANK.format(dither=0, script="{script}", out="{out}"),
        "ours, fbank, dithered": FBANK.format(dither=1, script="{script}", out="{out}"),
    }
    found |= {f"ours, {name}": command for name, command in FEATURES.items()}
    if torchaudio:
        found["torchaudio + kaldiio"] = f"{sys.executable} {PEERS}/torchaudio_fbank.py {{script}} {{out}} 0"
        found["torchaudio + kaldiio, dithered"] = f"{sys.executable} {PEERS}/torchaudio_fbank.py {{script}} {{out}} 1"
    if kaldi:
        for name in [each for each in found if each.startswith("ours")]:
            found[name.replace("ours", "Kaldi's program")] = f"{kaldi}/{found[name]}"
    return found


def timed(command: str, script: Path, out: Path, cores: int) -> float:
    """Wall clock of one run, in seconds."""
    line = command.format(script=script, out=out).split()
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(["taskset", "-c", f"0-{cores - 1}", *line], capture_output=True, env=environment)
    seconds = time.perf_counter() - start
    if result.returncode:
        sys.exit(f"{command}: {result.stderr.decode()[-500:]}")
    out.unlink()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keep the audio here between runs")
    parser.add_argument("--kaldi", type=Path, help="folder of Kaldi's own programs")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="processors each command may use")
    parser.add_argument("--only", default="", help="only commands whose name holds this, and the first")
    chosen = parser.parse_args()
    has_torchaudio = subprocess.run([sys.executable, "-c", "import torchaudio"], capture_output=True).returncode == 0
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        script = repeat(make(work / "corpus"), chosen.hours)
        wanted = commands(chosen.kaldi, has_torchaudio)
        first = next(iter(wanted))
        wanted = {name: command for name, command in wanted.items() if name == first or chosen.only in name}
        rounds = [
            {name: timed(command, script, work / "out.ark", chosen.cores) for name, command in wanted.items()}
            for _ in range(chosen.runs)
        ]
    audio = SECONDS * chosen.hours
    print(f"{audio:.0f} s of audio, {chosen.runs} rounds, {chosen.cores} core(s)")
    print(f"| {'command':34} | seconds | times real time | against kaldi-native-fbank |")
    print(f"|{'-' * 36}|---------|-----------------|----------------------------|")
    for name in wanted:
        seconds = statistics.median(each[name] for each in rounds)
        ratio = statistics.median(each[first] / each[name] for each in rounds)
        print(f"| {name:34} | {seconds:7.2f} | {audio / seconds:15.0f} | {ratio:26.2f} |")


if __name__ == "__main__":
    main()
