"""Kaldi's tables on disk, in NumPy."""
