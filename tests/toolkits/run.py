"""Run the call sites with the originals and with ours, each in a process of its own, and write the table.

``python -m tests.toolkits.run --sources DIR --bare PYTHON``: DIR holds a checkout of each repository in
repositories.py, and PYTHON is what scripts.py asks for.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_compat.interop.replace import environment
from tests.support.frontend_audio import clips
from tests.toolkits import scripts
from tests.toolkits.calls import CALLS
from tests.toolkits.manifest import Call, Recording, load
from tests.toolkits.repositories import REPOSITORIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "migrating" / "repositories.md"
SECONDS = 0.02  # for which short calls are repeated: the first ones of a kind take twice the time of others
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
    import soundfile
    import torch

    from reference_data.frontends.make import StandIn
    from tests.toolkits import kaldifeat_by_native_fbank

    if "KALDI_COMPAT_REPLACE" not in os.environ:
        sys.modules["kaldifeat"] = sys.modules["_kaldifeat"] = kaldifeat_by_native_fbank  # cannot be installed
    import torchaudio

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

    torchaudio.load = read  # torchaudio's own needs torchcodec
    torchaudio.set_audio_backend = lambda _: None  # removed in torchaudio 2.2
    torchaudio.info = lambda path, **_: soundfile.info(path)
    soundfile._SoundFileInfo.sample_rate = property(lambda self: self.samplerate)
    torchaudio.utils.sox_utils = StandIn("sox_utils")  # removed in torchaudio 2.9


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


def child(names: Sequence[str], sources: Path, target: Path) -> None:
    """Compute the results of calls, and store them."""
    import soundfile

    prepare_process(sources)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        made = []
        for i, (name, (rate, pcm)) in enumerate(recordings().items()):
            soundfile.write(f"{folder}/{i}.wav", pcm.T, rate, subtype="PCM_16")
            made.append(Recording(name, rate, pcm, f"{folder}/{i}.wav"))
        for call in CALLS:
            if names and not any(name in call.name for name in names):
                continue
            try:
                compute = load(call, sources)
            except (Exception, SystemExit) as error:
                print(f"{call.name} cannot be loaded: {type(error).__name__}: {error}")
                continue
            results = found[call.name] = {}
            for recording in made:
                if recording.rate == 16000 or call.any_rate:
                    results[recording.name] = _result(compute, recording)
    target.write_bytes(pickle.dumps(found))


def _result(compute: Any, recording: Any) -> dict[str, Any]:
    """Return the arrays of a call, the best of at least three times, and the memory that one more took at its peak."""
    import torch

    best, begun, count = float("inf"), time.process_time(), 0
    try:
        while count < 3 or time.process_time() - begun < SECONDS:
            with np.errstate(all="ignore"):
                begin = time.process_time()
                value = compute(recording)
                best, count = min(best, time.process_time() - begin), count + 1
        memory = peak_memory(lambda: compute(recording))
    except Exception as error:
        return {"error": [each.__name__ for each in type(error).__mro__], "text": f"{type(error).__name__}: {error}"}
    parts = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(part, np.ndarray | torch.Tensor) for part in parts):
        return {"error": ["Untested"], "text": f"a result without values: {[type(part).__name__ for part in parts]}"}
    described = [(type(part).__name__, str(part.dtype), tuple(part.shape), steps(part)) for part in parts]
    arrays = [np.asarray(part) for part in parts]
    return {"arrays": arrays, "types": described, "seconds": best, "memory": memory}


def steps(part: Any) -> tuple[int, ...]:
    """Return the strides of an array or tensor in elements, 0 for those that no element depends on."""
    strides = [each // part.itemsize for each in part.strides] if isinstance(part, np.ndarray) else part.stride()
    empty = 0 in part.shape
    return tuple(0 if empty or size == 1 else step for size, step in zip(part.shape, strides, strict=True))


def peak_memory(compute: Callable[[], Any]) -> int:
    """Return how many bytes of memory the process takes for a call at its peak, beyond what it has before."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    compute()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) * 1024


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


def rows(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of the table."""
    for call in CALLS:
        if call.name not in theirs or call.name not in ours:
            continue
        name, _, path = call.file.partition("/")
        owner, commit = REPOSITORIES[name]
        results, expected = ours[call.name], theirs[call.name]
        largest, wrong = compare(call, expected, results)
        computed = [each for each in expected if "arrays" in expected[each] and "arrays" in results[each]]
        if not computed:
            print(f"{call.name} is left out: {next(iter(expected.values()))['text']}")
            continue
        seconds, memory = ([combine(each[name][kind] for name in computed) for each in (expected, results)]
                           for kind, combine in (("seconds", sum), ("memory", max)))  # fmt: skip
        refused = sum("error" in each for each in expected.values())
        count = f"{len(computed)}" + f" + {refused} refused by both" * bool(refused)
        count += "".join(f"; not compared: {each} ({why})" for each, why in call.unlike.items())
        yield (
            f"| [{owner}/{name}](https://github.com/{owner}/{name}) {commit} | `{path}` | `{call.function}` | "
            f"{call.library} | {count} | {'; '.join(wrong) or f'{largest:.0e}'} | "
            f"{seconds[0] * 1e3:.2f} | {seconds[1] * 1e3:.2f} | {memory[0] / 1e6:.1f} | {memory[1] / 1e6:.1f} |"
        )


def page(calls: Sequence[str], scripts: Sequence[str]) -> str:
    """Return the page of both tables."""
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    counts = {"repositories": len({line.split("]")[0] for line in calls}), "calls": len(calls), "scripts": len(scripts)}
    return template.format(**counts, calls_table="\n".join(calls), scripts_table="\n".join(scripts))


def main() -> None:
    """Run both processes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--bare", help="an interpreter without the originals; needed for the page")
    parser.add_argument("--child", type=Path)
    parser.add_argument("names", nargs="*", help="parts of repository/path:function; all by default")
    given = parser.parse_args()
    if given.child:
        child(given.names, given.sources, given.child)
        return
    found = []
    memory = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").exists() else {}  # a disk's time is not that of the libraries
    with tempfile.TemporaryDirectory() as folder:
        for variables in ({}, environment(LIBRARIES)):
            target = Path(folder, str(len(found)))
            command = [sys.executable, "-m", "tests.toolkits.run", "--sources", str(given.sources)]
            path = os.pathsep.join(filter(None, [variables.get("PYTHONPATH", ""), str(ROOT)]))
            surroundings = {**os.environ, **variables, **memory, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
            subprocess.run([*command, "--child", str(target), *given.names], env=surroundings, cwd=ROOT, check=True)
            found.append(pickle.loads(target.read_bytes()))
    lines = list(rows(*found))
    print("\n".join(lines))
    if given.bare and not given.names:
        PAGE.write_text(page(lines, list(scripts.rows(given.sources, given.bare))), encoding="utf-8")
        print(f"{len(lines)} calls in {PAGE}")


if __name__ == "__main__":
    main()
