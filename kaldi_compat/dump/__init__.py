"""Dump a whole Kaldi data directory to archives, on all cores or GPUs. A dump can be resumed.

The stages plan, read, compute, encode, write, verify and finalize are separate modules. :mod:`kaldi_compat.dump.shard`
runs the stages of one archive, and :mod:`kaldi_compat.dump.workers` and :mod:`kaldi_compat.dump.ray_runner` write all
archives of a plan. :mod:`kaldi_compat.dump.finalize` writes the files of Kaldi's ``steps/make_fbank.sh``.

The module itself can be called: ``kaldi_compat.dump(data, extractor)`` calls :func:`kaldi_compat.dump.dump`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaldi_compat.dump.finalize import Outcome

__all__ = ["dump"]


def dump(
    data: str | os.PathLike[str],
    extractor: str | Callable[..., Any] = "",
    *,
    log: str | os.PathLike[str] = "",
    archives: str | os.PathLike[str] = "",
    name: str = "",
    **options: Any,
) -> Outcome:
    """Compute the features of a whole data directory, as ``kaldi-compat dump`` does, and write them to archives.

    Also write script files such as feats.scp to the data directory, and print messages to standard error.

    Args:
        data: data directory with wav.scp, and optionally segments.
        extractor: a feature such as "fbank", a preset such as "zipformer", ``"package.module:name"``,
            ``"path/to/file.py:name"``, or a callable that maps a list of float32 audio (T,), from -1 to 1, to a list of
            arrays. Omit the extractor with ``transformers=`` or ``onnx=``.
        log: directory of the plan and the logs, ``<data>/log`` by default.
        archives: directory of the archives, ``<data>/data`` by default.
        name: name of an extractor object in file names. The default is the name of the function or of its class.
        options: options of the program, such as ``nj=8``, ``device="cuda"`` or ``resume=True``, and options of a
            feature, such as ``num_mel_bins=80``.

    Returns:
        the outcome. ``utterances`` is the number of utterances with features, and ``wanted`` the number that should
        have features. ``failures`` lists pairs of key and reason, and ``seconds`` is the duration of the audio.

    Raises:
        DumpError: an input is missing or invalid, an output cannot be written, another dump uses the same directories,
            the extractor cannot be called, or more utterances fail than ``max_failures`` allows.
        ArkError: an output would replace an input, or a killed job has left the data directory half changed.
        OptionError: an option is unknown or has an invalid value.

    >>> import tempfile, numpy as np, io_ark, kaldi_compat
    >>> data = tempfile.mkdtemp()
    >>> with io_ark.writer(f"ark,scp:{data}/wav.ark,{data}/wav.scp") as writer:
    ...     writer["utt1"] = io_ark.Wave(16000.0, np.ones((1, 16000), np.int16))
    >>> def loudness(audio):
    ...     return [np.abs(samples).mean(keepdims=True) for samples in audio]
    >>> kaldi_compat.dump(data, loudness, nj=1).utterances
    1
    >>> io_ark.load_scp(f"{data}/xvector.scp")["utt1"]
    array([3.0517578e-05], dtype=float32)
    """
    from kaldi_compat.dump.cli import dump

    return dump(data, extractor, log, archives, name, options)


class _CallableModule(ModuleType):
    def __reduce__(self) -> tuple[Any, ...]:  # A process pool receives the function as a pickle.
        return import_module, (self.__name__,)

    def __call__(self, *arguments: Any, **options: Any) -> Outcome:
        return dump(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
