"""The exact engine: features with the bits of Kaldi, in NumPy or, where it was built, in C."""
