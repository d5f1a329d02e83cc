"""API of Jian Wu's ``kaldi_python_io`` 1.2, implemented by io_ark: readers and writers by class.

Replace ``import kaldi_python_io`` with ``from kaldi_standins import kaldi_python_io``.
docs/migrating/kaldi_python_io.md lists the differences.

>>> import os, tempfile
>>> import numpy as np
>>> from kaldi_standins.kaldi_python_io import ArchiveWriter, ScriptReader
>>> os.chdir(tempfile.mkdtemp())
>>> with ArchiveWriter("feats.ark", "feats.scp") as writer:
...     writer.write("utt1", np.eye(2, dtype=np.float32))
>>> reader = ScriptReader("feats.scp")
>>> reader["utt1"].shape, reader.index_keys
((2, 2), ['utt1'])
"""

from kaldi_standins.kaldi_python_io.inst import (
    AlignArchiveReader,
    AlignScriptReader,
    ArchiveReader,
    ArchiveWriter,
    Nnet3EgsReader,
    Reader,
    ScriptReader,
)

__all__ = [
    "AlignArchiveReader", "AlignScriptReader", "ArchiveReader", "ArchiveWriter", "Nnet3EgsReader", "Reader",
    "ScriptReader",
]  # fmt: skip
__version__ = "1.2.2"
