"""Look at the audio of some utterances for the report: silence, clipping, an offset, and what was slow to read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import io_ark
from io_ark.errors import ArkError
from kaldi_compat.dump.options import Job

MIN_UTTERANCES, MAX_UTTERANCES = 20, 200
SHARE_INSPECTED = 20  # one of this number of utterances
MAX_SECONDS = 10.0  # for all of it
SILENT_PEAK = 32  # of 32768: 60 dB below full scale
SHARE_CLIPPED = 0.001
SHARE_ZERO = 0.5
OFFSET = 0.05  # of the standard deviation plus full scale / 100
FULL_SCALE_SHARE = 327.68


class Sample(NamedTuple):
    """The inspected utterances.

    Attributes:
        number: of them.
        odd: keys, and what is odd; "all" stands for all of them.
        slowest: key and seconds of reading, the slowest first.
    """

    number: int
    odd: list[tuple[str, str]]
    slowest: list[tuple[str, float]]


def inspect_audio(job: Job, shown: int = 5) -> Sample:
    """Read the audio of one utterance in 20, at least 20 and at most 200, evenly spread, for at most ten seconds.

    Utterances that cannot be read here, such as those in other formats than WAV, are left out: if they have no
    features, the page lists them as failures. Commands are not run a second time.
    """
    try:
        waves = _waves(job)
        keys = list(waves)
    except ArkError:
        return Sample(0, [], [])
    wanted = min(max(len(keys) // SHARE_INSPECTED, MIN_UTTERANCES), MAX_UTTERANCES, len(keys))
    chosen = sorted({round(place) for place in np.linspace(0, len(keys) - 1, wanted)})
    odd: list[tuple[str, str]] = []
    times: list[tuple[str, float]] = []
    rates = Counter[float]()
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
        rates[wave.sample_frequency] += 1
        odd += [(key, text) for text in oddities(wave.samples)]
    if len(rates) > 1:
        listing = ", ".join(f"{count} of {rate:g} Hz" for rate, count in sorted(rates.items()))
        ((usual, _),) = rates.most_common(1)
        odd.insert(0, ("all", f"several sampling rates: {listing}; the most frequent is {usual:g} Hz"))
    return Sample(len(times), odd, sorted(times, key=lambda each: -each[1])[:shown])


def _waves(job: Job) -> Mapping[str, Any]:
    wav, segments = job.layout.data / "wav.scp", job.layout.data / "segments"
    if segments.exists():
        return io_ark.load_segments(segments, wav, pipes=False, network=job.options.network)
    return io_ark.load_scp(str(wav), kind="wave", pipes=False, network=job.options.network)


def oddities(samples: np.ndarray[tuple[int, ...], np.dtype[np.int16]]) -> list[str]:
    """Describe what is odd about the samples of an utterance, (channels, samples).

    >>> oddities(np.zeros((1, 16000), np.int16))
    ['silent: the largest sample is 0']
    """
    if not samples.size:
        return ["empty"]
    peak = max(abs(int(samples.min())), abs(int(samples.max())))
    if peak <= SILENT_PEAK:
        return [f"silent: the largest sample is {peak:g}"]
    found = []
    clipped = float(((samples == 32767) | (samples == -32768)).mean()) if peak >= 32767 else 0.0
    if clipped >= SHARE_CLIPPED:
        found.append(f"clipped: {clipped:.1%} of the samples are at full scale")
    zero = 1.0 - np.count_nonzero(samples) / samples.size
    if zero >= SHARE_ZERO:
        found.append(f"digital silence: {zero:.0%} of the samples are 0")
    mean = float(samples.mean(dtype=np.float64))
    if abs(mean) > OFFSET * FULL_SCALE_SHARE and abs(mean) > OFFSET * (float(samples.std()) + FULL_SCALE_SHARE):
        found.append(f"offset: the mean of the samples is {mean:.0f}")
    return found
