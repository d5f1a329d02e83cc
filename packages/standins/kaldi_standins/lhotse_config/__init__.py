"""Configurations of lhotse's extractors, made of our options. Import them from :mod:`kaldi_standins.lhotse`."""
