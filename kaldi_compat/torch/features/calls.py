"""Calls of modules, for type checkers and editors.

``class SpectralFeature(SpectralCall, ...)`` has the overloaded call in ``calls.pyi`` (written by ``make generate``) for
a type checker. When it runs, these classes are empty, and the call is that of ``torch.nn.Module``.
"""

from __future__ import annotations


class SpectralCall:
    """Call of the spectral features."""


class PitchCall:
    """Call of the pitch tracker."""


class ProcessPitchCall:
    """Call of the processing of pitch."""


class PostProcessingCall:
    """Call of the modules that transform features."""
