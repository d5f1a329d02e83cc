"""Augmentation of audio with noise and reverberation from lists of recordings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.blocks import Wave
from io_ark.codecs import pcm16
from io_ark.streams import Access
from io_ark.tables import Loader, RelativeTo, Script, resolve_folder
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional.reverberate import AdditiveSignal, reverberate
from kaldi_compat.torch.data.annotations import Path
from kaldi_compat.torch.data.each_process import InEachProcess
from kaldi_compat.torch.data.places import find_script, load_object

FULL_SCALE = np.float32(1 << 15)  # Factor from floating-point samples in -1 to 1 to 16-bit samples.


class NoiseAndReverberation:
    """Add a random noise and a random room impulse response to audio, computed as by wav-reverberate.

    Random choices use torch's random numbers on the CPU. If the object is the ``augment`` of a
    :class:`~kaldi_compat.torch.data.datasets.WaveDataset`, they depend on the utterance and the epoch.

    An excerpt of the noise starts at a random sample. A noise shorter than the audio is repeated. Recordings with
    several channels contribute their first channel. The audio keeps its length and its power.

    Args:
        noises: path of a ``wav.scp`` of noises; None for no noise.
        impulse_responses: path of a ``wav.scp`` of room impulse responses; None for no reverberation.
        snrs: signal-to-noise ratios in dB. One of them is chosen at random.
        noise_probability: probability of adding a noise.
        reverberation_probability: probability of adding reverberation.
        pipes: False refuses to run commands.
        network: False refuses to open URLs.
        relative_to: see :class:`~kaldi_compat.torch.data.datasets.FeatureDataset`.

    Raises:
        OptionError: both lists are None, a list or ``snrs`` is empty, or a probability is not within 0 to 1.
        ArkError: a file cannot be read.
        KaldiCompatError: a list is the rspecifier of an archive.
        AudioError: a recording differs from the audio in sampling rate, or the audio is not 16-bit integers.

    >>> import io_ark, numpy as np, tempfile, torch
    >>> from kaldi_compat import NoiseAndReverberation
    >>> path = tempfile.mkdtemp() + "/noise"
    >>> io_ark.save(path + ".wav", io_ark.Wave(16000.0, np.ones((1, 800), np.int16)))
    >>> _ = open(path + ".scp", "w").write(f"noise1 {path}.wav\\n")
    >>> augment = NoiseAndReverberation(path + ".scp", snrs=(0.0,))
    >>> augment(torch.tensor([300, -300, 300, -300], dtype=torch.int16), 16000.0)
    tensor([424,   0, 424,   0], dtype=torch.int16)
    """

    def __init__(
        self,
        noises: Path | None = None,
        impulse_responses: Path | None = None,
        *,
        snrs: Sequence[float] = (15.0, 10.0, 5.0, 0.0),
        noise_probability: float = 1.0,
        reverberation_probability: float = 1.0,
        pipes: bool = True,
        network: bool = True,
        relative_to: RelativeTo | None = None,
    ) -> None:
        if noises is None and impulse_responses is None:
            raise OptionError("nothing to add to the audio: pass noises=, impulse_responses=, or both")
        for name, probability in (("noise", noise_probability), ("reverberation", reverberation_probability)):
            if not 0 <= probability <= 1:
                raise OptionError(f"{name}_probability={probability} must be from 0 to 1")
        if not snrs:
            raise OptionError("snrs is empty: pass at least one ratio in dB, such as snrs=(15.0,)")
        access = Access(pipes, network)
        self._noises = None if noises is None else _Recordings(noises, access, relative_to)
        self._responses = None if impulse_responses is None else _Recordings(impulse_responses, access, relative_to)
        self._snrs = tuple(map(float, snrs))
        self._noise_probability, self._reverberation_probability = noise_probability, reverberation_probability

    def __repr__(self) -> str:
        snrs = "|".join(f"{snr:g}" for snr in self._snrs)
        noises = self._noises and f"{self._noise_probability:.0%} noise at {snrs} dB of {self._noises!r}"
        responses = self._responses and f"{self._reverberation_probability:.0%} reverberation of {self._responses!r}"
        return f"<NoiseAndReverberation: {', '.join(phrase for phrase in (noises, responses) if phrase)}>"

    def __call__(self, audio: Tensor, sample_frequency: float) -> Tensor:
        """Add random noise and reverberation to audio, each with the probability that was passed to the class.

        Args:
            audio: int16 tensor ``(samples,)``.
            sample_frequency: sampling rate of the audio in Hz.

        Returns:
            int16 tensor ``(samples,)``.

        Raises:
            AudioError: ``audio`` is not an int16 tensor ``(samples,)``, or a recording has a different sampling rate.
            ArkError: a recording cannot be read.
        """
        if not isinstance(audio, Tensor) or audio.dtype != torch.int16 or audio.ndim != 1:
            described = (
                f"{audio.dtype} of shape {tuple(audio.shape)}" if isinstance(audio, Tensor) else type(audio).__name__
            )
            raise AudioError(
                f"audio must be a tensor of 16-bit integers of shape (samples,), not {described}: convert the audio"
            )
        probabilities = torch.tensor([self._noise_probability, self._reverberation_probability])
        adds_noise, adds_reverberation = (torch.rand(2) < probabilities).tolist()
        impulse_response, noises = None, []
        if self._responses is not None and adds_reverberation:
            impulse_response = self._responses.load_random_recording(sample_frequency) / FULL_SCALE
        if self._noises is not None and adds_noise:
            recording = self._noises.load_random_recording(sample_frequency)
            num_surplus = len(recording) - len(audio)  # Number of samples by which the noise is longer than the audio.
            # A noise that is shorter than the audio may start at any of its samples, because it is repeated.
            start = _draw_below(num_surplus + 1 if num_surplus >= 0 else len(recording))
            excerpt = np.take(recording, np.arange(start, start + len(audio)), mode="wrap")
            noises = [AdditiveSignal(excerpt, self._snrs[_draw_below(len(self._snrs))])]
        if impulse_response is None and not noises:
            return audio
        augmented = reverberate(audio.numpy().astype(np.float32), sample_frequency, impulse_response, noises)
        return torch.from_numpy(pcm16(augmented)[0])


class _Recordings:
    """Recordings of the script file ``file``. Raises OptionError if the file lists no recordings."""

    def __init__(self, file: Path, access: Access, relative_to: RelativeTo | None) -> None:
        name = find_script(file)
        self._script = Script.open(name, access)
        if not len(self._script):
            raise OptionError(f"{self._script.name} lists no recordings: pass a wav.scp with at least one line")
        folder = resolve_folder(name, relative_to)
        self._loader = InEachProcess(Loader, "wave", access, folder=folder)

    def __repr__(self) -> str:
        return f"{len(self._script)} recordings of {self._script.name}"

    def load_random_recording(self, sample_frequency: float) -> npt.NDArray[np.float32]:
        """Return the first channel (samples,) of a random recording. Raise AudioError if the sampling rates differ."""
        key, location = self._script.get_line(_draw_below(len(self._script)))
        wave: Wave = load_object(self._loader(), key, location)
        if wave.sample_frequency != sample_frequency:
            raise AudioError(
                f"{self._script.name}: {key} has a rate of {wave.sample_frequency:g} Hz, but the audio has "
                f"{sample_frequency:g} Hz: resample the recordings"
            )
        samples: npt.NDArray[np.float32] = wave.samples[0].astype(np.float32)
        return samples


def _draw_below(count: int) -> int:
    """Draw a random integer from 0 to ``count - 1``."""
    return int(torch.randint(count, ()))
