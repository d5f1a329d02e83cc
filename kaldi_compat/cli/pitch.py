"""Shared code of the programs that track pitch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from io_ark.codecs.wave import Wave
from kaldi_compat.cli.log import logger, vlog
from kaldi_compat.cli.loop import Counts, Sink
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.errors import AudioError
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.tracker import Analysis

__all__ = ["analyses", "write_pitch"]

LOG_EVERY = 50


def analyses(reader: Iterable[tuple[str, Wave]], options: PitchOptions) -> Iterator[tuple[str, Analysis]]:
    """Analyse the first channel of each utterance for the pitch search.

    Raises:
        AudioError: an utterance has another sampling rate.
    """
    for key, wave in reader:
        if len(wave.samples) > 1:
            logger.warning(
                "Channel not specified but you have data with %d channels; defaulting to zero", len(wave.samples)
            )
        rate = options.sample_frequency
        if wave.sample_frequency != rate:
            raise AudioError(
                f"Sample frequency mismatch: you specified {rate:g} but data has {wave.sample_frequency:g} "
                f"(use --sample-frequency option).  Utterance is {key}"
            )
        yield key, Analysis.of(wave.samples[0], options)


def write_pitch(tracks: Iterable[tuple[str, Matrix]], writer: Sink) -> Counts:
    """Write a table of pitch features and count them. As in Kaldi, utterances without frames are written, too."""
    counts = Counts()
    for key, features in tracks:
        if len(features) == 0:
            logger.warning("No frames output in pitch extraction")
        writer[key] = features if len(features) else _NO_FRAMES
        counts.done += 1
        if counts.done % LOG_EVERY == 0:
            vlog(2, "Processed %d utterances", counts.done)
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts


_NO_FRAMES: np.ndarray[Any, Any] = np.zeros((0, 0), np.float32)
