"""What can be wrong with what a user asks of the signal processing."""

__all__ = ["INTERRUPTED_STATUS", "AudioError", "FeatureError", "KaldiCompatError", "OptionError"]

INTERRUPTED_STATUS = 130  # a program's exit status after ^C, as shells have it


class KaldiCompatError(Exception):
    """Base of every error this package raises on purpose; its message fits one line."""


class OptionError(KaldiCompatError, ValueError):
    """An option has a value that cannot be meant, or does not go with another option's value."""


class AudioError(KaldiCompatError, ValueError):
    """Samples that no feature can be computed from: wrong shape, type or sampling rate."""


class FeatureError(KaldiCompatError, ValueError):
    """Features, or what is applied to them, whose shapes or values do not go together."""
