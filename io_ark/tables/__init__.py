"""Tables of objects by key: sequential and random-access readers, writers, script files.

:mod:`io_ark` has the readers and writers. Here are the parts that they are made of: the lines of a script file by key,
and the loader of the objects that they name.
"""

from io_ark.tables.loader import Loader as Loader
from io_ark.tables.loader import RelativeTo as RelativeTo
from io_ark.tables.loader import folder_of as folder_of
from io_ark.tables.readers import WholeReads as WholeReads
from io_ark.tables.readers import raises_again as raises_again
from io_ark.tables.script import Script as Script
from io_ark.tables.script import ScriptTable as ScriptTable
