#!/usr/bin/env python3
"""Run the cases of the conformance kit with the programs found on PATH, and write the kit, or compare it with them.

usage: make.py [--check] [--every N]

With Kaldi's programs on PATH this makes the kit as it stands here. With those of this project it gives the same bytes:
``--check`` compares, all cases or every Nth, and exits 1 if one differs. See README.md for the files.
benchmarks/conformance/rounding.py adds how far Kaldi's values are from double precision.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import cases as asked  # noqa: E402
from cases import LEVELS, READ, WRITE, Array, Case, Flags  # noqa: E402

import io_ark  # noqa: E402

# What concerns files and logs, and options of which every vector has the same value.
NOT_ASKED = {
    "binary", "channel", "config", "debug-mel", "exclude", "help", "include", "max-feature-vectors", "max-warnings",
    "min-duration", "omit-unvoiced-utts", "output-format", "print-args", "spk2utt", "srand", "utt2spk", "verbose",
    "vtln-map", "weights", "write-utt2dur", "max-frames-latency", "nccf-ballast-online", "recompute-frame",
    "compress", "htk-in", "sphinx-in", "write-num-frames",
}  # fmt: skip
FIXED: Flags = {"dither": 0, "delta-pitch-noise-stddev": 0}
TYPES: dict[str, Any] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": float,
    "string": lambda text: text[1:-1],
}
COPIES = {"float-matrix": "copy-matrix", "float-vector": "copy-vector", "int32-vector": "copy-int-vector",
          "posterior": "copy-post", "double-matrix": "compute-cmvn-stats"}  # fmt: skip
Results = dict[str, Array]


def defaults(program: str) -> Flags:
    """Return Kaldi's options of a program that vectors name, with Kaldi's own defaults."""
    stored = json.loads((HERE.parent / "cases.json").read_text())
    [listed] = [case["options"] for case in stored if case["group"] == "flags" and case["id"] == program]
    found = {name: TYPES[kind](text) for name, kind, text in listed if name not in NOT_ASKED}
    return found | {name: value for name, value in FIXED.items() if name in found}


def options_of(case: Case) -> dict[str, Any]:
    """Return what a vector's ``options`` say: all of the program's, under Kaldi's names with underscores."""
    known = {} if case.program in (READ, WRITE) else defaults(case.program)
    values = known | case.flags | case.asked
    typed = {name: float(value) if isinstance(known.get(name), float) else value for name, value in values.items()}
    return {"program": case.program} | {name.replace("-", "_"): value for name, value in sorted(typed.items())}


def flag(name: str, value: Any) -> str:
    """Return an option as Kaldi's programs read it."""
    return f"--{name}={str(value).lower() if isinstance(value, bool) else value}"


def run(program: str, flags: Flags, *arguments: str, folder: Path) -> None:
    """Run a program in a folder."""
    fixed = {name: value for name, value in FIXED.items() if name in defaults(program)}
    flags = dict(flags)
    selection = [flags.pop("selection")] if "selection" in flags else []
    given = [flag(name, value) for name, value in (fixed | flags).items()]
    subprocess.run([program, *given, *selection, *arguments], cwd=folder, capture_output=True, timeout=120)


