"""Tables of objects by key: sequential and random-access readers, writers, script files.

:mod:`io_ark` has the readers and writers. Here are the parts that they are made of: the lines of a script file by key,
and the loader of the objects that they name.
"""

from io_ark.tables.loader import Loader
from io_ark.tables.relative import RelativeTo, folder_of
from io_ark.tables.script import Script, ScriptTable

__all__ = ["Loader", "RelativeTo", "Script", "ScriptTable", "folder_of"]
