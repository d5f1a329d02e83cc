"""The distinct ways in which the projects call torchaudio, and what it returns, stored for machines that have neither.

``python -m packages.standins.tests.toolkits.forms --sources DIR`` runs the call sites on one recording, and stores the
results.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from packages.standins.tests.toolkits.calls import CALLS
from packages.standins.tests.toolkits.manifest import Recording, load
from tests.support.frontend_audio import clips, kept_rows

STORED = Path(__file__).parents[4] / "reference_data" / "interop" / "torchaudio.npz"
FUNCTIONS = ("fbank", "mfcc", "spectrogram")


def waveform(unit: bool) -> Any:
    """Return the audio (1, T) that the forms are computed of: in -1 to 1 or on the scale of 16 bits."""
    import torch

    samples = clips()["speech"][None, 4000:10000].astype(np.float32)
    return torch.from_numpy(samples / 32768 if unit else samples)


def collected(sources: Path) -> dict[str, Any]:
    """Return the distinct forms of calls (function, options, scale of the audio), and the original's results."""
    import soundfile
    import torch
    import torchaudio.compliance.kaldi as compliance

    from packages.standins.tests.toolkits.run import prepare_process

    prepare_process(sources)
    originals = {name: getattr(compliance, name) for name in FUNCTIONS}
    forms: set[str] = set()

    def noting(name: str, *arguments: Any, **options: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"] == compliance.__name__:  # mfcc calls fbank, which is not counted.
            return originals[name](*arguments, **options)
        given = inspect.signature(originals[name]).bind(*arguments, **options).arguments
        samples = given.pop("waveform")
        with contextlib.suppress(RuntimeError):  # Inside torch.vmap, no value can be read.
            plain = {key: float(value) if isinstance(value, float) else value for key, value in given.items()}
            forms.add(json.dumps([name, plain, bool(samples.abs().max() <= 1)], sort_keys=True))
        return originals[name](*arguments, **options)

    for name in FUNCTIONS:
        setattr(compliance, name, functools.partial(noting, name))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        speech = clips()["speech"][None]
        soundfile.write(f"{folder}/a.wav", speech[0], 16000, subtype="PCM_16")
        for call in CALLS:
            if call.library == "torchaudio":
                load(call, sources)(Recording("speech", 16000, speech, f"{folder}/a.wav"))
    found = {}
    for form in sorted(forms):
        name, options, unit = json.loads(form)
        if options.get("dither", 0) == 0:
            result = originals[name](waveform(unit), **options)
            found[form] = result[torch.from_numpy(kept_rows(len(result)))].numpy()
    return found


def main() -> None:
    """Store the forms and results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    found = collected(parser.parse_args().sources)
    np.savez_compressed(STORED, forms=list(found), **{str(i): result for i, result in enumerate(found.values())})
    print(*found, sep="\n")


if __name__ == "__main__":
    main()
