"""The part of torchaudio's ``utils`` that WeNet's data pipeline and its copies set when they are imported."""

from __future__ import annotations

__all__ = ["sox_utils"]


class sox_utils:
    """Settings of torchaudio's reader by sox, which later versions have removed."""

    @staticmethod
    def set_buffer_size(buffer_size: int) -> None:
        """Do nothing: soundfile reads files without such a buffer."""
