"""Put stand-ins in place of other libraries, so that code which imports these runs unmodified.

::

    python -m kaldi_standins replace torchaudio,kaldiio,kaldi_native_fbank -- train.py --epochs=3

or, before the first import of the libraries::

    import kaldi_standins
    kaldi_standins.install("kaldiio", "kaldi_native_fbank")

The processes that such a process starts have the stand-ins, too, by the environment: workers of a DataLoader (fork and
spawn), ``torchrun``, a shell script that calls Python. The libraries need not be installed. Where torchaudio is
installed, only its parts that follow Kaldi are replaced, and ``load`` and ``save`` where it cannot read files itself.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from kaldi_compat.errors import OptionError

VARIABLE = "KALDI_COMPAT_REPLACE"
STARTUP = os.path.join(os.path.dirname(__file__), "startup")
USAGE = f"""\
Runs a program with this package's stand-ins for other libraries.

Usage: python -m kaldi_standins replace NAMES [--] COMMAND
e.g.:  python -m kaldi_standins replace torchaudio,kaldiio -- train.py --epochs=3
NAMES: one or more of {{names}}, separated by commas.
COMMAND: a Python file or -m MODULE with arguments, or a program, such as bash run.sh, with {VARIABLE} set.
Python's own options, such as -u or -c, may come first.
"""

# The modules of a library and ours. The submodules of a package are those of ours.
LIBRARIES: Mapping[str, Mapping[str, str]] = {
    "kaldi_io": {"kaldi_io": "kaldi_standins.kaldi_io"},
    "kaldi_native_fbank": {
        "kaldi_native_fbank": "kaldi_standins.kaldi_native_fbank",
        "_kaldi_native_fbank": "kaldi_standins.kaldi_native_fbank",
    },
    "kaldi_native_io": {
        "kaldi_native_io": "kaldi_standins.kaldi_native_io",
        "_kaldi_native_io": "kaldi_standins.kaldi_native_io",
    },
    "kaldifeat": {"kaldifeat": "kaldi_standins.kaldifeat", "_kaldifeat": "kaldi_standins.kaldifeat"},
    "kaldiio": {"kaldiio": "kaldi_standins.kaldiio"},
    "omniio": {"omniio": "kaldi_standins.omniio"},
    "torchaudio": {
        "torchaudio.compliance.kaldi": "kaldi_standins.torchaudio",
        "torchaudio.kaldi_io": "kaldi_standins.torchaudio_kaldi_io",
        "torchaudio": "kaldi_standins.torchaudio_package",
    },
}
# Libraries whose other modules stay the original's, with our names where they lack some.
KEPT = ("torchaudio",)
FILES = ("load", "save")  # functions of torchaudio that need torchcodec since version 2.9


def install(*names: str) -> dict[str, str]:
    """Put stand-ins in place of libraries, for this process and those that it starts.

    Call it before the libraries are imported.

    Args:
        names: libraries: kaldi_io, kaldi_native_fbank, kaldi_native_io, kaldifeat, kaldiio, omniio, torchaudio.

    Returns:
        What is replaced: their modules, and ours.

    Raises:
        OptionError: there is no stand-in for a library.

    >>> import kaldi_standins
    >>> kaldi_standins.install("kaldiio")  # doctest: +SKIP
    {'kaldiio': 'kaldi_standins.kaldiio'}
    """
    for name in names:
        if name not in LIBRARIES:
            raise OptionError(f"there is no stand-in for {name}: there are those for {', '.join(sorted(LIBRARIES))}")
    finder = next((each for each in sys.meta_path if isinstance(each, Finder)), None)
    if finder is None:
        finder = Finder()
        sys.meta_path.insert(0, finder)
    replaced = {theirs: ours for name in names for theirs, ours in LIBRARIES[name].items()}
    finder.modules.update(replaced)
    finder.exchange_loaded()
    os.environ.update(environment(finder.roots))
    return replaced


def install_from_environment() -> None:
    """Put the stand-ins in place that the process before this one had."""
    names = os.environ.get(VARIABLE, "")
    if names:
        install(*names.split(","))


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables by which processes that are started have these stand-ins and those of this process."""
    inherited = filter(None, os.environ.get(VARIABLE, "").split(","))
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != STARTUP]
    return {VARIABLE: ",".join(sorted({*names, *inherited})), "PYTHONPATH": os.pathsep.join([STARTUP, *path])}


