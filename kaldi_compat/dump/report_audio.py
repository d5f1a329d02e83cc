"""Inspect the audio of some utterances for the report: silence, clipping, offsets, and slow files."""

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
UTTERANCES_PER_INSPECTED = 20  # One in 20 utterances is inspected, but at least 20 and at most 200.
MAX_SECONDS = 10.0  # Time limit for the inspection of all utterances, so that it does not delay the report.
MAX_SILENT_PEAK = 32  # Audio without a larger sample counts as silent. 32 is 60 dB below full scale.
MIN_CLIPPED_SHARE = 0.001  # Audio counts as clipped if this share of its samples is at full scale.
MIN_ZERO_SHARE = 0.5  # Audio counts as digital silence if this share of its samples is 0.
# Audio has an offset if its mean exceeds this share of the sum of its standard deviation and 1% of full scale. The
# second term prevents reports about quiet audio.
MIN_OFFSET_SHARE = 0.05
FULL_SCALE_PERCENT = 327.68  # 1% of full scale, 32768.


class Inspection(NamedTuple):
    """Results of inspecting the audio of some utterances."""

    inspected_count: int  # Number of inspected utterances.
    anomalies: list[tuple[str, str]]  # Key and description of each anomaly. The key "all" stands for all utterances.
    slowest: list[tuple[str, float]]  # Key and reading time in seconds of the slowest utterances, slowest first.


def inspect_audio(job: Job, slowest_count: int = 5) -> Inspection:
    """Inspect the audio of a sample of the utterances, and stop after MAX_SECONDS seconds.

    The sample has 5% of the utterances, but at least 20 (or all) and at most 200, spread evenly over all utterances.
    Utterances that cannot be read here, such as audio in other formats than WAV, are left out, since the report lists
    failures separately. Commands are not run a second time. ``slowest`` of the result has up to ``slowest_count``
    utterances.
    """
    try:
        waves = _open_waves(job)
        keys = list(waves)
    except ArkError:
        return Inspection(0, [], [])
    count = min(max(len(keys) // UTTERANCES_PER_INSPECTED, MIN_UTTERANCES), MAX_UTTERANCES, len(keys))
    positions = sorted({round(position) for position in np.linspace(0, len(keys) - 1, count)})
    anomalies: list[tuple[str, str]] = []
    reading_times: list[tuple[str, float]] = []
    rates = Counter[float]()
    start_time = time.monotonic()
    for position in positions:
        if time.monotonic() - start_time > MAX_SECONDS:
            break
        key, read_start = keys[position], time.perf_counter()
        try:
            wave = waves[key]
        except (ArkError, OSError):
            continue
        reading_times.append((key, time.perf_counter() - read_start))
        rates[wave.sample_frequency] += 1
        anomalies += [(key, text) for text in describe_anomalies(wave.samples)]
    if len(rates) > 1:
        listing = ", ".join(f"{occurrences} of {rate:g} Hz" for rate, occurrences in sorted(rates.items()))
        ((most_frequent, _),) = rates.most_common(1)
        anomalies.insert(0, ("all", f"several sampling rates: {listing}; the most frequent is {most_frequent:g} Hz"))
    return Inspection(len(reading_times), anomalies, sorted(reading_times, key=lambda item: -item[1])[:slowest_count])


def _open_waves(job: Job) -> Mapping[str, Any]:
    """Open the audio of the utterances by key. Refuse commands, because the report must not run them again."""
    wav, segments = job.layout.data / "wav.scp", job.layout.data / "segments"
    if segments.exists():
        return io_ark.load_segments(segments, wav, pipes=False, network=job.options.network)
    return io_ark.load_scp(str(wav), kind="wave", pipes=False, network=job.options.network)


def describe_anomalies(samples: np.ndarray[tuple[int, ...], np.dtype[np.int16]]) -> list[str]:
    """Return a description of each anomaly, such as clipping, in the int16 samples (channels, T) of an utterance."""
    if not samples.size:
        return ["empty"]
    peak = max(abs(int(samples.min())), abs(int(samples.max())))
    if peak <= MAX_SILENT_PEAK:
        return [f"silent: the largest sample is {peak:g}"]
    anomalies = []
    clipped_share = float(((samples == 32767) | (samples == -32768)).mean()) if peak >= 32767 else 0.0
    if clipped_share >= MIN_CLIPPED_SHARE:
        anomalies.append(f"clipped: {clipped_share:.1%} of the samples are at full scale")
    zero_share = 1.0 - np.count_nonzero(samples) / samples.size
    if zero_share >= MIN_ZERO_SHARE:
        anomalies.append(f"digital silence: {zero_share:.0%} of the samples are 0")
    mean = float(samples.mean(dtype=np.float64))
    # Most audio fails this test of the mean alone, which saves computing the standard deviation.
    is_candidate = abs(mean) > MIN_OFFSET_SHARE * FULL_SCALE_PERCENT
    if is_candidate and abs(mean) > MIN_OFFSET_SHARE * (float(samples.std()) + FULL_SCALE_PERCENT):
        anomalies.append(f"offset: the mean of the samples is {mean:.0f}")
    return anomalies
