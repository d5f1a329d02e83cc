"""compute-kaldi-pitch-feats: track the pitch of audio."""

from __future__ import annotations

from functools import partial

from io_ark.blocks import ArrayBlock, WaveBlock
from kaldi_compat.cli.pitch import analyses_of_block, audio_blocks, track_of_block, write_pitch
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.online import first_pass_pitch

USAGE = """
Tracks the pitch of audio. Each frame has two features: the normalized cross-correlation (NCCF, from -1 to 1, higher in
voiced frames) and the pitch in Hz. They are usually piped into process-kaldi-pitch-feats.

Usage: compute-kaldi-pitch-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-kaldi-pitch-feats --sample-frequency=8000 scp:wav.scp ark:-

See also: process-kaldi-pitch-feats, compute-and-process-kaldi-pitch-feats
"""


@program("compute-kaldi-pitch-feats", USAGE, PitchOptions)
def main(options: PitchOptions, source: str, target: str) -> int:
    """Track the pitch of a table of audio."""
    function = partial(_first_pass if options.simulate_first_pass_online else track_of_block, options=options)
    with Tables() as tables:
        blocks, writer = tables.read("wave", source), tables.write("matrix", target)
        audio = audio_blocks(tables.ahead(blocks), options)
        return write_pitch(tables.computed(function, audio), writer).status


def _first_pass(block: WaveBlock, options: PitchOptions) -> ArrayBlock:
    """Track the pitch of a block of utterances as the first pass of online decoding does."""
    names, analyses = analyses_of_block(block, options)
    return ArrayBlock.of(names, [first_pass_pitch(each, options) for each in analyses])
