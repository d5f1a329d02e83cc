"""``--module``: an object of Python, by its name or given to :func:`kaldi_compat.dump`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_compat.dump.errors import DumpError, one_line
from kaldi_compat.dump.extractors import with_torch
from kaldi_compat.dump.object_digest import ObjectDigest, changed_values, digest_object, imported_files
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.sources.base import (
    DEFAULT_RATE,
    PADDED,
    Digests,
    Extractor,
    ExtractorSource,
    padded_call,
)
from kaldi_compat.dump.sources.preset import extractor_of_frontend

LIST = "list"
MAX_ROUNDS = 4  # A value that calls have made may hide others from the first comparison.


class ModuleSource(ExtractorSource):
    """A callable of Python, or a class or factory of one."""

    option = "module"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._made: Any = None
        self._imported_before = dict.fromkeys(sys.modules)
        self._before = ObjectDigest()

    @classmethod
    def name_of(cls, value: str) -> str:
        """Return the name of the object, without its module."""
        return Path(value.rpartition(":")[2]).name

    def files(self) -> dict[str, Path]:
        """Return the file of the module."""
        path = _module_file(self.options.module) if self.job.extractor is None else None
        return {"--module": path} if path else {}

    def open(self, device: str, threads: int) -> Extractor:
        """Import and make the object, and move the modules of torch in its reach to the device."""
        self._made = self._object(device)
        if not callable(self._made):
            kind = type(self._made).__name__
            raise DumpError(f"{self.job.feature}: a {kind} cannot be called: expected a class or factory of a callable")
        if torch := with_torch():
            torch.move(digest_object(self._made, torch).modules, device)
        return _extractor_of(self._made, self.job, device)

    def _object(self, device: str) -> Any:
        given = self.options.module
        place, colon, name = given.rpartition(":")
        if self.job.extractor is not None:
            return self.job.extractor
        if not colon or not name:
            raise DumpError(f"--module={given}: expected package.module:name or path/to/file.py:name")
        try:
            target = _imported(place)
            for part in name.split("."):
                target = getattr(target, part)
            return _make(target, device)
        except DumpError:
            raise
        except (Exception, SystemExit) as error:
            raise DumpError(f"--module={given} cannot be made: {type(error).__name__}: {one_line(error)}") from error

    def digests(self, volatile: Sequence[str] = ()) -> Digests:
        """Return the digests of everything in the object's reach."""
        found = digest_object(self._made, with_torch(), frozenset(volatile))
        if not volatile:
            self._before = found
        version = getattr(self._made, "version", None)
        opaque = {} if isinstance(version, str | int | float) else found.opaque
        files = {name: path for name, path in found.files.items() if path not in self._own_files()}
        named = {f"--module {name}": path for name, path in files.items()}
        return Digests(found.parts, opaque, tuple(volatile), named)

    def digests_after_trial(self, before: Digests) -> Digests:
        """Return the digests without what calls change. Weights that have appeared in calls cannot be compared."""
        changed: dict[str, str] = {}
        for _ in range(MAX_ROUNDS):
            after = digest_object(self._made, with_torch(), frozenset(changed))
            if not (more := changed_values(self._before, after, changed)):
                break
            changed |= more
        digests = self.digests(tuple(sorted(changed)))
        late = {path: reason for path, reason in changed.items() if reason}
        vouched = isinstance(getattr(self._made, "version", None), str | int | float)
        opaque = {**digests.opaque, **({} if vouched else late)}
        new = {f"--module {name}": path for name, path in imported_files(self._imported_before).items()
               if path not in self._own_files()}  # fmt: skip
        return Digests(digests.parts, opaque, digests.volatile, {**digests.files, **new})

    def _own_files(self) -> list[Path]:
        return [path.absolute() for path in self.files().values()]


def _module_file(given: str) -> Path | None:
    """Return the file of ``--module``; None if it is not one that can be found."""
    place = given.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    _search_here()
    spec = None
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(place)
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None


def _imported(place: str) -> Any:
    if not place.endswith(".py"):
        _search_here()
        return importlib.import_module(place)
    path = Path(place).absolute()
    spec = importlib.util.spec_from_file_location(f"dumped_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _search_here() -> None:
    """Find modules in the working directory too, as ``python -m`` does; theirs may be imported late."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    importlib.invalidate_caches()


def _make(target: Any, device: str) -> Any:
    """Return the extractor that a class or factory makes; an object, or a function of audio, is one already."""
    if not (inspect.isclass(target) or inspect.isroutine(target)):
        return target
    parameters = inspect.signature(target).parameters
    needed = {name for name, one in parameters.items() if one.default is one.empty and one.kind < one.VAR_POSITIONAL}
    if not inspect.isclass(target) and needed - {"device"}:
        return target
    make: Callable[..., Any] = target
    return make(device=device) if "device" in parameters else make()


def _extractor_of(made: Any, job: Job, device: str) -> Extractor:
    """Return the extractor that a Python object is."""
    from kaldi_compat.frontends.base import PresetFrontend

    name = job.feature
    if isinstance(made, PresetFrontend):
        return extractor_of_frontend(made, device)
    takes, rate, shift, most = (
        getattr(made, attribute, None) for attribute in ("takes", "sample_rate", "frame_shift", "max_batch_seconds")
    )
    if takes not in (None, LIST, PADDED):
        raise DumpError(f"{name}.takes is {takes!r}: expected {LIST!r} or {PADDED!r}")
    for what, value in (("sample_rate", rate), ("frame_shift", shift), ("max_batch_seconds", most or None)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < np.inf):
            raise DumpError(f"{name}.{what} is {value!r}: expected a positive number")
    torch = with_torch()
    called = torch.compile_module(made) if torch and job.options.compile else made
    call = padded_call(called, device) if takes == PADDED else lambda audio, rates: called(audio)
    rate = int(rate or DEFAULT_RATE)
    return Extractor(call, name, rate, shift, float(most or 0), checks_rows=shift is not None)
