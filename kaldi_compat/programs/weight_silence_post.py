"""weight-silence-post: scale the posteriors of silence phones."""

import numpy as np

import io_ark
from io_ark.blocks import PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import (
    Mask,
    get_pair_frames,
    parse_number,
    replace_posteriors,
    scale_posteriors,
    select_pairs,
    sum_by_frame,
)
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import FLOAT32_END, BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Scales the posteriors of silence phones. A scale of 0 removes them.

Usage: weight-silence-post [options] <silence-weight> <silence-phones> <model> <posteriors-rspecifier>
                           <posteriors-wspecifier>
e.g.:  weight-silence-post 0.0 1:2:3 final.mdl ark:1.post ark:nosil.post
"""


class Options(BaseOptions):
    distribute: bool = option(False, "scale all entries of a frame by the same factor: p(silence) * weight + p(other)")


@program("weight-silence-post", USAGE, Options)
def main(options: Options, weight: str, silence: str, model: str, source: str, target: str) -> int:
    """Scale the weights of silence phones or, with --distribute, all weights. Return 0 if there is output, else 1."""
    scale = parse_number(weight, f'Invalid silence-weight parameter: expected float, got "{weight}"', FLOAT32_END)
    phones = parse_dims(silence, "silence-phones")
    if not phones:
        logger.warning("No silence phones, this will have no effect")
    transitions = io_ark.load(model, kind="transition-model")
    weigh_posteriors = scale_frames_by_silence if options.distribute else weight_silence

    def weigh_block(block: PosteriorBlock) -> PosteriorBlock:
        """Weigh the posteriors of a block. A transition-id is silence if it belongs to a silence phone."""
        is_silence = np.isin(transitions.phones(block.posteriors.integers), phones)
        return replace_posteriors(block, weigh_posteriors(block.posteriors, is_silence, scale))

    counts = convert_table(weigh_block, PosteriorArraysCodec(), source, target)
    logger.info("Done %d posteriors.", counts.done)
    return counts.status


def weight_silence(posteriors: PosteriorArrays, is_silence: Mask, scale: float) -> PosteriorArrays:
    """Scale the weights of the pairs that the mask ``is_silence`` (pairs,) selects. A scale of 0 removes the pairs."""
    if scale == 0:
        return select_pairs(posteriors, ~is_silence)
    weights = np.where(is_silence, posteriors.weights * np.float32(scale), posteriors.weights)
    return posteriors._replace(weights=weights)


def scale_frames_by_silence(posteriors: PosteriorArrays, is_silence: Mask, scale: float) -> PosteriorArrays:
    """Scale all weights of a frame by ``p(silence) * scale + p(other)``. Frames of total weight 0 are unchanged.

    ``p(silence)`` is the share in the frame's weights of the pairs for which the mask ``is_silence`` (pairs,) is True,
    and ``p(other)`` is the share of other pairs.

    Raises:
        FeatureError: the weights of silence, or of other phones, in a frame add up to less than 0.
    """
    frames, weights, count = get_pair_frames(posteriors), posteriors.weights, len(posteriors.counts)
    silence, other = (sum_by_frame(frames[mask], weights[mask], count) for mask in (is_silence, ~is_silence))
    if (silence < 0).any() or (other < 0).any():
        raise FeatureError("--distribute needs nonnegative weights: remove the option")
    total = silence + other
    with np.errstate(invalid="ignore"):
        factors = np.where(total == 0, np.float32(1), (silence * np.float32(scale) + other) / total)
    return scale_posteriors(posteriors, factors)
