"""Puts stand-ins in place when a process starts, as the process before it did: see :mod:`kaldi_compat.interop.replace`.

Python imports a module of this name by itself. The one that it would have imported otherwise is executed first.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_here = Path(__file__).resolve().parent
_path = [entry for entry in sys.path if Path(entry or ".").resolve() != _here]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", _path)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
if importlib.util.find_spec("kaldi_compat") is None:
    sys.path.append(str(_here.parents[2]))
importlib.import_module("kaldi_compat.interop.replace").install_from_environment()
