"""Sources of extractors. Every source has a file with the name of its option."""

from __future__ import annotations

import importlib
import re
import warnings
from dataclasses import replace
from typing import Any

from kaldi_compat.dump.options import DumpOptions, Job
from kaldi_compat.dump.sources.base import Extractor, ExtractorSource
from kaldi_compat.options.config import spell_as_flags

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def source_class(option: str) -> type[ExtractorSource]:
    """Return the class of a source by its option, which is also the name of the file."""
    importlib.import_module(f"{__name__}.{option}")
    return ExtractorSource.by_option[option]


def extractor_name(options: DumpOptions) -> str:
    """Return the name of the extractor as a part of file names."""
    value = getattr(options, options.source).rstrip("/")
    return _NOT_IN_NAMES.sub("-", source_class(options.source).name_of(value))


def option_of(extractor: Any, name: str) -> dict[str, str]:
    """Return the option for the extractor of a call from Python: an object, ``module:name`` or a preset."""
    if not isinstance(extractor, str):
        return {"module": f":{name or getattr(extractor, '__name__', type(extractor).__name__)}"}
    return {"module" if ":" in extractor else "preset": extractor}


def source_of(job: Job) -> ExtractorSource | None:
    """Return the source of a job's extractor; None if the job computes Kaldi's features."""
    return source_class(job.options.source)(job) if job.options.source else None


def open_extractor(source: ExtractorSource, device: str, threads: int) -> Extractor:
    """Open the extractor of a source, and record its warnings as notes.

    Raises:
        DumpError: the extractor cannot be opened. The message is one line with the reason.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        opened = source.open(device, threads)
    return replace(opened, notes=tuple(spell_as_flags(str(warning.message), DumpOptions) for warning in caught))
