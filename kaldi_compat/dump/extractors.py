"""Extractors map audio to arrays: presets, Python objects, encoders and codecs of transformers, ONNX models.

This module opens them, and takes apart what they return.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.extras import import_extra
from kaldi_compat.dump.errors import DumpError, one_line
from kaldi_compat.dump.options import CPU, MODULE, ONNX, PRESET, TRANSFORMERS, DumpOptions, Job
from kaldi_compat.errors import AudioError
from kaldi_compat.options.config import spell_as_flags

Array = npt.NDArray[Any]
DEFAULT_RATE = 16000
LIST, PADDED = "list", "padded"
ALONE, EQUAL = "alone", "equal"


@dataclass(frozen=True)
class Extractor:
    """An extractor that is ready to be called on a device.

    Attributes:
        call: takes a list of float32 arrays ``(T,)`` in -1 to 1 and their rates, and returns what :func:`by_utterance`
            takes apart.
        name: for messages.
        sample_rate: rate of the audio it takes, in Hz; None: any.
        frame_shift: seconds from row to row of its matrices; None if it does not say.
        max_batch_seconds: audio of a batch, padding included; 0 if it does not say.
        window_seconds: audio that it pads shorter audio to; 0 if it does not.
        batching: "padded", "equal" (only utterances of one length together) or "alone"; "" if a trial decides.
        weights: digest of the weights of a Python object; "" if files hold all that decides its numbers.
        checks_rows: its ``frame_shift`` was declared, so that the number of rows follows from the duration.
        notes: warnings about it that the user should see.
    """

    call: Callable[[Sequence[Array], Sequence[float]], Any]
    name: str
    sample_rate: int | None = DEFAULT_RATE
    frame_shift: float | None = None
    max_batch_seconds: float = 0.0
    window_seconds: float = 0.0
    batching: str = ""
    weights: str = ""
    checks_rows: bool = False
    notes: tuple[str, ...] = ()


def with_torch() -> Any:
    """Return :mod:`kaldi_compat.torch.extractors` if torch is imported, which an extractor may do; otherwise None."""
    if "torch" not in sys.modules:
        return None
    from kaldi_compat.torch import extractors

    return extractors


def open_extractor(job: Job, device: str, threads: int) -> Extractor:
    """Open the extractor of a job.

    Raises:
        DumpError: it cannot be opened; says why in one line.
    """
    openers = {PRESET: _open_preset, MODULE: _open_module, ONNX: _open_onnx, TRANSFORMERS: _open_transformers}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        opened = openers[job.options.source](job, device, threads)
    return replace(opened, notes=tuple(spell_as_flags(str(each.message), DumpOptions) for each in caught))


def _open_preset(job: Job, device: str, threads: int) -> Extractor:
    options = job.options
    if options.engine == "exact":
        return _of_frontend(_array_frontend(options), device)
    from kaldi_compat.torch.frontend import Frontend

    frontend: Any = Frontend(options.preset, statistics=options.statistics or None, engine=options.engine)  # type: ignore[arg-type]
    return _of_frontend(frontend.to(device), device)


def _array_frontend(options: DumpOptions) -> Any:
    """Return the front end of ``--preset`` without torch."""
    from kaldi_compat.frontends.numpy import Frontend

    return Frontend(options.preset, statistics=options.statistics or None)


def _of_frontend(frontend: Any, device: str) -> Extractor:
    name, shift = frontend.preset.name, _shift_of(frontend)
    if device != CPU:
        return Extractor(_padded(frontend, device), name, frontend.sampling_rate, shift)
    convert: Callable[[Array], Any] = np.asarray
    if hasattr(frontend, "parameters"):
        from torch import from_numpy as convert

    def call(audio: Sequence[Array], rates: Sequence[float]) -> list[Any]:
        return [frontend(convert(each), sampling_rate=int(rate)) for each, rate in zip(audio, rates, strict=True)]

    return Extractor(call, name, None, shift, batching=ALONE)


def _padded(made: Any, device: str) -> Callable[..., Any]:
    """Return the call of an extractor that takes a padded tensor and lengths."""
    from kaldi_compat.torch.extractors import pad

    return lambda audio, rates: made(*pad(audio, device))


def _shift_of(frontend: Any) -> float:
    """Return the seconds from frame to frame: those of the feature, times the strides of the steps."""
    strides = [getattr(step.options, "stride", getattr(step.options, "size", 1)) for step in frontend.preset.steps
               if step.kind in ("low_frame_rate", "stack_frames")]  # fmt: skip
    return float(np.prod([frontend.preset.options.frame_shift / 1000, *strides]).round(9))


def _open_module(job: Job, device: str, threads: int) -> Extractor:
    given = job.options.module
    place, colon, name = given.rpartition(":")
    if job.extractor is not None:
        return _of_object(job.extractor, job, device)
    if not colon or not name:
        raise DumpError(f"--module={given}: expected package.module:name or path/to/file.py:name")
    try:
        target = _imported(place)
        for part in name.split("."):
            target = getattr(target, part)
        return _of_object(_made(target, device), job, device)
    except DumpError:
        raise
    except (Exception, SystemExit) as error:
        raise DumpError(f"--module={given} cannot be made: {type(error).__name__}: {one_line(error)}") from error


def module_file(given: str) -> Path | None:
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


def _made(target: Any, device: str) -> Any:
    """Return the extractor that a class or factory makes; an object, or a function of audio, is one already."""
    if not (inspect.isclass(target) or inspect.isroutine(target)):
        return target
    parameters = inspect.signature(target).parameters
    needed = {name for name, one in parameters.items() if one.default is one.empty and one.kind < one.VAR_POSITIONAL}
    if not inspect.isclass(target) and needed - {"device"}:
        return target
    make: Callable[..., Any] = target
    return make(device=device) if "device" in parameters else make()


def _of_object(made: Any, job: Job, device: str) -> Extractor:
    """Return the extractor that a Python object is."""
    from kaldi_compat.frontends.base import PresetFrontend

    name, weights = job.feature, ""
    if not callable(made):
        raise DumpError(f"{name}: a {type(made).__name__} cannot be called: expected a class or factory of a callable")
    if torch_models := with_torch():
        made, weights = torch_models.prepare(made, device, compiled=job.options.compile)
    if isinstance(made, PresetFrontend):
        return _of_frontend(made, device)
    takes, rate, shift, most = (
        getattr(made, each, None) for each in ("takes", "sample_rate", "frame_shift", "max_batch_seconds")
    )
    if takes not in (None, LIST, PADDED):
        raise DumpError(f"{name}.takes is {takes!r}: expected {LIST!r} or {PADDED!r}")
    for what, value in (("sample_rate", rate), ("frame_shift", shift), ("max_batch_seconds", most or None)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < np.inf):
            raise DumpError(f"{name}.{what} is {value!r}: expected a positive number")
    call = _padded(made, device) if takes == PADDED else lambda audio, rates: made(audio)
    rate = int(rate or DEFAULT_RATE)
    return Extractor(call, name, rate, shift, float(most or 0), weights=weights, checks_rows=shift is not None)


def _open_transformers(job: Job, device: str, threads: int) -> Extractor:
    from kaldi_compat.torch.extractors import open_pretrained

    made = open_pretrained(job.options, device)
    window = made.longest / made.sample_rate if made.longest else 0.0
    return Extractor(lambda audio, rates: made(audio), job.feature, made.sample_rate, made.frame_shift,
                     window_seconds=window)  # fmt: skip


def _open_onnx(job: Job, device: str, threads: int) -> Extractor:
    runtime = import_extra("onnxruntime", "--onnx")
    path, settings = job.options.onnx, runtime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    provider = "CPUExecutionProvider" if device == CPU else "CUDAExecutionProvider"
    if provider not in runtime.get_available_providers():
        raise DumpError(f"--device={device}: this onnxruntime has no {provider}: install onnxruntime-gpu")
    where = {} if device == CPU else {"device_id": device.partition(":")[2] or "0"}
    try:
        session = runtime.InferenceSession(path, settings, providers=[(provider, where)])
    except Exception as error:
        raise DumpError(f"--onnx={path} cannot be opened: {one_line(error)[:300]}") from error
    inputs, outputs = [each.name for each in session.get_inputs()], [each.name for each in session.get_outputs()]
    if len(inputs) != 1:
        raise DumpError(f"--onnx={path} has the inputs {', '.join(inputs)}: expected one, of audio or features")
    frontend = _array_frontend(job.options) if job.options.preset else None

    def one(samples: Array, rate: float) -> Any:
        values = frontend(samples, sampling_rate=int(rate)) if frontend else samples
        if not len(values):
            raise AudioError("the audio is too short for a frame")
        found = [value[0] for value in session.run(None, {inputs[0]: values[None]})]
        return found[0] if len(found) == 1 else dict(zip(outputs, found, strict=True))

    rate = None if frontend else DEFAULT_RATE
    return Extractor(lambda audio, rates: list(map(one, audio, rates)), job.feature, rate, batching=ALONE)


def by_utterance(output: Any, count: int) -> list[Any]:
    """Return what a call returned for each utterance of its batch: an array, or a dictionary of them.

    Args:
        output: a list or padded array with an entry for each utterance, the latter with their lengths as a second
            member of a tuple if they differ; or a dictionary of those.
        count: number of utterances.

    Raises:
        ValueError: it does not have an entry for each of them.
    """
    if isinstance(output, dict):
        parts = {name: by_utterance(value, count) for name, value in output.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    lengths = None
    if isinstance(output, tuple) and len(output) == 2:
        output, lengths = output[0], as_array(output[1]).tolist()
    found = list(output if isinstance(output, list | tuple) else np.atleast_1d(as_array(output)))
    for number in (len(found), count if lengths is None else len(lengths)):
        if number != count:
            raise ValueError(f"returned {number} results for {count} utterances")
    for i, length in enumerate(lengths or ()):
        if not 0 <= length <= len(found[i]):
            raise ValueError(f"returned {len(found[i])} rows where its lengths say {length}")
        found[i] = found[i][:length]
    return found


def as_array(value: Any) -> Array:
    """Return a copy of a tensor or array as float32 or int32: extractors may write to theirs again.

    Raises:
        ValueError: it is neither, or of another type.
    """
    if value is None:
        raise ValueError("returned nothing")
    if hasattr(value, "detach"):
        value = value.detach()
        value = (value.float() if value.is_floating_point() else value).cpu().numpy()
    if not isinstance(value, np.ndarray) or (type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)):
        raise ValueError(f"returned a {type(value).__name__}: expected an array or a tensor")
    if value.dtype.kind == "f":
        return np.array(value, np.float32, order="C")
    if value.dtype.kind in "iu":
        if value.size and not -(2**31) <= int(value.min()) <= int(value.max()) < 2**31:
            raise ValueError("returned integers that do not fit 32 bits")
        return np.array(value, np.int32, order="C")
    raise ValueError(f"returned an array of {value.dtype}: expected floats or integers")
