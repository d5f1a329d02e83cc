"""Split the outputs of extractors by utterance, and convert them to arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kaldi_compat.dump.sources.base import Array


def with_torch() -> Any:
    """Return :mod:`kaldi_compat.torch.extractors` if this process has imported torch, otherwise None."""
    if "torch" not in sys.modules:
        return None
    from kaldi_compat.torch import extractors

    return extractors


def split_by_utterance(output: Any, count: int) -> list[Any]:
    """Split the output of a batch by utterance.

    Args:
        output: a list or a padded array with an entry for each utterance; or a tuple of a padded array and the lengths
            of its entries; or a dictionary of such values.
        count: number of utterances.

    Returns:
        an array for each utterance, or a dictionary of arrays.

    Raises:
        ValueError: the number of entries is not ``count``, or a length is invalid.
    """
    if isinstance(output, dict):
        parts = {name: split_by_utterance(value, count) for name, value in output.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    lengths = None
    if isinstance(output, tuple) and len(output) == 2:
        output, lengths = output[0], as_array(output[1]).tolist()
    entries = list(output if isinstance(output, list | tuple) else np.atleast_1d(as_array(output)))
    for number in (len(entries), count if lengths is None else len(lengths)):
        if number != count:
            raise ValueError(f"returned {number} results for {count} utterances")
    for i, length in enumerate(lengths or ()):
        if not 0 <= length <= len(entries[i]):
            raise ValueError(f"returned {len(entries[i])} rows where its lengths say {length}")
        entries[i] = entries[i][:length]
    return entries


def as_array(value: Any) -> Array:
    """Return a copy of a tensor or array as float32 or int32. An extractor may reuse its own memory.

    Raises:
        ValueError: the value is no tensor or array, or does not hold floats or integers of 32 bits.
    """
    if value is None:
        raise ValueError("returned nothing")
    if hasattr(value, "detach"):
        value = with_torch().to_host(value)
    if not isinstance(value, np.ndarray) or (type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)):
        raise ValueError(f"returned a {type(value).__name__}: expected an array or a tensor")
    if value.dtype.kind == "f":
        return np.array(value, np.float32, order="C")
    if value.dtype.kind in "iu":
        if value.size and not -(2**31) <= int(value.min()) <= int(value.max()) < 2**31:
            raise ValueError("returned integers that do not fit 32 bits")
        return np.array(value, np.int32, order="C")
    raise ValueError(f"returned an array of {value.dtype}: expected floats or integers")
