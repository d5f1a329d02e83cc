"""Messages about optional packages that are not installed. pyproject.toml declares the extras."""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import Any

ANY_ENCODING: ContextVar[bool] = ContextVar("ANY_ENCODING", default=True)
"""Default of ``any_encoding`` for audio codecs created in this context. The Kaldi programs set it to False."""

# Maps packages to the extra of kaldi-compat. tests/io_ark/test_extras.py compares this table with pyproject.toml.
EXTRA_OF = {
    "fsspec": "remote",
    "h5py": "convert",
    "lhotse": "lhotse",
    "matplotlib": "plot",
    "pyarrow": "convert",
    "ray": "cluster",
    "soundfile": "audio",
    "torch": "torch",
    "tqdm": "progress",
}


class MissingExtraError(ModuleNotFoundError):
    """An optional package is not installed. The message tells how to install it."""


def format_missing_package(package: str, use: str = "") -> str:
    """Return an error message that says that a package is not installed, and how to install it.

    Args:
        package: name of the package in the package index.
        use: the feature that needs the package, such as "FLAC files", for the start of the message. If "", the message
            starts with the package.
    """
    subject = f"{use} {'need' if use.endswith('s') else 'needs'} {package}, which" if use else package
    extra = EXTRA_OF.get(package)
    hint = f" (in a checkout: pip install '.[{extra}]')" if extra else ""
    return f"{subject} is not installed: pip install {package}{hint}"


def import_extra(name: str, use: str = "") -> Any:
    """Import and return a module of an optional package.

    Args:
        name: the module, such as "matplotlib.pyplot".
        use: the feature that needs the package, such as "FLAC files", for the message of the error.

    Raises:
        MissingExtraError: the package is not installed, or cannot be imported.
        ModuleNotFoundError: a package that the imported package needs is not installed.
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(format_missing_package(package, use), name=package) from None
    except ImportError as error:  # The package may not fit this version of Python or NumPy.
        reason = f"{use}{': ' if use else ''}{package} cannot be imported: {str(error).partition(chr(10))[0]}"
        raise MissingExtraError(f"{reason}; install a version that works here", name=package) from None
