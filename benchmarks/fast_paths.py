"""Measure whole programs with and without the C libraries (docs/concepts/fast_paths.md).

python benchmarks/fast_paths.py [--minutes 4] [--runs 3] [--work DIR] [--record]

The benchmark prints the least processor time of the runs, minus the start-up of the program, for audio in files of 1 s
and of 12 s. Programs that read features or copy audio get sixty times as much data. Programs run without C by
``KALDI_COMPAT_NATIVE=0``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from corpus import make
from figures import Table, report
from measuring import make_parser, measure_core_seconds

PREPARE = (
    "compute-mfcc-feats --dither=0 scp:wav.scp ark,scp:each.ark,each.scp",
    "for i in $(seq 10 69); do sed s/^/$i-/ each.scp; done | copy-feats scp:- ark,scp:mfcc.ark,mfcc.scp",
    "for i in $(seq 10 69); do sed s/^/$i-/ wav.scp; done > wavs.scp",
    "copy-feats --compress=true scp:mfcc.scp ark:cm.ark",
    "copy-feats --compress=true --compression-method=3 scp:mfcc.scp ark:cm2.ark",
    "copy-feats ark:mfcc.ark ark,t:text.ark",
    "compute-cmvn-stats scp:mfcc.scp ark,scp:cmvn.ark,cmvn.scp",
    "matrix-sum scp:cmvn.scp global.cmvn",
    "compute-kaldi-pitch-feats scp:wav.scp ark:pitch.ark",
    "compute-vad scp:mfcc.scp ark:vad.ark",
    "sort -r wav.scp | sed -n '1s/.* //p' > name; echo long $(cat name) > one.scp; echo room long 0 0.5 > segments",
    "extract-segments scp:one.scp segments ark:room.ark; wav-copy room.ark:5 room.wav",
)
# What is computed in C, and the program that shows it.
JOBS = {
    "fbank": "compute-fbank-feats --dither=0 --num-mel-bins=80 scp:wav.scp ark:/dev/null",
    "fbank, dithered": "compute-fbank-feats --num-mel-bins=80 scp:wav.scp ark:/dev/null",
    "MFCC": "compute-mfcc-feats --dither=0 scp:wav.scp ark:/dev/null",
    "PLP": "compute-plp-feats --dither=0 scp:wav.scp ark:/dev/null",
    "resampling": "compute-mfcc-feats --dither=0 --sample-frequency=8000 --allow-downsample scp:wav.scp ark:/dev/null",
    "pitch": "compute-kaldi-pitch-feats scp:wav.scp ark:/dev/null",
    "processed pitch": "process-kaldi-pitch-feats ark:pitch.ark ark:/dev/null",
    "interpolated pitch": "interpolate-pitch ark:pitch.ark ark:/dev/null",
    "deltas": "add-deltas ark:mfcc.ark ark:/dev/null",
    "splicing": "splice-feats ark:mfcc.ark ark:/dev/null",
    "sliding CMVN": "apply-cmvn-sliding ark:mfcc.ark ark:/dev/null",
    "online CMVN": "apply-cmvn-online global.cmvn ark:mfcc.ark ark:/dev/null",
    "CMVN statistics": "compute-cmvn-stats ark:mfcc.ark ark:/dev/null",
    "VAD": "compute-vad ark:mfcc.ark ark:/dev/null",
    "comparison": "compare-feats ark:mfcc.ark ark:mfcc.ark",
    "archives": "copy-feats ark:mfcc.ark ark:/dev/null",
    "script files": "copy-feats scp:mfcc.scp ark:/dev/null",
    "compression": "copy-feats --compress=true ark:mfcc.ark ark:/dev/null",
    "decompression, CM": "copy-feats ark:cm.ark ark:/dev/null",
    "decompression, CM2": "copy-feats ark:cm2.ark ark:/dev/null",
    "text, writing": "copy-feats ark:mfcc.ark ark,t:/dev/null",
    "text, reading": "copy-feats ark:text.ark ark:/dev/null",
    "vectors": "copy-vector ark:vad.ark ark,t:/dev/null",
    "wave files": "wav-copy scp:wavs.scp ark:/dev/null",
    "transforms": "transform-feats unit.mat ark:mfcc.ark ark:/dev/null",
    "reverberation": "for i in $(seq 10); do wav-reverberate --impulse-response=room.wav $(cat name) /dev/null; done",
}
# Programs in which keeping freed memory saves page faults, and how they run without it.
FREEING = {
    "splicing": ("splice_feats", "ark:mfcc.ark ark:/dev/null"),
    "feat-to-post": ("feat_to_post", "ark:mfcc.ark ark:/dev/null"),
}
RETURNING = "import kaldi_compat.cli.memory as memory; memory.keep_freed_memory = lambda: None; "


def measure_processor_time(command: str, folder: Path, native: bool) -> float:
    """Return the processor seconds of a command line."""
    before = measure_core_seconds()
    environment = os.environ | {"KALDI_COMPAT_NATIVE": "1" if native else "0", "OMP_NUM_THREADS": "1"}
    subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, check=True)
    return measure_core_seconds() - before


def main() -> None:
    """Measure the programs, and print the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.work or Path(temporary)).resolve()
        short = make(folder / "short", files=int(30 * chosen.minutes), seconds=30 * chosen.minutes)
        long = make(folder / "long", files=max(1, int(2.5 * chosen.minutes)), seconds=30 * chosen.minutes)
        lines = [f"{name}-{line}" for name, each in (("s", short), ("l", long)) for line in each.open()]
        (folder / "wav.scp").write_text("".join(sorted(lines)))
        unit = "\n".join(" ".join("1" if i == j else "0" for j in range(13)) for i in range(13))
        (folder / "unit.mat").write_text(f"[\n{unit} ]\n")
        for command in PREPARE:
            measure_processor_time(command, folder, native=True)
        start = min(
            measure_processor_time("copy-feats ark:/dev/null ark:/dev/null || true", folder, True) for _ in range(5)
        )
        rows = []
        for name, command in JOBS.items():
            fast, plain = (
                max(min(measure_processor_time(command, folder, native) for _ in range(chosen.runs)) - start, 0.01)
                for native in (True, False)
            )
            rows.append([name, f"{fast:.3f}", f"{plain:.3f}"])
        kept_rows = []
        for name, (module, arguments) in FREEING.items():
            kept_rows.append([name])
            for first in ("", RETURNING):
                first += f'import sys; sys.argv[0] = "{module}"; '  # The program takes its name from this.
                code = f"{first}from kaldi_compat.programs.{module} import main; raise SystemExit(main())"
                command = f"{sys.executable} -c '{code}' {arguments}"
                least = min(measure_processor_time(command, folder, native=True) for _ in range(chosen.runs))
                kept_rows[-1].append(f"{least - start:.3f}")
    command = f"python benchmarks/fast_paths.py --minutes {chosen.minutes:g} --runs {chosen.runs}"
    ratios = [["times faster", "without C: s", "with C: s"]]
    report("fast-paths", Table(command, ["program", "with C: s", "without C: s"], rows, ratios))
    ratios = [["times faster", "memory returned: s", "memory kept: s"]]
    report("freed-memory", Table(command, ["program", "memory kept: s", "memory returned: s"], kept_rows, ratios))


if __name__ == "__main__":
    main()
