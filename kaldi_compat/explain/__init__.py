"""Find the front end that computed an array of features, and grade implementations.

The package and its main function have one name. Calling the package calls the function, so ``kaldi_compat.explain``
means the same whichever of them was imported first.
"""

import sys
from types import ModuleType

from kaldi_compat.explain.explanation import explain


class _CallablePackage(ModuleType):
    __call__ = staticmethod(explain)


sys.modules[__name__].__class__ = _CallablePackage
