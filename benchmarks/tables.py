"""Processor time of every program on typical, short and long data, against Kaldi's programs.

    python benchmarks/tables.py --kaldi /path/to/kaldi/bin --work /tmp/corpus

Typical: 4 hours in 1,200 utterances. Short: 20,000 utterances of 0.1 s. Long: one utterance of 6 hours. Each command
runs on one core, and the time of the same command on an empty table (of ``--help`` for programs without tables) is
subtracted. Processor time (user and system) is compared, because other work on the machine disturbs it least.

Kaldi's programs are those of ``--kaldi``, or those on PATH that are not ours. Without them, their times are estimated
from ``kaldi_times.json``, which ``--record`` writes: they are scaled by the time that a peer, kaldiio, takes here and
took there to copy a table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from corpus import RATE, make, repeat

import io_ark
from io_ark.codecs.wave import Wave

RECORDED = Path(__file__).with_name("kaldi_times.json")
SHORT, LONG_HOURS = 20_000, 6

# Arguments of each program. {wav}, {feats}, {pitch} ... are tables of `kinds`; {out} is a new file.
COMMANDS: dict[str, str] = {
    "add-deltas": "{feats} ark:{out}",
    "add-deltas-sdc": "{feats} ark:{out}",
    "append-post-to-feats": "--post-dim=4 {feats} {post} ark:{out}",
    "append-vector-to-feats": "{feats} {vectors} ark:{out}",
    "apply-cmvn": "{stats} {feats} ark:{out}",
    "apply-cmvn-sliding": "{feats} ark:{out}",
    "compare-feats": "{feats} {feats}",
    "compose-transforms": "{transforms} {transforms} ark:{out}",
    "compute-and-process-kaldi-pitch-feats": "{wav} ark:{out}",
    "compute-cmvn-stats": "{feats} ark:{out}",
    "compute-cmvn-stats-two-channel": "{calls} {feats} ark:{out}",
    "compute-fbank-feats": "--dither=0 --num-mel-bins=80 {wav} ark,scp:{out},{out}.scp",
    "compute-kaldi-pitch-feats": "{wav} ark:{out}",
    "compute-mfcc-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-plp-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-spectrogram-feats": "--dither=0 {wav} ark,scp:{out},{out}.scp",
    "compute-vad": "{feats} ark:{out}",
    "concat-feats": "{files} {out}",
    "copy-feats": "{feats} ark,scp:{out},{out}.scp",
    "copy-feats --compress": "--compress=true {feats} ark,scp:{out},{out}.scp",
    "copy-feats to text": "{feats} ark,t:{out}",
    "copy-feats-to-htk": "--output-dir={folder} {feats}",
    "copy-feats-to-sphinx": "--output-dir={folder} {feats}",
    "copy-int-vector": "{ints} ark:{out}",
    "copy-matrix": "{feats} ark:{out}",
    "copy-post": "{post} ark:{out}",
    "copy-vector": "{vectors} ark:{out}",
    "extend-transform-dim": "--new-dimension=20 {transforms} ark:{out}",
    "extract-feature-segments": "--min-segment-length=0.01 {feats} {feature_segments} ark:{out}",
    "extract-segments": "--min-segment-length=0.01 {wav} {segments} ark:{out}",
    "feat-to-dim": "{feats} ark,t:{out}",
    "feat-to-len": "{feats} ark,t:{out}",
    "get-full-lda-mat": "{matrix} {matrix} {out}",
    "interpolate-pitch": "{pitch} ark:{out}",
    "modify-cmvn-stats": "0:1 {stats} ark:{out}",
    "multiply-vectors": "{vad} {vad} ark:{out}",
    "paste-feats": "{feats} {feats} ark:{out}",
    "paste-vectors": "{vectors} {vectors} ark:{out}",
    "post-to-feats": "--post-dim=4 {post} ark:{out}",
    "process-kaldi-pitch-feats": "{pitch} ark:{out}",
    "process-pitch-feats": "{voicing} ark:{out}",
    "select-feats": "0-5,8,12 {feats} ark:{out}",
    "select-voiced-frames": "{feats} {vad} ark:{out}",
    "shift-feats": "--shift=2 {feats} ark:{out}",
    "splice-feats": "{feats} ark:{out}",
    "subsample-feats": "--n=3 {feats} ark:{out}",
    "subset-feats": "--n=1000000 {feats} ark:{out}",
    "transform-feats": "{matrix} {feats} ark:{out}",
    "wav-copy": "{wav} ark:{out}",
    "wav-reverberate": "--impulse-response={rir} {one_wav} {out}",
    "wav-to-duration": "{wav} ark,t:{out}",
}
SINGLE = ("concat-feats", "get-full-lda-mat", "wav-reverberate")  # programs of single files


def program_of(name: str) -> str:
    return name.split(" ")[0]


def short_audio(folder: Path, like: Path) -> Path:
    """Write 20,000 pieces of about 0.1 s of some audio to an archive, and return the script file."""
    rng = np.random.default_rng(1)
    script = folder / "wav.scp"
    with io_ark.Writer("wave", f"ark,scp:{folder}/wav.ark,{script}") as writer:
        _, audio = next(iter(io_ark.SequentialReader("wave", f"scp:{like}")))
        for i in range(SHORT):
            count = int(rng.uniform(0.08, 0.12) * RATE)
            start = int(rng.integers(0, audio.samples.shape[1] - count))
            writer[f"utt{i:05d}"] = Wave(RATE, audio.samples[:, start : start + count])
    return script


def long_audio(folder: Path, like: Path) -> Path:
    """Write one file of six hours and return a script file."""
    samples = np.concatenate([wave.samples for _, wave in io_ark.SequentialReader("wave", f"scp:{like}")], axis=1)
    samples = np.resize(samples, (1, LONG_HOURS * 3600 * RATE))
    io_ark.write_object("wave", f"{folder}/long.wav", Wave(RATE, samples))
    (folder / "wav.scp").write_text(f"utt0 {folder}/long.wav\n")
    return folder / "wav.scp"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def prepare(folder: Path, script: Path) -> dict[str, str]:
    """Make the tables that the commands read from audio; return their specifiers by name."""
    names = {name: f"ark:{folder}/{name}.ark" for name in ("feats", "pitch", "stats", "vad", "post", "vectors", "ints")}
    names["transforms"] = f"ark:{folder}/transforms.ark"
    names["voicing"] = f"ark:{folder}/voicing.ark"
    names |= {"wav": f"scp:{script}", "calls": f"{folder}/calls", "segments": f"{folder}/segments"}
    names |= {"feature_segments": f"{folder}/feature_segments", "matrix": f"{folder}/lda.mat"}
    names |= {"rir": f"{folder}/rir.wav", "one_wav": f"{folder}/one.wav", "files": f"{folder}/one.mat {folder}/one.mat"}
    if (folder / "done").exists():
        return names
    run("compute-mfcc-feats", "--dither=0", names["wav"], f"ark,scp:{folder}/feats.ark,{folder}/feats.scp")
    run("compute-kaldi-pitch-feats", names["wav"], names["pitch"])
    with io_ark.Writer("matrix", names["voicing"]) as voicing:  # as of an older pitch tracker: a probability, no gaps
        for key, track in io_ark.SequentialReader("matrix", names["pitch"]):
            voicing[key] = np.abs(track).clip([0, 1], [1, 1000]).astype(np.float32) if len(track) else track
    run("compute-cmvn-stats", names["feats"], names["stats"])
    run("compute-vad", "--vad-energy-threshold=-100", names["feats"], names["vad"])
    rng = np.random.default_rng(2)
    with (
        io_ark.Writer("posterior", names["post"]) as post,
        io_ark.Writer("vector", names["vectors"]) as vectors,
        io_ark.Writer("int-vector", names["ints"]) as ints,
        io_ark.Writer("matrix", names["transforms"]) as transforms,
        (folder / "calls").open("w") as calls,
        (folder / "segments").open("w") as segments,
        (folder / "feature_segments").open("w") as feature_segments,
    ):
        for number, (key, feats) in enumerate(io_ark.SequentialReader("matrix", names["feats"])):
            classes = rng.integers(0, 4, len(feats)).tolist()
            post[key] = [[(each, 1.0)] for each in classes]
            vectors[key] = rng.standard_normal(100).astype(np.float32)
            ints[key] = np.array(classes, np.int32)
            transforms[key] = np.eye(13, dtype=np.float32)
            calls.write(f"{key} call{number // 2} {'AB'[number % 2]}\n")
            end = len(feats) / 100
            segments.write(f"{key}-0 {key} 0 {end:.2f}\n")
            feature_segments.write(f"{key}-0 {key} 0 {end:.2f}\n")
    key, feats = next(iter(io_ark.SequentialReader("matrix", names["feats"])))
    _, wave = next(iter(io_ark.SequentialReader("wave", names["wav"])))
    io_ark.write_object("matrix", f"{folder}/one.mat", feats)
    io_ark.write_object("matrix", f"{folder}/lda.mat", np.eye(13, dtype=np.float32))
    io_ark.write_object("wave", f"{folder}/one.wav", wave)
    decay = np.exp(-np.arange(4000) / 400) * rng.standard_normal(4000) * 8000
    io_ark.write_object("wave", f"{folder}/rir.wav", Wave(RATE, decay.astype(np.int16)[None]))
    (folder / "done").touch()
    return names


def measured(
    program: str, arguments: str, names: dict[str, str], runs: int, *, may_fail: bool = False
) -> tuple[float, int]:
    """Return the least processor time of some runs in seconds, and the most memory in MB."""
    least, most = float("inf"), 0
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # A user's programs are compiled to bytecode once.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as folder:
        command = f"{program} {arguments}".format(out=f"{folder}/out", folder=folder, **names).split()
        for _ in range(runs):
            with open(os.devnull, "w") as null:
                # A process starts with the memory of its parent on its account, so this one's parent is a small one.
                line = ["taskset", "-c", "0", "/usr/bin/time", "-f", "%M", *command]
                child = subprocess.Popen(line, stdout=null, stderr=subprocess.PIPE, env=environment)
                assert child.stderr is not None
                log = child.stderr.read()
                _, status, usage = os.wait4(child.pid, 0)
            if status and not may_fail:
                sys.exit(f"{' '.join(command)}: {log.decode()[-500:]}")
            least = min(least, usage.ru_utime + usage.ru_stime)
            most = max(most, int(log.split()[-1]) // 1024)
    return least, most


def start_up(program: str, arguments: str, names: dict[str, str], empty: Path, runs: int) -> float:
    """Return the processor time of a program on empty tables."""
    if Path(program).name in SINGLE:
        return measured(program, "--help", names, runs, may_fail=True)[0]
    nothing = {
        name: value if name == "matrix" else str(empty) if ":" not in value else f"{value.split(':')[0]}:{empty}"
        for name, value in names.items()
    }
    return measured(program, arguments, nothing, runs, may_fail=True)[0]


def peer_seconds(names: dict[str, str]) -> float:
    """Return the processor time of kaldiio copying the features."""
    code = "import kaldiio, sys; kaldiio.save_ark(sys.argv[2], dict(kaldiio.load_ark(sys.argv[1])))"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-c", code, names["feats"][4:], f"{folder}/out")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kaldi_program(name: str, folder: Path | None) -> str | None:
    """Return the path of Kaldi's own program."""
    places = [folder] if folder else map(Path, os.environ["PATH"].split(":"))
    for place in places:
        found = shutil.which(name, path=str(place))
        if found and Path(found).read_bytes()[:2] != b"#!":
            return found
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kaldi", type=Path, help="directory of Kaldi's own programs")
    parser.add_argument("--work", type=Path, help="keep the data here between runs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=["typical", "short", "long"])
    parser.add_argument("--only", default="", help="only programs whose name holds this")
    parser.add_argument("--record", action="store_true", help="write Kaldi's times to kaldi_times.json")
    chosen = parser.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    results: dict[str, dict[str, tuple[float, float, int, int]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        (work / "empty").write_bytes(b"")
        typical = repeat(make(work / "corpus"), 4)
        for data in chosen.data:
            folder = work / f"tables_{data}"
            folder.mkdir(exist_ok=True)
            known = folder / "wav.scp"
            makers = {"short": short_audio, "long": long_audio}
            script = typical if data == "typical" else known if known.exists() else makers[data](folder, typical)
            names = prepare(folder, script)
            peer = peer_seconds(names)
            for name, arguments in COMMANDS.items():
                if chosen.only not in name:
                    continue
                program = program_of(name)
                ours, memory = measured(program, arguments, names, chosen.runs)
                ours -= start_up(program, arguments, names, work / "empty", chosen.runs)
                theirs, its_memory = float("nan"), 0
                own = kaldi_program(program, chosen.kaldi)
                if own:
                    theirs, its_memory = measured(own, arguments, names, chosen.runs)
                    theirs -= start_up(own, arguments, names, work / "empty", chosen.runs)
                    recorded.setdefault(data, {})[name] = round(theirs / peer, 4)
                elif name in recorded.get(data, {}):
                    theirs = recorded[data][name] * peer
                results.setdefault(name, {})[data] = (ours, theirs, memory, its_memory)
                print(f"{data:8} {name:40} {ours:7.3f} {theirs:7.3f} {memory:6} MB {its_memory:6} MB", flush=True)
    if chosen.record:
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    print(f"\n| program | {' | '.join(f'{data}: s | times Kaldi' for data in chosen.data)} |")
    print("|---" * (1 + 2 * len(chosen.data)) + "|")
    for name, of_data in results.items():
        cells = [f"{of_data[d][0]:.2f} | {ratio(*of_data[d][:2])}" for d in chosen.data]
        print(f"| {name} | {' | '.join(cells)} |")


def ratio(ours: float, theirs: float) -> str:
    """Return how many times as fast as Kaldi, to what a clock of 10 ms can tell."""
    if not theirs > 0:
        return "" if theirs != theirs else "-"
    return f"{theirs / max(ours, 0.01):.2f}"


if __name__ == "__main__":
    main()
