"""torchaudio's ``utils.sox_utils``, which WeNet's data pipeline uses when it is imported.

Later versions of torchaudio have removed this module with the settings of the sox backend.
"""

from __future__ import annotations

__all__ = ["set_buffer_size"]


def set_buffer_size(buffer_size: int) -> None:
    """Do nothing, because soundfile has no such buffer."""
