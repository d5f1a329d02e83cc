"""Grade an example on the conformance kit. The example prints features of a preset with all options overridden.

usage: kaldi-compat conform -- python packages/c/examples/grade.py [--file] EXAMPLE {list.json}

The example is called as ``EXAMPLE zipformer OPTION=VALUE ... < SAMPLES``, with --file as
``EXAMPLE zipformer FILE.wav OPTION=VALUE ...``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = {f"compute-{name}-feats": name for name in ("fbank", "mfcc", "plp", "spectrogram")}
# Fields of a test vector that are not options of the header: options of Kaldi's programs, and the sizes of chunks.
LEFT_OUT = ("allow_downsample", "allow_upsample", "chunks")


def read_samples(path: str) -> bytes:
    """Return the bytes of the samples of a wave file, or exit unless it has one channel of 16 bits per sample."""
    with wave.open(path) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            sys.exit(f"{path}: expected one channel of 16 bits per sample")
        return file.readframes(file.getnframes())


def run_example(example: str, reads_file: bool, audio: str, options: dict[str, Any]) -> np.ndarray[Any, Any] | None:
    """Run the program ``example`` on a test vector, and return its features (frames, dim).

    Return None if the program does not support the test vector. ``audio`` is the path of a wave file. With
    ``reads_file``, the program reads this file; otherwise it gets the samples as standard input. "program" and "output"
    are removed from the vector's ``options``.
    """
    feature = PROGRAMS.get(options.pop("program"))
    if not feature or "audio_frequency" in options or options.pop("output", "features") != "features":
        return None
    changes = {"feature": feature, "full_scale": 32768, "waveform_scale": 1, **options}
    arguments = [f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in changes.items()
             if name not in LEFT_OUT]  # fmt: skip
    samples = b"" if reads_file else read_samples(audio)
    command = [example, "zipformer", *([audio] if reads_file else []), *arguments]
    process = subprocess.run(command, input=samples, capture_output=True, check=False)
    # An example that computes in chunks reports this error of the header by its text only.
    if b"needs the whole utterance" in process.stderr:
        return None
    if process.returncode:
        sys.exit(process.stderr.decode())
    return np.array([line.split() for line in process.stdout.splitlines()], np.float32)


def main() -> None:
    """Run the example on each test vector of a ``list.json``, and save its features under the name in the list."""
    *flags, example, list_path = sys.argv[1:]
    for vector in json.loads(Path(list_path).read_text(encoding="utf-8")):
        features = run_example(example, "--file" in flags, vector["audio"], vector["options"])
        if features is not None:
            np.save(vector["out"], features)


if __name__ == "__main__":
    main()
