"""compute-mfcc-feats: mel-frequency cepstral coefficients of audio."""

from kaldi_compat.cli.compute import make_spectral_program

main = make_spectral_program("mfcc")
