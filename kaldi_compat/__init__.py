"""Kaldi's signal processing in PyTorch: the same flags, the same numbers, on any device."""

__version__ = "0.1.0"
