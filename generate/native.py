"""Signatures of the C functions that Python calls.

Each package's ``native`` folder has a file ``signatures.txt``, read by :mod:`io_ark.native.signatures`: a line for each
exported function, with its result and its arguments, and one for each structure that such a function takes.
"""

from __future__ import annotations

import re
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^EXPORT\s+([\w ]+\**)\s*(?:SIMD_NAME\((\w+)\)|\b(\w+))\s*\(([^)]*)\)", re.MULTILINE)
STRUCTURE = re.compile(r"^typedef struct \{(.*?)\}\s*(\w+);", re.DOTALL | re.MULTILINE)
DECLARED = re.compile(r"(\**)\s*(\w+)((?:\[\w+\])?)$")


def signatures(folder: Path) -> str:
    """Return the text of ``signatures.txt`` for the C files of a folder."""
    sources = [COMMENT.sub("", path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.[ch]"))]
    found = [match.groups() for source in sources for match in FUNCTION.finditer(source)]
    functions = {simd or plain: [_type(result), *_arguments(given)] for result, simd, plain, given in found}
    bodies = {name: body for source in sources for body, name in STRUCTURE.findall(source)}
    used = {each.rstrip("*") for types in functions.values() for each in types} & set(bodies)
    lines = [f"{name} {' '.join(types)}" for name, types in sorted(functions.items())]
    lines += [f"struct {name} {' '.join(_fields(bodies[name]))}" for name in sorted(used)]
    return "\n".join(lines) + "\n"


def _type(declared: str) -> str:
    return re.sub(r"\bconst\b|\s", "", declared)


def _arguments(given: str) -> list[str]:
    return [_type(re.sub(r"\w+\s*$", "", each)) for each in given.split(",") if each.strip() not in ("", "void")]


def _fields(body: str) -> list[str]:
    """Return the fields of a structure, as ``name:type``."""
    fields = []
    for declaration in body.split(";"):
        first, *others = declaration.split(",")
        match = DECLARED.search(first.strip())
        if match is None:
            continue
        base = _type(first.strip()[: match.start()])
        for each in (match, *(DECLARED.search(other.strip()) for other in others)):
            assert each is not None
            stars, name, size = each.groups()
            fields.append(f"{name}:{base}{stars}{size}")
    return fields
