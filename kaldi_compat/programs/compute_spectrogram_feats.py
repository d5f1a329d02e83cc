"""compute-spectrogram-feats: log power spectra of audio."""

from kaldi_compat.cli.compute import spectral_program

main = spectral_program("spectrogram")
