"""Run the call sites with the originals and with ours, each in a process of its own, and write the table.

``python -m packages.standins.tests.toolkits.run --sources DIR --bare PYTHON``: DIR holds a checkout of each repository
in repositories.py, and PYTHON is what scripts.py asks for. ``--check NAMES`` compares results only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_standins.replace import make_environment
from packages.standins.tests.toolkits import scripts
from packages.standins.tests.toolkits.calls import CALLS
from packages.standins.tests.toolkits.manifest import Call, Recording, load
from packages.standins.tests.toolkits.repositories import REPOSITORIES
from tests.support.frontend_audio import clips

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "migrating" / "repositories.md"
# A call is measured in turns of a process with the originals and one with ours, for a time of each recording. Calls
# whose times are close are measured again in new processes: where these lay their memory changes times by a tenth.
TURNS, SECONDS = 4, 0.005
CLOSE, REPEATED = 1.5, 2
# glibc returns large memory to the system or keeps it, as its earlier use happened to be; here it keeps it in both.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
LIBRARIES = ("torchaudio", "kaldi_native_fbank", "kaldifeat", "kaldiio", "kaldi_io")


def recordings() -> dict[str, tuple[int, Any]]:
    """Return sampling rates and samples (channels, T), int16."""
    found = {name: (16000, samples[None]) for name, samples in clips().items()}
    speech = found["speech"][1]
    return found | {
        "10ms": (16000, speech[:, 6000:6160]),
        "stereo": (16000, np.concatenate((speech, speech[:, ::-1]))),
        "8000 Hz": (8000, speech),
        "22050 Hz": (22050, speech),
    }


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each one that is missing, but the libraries in question; asked last."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        caller: Any = sys._getframe(1)
        while caller and "importlib" in caller.f_code.co_filename:
            caller = caller.f_back
        asked_by_project = caller and os.environ["TOOLKITS_SOURCES"] in os.path.realpath(caller.f_code.co_filename)
        if name.partition(".")[0] in LIBRARIES or not (asked_by_project or name.partition(".")[0] in self.made):
            return None
        self.made.add(name.partition(".")[0])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    made: set[str] = set()  # noqa: RUF012

    def create_module(self, spec: Any) -> Any:
        from reference_data.frontends.make import StandIn

        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


def prepare_libraries() -> None:
    """Give the originals what they lack here: kaldifeat, a reader of files, what later versions have removed."""
    if "KALDI_COMPAT_REPLACE" in os.environ:  # which has all of them
        return
    import soundfile
    import torch
    import torchaudio

    from packages.standins.tests.toolkits import kaldifeat_by_native_fbank
    from reference_data.frontends.make import StandIn

    sys.modules["kaldifeat"] = sys.modules["_kaldifeat"] = kaldifeat_by_native_fbank  # cannot be installed

    def read(
        path: str = "",
        frame_offset: int = 0,
        num_frames: int = -1,
        normalize: bool = True,
        filepath: str = "",
        **_: Any,
    ) -> Any:
        options: Any = {"dtype": "float32" if normalize else "int16", "start": frame_offset, "frames": num_frames}
        samples, rate = soundfile.read(path or filepath, always_2d=True, **options)
        return torch.from_numpy(np.ascontiguousarray(samples.T)), rate

    torchaudio.set_audio_backend = lambda _: None  # removed in torchaudio 2.9
    if not hasattr(torchaudio, "info"):  # removed in torchaudio 2.9, where `load` needs torchcodec
        torchaudio.load = read
        torchaudio.info = lambda path, **_: soundfile.info(path)
        soundfile._SoundFileInfo.sample_rate = property(lambda self: self.samplerate)
        torchaudio.utils.sox_utils = StandIn("sox_utils")


def prepare_process(sources: Path) -> None:
    """Prepare what the projects' files import: the libraries in question, and stand-ins for what is missing."""
    import torch

    os.environ["TOOLKITS_SOURCES"] = os.path.realpath(sources)
    if "KALDI_COMPAT_REPLACE" not in os.environ:
        sys.path.append(str(sources / "kaldi-io-for-python"))
    prepare_libraries()
    import kaldi_io  # noqa: F401
    import kaldifeat  # noqa: F401
    import kaldiio  # noqa: F401

    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    sys.meta_path.append(Missing())
    logging.disable()


