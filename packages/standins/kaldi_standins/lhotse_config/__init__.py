"""Configurations of lhotse's extractors. Import them from :mod:`kaldi_standins.lhotse`."""
