"""compute-fbank-feats: log-mel filter bank features of audio."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options import FbankOptions
from kaldi_compat.programs.compute import HTK_FBANK, VtlnOptions, compute_features, feature_options, htk_kind
from kaldi_compat.programs.program import program

USAGE = """
Computes log-mel filter bank features of audio.

Usage: compute-fbank-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-fbank-feats --config=conf/fbank.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(VtlnOptions, FbankOptions):
    """Options of compute-fbank-feats."""


@program("compute-fbank-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute a table of features."""
    from kaldi_compat.fbank import Fbank

    module = Fbank(feature_options(FbankOptions, options))
    code = htk_kind(HTK_FBANK, options.use_energy)
    return compute_features(module, options, source, target, htk_code=code)
