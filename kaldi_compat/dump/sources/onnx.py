"""``--onnx``: a model of audio, or with ``--preset`` of its features."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Sequence
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

# First bytes of the external_data entry (onnx.proto) that names a file of weights. The length of the name follows.
LOCATION = b"\n\x08location\x12"
EXTERNAL_DATA = b"j"  # Tag of the field, which is before the length of the entry.


class OnnxSource(ExtractorSource):
    """A model with one input that onnxruntime runs."""

    option = "onnx"

    def list_files(self) -> dict[str, Path]:
        """Return the model, its external files of weights, and the files of the preset before the model."""
        path = Path(self.options.onnx)
        names = _find_external_files(path, get_stamp(path))
        weights = {f"--onnx/{name}": path.parent / name for name in names}
        return {"--onnx": path, **weights, **(PresetSource(self.job).list_files() if self.options.preset else {})}

    def open(self, device: str, threads: int) -> Extractor:
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
            raise DumpError(f"--onnx={path} cannot be opened: {format_error(error)[:300]}") from error
        inputs = [argument.name for argument in session.get_inputs()]
        outputs = [argument.name for argument in session.get_outputs()]
        if len(inputs) != 1:
            text = f"--onnx={path} has the inputs {', '.join(inputs)}"
            raise DumpError(f"{text}: export a model with one input, of audio or features")
        frontend = PresetSource(self.job).open_array_frontend() if self.options.preset else None

        def compute(samples: Array, rate: float) -> Any:
            values = frontend(samples, sampling_rate=int(rate)) if frontend else samples
            if not len(values):
                raise AudioError("the audio is too short for a frame")
            results = zip(outputs, session.run(None, {inputs[0]: values[None]}), strict=True)
            arrays = {name: _remove_batch_axis(name, value) for name, value in results}
            return next(iter(arrays.values())) if len(arrays) == 1 else arrays

        rate = None if frontend else DEFAULT_RATE
        return Extractor(lambda audio, rates: list(map(compute, audio, rates)), self.job.feature, rate, batching=ALONE)

    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return no digests, because the files decide all numbers."""
        return NO_DIGESTS


def _remove_batch_axis(name: str, value: Any) -> Array:
    """Return an output of the only utterance of a batch."""
    if not isinstance(value, np.ndarray) or value.ndim == 0 or len(value) != 1:
        shape = value.shape if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"the output {name} is {shape}: expected an array whose first axis is the batch of one")
    result: Array = value[0]
    return result


@functools.lru_cache(8)
def _find_external_files(path: Path, stamp: Stamp | None) -> tuple[str, ...]:
    """Return the names of the files, relative to the model, that hold tensors of the model.

    A model is a message of protocol buffers, in which an entry has the same bytes wherever it is nested.
    """
    names: set[str] = set()
    if not stamp or not stamp[2]:
        return ()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place = content.find(LOCATION)
        while place >= 0:
            # A length takes a byte for each 7 bits, and each byte but the last is 128 or more.
            start = place + len(LOCATION)
            lengths = content[start : start + 2] + b"\0"
            size, first = (lengths[0] & 127) + ((lengths[1] & 127) << 7) * (lengths[0] > 127), 1 + (lengths[0] > 127)
            if EXTERNAL_DATA in content[max(place - 3, 0) : place - 1]:
                names.add(content[start + first : start + first + size].decode("utf-8", "surrogateescape"))
            place = content.find(LOCATION, start)
    return tuple(sorted(names))
