"""compute-mfcc-feats: mel-frequency cepstral coefficients of audio."""

from kaldi_compat.cli.compute import spectral_program

main = spectral_program("mfcc")
