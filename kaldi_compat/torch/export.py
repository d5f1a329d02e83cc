"""Export of front ends to ONNX files, which run without this package and without PyTorch."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from io_ark import __version__
from io_ark.specifier import FileName
from io_ark.tables.overwriting import refuse_replacing
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.frontends.base import check_export
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.options.spectral import Dft
from kaldi_compat.torch.frontend import Frontend

INPUTS, OUTPUTS = ("samples", "lengths"), ("features", "feature_lengths")


@dataclass(frozen=True)
class ExportedFrontend:
    """Description of an ONNX file that :func:`export_frontend` wrote."""

    path: str
    nodes: Mapping[str, int]  # Number of nodes of each type in the graph.
    metadata: Mapping[str, str]  # Entries of ``metadata_props`` in the file, which describe the front end.
    # Largest absolute difference between the features of onnxruntime and of PyTorch, for one second of noise. None if
    # onnxruntime is not installed.
    difference: float | None

    def __str__(self) -> str:
        kinds = ", ".join(sorted(self.nodes))
        comparison = "not compared with PyTorch, because onnxruntime is not installed"
        if self.difference is not None:
            comparison = f"in onnxruntime, the largest difference from PyTorch is {self.difference:.2g}"
        return f"{self.path}: {sum(self.nodes.values())} nodes of the types {kinds}\n{comparison}"


def export_frontend(
    frontend: str | os.PathLike[str] | Preset | Frontend,
    path: str | os.PathLike[str],
    *,
    statistics: Any = None,
    lengths: bool = False,
    int16: bool = False,
    dft: Dft = "matmul",
) -> ExportedFrontend:
    """Write a front end as an ONNX file.

    The graph takes ``samples`` (batch, time) at the model's sampling rate, and returns ``features``
    (batch, frames, dim). It computes in float32, and has all steps: the feature, normalization, stacking, padding.
    The metadata of the file name the preset, its source and the version of this package.

    Args:
        frontend: a preset, as for :class:`~kaldi_compat.Frontend`; or a front end.
        path: the file to write, whose name ends in ``.onnx``.
        statistics: statistics of the model, as for :class:`~kaldi_compat.Frontend`; None if ``frontend`` has its own.
        lengths: True for a graph that also takes ``lengths`` (batch,), int64, the number of samples in each row of a
            padded batch, and returns ``feature_lengths`` (batch,).
        int16: True for a graph that takes int16 samples instead of floating point in -1 to 1.
        dft: "matmul", for runtimes without an FFT; "fft" for a node of the type DFT.

    Returns:
        The path of the file, the numbers of nodes by type, the metadata, and the largest difference between the
        features of onnxruntime and PyTorch.

    Raises:
        OptionError: the preset is unknown or selects frames by their content, a Frontend or a preset without statistics
            gets statistics, or the path does not end in ``.onnx``.
        FeatureError: onnx or onnxscript is not installed, PyTorch is older than 2.6, or the file cannot be written.
        SpecifierError: ``path`` is the file of the preset or of the statistics.

    >>> from kaldi_compat.torch.export import export_frontend
    >>> exported = export_frontend("campplus", "campplus.onnx")  # doctest: +SKIP
    >>> sorted(exported.nodes)[:4], "DFT" in exported.nodes  # doctest: +SKIP
    (['Add', 'Clip', 'Concat', 'Div'], False)
    """
    target = os.fspath(path)
    sources = [FileName(os.fspath(file)) for file in (frontend, statistics) if isinstance(file, str | os.PathLike)]
    refuse_replacing([target], sources)
    if isinstance(frontend, Frontend):
        if statistics is not None:
            raise OptionError("a Frontend has its own statistics: pass the statistics to Frontend")
        original = frontend
    else:
        original = Frontend(frontend, statistics=statistics)
    if not target.endswith(".onnx"):  # ONNX's library writes other formats for other suffixes.
        raise OptionError(f"cannot write a graph to {target}: give it a name that ends in .onnx")
    if not Path(target).absolute().parent.is_dir():  # The export takes seconds, so check this first.
        raise FeatureError(f"cannot write {target}: its folder does not exist; create it")
    check_export(original.preset)
    module = _copy_with_dft(original, dft)
    program = _export_program(module, _make_example(module, lengths, int16))
    metadata = _collect_metadata(module)
    _set_metadata_and_axes(program.model, metadata)
    try:
        program.save(target)
    except OSError as error:
        raise FeatureError(f"cannot write {target}: {error.strerror}") from None
    nodes = Counter(node.op_type for node in program.model.graph)
    return ExportedFrontend(target, dict(nodes), metadata, _measure_difference(target, module, lengths, int16))


def _copy_with_dft(frontend: Frontend, dft: Dft) -> Frontend:
    """Copy a front end to the CPU, in evaluation mode. The copy computes spectra by ``dft``: "matmul" or "fft"."""
    module = copy.deepcopy(frontend).cpu().eval()
    module.dft = dft
    module.feature = module._make_feature(module.preset.feature_options)
    return module


def _make_example(module: Frontend, lengths: bool, int16: bool, seed: int = 0) -> tuple[Tensor, ...]:
    """Return an input of a front end: two rows of one second of noise, (2, samples), int16 or float32 in -1 to 1.

    With ``lengths``, also return the number of valid samples of each row, (2,). The second row is half as long.
    """
    rate = module.preset.sampling_rate
    noise = 0.1 * torch.randn(2, rate, generator=torch.Generator().manual_seed(seed))
    samples = (noise * 32768).to(torch.int16) if int16 else noise
    return (samples, torch.tensor([rate, rate // 2])) if lengths else (samples,)


def _export_program(module: Frontend, example: tuple[Tensor, ...]) -> Any:
    """Return the ``ONNXProgram`` of a front end for inputs like ``example``, of any size.

    Raise FeatureError if PyTorch is too old or a package is missing.
    """
    if not hasattr(getattr(torch.export, "Dim", None), "AUTO"):
        raise FeatureError(f"export needs PyTorch 2.6 or later, but {torch.__version__} is installed")
    auto = torch.export.Dim.AUTO
    axes = ({0: auto, 1: auto}, {0: auto})[: len(example)]  # All axes of the samples and lengths may vary.
    with _silence_exporter():
        try:
            return torch.onnx.export(
                module,
                example,
                dynamo=True,
                verbose=False,
                dynamic_shapes=axes,
                input_names=list(INPUTS[: len(example)]),
                output_names=list(OUTPUTS[: len(example)]),
            )
        except ImportError as error:
            raise FeatureError(f"export needs onnx and onnxscript: pip install onnx onnxscript ({error})") from None


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    """Suppress the exporter's deprecation warnings and log messages below ERROR within a ``with`` block."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.setLevel(level)


