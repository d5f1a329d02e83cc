"""kaldiio's ``python_wave``: Python's own module ``wave``."""

from wave import Error, Wave_read, Wave_write, open

__all__ = ["Error", "Wave_read", "Wave_write", "open"]
