"""kaldifeat's ``offline_feature``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import OfflineFeature as OfflineFeature
