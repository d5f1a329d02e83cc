"""Script files of data sets, and the objects that their lines name."""

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


def script_of(file: Path) -> Path:
    """Return the script file of an rspecifier; anything else is a file name."""
    table = io_ark.classify_rspecifier(file) if isinstance(file, str) else None
    if table is not None and table.kind == "ark":
        raise KaldiCompatError(f"{file!r} is an archive, which cannot be accessed by number: use ArchiveDataset")
    return file if table is None else table.rxfilename


def load_named(loader: Loader, key: str, rxfilename: str) -> Any:
    """Load the object of an rxfilename. Errors name the key too."""
    try:
        return loader.load(rxfilename)
    except io_ark.ArkError as error:
        error.key = error.key or key
        raise


def as_tensor(array: npt.NDArray[np.generic]) -> Tensor:
    """Return the array as a writable tensor."""
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = array.copy()
    return torch.from_numpy(array)
