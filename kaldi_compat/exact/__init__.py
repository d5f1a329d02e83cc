"""Kaldi's, glibc's and OpenBLAS's rounding, bit for bit, in NumPy."""
