"""Puts stand-ins in place when a process starts, as the process before it did: see :mod:`kaldi_standins.replace`.

Python imports a module of this name by itself. The one that it would have imported otherwise is executed first.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.realpath(__file__))
_path = [entry for entry in sys.path if os.path.realpath(entry) != _here]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", _path)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
if importlib.util.find_spec("kaldi_standins") is None:
    sys.path.append(os.path.normpath(os.path.join(_here, "..", "..")))
importlib.import_module("kaldi_standins.replace").install_from_environment()