class Maker:
    """Runs cases. Their inputs, audio clips and features of clips, are made once.

    Args:
        folder: where the programs read and write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.clips = asked.clips()
        self.arrays = asked.arrays()
        self._known: dict[tuple[str, str], Results] = {}  # what a program gave for options and inputs
        for name, (rate, samples) in self.clips.items():
            with wave.open(str(folder / f"{name}.wav"), "wb") as file:
                file.setparams((1, 2, rate, len(samples), "NONE", ""))
                file.writeframes(samples.astype("<i2").tobytes())
        for name, program in (("mfcc", asked.MFCC), ("pitch", asked.PITCH)):
            for rate in (16000, 8000):
                clips = tuple(clip for clip in ("speech16k-a", "quiet8k", "long8k") if self.clips[clip][0] == rate)
                made = self.results(Case(2, program, clips, {"sample-frequency": rate}))
                self.arrays |= {f"{name}:{clip}": array for clip, array in made.items()}
        self.arrays["mfcc:one-frame"] = self.arrays["mfcc:speech16k-a"][:1]

    def results(self, case: Case) -> Results:
        """Return what a case gives for each of its inputs."""
        if case.program in (READ, WRITE):
            archives = self.archives(case)
            return self.read_back(case, archives) if case.program == READ else archives
        command = (case.program, repr((case.flags, case.inputs)))
        if command not in self._known:  # of streams, the same for all chunks
            self._known = {command: self._run(case.program, case.flags, case.inputs)}
        output = self._known[command]
        if missing := sorted(set(case.inputs) - set(output)):
            raise SystemExit(f"{case.program} {case.flags} gives nothing for {', '.join(missing)}")
        if case.asked.get("output") == "frames-ready":
            return {name: frames_ready(case, array) for name, array in output.items()}
        return output

    def _run(self, program: str, flags: Flags, names: Sequence[str]) -> Results:
        if program == "apply-cmvn":
            self._script(names)
            run("compute-cmvn-stats", {}, "ark:in.ark", "ark:stats.ark", folder=self._folder)
            run(program, flags, "ark:stats.ark", "ark:in.ark", "ark:out.ark", folder=self._folder)
            return self._read()
        if program == "apply-cmvn-online":  # statistics of the input itself stand for global ones
            made: Results = {}
            for name in names:
                self._script([name])
                run("compute-cmvn-stats", {}, "ark:in.ark", "global.mat", folder=self._folder)
                run(program, flags, "global.mat", "ark:in.ark", "ark:out.ark", folder=self._folder)
                made |= self._read()
            return made
        run(program, flags, self._script(names), "ark:out.ark", folder=self._folder)
        return self._read()

    def _script(self, names: Sequence[str]) -> str:
        """Write what a program reads, and return its rspecifier."""
        if names[0] in self.clips:
            lines = [f"{name} {name}.wav\n" for name in names]
            (self._folder / "in.scp").write_text("".join(lines))
            return "scp:in.scp"
        posteriors = names[0].startswith("post-")
        writer: Any = io_ark.writer(f"ark:{self._folder}/in.ark", kind="posterior" if posteriors else None)
        with writer:
            for name in names:
                writer[name] = as_posterior(self.arrays[name]) if posteriors else self.arrays[name]
        return "ark:in.ark"

    def _read(self, kind: Any = None) -> Results:
        file = self._folder / "out.ark"
        try:
            return dict(io_ark.read(f"ark:{file}", kind=kind))
        finally:
            file.unlink(missing_ok=True)

    def archives(self, case: Case) -> Results:
        """Return the bytes of an archive with each object alone."""
        program = "copy-feats" if case.flags.get("compress") else COPIES[case.asked["object"]]
        text = ",t" if case.flags.get("binary") is False else ""
        flags = {name: value for name, value in case.flags.items() if name != "binary"}
        made: Results = {}
        for name in case.inputs:
            run(program, flags, self._script([name]), f"ark{text}:out.ark", folder=self._folder)
            made[name] = np.frombuffer((self._folder / "out.ark").read_bytes(), np.uint8)
        return made

    def read_back(self, case: Case, archives: Results) -> Results:
        """Return the values of archives as Kaldi reads them."""
        kind = case.asked["object"]
        made: Results = {}
        for name, archive in archives.items():
            (self._folder / "in.ark").write_bytes(archive.tobytes())
            if kind == "double-matrix":
                (self._folder / "out.ark").write_bytes(archive.tobytes())
            else:
                run(COPIES[kind], {}, "ark:in.ark", "ark:out.ark", folder=self._folder)
            [value] = self._read("posterior" if kind == "posterior" else None).values()
            made[name] = as_rows(value) if kind == "posterior" else value
        return made


def as_posterior(rows: Array) -> Any:
    """Return a posterior of rows (frame, id, weight)."""
    return [[(int(i), float(w)) for t, i, w in rows if t == frame] for frame in range(int(rows[-1, 0]) + 1)]


def as_rows(posterior: Any) -> Array:
    """Return the rows (frame, id, weight) of a posterior."""
    return np.array([(frame, i, w) for frame, pairs in enumerate(posterior) for i, w in pairs], np.float32)


def frames_ready(case: Case, features: Array) -> Array:
    """Return how many frames are final after each chunk (Kaldi: NumFrames in feature-window.cc, without flush)."""
    rate = case.flags.get("sample-frequency", 16000)
    size, shift = (
        int(rate * 0.001 * case.flags.get("frame-length", 25)),
        int(rate * 0.001 * case.flags.get("frame-shift", 10)),
    )
    start = 0 if case.flags.get("snip-edges", True) else shift // 2 - size // 2
    ready = [max(0, (end - size - start) // shift + 1) for end in np.cumsum(case.asked["chunks"])]
    return np.array([*ready[:-1], len(features)], np.int32)


def vectors(folder: Path, every: int = 1) -> Iterator[tuple[Case, str, str, Array]]:
    """Run every Nth case; yield it, the name of an input, the vector's name, and what is expected."""
    maker = Maker(folder)
    count = dict.fromkeys(LEVELS, 0)
    for number, case in enumerate(asked.cases()):
        results = maker.results(case) if number % every == 0 else {}
        for name in case.inputs:
            count[case.level] += 1
            if name in results:
                yield case, name, f"{case.level}-{count[case.level]:04d}", results[name]


