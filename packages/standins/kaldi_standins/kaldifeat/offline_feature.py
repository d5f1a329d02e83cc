"""kaldifeat's ``offline_feature``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import OfflineFeature as OfflineFeature