def _collect_metadata(module: Frontend) -> dict[str, str]:
    """Return the metadata of an ONNX file, such as the preset's options and steps, and the version of this package."""
    preset = module.preset
    return {
        "preset": preset.name,
        "title": preset.title,
        "kaldi_compat_version": __version__,
        "source": " ".join(filter(None, dataclasses.astuple(preset.source))),
        "sampling_rate": str(preset.sampling_rate),
        "dim": str(module.dim),
        "statistics": module.preset.statistics,
        "dft": module.dft,
        "options": json.dumps(dataclasses.asdict(preset.feature_options)),
        "steps": json.dumps(list(map(str, preset.steps))),
    }


def _set_metadata_and_axes(model: Any, metadata: Mapping[str, str]) -> None:
    """Set the metadata of an onnx_ir model, and name the axes of its inputs and outputs."""
    model.producer_name, model.producer_version = "kaldi-compat", __version__
    model.metadata_props.clear()
    model.metadata_props.update(metadata)
    axes = {"samples": ("batch", "time"), "lengths": ("batch",), "features": ("batch", "frames")}
    for value in (*model.graph.inputs, *model.graph.outputs):
        names = dict(enumerate(axes.get(value.name, ("batch",))))
        value.shape = type(value.shape)([names.get(axis, size) for axis, size in enumerate(value.shape)])


def _measure_difference(path: str, module: Frontend, lengths: bool, int16: bool) -> float | None:
    """Return the largest absolute difference between the features of noise that onnxruntime and PyTorch compute.

    onnxruntime runs the file ``path``, and PyTorch runs ``module``. The result is None if onnxruntime is not installed.
    For ``lengths`` and ``int16``, see :func:`export_frontend`.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    inputs = _make_example(module, lengths, int16, seed=1)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {name: value.numpy() for name, value in zip(INPUTS, inputs, strict=False)})
    expected: Any = module(*inputs)
    features = expected[0] if lengths else expected
    return float(np.abs(outputs[0] - features.numpy()).max())
