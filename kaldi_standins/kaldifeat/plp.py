"""kaldifeat's ``plp``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import OnlinePlp as OnlinePlp
from kaldi_compat.interop.kaldifeat import Plp as Plp
from kaldi_compat.interop.kaldifeat import PlpOptions as PlpOptions
