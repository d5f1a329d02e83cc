"""The steps of the pitch tracker, on arrays of NumPy's or torch's: what :class:`kaldi_compat.features.pitch.Pitch` and the
programs are made of. In the order in which audio goes through them: schedule, nccf, costs, viterbi (or, in torch,
paths); tracker has them all.

Importing them does not import torch.
"""
