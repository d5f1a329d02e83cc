"""The Python packages of this checkout, for checks, generators and the pages of the site."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("io_ark", "kaldi_compat")
# Each package beside the product has a folder with a pyproject.toml. A copy of the project may lack some of them.
BESIDE = tuple(path.parent.name for path in sorted(ROOT.glob("packages/*/kaldi_*/__init__.py")))
PACKAGES = (*PRODUCT, *BESIDE)


def folder(package: str) -> Path:
    """Return the folder with the sources of a package.

    >>> folder("io_ark").name
    'io_ark'
    """
    return ROOT / package if package in PRODUCT else next(ROOT.glob(f"packages/*/{package}"))


def sources(packages: Iterable[str] = PACKAGES, pattern: str = "*.py") -> Iterator[Path]:
    """Yield the files of packages whose names match a pattern, sorted within each package."""
    for package in packages:
        yield from sorted(folder(package).rglob(pattern))


def module_names(packages: Iterable[str] = PACKAGES) -> list[str]:
    """Return the names of all modules of packages, none of which is imported for this.

    >>> "kaldi_compat.torch.frontend" in module_names(PRODUCT), "kaldi_compat" in module_names(PRODUCT)
    (True, True)
    """
    names = []
    for package in packages:
        for path in sources([package]):
            *parents, name = path.relative_to(folder(package)).with_suffix("").parts
            if name != "__main__":
                names.append(".".join([package, *parents, *([] if name == "__init__" else [name])]))
    return names
