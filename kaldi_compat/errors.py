"""Exceptions of kaldi_compat."""

__all__ = ["AudioError", "FeatureError", "KaldiCompatError", "OptionError"]

INTERRUPTED_STATUS = 130  # Exit status of a program after Ctrl-C, as in shells.
WRONG_NUMBERS = "docs/wrong_numbers.md"  # Page that messages about unusual audio refer to.


class KaldiCompatError(Exception):
    """Base class of all errors that this package raises on purpose. Messages fit one line."""


class OptionError(KaldiCompatError, ValueError):
    """An option has an invalid value, or its value conflicts with another option."""


class AudioError(KaldiCompatError, ValueError):
    """Samples have the wrong shape, type or sampling rate."""


class FeatureError(KaldiCompatError, ValueError):
    """Features, statistics or transforms have the wrong shape, or do not match each other."""
