"""kaldifeat's ``online_feature``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import OnlineFeature as OnlineFeature
