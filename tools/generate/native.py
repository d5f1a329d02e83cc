"""Signatures of the C functions that Python calls.

Each package's ``native`` folder has a file ``signatures.txt``, read by :mod:`io_ark.native.signatures`: a line for each
exported function, with its result and its arguments, and one for each structure that such a function takes or that
such a structure points to. A library and the Python code fit each other if these lines are the same (see setup.py).
"""

from __future__ import annotations

import re
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^EXPORT\s+([\w ]+\**)\s*(?:SIMD_NAME\((\w+)\)|\b(\w+))\s*\(([^)]*)\)", re.MULTILINE)
STRUCTURE = re.compile(r"^typedef struct \{(.*?)\}\s*(\w+);", re.DOTALL | re.MULTILINE)
ARRAY = re.compile(r"^typedef (\w+) (\w+)(\[\w+\]);", re.MULTILINE)
DECLARED = re.compile(r"(\**)\s*(\w+)((?:\[\w+\])?)$")


def signatures(folder: Path) -> str:
    """Return the text of ``signatures.txt`` for the C files of a folder."""
    sources = [COMMENT.sub("", path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.[ch]"))]
    declarations = [match.groups() for source in sources for match in FUNCTION.finditer(source)]
    functions = {
        simd or plain: [_type(result), *_parse_arguments(arguments)] for result, simd, plain, arguments in declarations
    }
    bodies = {name: body for source in sources for body, name in STRUCTURE.findall(source)}
    bodies |= {name: f"{base} values{size};" for source in sources for base, name, size in ARRAY.findall(source)}
    structures: dict[str, list[str]] = {}
    mentioned = [type_name for types in functions.values() for type_name in types]
    while mentioned:
        name = mentioned.pop().rpartition(":")[2].partition("*")[0]
        if name in bodies and name not in structures:
            structures[name] = _parse_fields(bodies[name])
            mentioned += structures[name]
    lines = [f"{name} {' '.join(types)}" for name, types in sorted(functions.items())]
    lines += [f"struct {name} {' '.join(fields)}" for name, fields in sorted(structures.items())]
    return "\n".join(lines) + "\n"


def _type(declared: str) -> str:
    return re.sub(r"\bconst\b|\s", "", declared)


def _parse_arguments(arguments: str) -> list[str]:
    named = [argument for argument in arguments.split(",") if argument.strip() not in ("", "void")]
    return [_type(re.sub(r"\w+\s*$", "", argument)) for argument in named]


def _parse_fields(body: str) -> list[str]:
    """Return the fields of a structure, as ``name:type``."""
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        names = [DECLARED.search(declarator.strip()) for declarator in declaration.split(",")]
        base = _type(declaration[: names[0].start()]) if names[0] else ""
        for match in names:
            assert match and re.fullmatch(r"\w+", base), f"cannot read the declaration {declaration!r}"
            stars, name, size = match.groups()
            fields.append(f"{name}:{base}{stars}{size}")
    return fields
