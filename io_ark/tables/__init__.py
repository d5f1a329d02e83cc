"""Tables of objects by key: sequential and random-access readers, writers, script files.

:mod:`io_ark` exports the readers and writers. This package exports their parts: :class:`Script` maps keys to the lines
of a script file, and :class:`Loader` loads the objects that lines name.
"""

from io_ark.tables.loader import Loader as Loader
from io_ark.tables.loader import RelativeTo as RelativeTo
from io_ark.tables.loader import resolve_folder as resolve_folder
from io_ark.tables.readers import WholeReads as WholeReads
from io_ark.tables.readers import repeat_errors as repeat_errors
from io_ark.tables.script import Script as Script
from io_ark.tables.script import ScriptTable as ScriptTable
