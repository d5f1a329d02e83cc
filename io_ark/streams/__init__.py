"""Open files, offsets, standard streams and pipes by Kaldi's names, and read their bytes.

>>> import io
>>> from io_ark.codecs import codec
>>> from io_ark.streams import StreamSource
>>> source = StreamSource(io.BytesIO(b"1 2 3 \\n"))
>>> codec("int-vector").read(source)
array([1, 2, 3], dtype=int32)
"""

from io_ark.streams.access import Access as Access
from io_ark.streams.input import Input as Input
from io_ark.streams.input import open_input as open_input
from io_ark.streams.output import Output as Output
from io_ark.streams.output import open_output as open_output
from io_ark.streams.source import BytesSource as BytesSource
from io_ark.streams.source import FileSource as FileSource
from io_ark.streams.source import Source as Source
from io_ark.streams.source import StreamSource as StreamSource
from io_ark.streams.system import buffer_standard_output as buffer_standard_output
