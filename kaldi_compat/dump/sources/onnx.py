"""``--onnx``: a model of audio, or with ``--preset`` of its features."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from io_ark.extras import import_extra
from kaldi_compat.dump.errors import DumpError, format_error
from kaldi_compat.dump.files import Stamp, get_stamp
from kaldi_compat.dump.options import CPU
from kaldi_compat.dump.sources import ALONE, DEFAULT_RATE, NO_DIGESTS, Array, Digests, Extractor, ExtractorSource
from kaldi_compat.dump.sources.preset import PresetSource
from kaldi_compat.errors import AudioError

# Fields of onnx.proto on the way to the entries of external_data. Maps the type of a message and the number of a field
# to the type of the message in the field.
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
KEY, VALUE = 1, 2  # Numbers of the fields ``key`` and ``value`` of an entry of external_data.
DATA_LOCATION = 14  # Number of the field ``data_location`` of a tensor.
EXTERNAL = 1  # Value of ``data_location`` of a tensor whose data are in another file.
VARINT, BYTES = 0, 2  # Wire types of protocol buffers.
FIXED_BYTES = {1: 8, 5: 4}  # Wire types of values with a fixed size, and their sizes in bytes.
MAX_VARINT_BYTES = 10  # A varint has at most 64 bits, 7 in each byte.
MAX_REASON_CHARACTERS = 300  # Longer messages of onnxruntime are cut.


class OnnxSource(ExtractorSource):
    """A model with one input that onnxruntime runs."""

    option = "onnx"
    is_decided_by_files = True

    def list_files(self) -> dict[str, Path]:
        """Return the model, its external files of weights, and the files of the preset that computes its input."""
        path = Path(self.options.onnx)
        names = _find_external_files(path, get_stamp(path))
        weights = {f"--onnx/{name}": path.parent / name for name in names}
        return {"--onnx": path, **weights, **(PresetSource(self.job).list_files() if self.options.preset else {})}

    def open(self, device: str, threads: int) -> Extractor:
        """Open the model with onnxruntime."""
        runtime = import_extra("onnxruntime", "--onnx")
        path, settings = self.options.onnx, runtime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = threads, 3  # Log errors, but not warnings.
        provider = "CPUExecutionProvider" if device == CPU else "CUDAExecutionProvider"
        if provider not in runtime.get_available_providers():
            raise DumpError(
                f"--device={device} needs {provider}, which this onnxruntime lacks: install onnxruntime-gpu"
            )
        provider_options = {} if device == CPU else {"device_id": device.partition(":")[2] or "0"}
        try:
            session = runtime.InferenceSession(path, settings, providers=[(provider, provider_options)])
        except Exception as error:
            reason = format_error(error)[:MAX_REASON_CHARACTERS]
            raise DumpError(f"--onnx={path} cannot be opened: {reason}") from error
        inputs = [argument.name for argument in session.get_inputs()]
        outputs = [argument.name for argument in session.get_outputs()]
        if len(inputs) != 1:
            fault = f"--onnx={path} has the inputs {', '.join(inputs)}"
            raise DumpError(f"{fault}: export a model with one input, of audio or features")
        frontend = PresetSource(self.job).open_array_frontend() if self.options.preset else None

        def compute(samples: Array, rate: float) -> Any:
            """Return the output, or the outputs by name, for an utterance. Raise AudioError if its input is empty."""
            values = frontend(samples, sampling_rate=int(rate)) if frontend else samples
            if not len(values):
                raise AudioError("the audio is too short for a frame: remove the utterance")
            results = session.run(None, {inputs[0]: values[None]})  # None requests all outputs.
            named_results = zip(outputs, results, strict=True)
            arrays = {name: _remove_batch_axis(name, value) for name, value in named_results}
            return next(iter(arrays.values())) if len(arrays) == 1 else arrays

        def call(audio: Sequence[Array], rates: Sequence[float]) -> list[Any]:
            return list(map(compute, audio, rates))

        if frontend is None:
            return Extractor(call, self.job.feature, sample_rate=DEFAULT_RATE, batching=ALONE)
        return Extractor(call, self.job.feature, sample_rate=None, batching=ALONE, own_rate=frontend.sampling_rate)

    def suggest_remedy(self, error: Exception) -> str:
        """Return advice about an input of the wrong shape, or "" for other errors."""
        # The first letter is left out, because it may be upper or lower case.
        if "nvalid rank for input" not in str(error) and "nvalid dimensions for input" not in str(error):
            return ""
        if self.options.preset:
            return "export a model whose input is (1, frames, dim), or leave out --preset if its input is audio"
        return "the input is audio of shape (1, samples): add --preset if the model takes features"

    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return no digests, because the files determine all results."""
        return NO_DIGESTS


