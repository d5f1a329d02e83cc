"""torchaudio's ``sox_effects``, which torchaudio removed in version 2.9: the program ``sox`` computes the effects.

Kaldi's data preparation changes the speed with the same program, so the audio is the same.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_standins.torchaudio_package.files import load

__all__ = ["apply_effects_file", "apply_effects_tensor"]

RAW = ("-t", "raw", "-e", "floating-point", "-b", "32", "-L")


def apply_effects_tensor(
    tensor: Tensor, sample_rate: int, effects: Sequence[Sequence[Any]], channels_first: bool = True
) -> tuple[Tensor, int]:
    """Apply effects of SoX to audio.

    Args:
        tensor: samples in -1 to 1, (channels, T).
        sample_rate: in Hz.
        effects: ``["speed", "0.9"]`` changes the sampling rate alone, and ``["rate", "16000"]`` resamples.
        channels_first: False for samples (T, channels).

    Returns:
        float32 samples, and their sampling rate.

    Raises:
        AudioError: samples of another shape.
        OptionError: another effect, or one that SoX refuses.
        KaldiCompatError: the program ``sox`` is not installed.
    """
    if tensor.ndim != 2:
        raise AudioError(f"expected samples of shape (channels, T), not {tuple(tensor.shape)}")
    audio = (tensor.T if channels_first else tensor).detach().to("cpu", torch.float32).contiguous().numpy()
    rate = float(sample_rate)
    for name, *arguments in effects:
        if name == "speed" and len(arguments) == 1:
            rate *= float(arguments[0])
        elif name == "rate" and arguments:
            audio = _resampled(audio, rate, [str(each) for each in arguments])
            rate = float(arguments[-1])
        else:
            raise OptionError(
                f"the effect {' '.join(map(str, [name, *arguments]))} is not supported: speed and rate are"
            )
    samples = torch.from_numpy(audio)
    return (samples.T.contiguous() if channels_first else samples), int(rate)


def apply_effects_file(
    path: Any,
    effects: Sequence[Sequence[Any]],
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
) -> tuple[Tensor, int]:
    """Read an audio file and apply effects, as :func:`apply_effects_tensor`; ``normalize`` and ``format`` are ignored.

    Raises:
        AudioError: the file cannot be read.
        OptionError: another effect, or one that SoX refuses.
        KaldiCompatError: the program ``sox`` is not installed.
    """
    return apply_effects_tensor(*load(path, channels_first=channels_first), effects, channels_first)


def _resampled(audio: npt.NDArray[np.float32], rate: float, arguments: Sequence[str]) -> npt.NDArray[np.float32]:
    """Resample audio (T, channels) by SoX, without its dithering."""
    program, channels = shutil.which("sox"), audio.shape[1]
    if program is None:
        raise KaldiCompatError("sox_effects needs the program sox, which is not installed: install SoX")
    source = [*RAW, "-r", repr(rate), "-c", str(channels), "-"]
    command = [program, "-V1", "-D", *source, *RAW, "-", "rate", *arguments]
    done = subprocess.run(command, input=audio.tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise OptionError(f"sox refuses the effect rate {' '.join(arguments)}: {done.stderr.decode().strip()[:500]}")
    return np.frombuffer(bytearray(done.stdout), np.float32).reshape(-1, channels)
