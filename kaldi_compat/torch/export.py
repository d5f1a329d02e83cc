"""Front ends as ONNX files, which run where neither this package nor PyTorch is installed."""

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
from kaldi_compat.frontends.base import check_graph
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.options.spectral import Dft
from kaldi_compat.torch.frontend import Frontend

INPUTS, OUTPUTS = ("samples", "lengths"), ("features", "feature_lengths")


@dataclass(frozen=True)
class ExportedFrontend:
    """An ONNX file that :func:`export_frontend` wrote."""

    path: str  # the file
    nodes: Mapping[str, int]  # number of nodes of each type
    metadata: Mapping[str, str]  # what the file says of itself: ``model.metadata_props``
    # largest difference from the module for a second of noise in onnxruntime; None without onnxruntime
    difference: float | None

    def __str__(self) -> str:
        kinds = ", ".join(sorted(self.nodes))
        tested = "not compared with PyTorch, because onnxruntime is not installed"
        if self.difference is not None:
            tested = f"in onnxruntime, the largest difference from PyTorch is {self.difference:.2g}"
        return f"{self.path}: {sum(self.nodes.values())} nodes of the types {kinds}\n{tested}"


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
    (batch, frames, dim). It computes in float32, and holds all steps: the feature, normalization, stacking, padding.
    Its metadata name the preset, its source and the version of this package.

    Args:
        frontend: a preset, as for :class:`~kaldi_compat.Frontend`; or a front end.
        path: the file to write, whose name ends in ``.onnx``.
        statistics: what the model ships, as for :class:`~kaldi_compat.Frontend`.
        lengths: the graph also takes ``lengths`` (batch,), int64, of the rows of a padded batch, and returns
            ``feature_lengths`` (batch,).
        int16: the graph takes int16 instead of floating point in -1 to 1.
        dft: "matmul", for runtimes without an FFT; "fft" gives a node of the type DFT.

    Returns:
        The path, the types of nodes, and the largest difference from PyTorch.

    Raises:
        OptionError: an unknown preset, one whose audio decides how many frames are kept, statistics for one that
            takes none, or a path that does not end in ``.onnx``.
        FeatureError: a package is not installed, PyTorch is older than 2.6, or the file cannot be written.

    >>> from kaldi_compat.torch.export import export_frontend
    >>> exported = export_frontend("campplus", "campplus.onnx")  # doctest: +SKIP
    >>> sorted(exported.nodes)[:4], "DFT" in exported.nodes  # doctest: +SKIP
    (['Add', 'Clip', 'Concat', 'Div'], False)
    """
    target = os.fspath(path)
    read = [FileName(os.fspath(each)) for each in (frontend, statistics) if isinstance(each, str | os.PathLike)]
    refuse_replacing([target], read, every_line=False)
    given = frontend if isinstance(frontend, Frontend) else Frontend(frontend, statistics=statistics)
    if not target.endswith(".onnx"):  # The library of ONNX would write other formats under other names.
        raise OptionError(f"cannot write a graph to {target}: give it a name that ends in .onnx")
    if not Path(target).absolute().parent.is_dir():  # before the work of some seconds
        raise FeatureError(f"cannot write {target}: there is no such folder")
    check_graph(given.preset)
    module = _with_dft(given, dft)
    program = _exported(module, _example(module, lengths, int16))
    metadata = _metadata(module)
    _describe(program.model, metadata)
    try:
        program.save(target)
    except OSError as error:
        raise FeatureError(f"cannot write {target}: {error.strerror}") from None
    nodes = Counter(node.op_type for node in program.model.graph)
    return ExportedFrontend(target, dict(nodes), metadata, _difference(target, module, lengths, int16))


def _with_dft(frontend: Frontend, dft: Dft) -> Frontend:
    """Return a copy of a front end on a CPU, with this DFT."""
    module = copy.deepcopy(frontend).cpu().eval()
    module.dft = dft
    module.feature = module._feature(module.preset.feature_options)
    return module


def _example(module: Frontend, lengths: bool, int16: bool, seed: int = 0) -> tuple[Tensor, ...]:
    """Return two rows of a second of noise, and their lengths."""
    rate = module.preset.sampling_rate
    noise = 0.1 * torch.randn(2, rate, generator=torch.Generator().manual_seed(seed))
    samples = (noise * 32768).to(torch.int16) if int16 else noise
    return (samples, torch.tensor([rate, rate // 2])) if lengths else (samples,)


def _exported(module: Frontend, example: tuple[Tensor, ...]) -> Any:
    """Return the program of torch's exporter."""
    if not hasattr(getattr(torch.export, "Dim", None), "AUTO"):
        raise FeatureError(f"export needs PyTorch 2.6 or later, but {torch.__version__} is installed")
    auto = torch.export.Dim.AUTO
    axes = ({0: auto, 1: auto}, {0: auto})[: len(example)]
    with _quietly():
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
            raise FeatureError(f"the export needs onnx and onnxscript: pip install onnx onnxscript ({error})") from None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep from the user what the exporter tells its developers."""
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


def _metadata(module: Frontend) -> dict[str, str]:
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


def _describe(model: Any, metadata: Mapping[str, str]) -> None:
    """Write metadata and the names of axes into a model of onnx_ir."""
    model.producer_name, model.producer_version = "kaldi-compat", __version__
    model.metadata_props.clear()
    model.metadata_props.update(metadata)
    axes = {"samples": ("batch", "time"), "lengths": ("batch",), "features": ("batch", "frames")}
    for value in (*model.graph.inputs, *model.graph.outputs):
        named = dict(enumerate(axes.get(value.name, ("batch",))))
        value.shape = type(value.shape)([named.get(number, size) for number, size in enumerate(value.shape)])


def _difference(path: str, module: Frontend, lengths: bool, int16: bool) -> float | None:
    """Return the largest difference between a file in onnxruntime and the module; None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    given = _example(module, lengths, int16, seed=1)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {name: value.numpy() for name, value in zip(INPUTS, given, strict=False)})
    expected: Any = module(*given)
    features = expected[0] if lengths else expected
    return float(np.abs(found[0] - features.numpy()).max())