def _remove_batch_axis(name: str, value: Any) -> Array:
    """Return an output without its first axis. Raise ValueError unless it is an array whose first axis has length 1."""
    if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != 1:
        shape = f"has the shape {value.shape}" if isinstance(value, np.ndarray) else f"is a {type(value).__name__}"
        raise ValueError(f"the output {name} {shape}: expected an array whose first axis is a batch of one utterance")
    result: Array = value[0]
    return result


@functools.lru_cache(8)
def _find_external_files(path: Path, stamp: Stamp | None) -> tuple[str, ...]:
    """Return the names of the external files that hold tensors of the model ``path``, relative to the model's folder.

    ``stamp`` is the stamp of the model, or None if the model is missing. The names are cached until the stamp changes.

    Raises:
        DumpError: the file is not a model, or has a deprecated form of protocol buffers.
    """
    # onnxruntime's own format (.ort) has no external files. An empty file, of size stamp[2], cannot be mapped.
    if not stamp or not stamp[2] or path.suffix.lower() == ".ort":
        return ()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            return tuple(sorted(_find_locations(content)))
        except ValueError as error:
            fault = f"--onnx={path} cannot be opened: it is not a valid ONNX model"
            raise DumpError(f"{fault} ({error}): export or copy the model again") from None


def _find_locations(content: mmap.mmap) -> set[str]:
    """Return the names of the external files that hold tensors of a model. ``content`` is the model's own file."""
    locations: set[str] = set()
    messages = [("model", 0, len(content))]
    while messages:
        message_type, start, end = messages.pop()
        inner_messages: list[tuple[str, int, int]] = []
        entry: dict[int, bytes] = {}
        is_external = False
        for field, wire_type, value_start, value_end in _iterate_fields(content, start, end):
            if message_type == TENSOR and (field, wire_type) == (DATA_LOCATION, VARINT):
                location_code, _ = _read_varint(content, value_start, value_end)
                is_external = location_code == EXTERNAL
            elif message_type == ENTRY and wire_type == BYTES:
                entry[field] = content[value_start:value_end]
            elif wire_type == BYTES and field in FIELDS[message_type]:
                inner_messages.append((FIELDS[message_type][field], value_start, value_end))
        if message_type != TENSOR or is_external:
            messages += inner_messages
        if entry.get(KEY) == b"location":
            locations.add(entry.get(VALUE, b"").decode("utf-8", "surrogateescape"))
    return locations


def _iterate_fields(content: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, value start, value end) of each field. Raise ValueError for an invalid message."""
    while position < end:
        tag, position = _read_varint(content, position, end)
        wire_type = tag & 7  # The 32 bits of a tag hold the field's number and, in the lowest 3 bits, the wire type.
        if wire_type == VARINT:
            _, stop = _read_varint(content, position, end)
        elif wire_type == BYTES:
            size, position = _read_varint(content, position, end)
            stop = position + size
        elif wire_type in FIXED_BYTES:
            stop = position + FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"the file has the unsupported wire type {wire_type}")
        if stop > end:
            raise ValueError("the file ends too early")
        yield (tag & 0xFFFFFFFF) >> 3, wire_type, position, stop
        position = stop


def _read_varint(content: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Read a varint: an integer in 7 bits per byte, lowest bits first. Return the integer and the position after it.

    All bytes but the last exceed 127. Raise ValueError for a varint that is cut off or too long.
    """
    value = 0
    for shift, index in enumerate(range(position, min(position + MAX_VARINT_BYTES, end))):
        value |= (content[index] & 127) << 7 * shift
        if content[index] < 128:
            return value, index + 1
    raise ValueError("a number in the file is cut off or too long")
