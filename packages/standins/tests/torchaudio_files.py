"""Calls of torchaudio's load, info and save, and what they return: the same for torchaudio 2.8 and the stand-in.

``PYTHONPATH=FOLDER_WITH_TORCHAUDIO_2.8 python -m packages.standins.tests.torchaudio_files`` writes the outcomes of
torchaudio 2.8.0 with soundfile to ``torchaudio_files.json``, which the tests compare with.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

STORED = Path(__file__).with_suffix(".json")
WAV = Path(__file__).parents[3] / "reference_data" / "inputs" / "wav"
LOSSY = {"mp3", "ogg"}  # Decoders of different versions round differently.
WRITTEN = {
    "u8.wav": "PCM_U8", "s24.wav": "PCM_24", "s32.wav": "PCM_32", "float.wav": "FLOAT", "double.wav": "DOUBLE",
    "ulaw.wav": "ULAW", "alaw.wav": "ALAW", "adpcm.wav": "IMA_ADPCM", "ms.wav": "MS_ADPCM", "gsm.wav": "GSM610",
    "s8.flac": "PCM_S8", "s16.flac": "PCM_16", "s24.flac": "PCM_24", "vorbis.ogg": "VORBIS", "opus.ogg": "OPUS",
    "a.mp3": "MPEG_LAYER_III", "a.aiff": "PCM_16", "a.au": "ULAW", "a.caf": "ALAC_24", "sphere.nist": "PCM_16",
}  # fmt: skip
SLICES: list[dict[str, Any]] = [
    {}, {"frame_offset": 100}, {"frame_offset": 100, "num_frames": 50}, {"num_frames": 0}, {"num_frames": 10**9},
    {"frame_offset": -30}, {"frame_offset": 10**9}, {"num_frames": -5}, {"frame_offset": 700, "num_frames": 500},
    {"channels_first": False}, {"normalize": False}, {"normalize": False, "num_frames": 7, "channels_first": False},
    {"format": "wav"}, {"backend": "soundfile"}, {"buffer_size": 16}, {"backend": "none"},
]  # fmt: skip
SAVES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"a.{kind}", "float32", {}) for kind in ("wav", "flac", "ogg", "mp3", "sph", "nist", "WAV", "aiff", "nothing")),
    *(("a.wav", kind, {}) for kind in ("float64", "int16", "int32", "int64", "uint8", "float16")),
    *(("a.wav", "float32", {"bits_per_sample": bits}) for bits in (8, 16, 24, 32, 64, 12)),
    *(("a.wav", "float32", {"encoding": name}) for name in ("PCM_S", "PCM_U", "PCM_F", "ULAW", "ALAW", "HTK", "")),
    *(("a.wav", "float32", {"encoding": "PCM_S", "bits_per_sample": bits}) for bits in (8, 16, 24, 32, 64)),
    ("a.wav", "float32", {"encoding": "PCM_F", "bits_per_sample": 64}),
    ("a.wav", "float32", {"encoding": "PCM_F", "bits_per_sample": 16}),
    ("a.wav", "int16", {"encoding": "PCM_F", "bits_per_sample": 32}),
    ("a.wav", "int16", {"bits_per_sample": 24}),
    *(("a.flac", "float32", {"bits_per_sample": bits}) for bits in (8, 16, 24, 32)),
    ("a.flac", "int16", {}),
    ("a.flac", "float32", {"encoding": "PCM_S"}),
    ("a.ogg", "float32", {"encoding": "opus"}),
    ("a.ogg", "float32", {"bits_per_sample": 16}),
    ("a.sph", "float32", {"bits_per_sample": 16}),
    ("a.sph", "float32", {"encoding": "PCM_F"}),
    ("a.wav", "float32", {"channels_first": False}),
    ("a.wav", "float32", {"format": "wav"}),
    ("a.wav", "float32", {"format": "flac"}),
    ("a.bin", "float32", {"format": "wav"}),
    ("a.wav", "float32", {"compression": 3}),
    ("a.wav", "float32", {"backend": "none"}),
    ("absent/a.wav", "float32", {}),
    *(("object", "float32", {"format": kind}) for kind in ("wav", "flac", "ogg", "mp3", None)),
]


def make_files(folder: Path) -> list[Path]:
    """Write audio in the layouts of WRITTEN, and return their paths with those of the reference set."""
    times = np.arange(800) / 16000
    samples = np.stack([0.5 * np.sin(2 * np.pi * 440 * times), 0.3 * np.sin(2 * np.pi * 1000 * times)], 1)
    samples = np.round(samples * 32768) / 32768  # Rounding hides that sines differ between versions of NumPy.
    for name, subtype in WRITTEN.items():
        mono = name.startswith(("gsm", "sphere"))
        soundfile.write(str(folder / name), samples[:, :1] if mono else samples, 16000, subtype)
    (folder / "no_audio.wav").write_bytes(b"nothing")
    return [folder / name for name in (*WRITTEN, "no_audio.wav", "absent.wav")] + sorted(WAV.glob("*.wav"))


def outcome(function: Any, *arguments: Any, lossy: bool = False, **options: Any) -> Any:
    """Return what a call gives, in the words of JSON: shape, type and a hash of values, or the kind of error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*arguments, **options)
    except (RuntimeError, ValueError):  # The stand-in's error has both types.
        return "error"
    if result is None:
        return None
    if isinstance(result, tuple):
        samples, rate = result
        values = hashlib.sha256(samples.contiguous().numpy().tobytes()).hexdigest()[:16]
        return [list(samples.shape), str(samples.dtype), rate, *([] if lossy else [values])]
    return list(vars(result).values())


