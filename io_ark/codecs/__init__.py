"""Codecs, one for each kind of Kaldi object: bytes or text on one side, a Python value on the other.

A codec does not know about files, keys or pipes: it reads from a :class:`io_ark.streams.source.Source` and writes to
any object with a ``write`` method. :func:`codec` creates one by the name of its kind; :func:`read_any` and
:class:`AnyCodec` detect the kind from the data.
"""

from io_ark.codecs.base import Codec
from io_ark.codecs.detect import AnyCodec, kind_of, read_any
from io_ark.codecs.registry import KINDS, codec

__all__ = ["KINDS", "AnyCodec", "Codec", "codec", "kind_of", "read_any"]
