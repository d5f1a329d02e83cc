"""The pitch tracker and the post-processing of pitch.

Tracking: constants, frames (audio to frames and their ballast), search (correlations and the cheapest path), tracker
(of whole utterances) and online (of the first pass of online decoding). In torch: tensors and paths, which
:class:`kaldi_compat.torch.features.pitch.Pitch` consists of. Of a track: process, smooth and interpolate.

Importing them does not import torch, but for tensors and paths.
"""
