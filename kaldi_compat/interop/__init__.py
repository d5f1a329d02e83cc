"""Names and behaviour of other libraries over kaldi_compat."""
