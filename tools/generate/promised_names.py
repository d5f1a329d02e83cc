"""Generate the page of the promised names, which modules list in ``__all__``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import io_ark
import kaldi_compat

HEADER = """\
<!-- written by `make generate`: do not edit -->
# Public names

This page lists the {count} public names of `io_ark` and `kaldi_compat`, under the module from which you import them.
From version 1.0 on, these names, and the public methods of these classes, change only in a new major version
([all promises](../../packaging/RELEASING.md#what-is-promised)). All other Python names may change in any version,
including the modules in which the listed names are defined.
"""


def list_promised_names() -> dict[str, list[str]]:
    """Return the promised names of each module, except for names that its package offers itself."""
    names: dict[str, list[str]] = {}
    for module in _import_modules():
        package = importlib.import_module(module.__name__.partition(".")[0])
        offered = {name: getattr(module, name) for name in getattr(module, "__all__", ()) if name != "__version__"}
        own = [
            name for name, value in offered.items() if package is module or getattr(package, name, None) is not value
        ]
        if own:
            names[module.__name__] = sorted(own, key=str.lower)
    return names


def _import_modules() -> Iterator[ModuleType]:
    """Import and yield all modules of both packages, except for ``kaldi_compat.torch`` and the C libraries."""
    for package in (io_ark, kaldi_compat):
        yield package
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not name.startswith("kaldi_compat.torch") and not name.endswith("._native"):
                yield importlib.import_module(name)


def source() -> str:
    """Return the text of ``docs/reference/names.md``."""
    names = list_promised_names()
    sections = (f"\n## `{module}`\n\n{', '.join(f'`{name}`' for name in own)}\n" for module, own in names.items())
    return HEADER.format(count=sum(map(len, names.values()))) + "".join(sections)
