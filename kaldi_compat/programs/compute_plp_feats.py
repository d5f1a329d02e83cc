"""compute-plp-feats: perceptual linear prediction cepstra of audio."""

from kaldi_compat.cli.compute import make_spectral_program

main = make_spectral_program("plp")
