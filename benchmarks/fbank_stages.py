"""Measure each stage of log-mel features of the torch engine: one thread, microseconds per frame.

python benchmarks/fbank_stages.py [--bins 80] [--block 512] [--rounds 50]

The stages are the functions that the module itself calls; the last lines are the module as a whole, on two minutes of
audio. Times are the least of all rounds in processor time, so that other processes on the machine disturb little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from figures import Table, report

from kaldi_compat import Fbank, KaldiRandom, Mfcc, Plp, Spectrogram
from kaldi_compat.features.spectral import _keep_freed_memory
from kaldi_compat.tensors import energies as spectra
from kaldi_compat.tensors import frames
from kaldi_compat.tensors.dither import kaldi_noise

MINUTES = 2


def least(work: Callable[[], object], rounds: int) -> float:
    """Seconds of processor time of the quickest round."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def stages(bins: int, block: int) -> dict[str, Callable[[], object]]:
    """Return the stages by name, each applied to the output of the one before."""
    fbank = Fbank(num_mel_bins=bins, engine="torch")
    audio = torch.randn(160 * block + 240) * 1000
    integers = audio.to(torch.int16)
    seeds = torch.from_numpy(KaldiRandom().frame_seeds(block))
    noise = kaldi_noise(seeds, 400)
    framed = frames.frames_of(audio, 400, 160)
    centered = framed - framed.mean(-1, keepdim=True)
    emphasized = frames.preemphasize(centered, 0.97)
    buffer = torch.zeros(block, 512)
    place = buffer[:, :400]
    torch.mul(emphasized, fbank.window, out=place)
    spectrum = torch.view_as_real(torch.fft.rfft(buffer))
    power = spectra.power_spectrum(spectrum)
    energies = fbank.mel_energies(power, None)
    return {
        "integers to floats": integers.float,
        "noise": lambda: kaldi_noise(seeds, 400),
        "adding the noise": lambda: framed + 1.0 * noise,
        "offset": lambda: framed - framed.mean(-1, keepdim=True),
        "preemphasis": lambda: frames.preemphasize(centered, 0.97),
        "window": lambda: torch.mul(emphasized, fbank.window, out=place),
        "FFT": lambda: torch.fft.rfft(buffer),
        "power": lambda: spectra.power_spectrum(spectrum, overwrite=True),
        "mel": lambda: fbank.mel_energies(power, None),
        "log": lambda: fbank.features_of_energies(energies, None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bins", type=int, default=80)
    parser.add_argument("--block", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--record", action="store_true", help="store the figures for the pages")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    _keep_freed_memory()
    with torch.inference_mode():
        work = stages(chosen.bins, chosen.block)
        spent = {name: least(stage, chosen.rounds) / chosen.block * 1e6 for name, stage in work.items()}
        rows = [[name, f"{microseconds:.2f}"] for name, microseconds in spent.items()]
        audio = (torch.randn(MINUTES * 60 * 16000) * 1000).to(torch.int16)
        count = frames.num_frames(len(audio), 400, 160)
        for kind in (Fbank, Mfcc, Plp, Spectrogram):
            bins = {} if kind is Spectrogram else {"num_mel_bins": chosen.bins}
            for dither in (0.0, 1.0):
                module, generator = kind(dither=dither, engine="torch", **bins), KaldiRandom()
                seconds = least(lambda: module(audio, generator=generator), 5)  # noqa: B023
                rows.append([f"{kind.__name__}, dither={dither:g}, whole", f"{seconds / count * 1e6:.2f}"])
    report("stages", Table("python benchmarks/fbank_stages.py", ["stage", "µs a frame"], rows))


if __name__ == "__main__":
    main()
