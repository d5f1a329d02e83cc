"""compute-spectrogram-feats: log power spectra of audio."""

from kaldi_compat.cli.compute import make_spectral_program

main = make_spectral_program("spectrogram")
