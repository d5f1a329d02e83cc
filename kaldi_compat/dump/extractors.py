"""Take apart what extractors return."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kaldi_compat.dump.sources.base import Array


def with_torch() -> Any:
    """Return :mod:`kaldi_compat.torch.extractors` if torch is imported, which an extractor may do; otherwise None."""
    if "torch" not in sys.modules:
        return None
    from kaldi_compat.torch import extractors

    return extractors


def by_utterance(output: Any, count: int) -> list[Any]:
    """Return what a call returned for each utterance of its batch: an array, or a dictionary of them.

    Args:
        output: a list or padded array with an entry for each utterance, the latter with their lengths as a second
            member of a tuple if they differ; or a dictionary of those.
        count: number of utterances.

    Raises:
        ValueError: it does not have an entry for each of them.
    """
    if isinstance(output, dict):
        parts = {name: by_utterance(value, count) for name, value in output.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    lengths = None
    if isinstance(output, tuple) and len(output) == 2:
        output, lengths = output[0], as_array(output[1]).tolist()
    found = list(output if isinstance(output, list | tuple) else np.atleast_1d(as_array(output)))
    for number in (len(found), count if lengths is None else len(lengths)):
        if number != count:
            raise ValueError(f"returned {number} results for {count} utterances")
    for i, length in enumerate(lengths or ()):
        if not 0 <= length <= len(found[i]):
            raise ValueError(f"returned {len(found[i])} rows where its lengths say {length}")
        found[i] = found[i][:length]
    return found


def as_array(value: Any) -> Array:
    """Return a copy of a tensor or array as float32 or int32: extractors may write to theirs again.

    Raises:
        ValueError: it is neither, or of another type.
    """
    if value is None:
        raise ValueError("returned nothing")
    if hasattr(value, "detach"):
        value = value.detach()
        value = (value.float() if value.is_floating_point() else value).cpu().numpy()
    if not isinstance(value, np.ndarray) or (type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)):
        raise ValueError(f"returned a {type(value).__name__}: expected an array or a tensor")
    if value.dtype.kind == "f":
        return np.array(value, np.float32, order="C")
    if value.dtype.kind in "iu":
        if value.size and not -(2**31) <= int(value.min()) <= int(value.max()) < 2**31:
            raise ValueError("returned integers that do not fit 32 bits")
        return np.array(value, np.int32, order="C")
    raise ValueError(f"returned an array of {value.dtype}: expected floats or integers")