class Finder:
    """Finds our modules by the names of theirs.

    The base classes of finders and loaders are left out: importing them would take 10 ms of each process's start.

    Attributes:
        modules: their modules, and ours.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    @property
    def roots(self) -> set[str]:
        """Names of the libraries that have stand-ins."""
        return {name for name, modules in LIBRARIES.items() if modules.keys() <= self.modules.keys()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what loads our module or completes theirs, or None if there is no stand-in for the library.

        Raises:
            ModuleNotFoundError: there is one, without this module.
        """
        ours = self._ours(fullname)
        if ours is None:
            return None
        is_kept = self._is_kept(fullname)
        original = importlib.machinery.PathFinder.find_spec(fullname, path) if is_kept else None
        if original is not None:
            if original.loader is not None and _exists(ours):
                completed: Any = _Completed(original.loader, ours)
                original.loader = completed
            return original
        if not _exists(ours):
            if is_kept:  # a part that is optional in theirs
                return None
            library = fullname.partition(".")[0]
            raise ModuleNotFoundError(f"kaldi_compat's stand-in for {library} has no module {fullname}", name=fullname)
        alias: Any = _Alias(ours)
        return importlib.util.spec_from_loader(fullname, alias)

    def exchange_loaded(self) -> None:
        """Remove or complete modules that were imported before, and warn: their importers keep the original."""
        stale = []
        for name, module in list(sys.modules.items()):
            ours = self._ours(name)
            if ours is None or getattr(module, "__name__", ours) == ours:
                continue
            if self._is_kept(name):
                if _exists(ours):
                    _complete(module, ours)
                continue
            stale.append(name)
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if self._is_kept(parent) and parent in sys.modules:
                vars(sys.modules[parent]).pop(last, None)
        if stale:
            warnings.warn(
                f"{', '.join(sorted(stale))}: imported before the stand-in was installed; modules that have imported "
                "it keep the original: call install first",
                stacklevel=3,
            )

    def _ours(self, fullname: str) -> str | None:
        package, rest = fullname, ""
        while package:
            if package in self.modules:
                return self.modules[package] + rest
            package, _, last = package.rpartition(".")
            rest = f".{last}{rest}"
        return None

    def _is_kept(self, fullname: str) -> bool:
        """Return True for a module that stays the original's, where that is installed."""
        parent = fullname.rpartition(".")[0]
        if getattr(sys.modules.get(parent), "__name__", parent) != parent:  # ours
            return False
        return fullname in KEPT or (fullname.partition(".")[0] in KEPT and fullname not in self.modules)


class _Alias:
    """Loads a module under a second name."""

    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has replaced


class _Completed:
    """Loads a module by its own loader, and adds names of ours that it lacks."""

    def __init__(self, loader: Any, ours: str) -> None:
        self._loader, self._ours = loader, ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._loader.exec_module(module)
        except OSError as error:  # its C library was built for another torch
            library, torch = module.__name__.partition(".")[0], _version("torch")
            raise ImportError(
                f"{library} {_version(library)} cannot be imported with torch {torch}: {_line(error)}; install the "
                f"{library} for torch {torch}, or none: the stand-in then takes its place"
            ) from error
        _complete(module, self._ours)


def _complete(module: ModuleType, ours: str) -> None:
    source = importlib.import_module(ours)
    with warnings.catch_warnings():  # of names that are deprecated and found by the module's __getattr__
        warnings.simplefilter("ignore")
        lacking = [name for name in source.__all__ if not hasattr(module, name)]
        if module.__name__ == "torchaudio" and cannot_read():
            lacking.extend(FILES)
    for name in lacking:
        setattr(module, name, getattr(source, name))


def cannot_read() -> str:
    """Return why the installed torchaudio cannot read audio files, or an empty string if it can."""
    version = _version("torchaudio")
    if not version or [*map(int, version.split(".")[:2])] < [2, 9]:
        return ""
    found = _version("torchcodec")
    if not found:
        return f"torchaudio {version} needs torchcodec, which is not installed"
    try:
        for name in ("decoders", "encoders"):
            importlib.import_module(f"torchcodec.{name}")
    except Exception as error:
        reason = f"torchcodec {found} cannot be imported with torch {_version('torch')}: {_line(error)}"
        return f"torchaudio {version} needs torchcodec, and {reason}"
    return ""


def _version(library: str) -> str:
    """Return the version of an installed library, or an empty string."""
    import importlib.metadata  # 10 ms, needed for torchaudio only

    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a dependency, such as NumPy
            raise
        return False


def main(arguments: Sequence[str]) -> NoReturn:
    """Run ``python -m kaldi_standins``: become the command, or exit with 2 for an invalid command line."""
    usage = USAGE.format(names=", ".join(LIBRARIES))
    if {"-h", "--help"} & set(arguments[:2]):
        print(usage, end="")
        sys.exit(0)
    names = arguments[1].replace(" ", "").split(",") if len(arguments) > 2 and arguments[0] == "replace" else []
    command = [*arguments[3 if arguments[2:3] == ["--"] else 2 :]]
    unknown = [name for name in names if name not in LIBRARIES]
    if unknown or not names or not command:
        print(f"there is no stand-in for {', '.join(unknown)}\n{usage}" if unknown else usage, end="", file=sys.stderr)
        sys.exit(2)
    for name in names:
        is_installed = importlib.util.find_spec(name) is not None
        for theirs, ours in LIBRARIES[name].items():
            verb = "has the names that it lacks from" if is_installed and theirs in KEPT else "is"
            print(f"kaldi_compat: {theirs} {verb} {ours}", file=sys.stderr)
        if is_installed and name == "torchaudio":
            reason = cannot_read()
            whose = f"{LIBRARIES[name][name]}'s: {reason}" if reason else f"torchaudio {_version(name)}'s own"
            print(f"kaldi_compat: torchaudio.{' and '.join(FILES)} are {whose}", file=sys.stderr)
    program = [sys.executable] if command[0].startswith("-") or command[0].endswith(".py") else []
    sys.stderr.flush()
    try:
        os.execvpe((program or command)[0], [*program, *command], {**os.environ, **environment(names)})
    except OSError as error:
        print(f"kaldi_compat: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)  # as a shell
