"""Old names of :mod:`kaldi_compat.blocks`, until all have moved."""

from kaldi_compat.blocks.cmvn import normalized as normalized
from kaldi_compat.blocks.cmvn import sliding_cmvn as sliding_cmvn
from kaldi_compat.blocks.cmvn import stats as stats
from kaldi_compat.blocks.cmvn import weighted_stats as weighted_stats
from kaldi_compat.blocks.columns import appended as appended
from kaldi_compat.blocks.columns import select_columns as select_columns
from kaldi_compat.blocks.columns import spliced as spliced
from kaldi_compat.blocks.deltas import deltas as deltas
from kaldi_compat.blocks.deltas import shifted_deltas as shifted_deltas
from kaldi_compat.blocks.means import products as products
from kaldi_compat.blocks.means import window_means as window_means
from kaldi_compat.blocks.vad import voiced as voiced
