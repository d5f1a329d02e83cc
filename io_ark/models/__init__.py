"""Kaldi's models: transition models, topologies, decision trees, Gaussian mixtures, LDA, PLDA and i-vector extractors.

>>> from io_ark.models import HmmState, HmmTopology, TransitionModel
>>> import numpy as np
>>> states = (HmmState(0, 0, ((0, 0.75), (1, 0.25))), HmmState())  # An emitting state and the final state.
>>> topology = HmmTopology.of({1: states, 2: states})
>>> model = TransitionModel.of(topology, [(1, 0, 0, 0), (2, 0, 1, 1)])
>>> model.num_transition_ids, model.num_pdfs
(4, 2)
>>> alignment = np.array([1, 1, 2, 3, 4])  # Transition-ids, for example of ali.1.gz.
>>> model.pdfs(alignment).tolist(), model.phones(alignment).tolist()
([0, 0, 0, 1, 1], [1, 1, 1, 2, 2])

:func:`io_ark.load` reads these models (``plda``, ``final.ie``, ``final.dubm``, ``final.mdl``, ``topo``, ``tree``), and
:func:`io_ark.save` writes them. ``kind="transition-model"`` reads only the transition model of an acoustic model.
"""

from io_ark.models.acoustic import AcousticModel, Network
from io_ark.models.alignments import Segments, is_reordered, split_to_phones
from io_ark.models.codecs import ContextDependencyCodec, HmmTopologyCodec, TransitionModelCodec
from io_ark.models.conversion import AlignmentConverter, Converted
from io_ark.models.extractor import IvectorExtractor
from io_ark.models.gmm import AmDiagGmm, DiagGmm, FullGmm, Gmm
from io_ark.models.lda import Lda
from io_ark.models.plda import Plda
from io_ark.models.topology import NO_PDF, HmmState, HmmTopology
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import PDF_CLASS, ContextDependency, EventMap, Leaf, Split, Table

__all__ = [
    "NO_PDF",
    "PDF_CLASS",
    "AcousticModel",
    "AlignmentConverter",
    "AmDiagGmm",
    "ContextDependency",
    "ContextDependencyCodec",
    "Converted",
    "DiagGmm",
    "EventMap",
    "FullGmm",
    "Gmm",
    "HmmState",
    "HmmTopology",
    "HmmTopologyCodec",
    "IvectorExtractor",
    "Lda",
    "Leaf",
    "Network",
    "Plda",
    "Segments",
    "Split",
    "Table",
    "TransitionModel",
    "TransitionModelCodec",
    "is_reordered",
    "split_to_phones",
]
