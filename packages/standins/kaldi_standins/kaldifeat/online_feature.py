"""kaldifeat's ``online_feature``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import OnlineFeature as OnlineFeature
