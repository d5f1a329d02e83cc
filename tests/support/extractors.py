"""Data directories and extractors for the tests of the dump of anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from tests.support.dump_data import audio, make_data, write_wav

MODULE = '''
import numpy as np


class Mean:
    """Means of frames of 160 samples, and the loudness."""

    frame_shift = 0.01

    def __call__(self, audio):
        return [self.one(samples) for samples in audio]

    def one(self, samples):
        frames = samples[: len(samples) // 160 * 160].reshape(-1, 160)
        return {"means": frames[:, :4] + frames.mean(1, keepdims=True), "loudness": np.abs(samples).mean(keepdims=True)}


class Faulty(Mean):
    """Returns what its utterance's first sample stands for."""

    frame_shift = None

    def one(self, samples):
        found = {"means": np.ones((len(samples) // 160, 4), np.float32)}
        fault = int(round(float(samples[0]) * 32768)) - 1000
        if fault == 1:
            raise RuntimeError("one\\nbad utterance")
        if fault == 2:
            found["means"][2, 1] = np.nan
        if fault == 3:
            found["means"] = found["means"][:, :3]
        if fault == 4:
            return "text"
        if fault == 5:
            return None
        if fault == 6:
            found["means"] = found["means"][:0]
        if fault == 7:
            return {"other": found["means"]}
        if fault == 8:
            raise MemoryError
        if fault == 10:
            found["means"] = np.array(1, np.float32)
        if fault == 9:
            found["means"] = found["means"].astype(np.int32)
        return found


def rows_off(samples):
    return [np.ones((len(each) // 320, 2), np.float32) for each in samples]


rows_off.frame_shift = 0.01
'''


def module_data(root: Path, utterances: int = 9, **more: Any) -> Path:
    """Make a data directory, and ``extract.py`` beside it."""
    (root / "extract.py").write_text(MODULE)
    return make_data(root, utterances, **more)


def add_fault(data: Path, key: str, fault: int) -> None:
    """Let the first sample of an utterance ask ``Faulty`` for a fault."""
    samples = audio(8000, seed=fault)
    samples[0, 0] = 1000 + fault
    write_wav(data / "wav" / f"{key}.wav", samples)


def waves(data: Path) -> dict[str, tuple[np.ndarray, int]]:
    """Return the audio of a data directory in -1 to 1, and its rate."""
    table = io_ark.load_scp(str(data / "wav.scp"), kind="wave")
    return {
        key: (wave.samples[0].astype(np.float32) / 32768, int(wave.sample_frequency)) for key, wave in table.items()
    }


def arrays(script: Path) -> dict[str, Any]:
    """Return the arrays that a script file names."""
    return {key: np.array(value) for key, value in io_ark.load_scp(str(script)).items()}
