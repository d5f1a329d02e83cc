"""Bytes in and out: files, offsets, standard streams and pipes, opened by Kaldi's names for them."""
