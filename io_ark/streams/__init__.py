"""Open files, offsets, standard streams and pipes by Kaldi's names, and read their bytes.

>>> import io
>>> from io_ark.codecs import codec
>>> from io_ark.streams import StreamSource
>>> source = StreamSource(io.BytesIO(b"1 2 3 \\n"))
>>> codec("int-vector").read(source)
array([1, 2, 3], dtype=int32)
"""

from io_ark.streams.access import Access
from io_ark.streams.input import Input, open_input
from io_ark.streams.output import Output, open_output
from io_ark.streams.source import BytesSource, FileSource, Source, StreamSource

__all__ = [
    "Access",
    "BytesSource",
    "FileSource",
    "Input",
    "Output",
    "Source",
    "StreamSource",
    "open_input",
    "open_output",
]
