"""kaldifeat's ``plp``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import OnlinePlp as OnlinePlp
from kaldi_standins.kaldifeat import Plp as Plp
from kaldi_standins.kaldifeat import PlpOptions as PlpOptions
