"""Operations on blocks of features, with Kaldi's bits: the definition on NumPy arrays, and C for many utterances.

A block of features is a matrix with the frames of all utterances, ``(frames, dim)`` in float32, and their boundaries:
rows ``bounds[u]`` to ``bounds[u + 1]`` are those of utterance ``u``.
"""
