"""Open files, offsets, standard streams and pipes by Kaldi's names."""
