"""A valid object of every kind, in binary and in text where it has both: seeds of the fuzzers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from io_ark.codecs.compressed import compress
from io_ark.codecs.fst import Fst
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.sparse import SparseMatrix, SparseVector
from io_ark.codecs.wave import Wave
from tests.support.codec_tools import to_bytes

MATRIX = np.array([[1.5, -2.0, 0.375], [0.0, 1e6, -0.25]], np.float32)
SQUARE = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)

VALUES: dict[str, list[Any]] = {
    "matrix": [MATRIX, np.zeros((0, 0))],
    "double-matrix": [MATRIX.astype(np.float64)],
    "compressed-matrix": [compress(np.repeat(MATRIX, 6, axis=0), method) for method in (2, 3, 5)] + [np.zeros((0, 0))],
    "general-matrix": [MATRIX, SparseMatrix.from_array(MATRIX), compress(MATRIX)],
    "sparse-vector": [SparseVector.from_array(MATRIX[1]), SparseVector.from_array([])],
    "sparse-matrix": [SparseMatrix.from_array(MATRIX), SparseMatrix([])],
    "packed-matrix": [np.array([2.0, 1.0, 3.0])],
    "sp-matrix": [SQUARE],
    "tp-matrix": [np.tril(SQUARE)],
    "vector": [MATRIX[0], np.zeros(0)],
    "double-vector": [MATRIX[0].astype(np.float64)],
    "int-vector": [[1, -2, 3], []],
    "int8-vector": [[1, -2, 3]],
    "int-vector-vector": [[[1, 2], [], [3]]],
    "int-pair-vector": [[(1, 2), (3, 4)]],
    "float-pair-vector": [[(1.0, 0.5), (3.0, 0.25)]],
    "int": [7],
    "float": [0.5],
    "double": [0.5],
    "bool": [True],
    "token": ["word"],
    "token-vector": [["two", "words"]],
    "posterior": [[[(1, 0.5), (2, 0.5)], [], [(3, 1.0)]]],
    "gauss-posterior": [[[(1, [0.5, 0.25])], []]],
    "htk": [HtkFeatures(MATRIX, 100000, 9)],
    "sphinx": [np.arange(26, dtype=np.float32).reshape(2, 13)],
    "wave": [Wave(8000.0, np.array([[1, 2, 3], [4, 5, 6]], np.int16))],
}
# Kinds that are always single files and never entries of archives.
OWN_FILES: dict[str, list[Any]] = {
    "config": [{"num-ceps": "13", "use-energy": ""}],
    "symbol-table": [{"<eps>": 0, "a": 1}],
    "int-lines": [[7, 8, -9]],
    "lines": [[["1", "nonword"], ["2"]]],
    "fst": [Fst("const", "standard", 2, 0, 3, 0, 1, 0, b"\0\0\x80\x7f")],
}
BINARY_ONLY = {"fst", "htk", "sphinx", "wave"}

EXAMPLES = Path(__file__).parents[1] / "data" / "nnet_examples"
MODELS = Path(__file__).parents[1] / "data" / "models"
OTHER_MODELS = Path(__file__).parents[2] / "reference_data" / "inputs" / "models"


def kaldi_examples() -> list[tuple[str, bytes]]:
    """(kind, bytes) of training examples that Kaldi wrote, in binary and in text."""
    examples = []
    for name, kind in ("nnet", "nnet-example"), ("chain", "nnet-chain-example"), ("old_chain", "nnet-chain-example"):
        for ending in "ark", "txt":
            data = (EXAMPLES / f"{name}.{ending}").read_bytes()
            _, *objects = re.split(rb"[a-z-]+ (?=(?:\0B)?<Nnet3)", data)
            examples += [(kind, data) for data in objects]
    return examples


def kaldi_models() -> list[tuple[str, bytes]]:
    """(kind, bytes) of models that Kaldi wrote, in binary and in text."""
    names = {"plda": "plda3", "diag-gmm": "diag4.gmm", "full-gmm": "full4.gmm", "ivector-extractor": "extractor7.ie"}
    files = [(kind, MODELS / name) for kind, name in names.items()]
    files += [(kind, (MODELS / name).with_suffix(".txt")) for kind, name in names.items()]
    files += [("ivector-extractor", MODELS / "extractor4.ie"), ("acoustic-model", MODELS / "mono.mdl.txt")]
    others = {"acoustic-model": ("mono.mdl", "chain.mdl"), "transition-model": ("mono.txt",),
              "topology": ("topo",), "tree": ("tri.tree", "tritree.txt")}  # fmt: skip
    files += [(kind, OTHER_MODELS / name) for kind, file_names in others.items() for name in file_names]
    return [(kind, path.read_bytes()) for kind, path in files]


def samples() -> list[tuple[str, bytes]]:
    """(kind, bytes) of valid objects."""
    samples_of_kinds = []
    for kind, values in (VALUES | OWN_FILES).items():
        for value in values:
            samples_of_kinds.append((kind, to_bytes(kind, value)))
            if kind not in BINARY_ONLY:
                samples_of_kinds.append((kind, to_bytes(kind, value, binary=False)))
            if kind == "wave":
                samples_of_kinds.append(("wave-info", to_bytes(kind, value)))
    return samples_of_kinds + kaldi_examples() + kaldi_models()
