"""Shape and dtype of arrays that are not loaded (the name until all programs use :mod:`io_ark.blocks`)."""

from io_ark.blocks import ArrayInfo

__all__ = ["ArrayInfo"]