class Arrays:
    """Numbers of a level, by type, one after the other. Equal arrays are stored once."""

    def __init__(self) -> None:
        self._stored: dict[tuple[int, str], list[Array]] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], dict[str, Any]] = {}

    def add(self, level: int, array: Array) -> dict[str, Any]:
        """Store an array, and return what the kit says of it."""
        kind = (str(array.dtype), array.shape, array.tobytes())
        if kind not in self._known:
            parts = self._stored.setdefault((level, str(array.dtype)), [])
            place = {"file": f"level-{level}.{array.dtype}.npy", "offset": sum(part.size for part in parts)}
            self._known[kind] = place | {"shape": list(array.shape)}
            parts.append(array.ravel())
        return self._known[kind]

    def write(self, folder: Path) -> None:
        """Write the files."""
        for (level, kind), parts in self._stored.items():
            np.save(folder / f"level-{level}.{kind}.npy", np.concatenate(parts))


def make(kit: Path) -> None:
    """Write the kit."""
    store = Arrays()
    lines: dict[int, list[str]] = {level: [] for level in LEVELS}
    (kit / "audio").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        maker = Maker(folder)
        for name in maker.clips:
            (kit / "audio" / f"{name}.wav").write_bytes((folder / f"{name}.wav").read_bytes())
        for case, name, number, expected in vectors(folder):
            options = options_of(case)
            if case.program == READ:
                [archive] = maker.archives(Case(7, WRITE, (name,), case.flags, case.asked)).values()
                given = store.add(7, archive)
                options = {key: options[key] for key in ("program", "object")}  # a reader sees the rest
            elif name in maker.clips:
                given = {"file": f"audio/{name}.wav"}
            else:
                given = store.add(case.level, maker.arrays[name])
            options |= {"key": name} if case.program == WRITE else {}
            vector: dict[str, Any] = {
                "id": number,
                "options": options,
                "input": given,
                "expected": store.add(case.level, expected),
            }
            lines[case.level].append(json.dumps(vector, separators=(",", ":")))
    store.write(kit)
    for level, title in LEVELS.items():
        body = ",\n".join(lines[level])
        (kit / f"level-{level}.json").write_text(f'{{"level":{level},"title":"{title}","vectors":[\n{body}\n]}}\n')


def stale(kit: Path, every: int) -> list[str]:
    """Return the names of vectors that are not what the programs give now."""
    stored: dict[str, dict[str, Any]] = {}
    for level in LEVELS:
        stored |= {each["id"]: each for each in json.loads((kit / f"level-{level}.json").read_text())["vectors"]}
    files = {path.name: np.load(path) for path in kit.glob("*.npy")}
    seen: set[str] = set()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case, _, number, expected in vectors(Path(scratch), every):
            seen.add(number)
            place = stored.get(number, {}).get("expected")
            if place is None:
                wrong.append(number)
                continue
            flat = files[place["file"]][place["offset"] : place["offset"] + expected.size]
            same = list(expected.shape) == place["shape"] and flat.tobytes() == expected.tobytes()
            known = stored[number]["options"]
            if not same or any(options_of(case)[name] != value for name, value in known.items() if name != "key"):
                wrong.append(number)
    return wrong + (sorted(set(stored) - seen) if every == 1 else [])


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write the conformance kit, or compare it with the programs on PATH.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="compare every Nth case only")
    given = parser.parse_args()
    if not given.check:
        make(HERE)
        return 0
    wrong = stale(HERE, given.every)
    print("\n".join(wrong) if wrong else "the kit is what these programs give")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