def child(sources: Path) -> None:
    """Answer what the other process asks for: the results of a call, by its number, or its times ("seconds")."""
    import soundfile

    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the projects print
    prepare_process(sources)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        made = []
        for i, (name, (rate, pcm)) in enumerate(recordings().items()):
            soundfile.write(f"{folder}/{i}.wav", pcm.T, rate, subtype="PCM_16")
            made.append(Recording(name, rate, pcm, f"{folder}/{i}.wav"))
        compute, given = None, made
        while True:
            try:
                asked = pickle.load(requests)
            except EOFError:
                return
            if asked == "seconds":
                reply: Any = {each.name: seconds(compute, each) for each in given}
            else:
                call = CALLS[asked]
                try:
                    compute = load(call, sources)
                except (Exception, SystemExit) as error:
                    reply = f"{call.name} cannot be loaded: {type(error).__name__}: {error}"
                else:
                    reply = {each.name: result(compute, each) for each in made if each.rate == 16000 or call.any_rate}
                    given = [each for each in made if "arrays" in reply.get(each.name, ())]
            pickle.dump(reply, replies)
            replies.flush()


def result(compute: Any, recording: Any) -> dict[str, Any]:
    """Return the arrays of a call and how they lie in memory, or its error."""
    import torch

    try:
        with np.errstate(all="ignore"):
            value = compute(recording)
    except Exception as error:
        return {"error": [each.__name__ for each in type(error).__mro__], "text": f"{type(error).__name__}: {error}"}
    parts = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(part, np.ndarray | torch.Tensor) for part in parts):
        return {"error": ["Untested"], "text": f"a result without values: {[type(part).__name__ for part in parts]}"}
    described = [(type(part).__name__, str(part.dtype), tuple(part.shape), steps(part)) for part in parts]
    return {"arrays": [np.asarray(part) for part in parts], "types": described}


def seconds(compute: Any, recording: Any) -> float:
    """Return the best time of a turn."""
    best, begun = float("inf"), time.process_time()
    with np.errstate(all="ignore"):
        compute(recording)  # memory that the other measurement has returned is taken again
        while best == float("inf") or time.process_time() - begun < SECONDS:
            begin = time.process_time()
            compute(recording)
            best = min(best, time.process_time() - begin)
    return best


