"""The pitch tracker and the post-processing of pitch.

The modules constants, frames (audio to frames and ballast), search (correlations and the cheapest path), tracker (whole
utterances) and online (the first pass of online decoding) track the pitch. The modules process, smooth and interpolate
post-process a track. Importing them does not import torch.
"""
