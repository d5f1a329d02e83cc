"""The bulk job: a whole Kaldi data directory to feature archives, on all cores or GPUs, resumable.

plan -> read -> compute -> encode -> write -> verify -> finalize, one module each. :mod:`kaldi_compat.dump.shard` joins
them for one archive; :mod:`kaldi_compat.dump.workers` and :mod:`kaldi_compat.dump.ray_engine` run the archives of a
plan; :mod:`kaldi_compat.dump.finalize` leaves the data directory as Kaldi's ``steps/make_fbank.sh`` does.
"""
