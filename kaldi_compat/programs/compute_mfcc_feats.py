"""compute-mfcc-feats: mel-frequency cepstral coefficients of audio."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options import MfccOptions
from kaldi_compat.programs.compute import HTK_MFCC, VtlnOptions, compute_features, feature_options, htk_kind
from kaldi_compat.programs.program import program

USAGE = """
Computes mel-frequency cepstral coefficients of audio.

Usage: compute-mfcc-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-mfcc-feats --config=conf/mfcc.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(VtlnOptions, MfccOptions):
    """Options of compute-mfcc-feats."""


@program("compute-mfcc-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute a table of features."""
    from kaldi_compat.mfcc import Mfcc

    module = Mfcc(feature_options(MfccOptions, options))
    code = htk_kind(HTK_MFCC, options.use_energy)
    return compute_features(module, options, source, target, htk_code=code)
