"""compute-plp-feats: perceptual linear prediction cepstra of audio."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options import PlpOptions
from kaldi_compat.programs.compute import HTK_PLP, VtlnOptions, compute_features, feature_options, htk_kind
from kaldi_compat.programs.program import program

USAGE = """
Computes perceptual linear prediction cepstra of audio.

Usage: compute-plp-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-plp-feats --config=conf/plp.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(VtlnOptions, PlpOptions):
    """Options of compute-plp-feats."""


@program("compute-plp-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute a table of features."""
    from kaldi_compat.plp import Plp

    module = Plp(feature_options(PlpOptions, options))
    code = htk_kind(HTK_PLP, use_energy=False)
    return compute_features(module, options, source, target, htk_code=code)
