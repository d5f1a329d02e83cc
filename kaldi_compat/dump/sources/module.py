"""``--module``: a Python object, by its name or as an argument of :func:`kaldi_compat.dump`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec, PathFinder
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_compat.dump.call_record import CallRecord
from kaldi_compat.dump.errors import DumpError, format_error
from kaldi_compat.dump.object_digest import ObjectDigest, digest_object, find_changed_values
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.sources import (
    DEFAULT_RATE,
    PADDED,
    Digests,
    Extractor,
    ExtractorSource,
    get_torch_extractors,
    wrap_padded_function,
)
from kaldi_compat.dump.sources.preset import wrap_frontend
from kaldi_compat.dump.user_modules import find_archive, find_imported_files, find_module_path

LIST = "list"
# Folders that imports of files have added to sys.path. The next import of a file removes them.
_added_folders: list[str] = []


class ModuleSource(ExtractorSource):
    """A Python callable, or a class or factory of a callable."""

    option = "module"
    used_options = ("dtype", "compile", "trust_extractor")
    changes_in_calls = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._object: Any = None  # The extractor. The digests before and after the first call are set later.
        self._modules: list[Any] = []  # Modules of torch that were moved to the device, in evaluation mode.
        self._imported_before = dict.fromkeys(sys.modules)  # Names of the modules that the extractor did not import.

    @classmethod
    def get_name(cls, value: str) -> str:
        """Return the name of the object, without its module."""
        return Path(value.rpartition(":")[2]).name

    def list_files(self) -> dict[str, Path]:
        """Return the files of the module and of its packages, or no files for an object that was passed from Python."""
        return _find_module_files(self.options.module) if self.job.extractor is None else {}

    def open(self, device: str, threads: int) -> Extractor:
        """Import or create the object, move the torch modules to which it refers to the device, and wrap it.

        Raises:
            DumpError: the object cannot be imported, created, called or compiled, or has an invalid attribute.
        """
        self._object = self._create_object(device)
        if not callable(self._object):
            kind = type(self._object).__name__
            advice = "name a callable object, or a class or factory of one"
            raise DumpError(f"{self.job.feature}: a {kind} cannot be called: {advice}")
        self._digest_before_calls = self._prepare_modules(device)
        return _make_extractor(self._object, self.job, device)

    def prepare_after_first_call(self, device: str) -> None:
        """Move the torch modules that the first call has created to the device."""
        self._digest_after_first_call = self._prepare_modules(device)

    def _prepare_modules(self, device: str) -> ObjectDigest:
        """Move new torch modules of the object to the device in evaluation mode. Return the digest before the move."""
        torch = get_torch_extractors()
        digest = digest_object(self._object, torch)
        if torch:
            torch.prepare_modules(self._find_new_modules(digest), device)
            self._modules = digest.modules
        return digest

    def _find_new_modules(self, digest: ObjectDigest) -> list[Any]:
        return [module for module in digest.modules if all(module is not known for known in self._modules)]

    def _create_object(self, device: str) -> Any:
        """Return the object of the job, or create the object that ``--module`` names. Raise DumpError if this fails."""
        name_in_module = self.options.module
        module_name, colon, name = name_in_module.rpartition(":")
        if self.job.extractor is not None:
            return self.job.extractor
        if not colon or not name:
            raise DumpError(f"--module={name_in_module}: write package.module:name or path/to/file.py:name")
        try:
            for module in _forget_imported_files():
                self._imported_before.pop(module, None)
            target = _import_module(module_name)
            for part in name.split("."):
                target = _get_member(target, part, module_name)
            return _call_factory(target, device)
        except DumpError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {format_error(error)}"
            raise DumpError(f"--module={name_in_module} cannot be created: {reason}") from error

    def suggest_remedy(self, error: Exception) -> str:
        """Describe the object's call if ``error`` indicates that it expects other arguments. Otherwise, return ""."""
        if not isinstance(error, TypeError | AttributeError):
            return ""
        if getattr(self._object, "takes", LIST) == PADDED:
            call_form = "the object is called with a tensor (B, T) and the lengths (B,)"
            return f'{call_form}, because takes = "{PADDED}"' if "positional argument" in str(error) else ""
        call_form = f'the object is called with a list of float32 arrays; takes = "{PADDED}" in its class'
        return f"{call_form} gives it a tensor (B, T) and the lengths (B,) instead" if "list" in str(error) else ""

    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return the digests of everything that the object refers to, and of environment variables."""
        digest = digest_object(self._object, get_torch_extractors(), frozenset(volatile))
        values = {f"environment variable {name}": str(os.environ.get(name)) for name in variables}
        parts = {name: hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()
                 for name, value in values.items()}  # fmt: skip
        files = self._name_files(digest.files)
        return Digests(digest.parts | parts, volatile=tuple(volatile), variables=tuple(variables), files=files)

    def compute_digests_after_trial(self, record: CallRecord) -> Digests:
        """Return the digests for the plan.

        A resumed dump also makes a first call, so the digests include values that the first call creates, such as a
        table. They do not include values that change in later calls, such as a cache or a count, because these follow
        from the other values and from files. Such a value is opaque if it had content before the first call and is
        neither a number nor a string. If the object has an attribute ``version``, nothing is opaque.

        Raises:
            DumpError: a later call creates a module in training mode.
        """
        latest = digest_object(self._object, get_torch_extractors())
        if kinds := [type(module).__name__ for module in self._find_new_modules(latest) if module.training]:
            raise DumpError(
                f"{self.job.feature} creates the module {kinds[-1]} in training mode in a call after the first: "
                "create the module in the constructor, or call its method eval()"
            )
        # Keep changes since before the first call only for values that later calls change, or that contain such values.
        later_paths = find_changed_values(self._digest_after_first_call, latest)
        changes = {path: reason for path, reason in find_changed_values(self._digest_before_calls, latest).items()
                   if any(later == path or later.startswith(f"{path}.") for later in later_paths)}  # fmt: skip
        digests = self.compute_digests(sorted(changes), sorted(record.variables))
        # A container that only the calls have filled is not opaque.
        opaque = {path: reason for path, reason in latest.opaque.items()
                  if path not in latest.filled or path in self._digest_before_calls.filled}  # fmt: skip
        opaque |= {path: reason for path, reason in changes.items() if reason}
        opaque |= {f"call {number}": source for number, source in enumerate(sorted(record.external), 1)}
        if isinstance(getattr(self._object, "version", None), str | int | float):
            opaque = {}
        files = find_imported_files(self._imported_before) | {str(path): path for path in record.list_files()}
        return replace(digests, opaque=opaque, files={**digests.files, **self._name_files(files)})

    def _name_files(self, files: Mapping[str, Path]) -> dict[str, Path]:
        """Name ``files`` for messages, as in "--module tables". Leave out the files of :meth:`list_files`."""
        listed_paths = [path.absolute() for path in self.list_files().values()]
        return {f"--module {name}": path for name, path in files.items() if path not in listed_paths}


def _find_module_files(name_in_module: str) -> dict[str, Path]:
    """Map names for messages to the files, or zip files, of the module in ``--module`` and of its packages."""
    module_name = name_in_module.rpartition(":")[0]
    if module_name.endswith(".py"):
        return {"--module": Path(module_name)}
    _search_working_directory()
    files: dict[str, Path] = {}
    folders: list[str] | None = None
    for name in accumulate(module_name.split("."), "{}.{}".format):  # "a", "a.b" and "a.b.c" for "a.b.c".
        last_part = name.rpartition(".")[2]
        spec = _find_spec(last_part, folders) if last_part else None
        if spec is None:
            break
        if spec.origin and spec.has_location:
            path = Path(find_archive(spec.loader) or spec.origin)
            files["--module" if name == module_name else f"--module {name}"] = path
        folders = list(spec.submodule_search_locations or ())
    return files


def _find_spec(name: str, folders: list[str] | None) -> ModuleSpec | None:
    """Return a module's import spec, or None. ``folders`` are the folders of its package, or None without a package.

    Unlike :func:`importlib.util.find_spec`, this does not run the code of the package.
    """
    finders: Sequence[Any] = [PathFinder]
    if folders is None:
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return next(filter(None, (finder.find_spec(name, folders) for finder in finders)), None)


def _import_module(name_or_path: str) -> Any:
    """Import a module by its name, or by the path of its file, which ends in ``.py``, and return the module.

    The file can import other files of its folder. The folder is searched last, so that its files do not replace
    libraries of the same names.
    """
    if not name_or_path.endswith(".py"):
        _search_working_directory()
        return importlib.import_module(name_or_path)
    path = Path(name_or_path).absolute()
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
        _added_folders.append(folder)
        importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(f"dumped_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forget_imported_files() -> list[str]:
    """Remove the modules that an earlier ``--module`` has imported from its folder, and return their names.

    The folder is also removed from ``sys.path``. The next folder may have files of the same names, or the files may
    have changed.
    """
    names: list[str] = []
    while _added_folders:
        folder = _added_folders.pop()
        if folder in sys.path:
            sys.path.remove(folder)
        for name in list(sys.modules):
            path, package = find_module_path(name), name.partition(".")[0]
            if path and path.is_relative_to(folder) and path.relative_to(folder).parts[0] in (package, f"{package}.py"):
                names.append(name)
    for name in names:
        del sys.modules[name]
    return names


def _get_member(owner: Any, name: str, module_name: str) -> Any:
    """Return the attribute ``name``. If it is missing, raise DumpError for a module, otherwise AttributeError."""
    if not inspect.ismodule(owner) or hasattr(owner, name):
        return getattr(owner, name)
    members = [member for member, value in vars(owner).items() if getattr(value, "__module__", None) == owner.__name__]
    remedy = f"choose from {', '.join(members)}" if members else "name a module with classes or functions of its own"
    raise DumpError(f"--module: {module_name} has no {name!r}: {remedy}")


def _search_working_directory() -> None:
    """Add the working directory to the search path of modules, like ``python -m``."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    importlib.invalidate_caches()


