"""Access to the script files of data sets, and to the objects that the lines of a script file name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import io_ark
from io_ark.tables import Loader
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch.data.annotations import Path


def find_script(file: Path) -> Path:
    """Return the script file of the rspecifier ``file``, or ``file`` itself if it is a file name.

    Raise KaldiCompatError if the rspecifier names an archive.
    """
    table = io_ark.classify_rspecifier(file) if isinstance(file, str) else None
    if table is not None and table.kind == "ark":
        advice = "pass its script file; for features, ArchiveDataset reads archives in order"
        raise KaldiCompatError(f"{file!r} is an archive, which cannot be accessed by index: {advice}")
    return file if table is None else table.rxfilename


def load_object(loader: Loader, key: str, rxfilename: str) -> Any:
    """Load the object at ``rxfilename``. Add ``key`` to an ArkError without a key, so that its message has a key."""
    try:
        return loader.load(rxfilename)
    except io_ark.ArkError as error:
        error.key = error.key or key
        raise


def to_writable_tensor(array: npt.NDArray[np.generic]) -> Tensor:
    """Convert an array to a tensor. An array that is not writable or not contiguous is copied."""
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = array.copy()
    return torch.from_numpy(array)
