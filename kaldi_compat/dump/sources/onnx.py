"""``--onnx``: a model of audio, or with ``--preset`` of its features."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from io_ark.extras import import_extra
from kaldi_compat.dump.errors import DumpError, one_line
from kaldi_compat.dump.options import CPU
from kaldi_compat.dump.sources.base import ALONE, DEFAULT_RATE, NO_DIGESTS, Array, Digests, Extractor, ExtractorSource
from kaldi_compat.dump.sources.preset import PresetSource
from kaldi_compat.errors import AudioError

# Fields of onnx.proto that lead to tensors: number and type of each field, by message type.
TENSOR, ENTRY = "tensor", "entry"
FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: TENSOR, 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: TENSOR, 6: "graph", 10: TENSOR, 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: TENSOR, 2: TENSOR},
    TENSOR: {13: ENTRY},
}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # Wire types of protocol buffers.
MAX_VARINT_BYTES = 10
MAX_NESTED_MESSAGES = 100  # The limit of protocol buffers.


class OnnxSource(ExtractorSource):
    """A model with one input that onnxruntime runs."""

    option = "onnx"

    def files(self) -> dict[str, Path]:
        """Return the model, its external files of weights, and the files of the preset before the model."""
        path = Path(self.options.onnx)
        names = _external_files(path, _stamp(path)) if path.is_file() else ()
        weights = {f"--onnx/{name}": path.parent / name for name in names}
        return {"--onnx": path, **weights, **(PresetSource(self.job).files() if self.options.preset else {})}

    def open(self, device: str, threads: int) -> Extractor:
        """Open a session of onnxruntime."""
        runtime = import_extra("onnxruntime", "--onnx")
        path, settings = self.options.onnx, runtime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = threads, 3
        provider = "CPUExecutionProvider" if device == CPU else "CUDAExecutionProvider"
        if provider not in runtime.get_available_providers():
            raise DumpError(
                f"--device={device} needs {provider}, which this onnxruntime lacks: install onnxruntime-gpu"
            )
        provider_options = {} if device == CPU else {"device_id": device.partition(":")[2] or "0"}
        try:
            session = runtime.InferenceSession(path, settings, providers=[(provider, provider_options)])
        except Exception as error:
            raise DumpError(f"--onnx={path} cannot be opened: {one_line(error)[:300]}") from error
        inputs = [argument.name for argument in session.get_inputs()]
        outputs = [argument.name for argument in session.get_outputs()]
        if len(inputs) != 1:
            raise DumpError(f"--onnx={path} has the inputs {', '.join(inputs)}: expected one, of audio or features")
        frontend = PresetSource(self.job).array_frontend() if self.options.preset else None

        def compute(samples: Array, rate: float) -> Any:
            values = frontend(samples, sampling_rate=int(rate)) if frontend else samples
            if not len(values):
                raise AudioError("the audio is too short for a frame")
            results = zip(outputs, session.run(None, {inputs[0]: values[None]}), strict=True)
            arrays = {name: _remove_batch_axis(name, value) for name, value in results}
            return next(iter(arrays.values())) if len(arrays) == 1 else arrays

        rate = None if frontend else DEFAULT_RATE
        return Extractor(lambda audio, rates: list(map(compute, audio, rates)), self.job.feature, rate, batching=ALONE)

    def digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return no digests, because the files decide all numbers."""
        return NO_DIGESTS


def _remove_batch_axis(name: str, value: Any) -> Array:
    """Return an output of the only utterance of a batch."""
    if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != 1:
        shape = value.shape if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"the output {name} is {shape}: expected an array whose first axis is the batch of one")
    result: Array = value[0]
    return result


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(8)
def _external_files(path: Path, stamp: tuple[int, int, int]) -> tuple[str, ...]:
    """Return the names of the files, relative to the model, that hold tensors of the model.

    Tensors are in graphs, in graphs inside nodes, and in functions. A damaged model has no such files; onnxruntime
    reports the damage.
    """
    if not stamp[1]:
        return ()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            return tuple(sorted(set(_locations(content, 0, len(content), "model"))))
        except (ValueError, IndexError):
            return ()


def _locations(content: mmap.mmap, place: int, end: int, kind: str, depth: int = 0) -> Iterator[str]:
    """Yield the locations of external tensors inside a message of this type."""
    if depth > MAX_NESTED_MESSAGES:
        raise ValueError("nested too deeply")
    for number, start, stop in _fields(content, place, end):
        inner = FIELDS[kind].get(number)
        if inner == ENTRY:
            pair = {field: content[first:last] for field, first, last in _fields(content, start, stop)}
            if pair.get(1) == b"location":
                yield pair.get(2, b"").decode()
        elif inner:
            yield from _locations(content, start, stop, inner, depth + 1)


def _fields(content: mmap.mmap, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of the fields of a message whose values are bytes or messages."""
    while place < end:
        tag, place = _varint(content, place, end)
        wire = tag & 7
        if wire == BYTES:
            length, place = _varint(content, place, end)
            if length > end - place:
                raise ValueError("cut off")
            yield tag >> 3, place, place + length
            place += length
        elif wire == VARINT:
            _, place = _varint(content, place, end)
        elif wire in (FIXED64, FIXED32):
            place += 8 if wire == FIXED64 else 4
        else:
            raise ValueError("unknown wire type")


def _varint(content: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(MAX_VARINT_BYTES):
        if place >= end:
            raise ValueError("cut off")
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number is too long")
