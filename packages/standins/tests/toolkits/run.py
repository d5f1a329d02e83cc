"""Compare the results of the call sites with the originals and with the stand-ins, each in its own process.

``python -m packages.standins.tests.toolkits.run --sources DIR NAMES``: DIR holds a checkout of each repository in
repositories.py, and NAMES are regular expressions that select call sites.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_standins.replace import make_environment
from packages.standins.tests.toolkits.calls import CALLS
from packages.standins.tests.toolkits.manifest import Call, Recording, load
from packages.standins.tests.toolkits.page import LIBRARIES
from tests.support.frontend_audio import clips

ROOT = Path(__file__).parents[4]


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
    if "KALDI_COMPAT_REPLACE" in os.environ:  # The stand-ins have all of these.
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

    torchaudio.set_audio_backend = lambda _: None  # torchaudio 2.9 has removed the function.
    if not hasattr(torchaudio, "info"):  # torchaudio 2.9 lacks it, and its `load` needs torchcodec.
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
    """Answer the requests of the other process, which are numbers of calls, with the results of the calls."""
    import soundfile

    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of the projects must not mix with replies.
    prepare_process(sources)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        made = []
        for i, (name, (rate, pcm)) in enumerate(recordings().items()):
            soundfile.write(f"{folder}/{i}.wav", pcm.T, rate, subtype="PCM_16")
            made.append(Recording(name, rate, pcm, f"{folder}/{i}.wav"))
        while True:
            try:
                call = CALLS[pickle.load(requests)]
            except EOFError:
                return
            try:
                compute = load(call, sources)
            except (Exception, SystemExit) as error:
                reply: Any = f"{call.name} cannot be loaded: {type(error).__name__}: {error}"
            else:
                reply = {each.name: result(compute, each) for each in made if each.rate == 16000 or call.any_rate}
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
    memory = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").exists() else {}  # A disk would affect the times.
    path = os.pathsep.join(filter(None, [variables.get("PYTHONPATH", ""), str(ROOT)]))
    surroundings = {**os.environ, **variables, **memory, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "packages.standins.tests.toolkits.run", "--sources", str(sources), "--child"]
    with subprocess.Popen(
        command, env=surroundings, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.stdin.close()


def ask(process: Any, number: int) -> Any:
    """Return the results of a call in a process."""
    pickle.dump(number, process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


def main() -> None:
    """Compare the selected calls, and fail if a call differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--child", action="store_true")
    parser.add_argument("names", nargs="*", help="regular expressions for repository/path:function; all by default")
    given = parser.parse_args()
    if given.child:
        child(given.sources)
        return
    chosen = [
        i for i, call in enumerate(CALLS) if not given.names or any(re.search(name, call.name) for name in given.names)
    ]
    raise SystemExit(check(chosen, given.sources) if chosen else "no such call")


if __name__ == "__main__":
    main()