def outcomes(torchaudio: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield a name of each call and its outcome."""
    for path in make_files(folder):
        lossy = path.suffix[1:] in LOSSY
        is_readable = path.exists()
        yield f"info {path.name}", outcome(torchaudio.info, str(path))
        calls = SLICES if path.name in ("s16.flac", "stereo16k.wav", "vorbis.ogg", "a.mp3") else SLICES[:1]
        for options in [*calls, {"normalize": False}, {"frame_offset": 11, "num_frames": 22}]:
            yield f"load {path.name} {options}", outcome(torchaudio.load, path, lossy=lossy, **options)
        if is_readable:
            yield f"load object {path.name}", outcome(torchaudio.load, io.BytesIO(path.read_bytes()), lossy=lossy)
            yield f"info object {path.name}", outcome(torchaudio.info, io.BytesIO(path.read_bytes()))
    for name, dtype, options in SAVES:
        samples = torch.round(0.6 * 32768 * torch.sin(torch.arange(400) / 3)).reshape(2, 200) / 32768
        samples = (samples * (1000 if "int" in dtype else 1)).to(getattr(torch, dtype))
        target: Any = io.BytesIO() if name == "object" else folder / name
        failed = outcome(torchaudio.save, target, samples, 8000, **options)
        yield f"save {name} {dtype} {options}", failed or _written(target)


def _written(target: Any) -> list[Any]:
    if isinstance(target, io.BytesIO):
        target.seek(0)
    with soundfile.SoundFile(target) as file:
        is_lossy = file.subtype in ("VORBIS", "OPUS", "MPEG_LAYER_III")
        values = [] if is_lossy else [hashlib.sha256(file.read(dtype="float64").tobytes()).hexdigest()[:16]]
        return [file.format, file.subtype, file.samplerate, file.channels, file.frames, *values]


def main() -> None:
    """Store the outcomes of torchaudio 2.8."""
    import torchaudio

    if not torchaudio.__version__.startswith("2.8."):
        raise SystemExit(f"torchaudio {torchaudio.__version__} is installed, not 2.8")
    with tempfile.TemporaryDirectory() as folder:
        found = dict(outcomes(torchaudio, Path(folder)))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    STORED.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} calls of torchaudio {torchaudio.__version__}")


if __name__ == "__main__":
    main()
