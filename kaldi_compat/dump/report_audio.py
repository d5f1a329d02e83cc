"""Look at the audio of some utterances for the report: silence, clipping, an offset, and what was slow to read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import io_ark
from io_ark.errors import ArkError
from kaldi_compat.dump.options import Job

__all__ = ["Finding", "Sample", "inspect_audio", "oddities"]

MAX_UTTERANCES = 200
MAX_SECONDS = 10.0  # for all of it
SILENT_PEAK = 32  # of 32768: 60 dB below full scale
SHARE_CLIPPED = 0.001
SHARE_ZERO = 0.5
OFFSET = 0.05  # of the root mean square plus full scale / 100


@dataclass(frozen=True)
class Finding:
    """An odd utterance: its key, and what is odd."""

    key: str
    text: str


@dataclass(frozen=True)
class Sample:
    """The inspected utterances.

    Attributes:
        count: their number.
        odd: what was found.
        slowest: key and seconds of reading, the slowest first.
        rates: number of utterances of each sampling rate.
    """

    count: int
    odd: list[Finding]
    slowest: list[tuple[str, float]]
    rates: dict[float, int]


def inspect_audio(job: Job, shown: int = 5) -> Sample:
    """Read the audio of up to 200 utterances, evenly spread, for at most ten seconds.

    Utterances that cannot be read here, such as those in other formats than WAV, are left out: if they have no
    features, the page lists them as failures.
    """
    try:
        waves = _waves(job)
        keys = list(waves)
    except ArkError:
        return Sample(0, [], [], {})
    chosen = sorted({round(place) for place in np.linspace(0, len(keys) - 1, min(MAX_UTTERANCES, len(keys)))})
    odd: list[Finding] = []
    times: list[tuple[str, float]] = []
    rates: dict[float, int] = {}
    started = time.monotonic()
    for number in chosen:
        if time.monotonic() - started > MAX_SECONDS:
            break
        key, begun = keys[number], time.perf_counter()
        try:
            wave = waves[key]
        except (ArkError, OSError):
            continue
        times.append((key, time.perf_counter() - begun))
        rates[wave.sample_frequency] = rates.get(wave.sample_frequency, 0) + 1
        odd += [Finding(key, text) for text in oddities(wave.samples)]
    usual = max(rates, key=lambda rate: rates[rate], default=0.0)
    if len(rates) > 1:
        listing = ", ".join(f"{count} of {rate:g} Hz" for rate, count in sorted(rates.items()))
        odd.insert(0, Finding("", f"several sampling rates: {listing}; the most frequent is {usual:g} Hz"))
    slowest = sorted(times, key=lambda each: -each[1])[:shown]
    return Sample(len(times), odd, slowest, rates)


def _waves(job: Job) -> Mapping[str, Any]:
    wav, segments = job.layout.in_data("wav.scp"), job.layout.in_data("segments")
    if segments.exists():
        return io_ark.load_segments(segments, wav, pipes=job.options.pipes, network=job.options.network)
    return io_ark.load_scp(str(wav), kind="wave", pipes=job.options.pipes, network=job.options.network)


def oddities(samples: np.ndarray[tuple[int, ...], np.dtype[np.int16]]) -> list[str]:
    """Describe what is odd about the samples of an utterance, (channels, samples).

    >>> oddities(np.zeros((1, 16000), np.int16))
    ['silent: the largest sample is 0']
    """
    if not samples.size:
        return ["empty"]
    values = samples.astype(np.float64)
    peak = float(np.abs(values).max())
    if peak <= SILENT_PEAK:
        return [f"silent: the largest sample is {peak:g}"]
    found = []
    clipped = float(((samples == 32767) | (samples == -32768)).mean())
    if clipped >= SHARE_CLIPPED:
        found.append(f"clipped: {clipped:.1%} of the samples are at full scale")
    zero = float((samples == 0).mean())
    if zero >= SHARE_ZERO:
        found.append(f"digital silence: {zero:.0%} of the samples are 0")
    mean = float(values.mean())
    if abs(mean) > OFFSET * (float(values.std()) + 327.68):
        found.append(f"offset: the mean of the samples is {mean:.0f}")
    return found
