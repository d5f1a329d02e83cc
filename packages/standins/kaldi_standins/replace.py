"""Replace other libraries with stand-ins, so that code that imports the libraries runs unmodified.

::

    python -m kaldi_standins replace torchaudio,kaldiio,kaldi_native_fbank -- train.py --epochs=3

or, before the first import of the libraries::

    import kaldi_standins
    kaldi_standins.install("kaldiio", "kaldi_native_fbank")

Child processes inherit the stand-ins through the environment: workers of a DataLoader (fork and spawn), ``torchrun``,
or a shell script that calls Python. The libraries need not be installed, except for lhotse, of which only the
extractors are replaced. If torchaudio is installed, only its modules that follow Kaldi are replaced, and ``load`` and
``save`` if torchcodec cannot be imported.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Maps the modules of each library to the stand-in's modules. Submodules of a package map to submodules of the stand-in.
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
    "kaldi_python_io": {"kaldi_python_io": "kaldi_standins.kaldi_python_io"},
    "kaldifeat": {"kaldifeat": "kaldi_standins.kaldifeat", "_kaldifeat": "kaldi_standins.kaldifeat"},
    "kaldiio": {"kaldiio": "kaldi_standins.kaldiio"},
    "lhotse": {
        "lhotse.features.kaldi.extractors": "kaldi_standins.lhotse.extractors",
        "lhotse.features.whisper_fbank": "kaldi_standins.lhotse.extractors",
    },
    "omniio": {"omniio": "kaldi_standins.omniio"},
    "torchaudio": {
        "torchaudio.compliance.kaldi": "kaldi_standins.torchaudio",
        "torchaudio.kaldi_io": "kaldi_standins.torchaudio_kaldi_io",
        "torchaudio": "kaldi_standins.torchaudio_package",
    },
}
# If a library in this tuple is installed, only its listed modules are replaced, and missing names are added.
PARTLY_REPLACED = ("torchaudio",)
# Modules of a library in this tuple are loaded first. Then the names that the stand-in also has are replaced.
OVERLAID = ("lhotse",)
# Functions of torchaudio that need torchcodec since version 2.9. They are replaced if torchaudio cannot read files.
FILES = ("load", "save")


def install(*names: str) -> dict[str, str]:
    """Replace libraries with stand-ins, in this process and in processes that it starts.

    Call this function before the libraries are imported. It warns if imported modules may keep the originals.

    Args:
        names: one or more of kaldi_io, kaldi_native_fbank, kaldi_native_io, kaldi_python_io, kaldifeat, kaldiio,
            lhotse, omniio and torchaudio.

    Returns:
        A dictionary that maps the names of the replaced modules to the names of the stand-ins' modules.

    Raises:
        OptionError: a library has no stand-in.

    >>> import kaldi_standins
    >>> kaldi_standins.install("kaldiio")  # doctest: +SKIP
    {'kaldiio': 'kaldi_standins.kaldiio'}
    """
    for name in names:
        if name not in LIBRARIES:
            raise OptionError(_describe_unknown_library(name))
    finder = next((candidate for candidate in sys.meta_path if isinstance(candidate, Finder)), None)
    if finder is None:
        finder = Finder()
        sys.meta_path.insert(0, finder)
    replaced = {theirs: ours for name in names for theirs, ours in LIBRARIES[name].items()}
    finder.modules.update(replaced)
    finder.replace_loaded_modules()
    os.environ.update(make_environment(finder.libraries))
    return replaced


def _describe_unknown_library(name: str) -> str:
    """Return the error message, with advice, for a ``name`` that is not a replaceable library."""
    if name == "transformers":
        return (
            "transformers cannot be replaced: import the extractor from kaldi_standins.transformers, or call "
            "kaldi_standins.transformers.drop_in(extractor)"
        )
    if not name:
        return "a name is empty: separate the names of libraries by commas without spaces"
    return f"{name} has no stand-in: choose from {', '.join(sorted(LIBRARIES))}"


def _describe_replacement(library: str) -> Iterator[str]:
    """Yield sentences that tell which module replaces or completes each module of ``library``."""
    is_installed = importlib.util.find_spec(library) is not None
    for theirs, ours in LIBRARIES[library].items():
        if _is_overlaid(theirs):
            verb = "has the extractors of"
        else:
            verb = "takes the names that it lacks from" if is_installed and theirs in PARTLY_REPLACED else "is"
        yield f"{theirs} {verb} {ours}"
    if is_installed and library == "torchaudio":
        reason = find_audio_problem()
        origin = f"{LIBRARIES[library][library]}'s: {reason}" if reason else f"torchaudio {_get_version(library)}'s own"
        yield f"torchaudio.{' and '.join(FILES)} are {origin}"


def install_from_environment() -> None:
    """Install the stand-ins that the parent process has named in the environment."""
    names = os.environ.get(VARIABLE, "")
    if names:
        install(*names.split(","))


def make_environment(names: Iterable[str]) -> dict[str, str]:
    """Return environment variables for child processes that install the stand-ins of ``names`` and of this process."""
    inherited = filter(None, os.environ.get(VARIABLE, "").split(","))
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != STARTUP]
    return {VARIABLE: ",".join(sorted({*names, *inherited})), "PYTHONPATH": os.pathsep.join([STARTUP, *path])}


class Finder:
    """Finder of Python's import system that finds stand-ins by the names of the original modules.

    The class does not derive from ``importlib.abc.MetaPathFinder``, because importing ``importlib.abc`` would delay
    the start of every process by 10 ms.

    Attributes:
        modules: maps original modules to the stand-in's modules.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    @property
    def libraries(self) -> set[str]:
        """Names of the replaced libraries."""
        return {name for name, modules in LIBRARIES.items() if modules.keys() <= self.modules.keys()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that loads the stand-in's module or completes the original, or None for any other module.

        Raise ModuleNotFoundError if the stand-in replaces the whole library and lacks the module ``fullname``.
        """
        ours = self._find_stand_in(fullname)
        if ours is None:
            return None
        keeps_original = self._keeps_original(fullname)
        original = importlib.machinery.PathFinder.find_spec(fullname, path) if keeps_original else None
        if original is not None:
            # An overlaid library has to be loaded before its stand-in, which `_module_exists` would import.
            if original.loader is not None and (_is_overlaid(fullname) or _module_exists(ours)):
                completed: Any = _Completed(original.loader, ours)
                original.loader = completed
            return original
        if not _module_exists(ours):
            if keeps_original:  # An optional module of the original may be missing.
                return None
            library = fullname.partition(".")[0]
            message = f"kaldi_compat's stand-in for {library} has no module {fullname}: run without the stand-in"
            raise ModuleNotFoundError(message, name=fullname)
        alias: Any = _Alias(ours)
        return importlib.util.spec_from_loader(fullname, alias)

    def replace_loaded_modules(self) -> None:
        """Remove or complete replaced modules that are already imported, and warn of originals that importers keep."""
        stale = []
        for name, module in list(sys.modules.items()):
            ours = self._find_stand_in(name)
            if ours is None or getattr(module, "__name__", ours) == ours:
                continue
            if self._keeps_original(name):
                if _module_exists(ours):
                    _complete_module(module, ours)
                if _is_overlaid(name):
                    stale.append(name)
                continue
            stale.append(name)
            del sys.modules[name]
            parent, _, child = name.rpartition(".")
            if self._keeps_original(parent) and parent in sys.modules:
                vars(sys.modules[parent]).pop(child, None)
        if stale:
            warnings.warn(
                f"{', '.join(sorted(stale))}: imported before the stand-in was installed, and other modules may use "
                "the original: call install first",
                stacklevel=3,
            )

    def _find_stand_in(self, fullname: str) -> str | None:
        """Return the name of the stand-in's module for a replaced module or its submodule, or else None."""
        package, suffix = fullname, ""
        while package:
            if package in self.modules:
                return self.modules[package] + suffix
            package, _, child = package.rpartition(".")
            suffix = f".{child}{suffix}"
        return None

    def _keeps_original(self, fullname: str) -> bool:
        """Return True if the original module stays and the stand-in only adds or replaces names in it."""
        parent = fullname.rpartition(".")[0]
        if getattr(sys.modules.get(parent), "__name__", parent) != parent:  # The whole parent package was replaced.
            return False
        if fullname in PARTLY_REPLACED or _is_overlaid(fullname):
            return True
        # Other modules of a partly replaced library keep their originals, except for the modules in LIBRARIES.
        return fullname.partition(".")[0] in PARTLY_REPLACED and fullname not in self.modules


def _is_overlaid(fullname: str) -> bool:
    return fullname.partition(".")[0] in OVERLAID


class _Alias:
    """Loads a module under a second name."""

    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Import and return the stand-in's module."""
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # Restore the value that the import system overwrote.


class _Completed:
    """Loads an original module with its own loader, and then sets names of the stand-in by :func:`_complete_module`."""

    def __init__(self, loader: Any, ours: str) -> None:
        self._loader, self._ours = loader, ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the original module and complete it, or raise ImportError if its C code was built for another torch."""
        try:
            self._loader.exec_module(module)
        except OSError as error:  # The library's C code does not fit the installed torch.
            library, torch = module.__name__.partition(".")[0], _get_version("torch")
            raise ImportError(
                f"{library} {_get_version(library)} cannot be imported with torch {torch}: {_shorten_error(error)}; "
                f"install the {library} for torch {torch}, or uninstall it to use the whole stand-in"
            ) from error
        _complete_module(module, self._ours)


def _complete_module(module: ModuleType, ours: str) -> None:
    """Set names of an original module to their values in the stand-in's module, whose name is ``ours``.

    Only names that the original lacks are set. In lhotse, where the stand-in replaces classes, only names that the
    original has are set. In torchaudio, ``load`` and ``save`` are added if the original cannot read audio files.
    """
    source = importlib.import_module(ours)
    with warnings.catch_warnings():  # `hasattr` calls the module's __getattr__, which warns about deprecated names.
        warnings.simplefilter("ignore")
        replaced = [name for name in source.__all__ if hasattr(module, name) == _is_overlaid(module.__name__)]
        if module.__name__ == "torchaudio" and find_audio_problem():
            replaced.extend(FILES)
    for name in replaced:
        setattr(module, name, getattr(source, name))


def find_audio_problem() -> str:
    """Return the reason why the installed torchaudio cannot read audio files, or an empty string if it can."""
    version = _get_version("torchaudio")
    # Since version 2.9, torchaudio reads audio files with torchcodec.
    if not version or [*map(int, version.split(".")[:2])] < [2, 9]:
        return ""
    codec_version = _get_version("torchcodec")
    if not codec_version:
        return f"torchaudio {version} needs torchcodec, which is not installed"
    try:
        for name in ("decoders", "encoders"):
            importlib.import_module(f"torchcodec.{name}")
    except Exception as error:
        reason = f"cannot be imported with torch {_get_version('torch')}: {_shorten_error(error)}"
        return f"torchaudio {version} needs torchcodec, and torchcodec {codec_version} {reason}"
    return ""


def _get_version(library: str) -> str:
    """Return the version of a library, or an empty string if the library is not installed."""
    import importlib.metadata  # Imported here, because it takes 10 ms and only torchaudio needs it.

    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _shorten_error(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class, cut to 200 characters."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _module_exists(module: str) -> bool:
    """Return True if a module can be found. Raise ModuleNotFoundError if its parents import a missing package."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # A dependency is missing, such as NumPy.
            raise
        return False


def main(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a command that runs with stand-ins for the libraries NAMES.

    ``arguments`` are "replace NAMES [--] COMMAND". The replaced modules are printed to standard error before the
    command starts. Exit with the status 2 if the arguments are invalid, 127 if the command cannot be run, or 0 after
    printing the usage for ``-h`` or ``--help``.
    """
    usage = USAGE.format(names=", ".join(LIBRARIES))
    if {"-h", "--help"} & set(arguments[:2]):
        from kaldi_compat.cli.program import run_printing_command

        sys.exit(run_printing_command(lambda: print(usage, end="") or 0, "kaldi_standins"))
    names = arguments[1].replace(" ", "").split(",") if len(arguments) > 2 and arguments[0] == "replace" else []
    command_start = 3 if arguments[2:3] == ["--"] else 2
    command = [*arguments[command_start:]]
    unknown = [name for name in names if name not in LIBRARIES]
    if unknown or not names or not command:
        message = f"kaldi_standins: {'; '.join(map(_describe_unknown_library, unknown))}\n" if unknown else usage
        print(message, end="", file=sys.stderr)
        sys.exit(2)
    for name in names:
        for sentence in _describe_replacement(name):
            print(f"kaldi_standins: {sentence}", file=sys.stderr)
    program = [sys.executable] if command[0].startswith("-") or command[0].endswith(".py") else []
    sys.stderr.flush()
    try:
        os.execvpe((program or command)[0], [*program, *command], {**os.environ, **make_environment(names)})
    except OSError as error:
        print(f"kaldi_standins: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)  # A shell has this status if a command cannot be run.
