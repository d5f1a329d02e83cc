"""The steps of the pitch tracker, on NumPy arrays or torch tensors.

:class:`kaldi_compat.features.pitch.Pitch` and the programs consist of them. In order of processing: schedule, nccf,
costs, viterbi (or, in torch, paths); tracker combines them.

Importing them does not import torch.
"""
