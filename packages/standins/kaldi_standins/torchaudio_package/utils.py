"""torchaudio's ``utils.sox_utils``, which WeNet's data pipeline uses when it is imported."""

from __future__ import annotations

__all__ = ["sox_utils"]


class sox_utils:
    """Settings of torchaudio's sox backend, which later versions of torchaudio have removed."""

    @staticmethod
    def set_buffer_size(buffer_size: int) -> None:
        """Do nothing, because soundfile has no such buffer."""
