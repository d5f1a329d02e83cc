"""compute-and-process-kaldi-pitch-feats: compute pitch features for speech recognition from audio."""

from functools import partial
from typing import Any

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.online import compute_first_pass_features
from kaldi_compat.pitch.process import process_utterances
from kaldi_compat.programs.compute_kaldi_pitch_feats import (
    analyze_utterances,
    select_audio,
    track_utterances,
    write_pitch,
)

USAGE = """
Tracks the pitch of audio and computes features for speech recognition from it. Does the same as
compute-kaldi-pitch-feats piped into process-kaldi-pitch-feats. Can also simulate online decoding (--frames-per-chunk,
--simulate-first-pass-online, --recompute-frame).

Usage: compute-and-process-kaldi-pitch-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-and-process-kaldi-pitch-feats --simulate-first-pass-online=true --frames-per-chunk=10 \\
           --sample-frequency=8000 scp:wav.scp ark:-

See also: compute-kaldi-pitch-feats, process-kaldi-pitch-feats
"""


class Options(ProcessPitchOptions, PitchOptions):
    """Options of compute-and-process-kaldi-pitch-feats."""


@program("compute-and-process-kaldi-pitch-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Track the pitch of utterances, and compute features from it. Return 0 if an utterance is written, otherwise 1."""
    random = KaldiRandom()
    track: Any = analyze_utterances if options.simulate_first_pass_online else track_utterances

    def compute_features(result: Any) -> ArrayBlock:
        """Compute features from a result of ``track``. The main thread calls this, so noise is drawn in order."""
        if options.simulate_first_pass_online:
            keys, analyses = result
            compute = partial(compute_first_pass_features, pitch_options=options, options=options, generator=random)
            return ArrayBlock.from_arrays(keys, list(map(compute, analyses)))
        features, counts = process_utterances(
            result.values.reshape(-1, 2), result.compute_row_bounds(), options, random
        )
        block: ArrayBlock = result.with_rows(features, counts)
        return block

    with Tables() as tables:
        blocks, writer = tables.read("wave", source), tables.open_writer("matrix", target)
        computed = tables.map_in_threads(
            partial(track, options=options), select_audio(tables.compute_ahead(blocks), options)
        )
        return write_pitch(map(compute_features, computed), writer).status
