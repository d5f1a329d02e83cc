"""Errors about what a user asks of the signal processing."""

__all__ = ["INTERRUPTED_STATUS", "AudioError", "FeatureError", "KaldiCompatError", "OptionError"]

INTERRUPTED_STATUS = 130  # a program's exit status after ^C, as shells report it


class KaldiCompatError(Exception):
    """Base of every error that this package raises on purpose; its message is one line."""


class OptionError(KaldiCompatError, ValueError):
    """An option has an invalid value, conflicts with another option, or does not exist."""


class AudioError(KaldiCompatError, ValueError):
    """Samples of a wrong shape, type or sampling rate."""


class FeatureError(KaldiCompatError, ValueError):
    """Features, statistics or transforms whose shapes or values do not fit."""
