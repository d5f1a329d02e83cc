"""compute-plp-feats: perceptual linear prediction cepstra of audio."""

from kaldi_compat.cli.compute import spectral_program

main = spectral_program("plp")
