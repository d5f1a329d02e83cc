"""kaldifeat's ``plp``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import OnlinePlp, Plp, PlpOptions

__all__ = ["OnlinePlp", "Plp", "PlpOptions"]