def steps(part: Any) -> tuple[int, ...]:
    """Return the strides of an array or tensor in elements, 0 for those that no element depends on."""
    strides = [each // part.itemsize for each in part.strides] if isinstance(part, np.ndarray) else part.stride()
    empty = 0 in part.shape
    return tuple(0 if empty or size == 1 else step for size, step in zip(part.shape, strides, strict=True))


def compare(call: Call, theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[float, list[str]]:
    """Return the largest difference of the results of a call, relative to values above 1, and what is wrong."""
    largest, wrong = 0.0, []
    for name in theirs.keys() - call.unlike.keys():
        expected, result = theirs[name], ours[name]
        if "error" in expected or "error" in result:
            if expected.get("error", [""])[0] not in result.get("error", ()):
                wrong.append(f"{name}: {expected.get('text', 'computed')} / {result.get('text', 'computed')}")
            continue
        if expected["types"] != result["types"]:
            wrong.append(f"{name}: {expected['types']} / {result['types']}")
            continue
        for a, b in zip(expected["arrays"], result["arrays"], strict=True):
            if a.size:
                difference = np.abs(np.float64(a) - b) / np.maximum(1, np.abs(a))
                same = np.isnan(a) & np.isnan(b) | (a == b)
                largest = max(largest, float(np.where(same, 0, difference).max()))
    if not largest <= call.tolerance:
        wrong.append(f"difference {largest:.2g}")
    return largest, wrong


Pair = tuple[dict[str, Any], dict[str, Any]]  # results of calls by the originals, and by ours


def totals(pairs: Sequence[Pair], name: str) -> tuple[list[float], ...]:
    """Return a call's time for all recordings that are computed, of the originals and of ours, by pair of processes."""
    have = [pair for pair in pairs if name in pair[0]]
    computed = [each for each in have[0][0][name] if all("seconds" in found[name][each] for found in have[0])]
    if not computed:
        return [], []
    return tuple([sum(pair[which][name][each]["seconds"] for each in computed) for pair in have] for which in (0, 1))


def is_within_noise(theirs: Sequence[float], ours: Sequence[float]) -> bool:
    """Return True for costs that differ by less than the costs of the same code in several processes differ."""
    best = sorted((min(theirs), min(ours)))
    return best[1] - best[0] <= max(max(each) - min(each) for each in (theirs, ours))


def is_close(pairs: Sequence[Pair], name: str) -> bool:
    """Return True for a call whose costs are nearer to each other than CLOSE."""
    theirs, ours = totals(pairs, name)
    return bool(theirs and ours) and max(*theirs, *ours) < CLOSE * min(*theirs, *ours)


def shown(costs: tuple[list[float], ...], scale: float, digits: int) -> str:
    """Return two cells of the table."""
    mark = "≈ " * (
        is_within_noise(*costs) and f"{min(costs[0]) * scale:.{digits}f}" != f"{min(costs[1]) * scale:.{digits}f}"
    )
    return " | ".join(f"{mark}{min(each) * scale:.{digits}f}" for each in costs)


def rows(pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Yield the library and the row of each call."""
    for call in CALLS:
        if call.name not in pairs[0][0]:
            continue
        name, _, path = call.file.partition("/")
        owner, commit = REPOSITORIES[name]
        expected, results = (found[call.name] for found in pairs[0])
        largest, wrong = compare(call, expected, results)
        computed = [each for each in expected if "arrays" in expected[each] and "arrays" in results[each]]
        if not computed:
            print(f"{call.name} is left out: {next(iter(expected.values()))['text']}")
            continue
        yield (
            call.library,
            f"| [{owner}/{name}](https://github.com/{owner}/{name}) {commit} | `{path}` | `{call.function}` | "
            f"{'; '.join(wrong) or f'{largest:.0e}'} | {shown(totals(pairs, call.name), 1e3, 2)} |",
        )


def measured(numbers: Sequence[int], sources: Path) -> Pair:
    """Return the results of calls by a process with the originals and one with ours, which take turns."""
    found: Pair = ({}, {})
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(started(sources, variables)) for variables in ({}, make_environment(LIBRARIES))
        ]
        for number in numbers:
            replies = [ask(process, number) for process in processes]
            wrong = [reply for reply in replies if isinstance(reply, str)]
            if wrong:
                print(*wrong, sep="\n")
                continue
            for turn in range(1 if CALLS[number].programs else TURNS):
                for which in (0, 1) if turn % 2 else (1, 0):
                    for name, cost in ask(processes[which], "seconds").items():
                        known = replies[which][name]
                        known["seconds"] = min(cost, known.get("seconds", cost))
            for each, reply in zip(found, replies, strict=True):
                each[CALLS[number].name] = reply
    return found


def check(numbers: Sequence[int], sources: Path) -> str | None:
    """Print how far each call is from the originals; return the names of those that differ by more than they may."""
    wrong_calls = []
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(started(sources, variables)) for variables in ({}, make_environment(LIBRARIES))
        ]
        for number in numbers:
            call, replies = CALLS[number], [ask(process, number) for process in processes]
            wrong = [reply for reply in replies if isinstance(reply, str)]
            largest, wrong = (0.0, wrong) if wrong else compare(call, *replies)
            wrong_calls += [call.name] * bool(wrong)
            print(call.name, "; ".join(wrong) or f"{largest:.0e}", sep=": ", flush=True)
    return f"differ: {', '.join(wrong_calls)}" if wrong_calls else None


@contextlib.contextmanager
def started(sources: Path, variables: dict[str, str]) -> Iterator[Any]:
    """Start a process that computes, with these variables."""
    memory = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").exists() else {}  # a disk's time is not that of the libraries
    path = os.pathsep.join(filter(None, [variables.get("PYTHONPATH", ""), str(ROOT)]))
    surroundings = {**os.environ, **variables, **memory, **MALLOC, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "packages.standins.tests.toolkits.run", "--sources", str(sources), "--child"]
    with subprocess.Popen(
        command, env=surroundings, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.stdin.close()


def ask(process: Any, request: int | str) -> Any:
    """Return a process's answer."""
    pickle.dump(request, process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


HEADER = """| repository | file | function | difference | original, ms | stand-in, ms |
| --- | --- | --- | --- | --- | --- |"""


def page(calls: Sequence[tuple[str, str]], scripts: Sequence[str]) -> str:
    """Return the page of the libraries and rows of calls, and of the rows of scripts."""
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    repositories = {row.split("]")[0] for _, row in calls}
    counts = {"repositories": len(repositories), "calls": len(calls), "scripts": len(scripts)}
    tables = []
    for library in LIBRARIES:
        lines = [f"### {library}", "", HEADER, *(row for name, row in calls if name == library)]
        tables.append("\n".join(lines))
    return template.format(**counts, calls_tables="\n\n".join(tables), scripts_table="\n".join(scripts))


def main() -> None:
    """Run both processes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--bare", help="an interpreter without the originals; needed for the page")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare results only, and fail if a call differs")
    parser.add_argument("names", nargs="*", help="regular expressions for repository/path:function; all by default")
    given = parser.parse_args()
    if given.child:
        child(given.sources)
        return
    chosen = [
        i for i, call in enumerate(CALLS) if not given.names or any(re.search(name, call.name) for name in given.names)
    ]
    if given.check:
        raise SystemExit(check(chosen, given.sources) if chosen else "no such call")
    pairs = [measured(chosen, given.sources)]
    close = [i for i in chosen if CALLS[i].name in pairs[0][0] and is_close(pairs, CALLS[i].name)]
    pairs += [measured(close, given.sources) for _ in range(REPEATED)]
    lines = list(rows(pairs))
    print("\n".join(row for _, row in lines))
    if given.bare and not given.names:
        PAGE.write_text(page(lines, list(scripts.rows(given.sources, given.bare))), encoding="utf-8")
        print(f"{len(lines)} calls in {PAGE}")


if __name__ == "__main__":
    main()
