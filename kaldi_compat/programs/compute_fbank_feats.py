"""compute-fbank-feats: log-mel filter bank features of audio."""

from kaldi_compat.cli.compute import spectral_program

main = spectral_program("fbank")
