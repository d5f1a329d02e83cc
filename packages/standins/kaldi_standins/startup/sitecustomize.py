"""Install the stand-ins of the parent process when a Python process starts: see :mod:`kaldi_standins.replace`.

Python imports the first module named ``sitecustomize``. This module executes the next one on the path first.
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
