"""compute-fbank-feats: log-mel filter bank features of audio."""

from kaldi_compat.cli.compute import make_spectral_program

main = make_spectral_program("fbank")