def _call_factory(target: Any, device: str) -> Any:
    """Call a class, or a function that needs at most ``device``, and return the result. Return ``target`` otherwise."""
    if not (inspect.isclass(target) or inspect.isroutine(target)):
        return target
    parameters = inspect.signature(target).parameters
    required_names = {
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }
    if not inspect.isclass(target) and required_names - {"device"}:
        return target
    factory: Callable[..., Any] = target
    return factory(device=device) if "device" in parameters else factory()


def _make_extractor(value: Any, job: Job, device: str) -> Extractor:
    """Wrap a callable object as an extractor. Raise DumpError if an attribute or ``--compile`` is invalid for it."""
    from kaldi_compat.frontends.base import PresetFrontend

    name, torch_extractors = job.feature, get_torch_extractors()
    compiled = torch_extractors.compile_module(value) if torch_extractors and job.options.compile else value
    if job.options.compile and isinstance(value, PresetFrontend):
        raise DumpError(f"--compile does not apply to front ends of presets, and {name} is one: leave out --compile")
    if job.options.compile and compiled is value:
        kind = type(value).__name__
        raise DumpError(f"--compile needs an object that is a torch.nn.Module, but {name} is a {kind}: leave out "
                        "--compile, or call torch.compile in the constructor")  # fmt: skip
    if isinstance(value, PresetFrontend):
        return wrap_frontend(value, device)
    takes, rate, shift, max_seconds = (
        getattr(value, attribute, None) for attribute in ("takes", "sample_rate", "frame_shift", "max_batch_seconds")
    )
    if takes not in (None, LIST, PADDED):
        raise DumpError(f"{name}.takes is {takes!r}: expected {LIST!r} or {PADDED!r}")
    numbers = {"sample_rate": rate, "frame_shift": shift, "max_batch_seconds": max_seconds or None}
    for attribute, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and 0 < number < np.inf):
            raise DumpError(f"{name}.{attribute} is {number!r}: expected a positive number")
    call = wrap_padded_function(compiled, device) if takes == PADDED else lambda audio, rates: compiled(audio)
    rate = int(rate or DEFAULT_RATE)
    return Extractor(call, name, rate, shift, max_batch_seconds=float(max_seconds or 0), checks_rows=shift is not None)
