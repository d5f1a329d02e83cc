"""Kaldi's transition models, HMM topologies and decision trees, for targets from alignments.

>>> from io_ark.models import HmmState, HmmTopology, TransitionModel
>>> import numpy as np
>>> states = (HmmState(0, 0, ((0, 0.75), (1, 0.25))), HmmState())  # an emitting state, and the final one
>>> topology = HmmTopology.of({1: states, 2: states})
>>> model = TransitionModel.of(topology, [(1, 0, 0, 0), (2, 0, 1, 1)])
>>> model.num_transition_ids, model.num_pdfs
(4, 2)
>>> alignment = np.array([1, 1, 2, 3, 4])  # transition-ids, such as those of ali.1.gz
>>> model.pdfs(alignment).tolist(), model.phones(alignment).tolist()
([0, 0, 0, 1, 1], [1, 1, 1, 2, 2])

:func:`read_transition_model` reads ``final.mdl`` of any kind of acoustic model, since each begins with the transition
model; :func:`read_tree` reads ``tree`` and :func:`read_topology` reads ``topo``.
"""

from io_ark.models.alignments import Segments, is_reordered, split_to_phones
from io_ark.models.codecs import (
    ContextDependencyCodec,
    HmmTopologyCodec,
    TransitionModelCodec,
    read_topology,
    read_transition_model,
    read_tree,
    write_topology,
    write_transition_model,
    write_tree,
)
from io_ark.models.conversion import AlignmentConverter, Converted
from io_ark.models.topology import NO_PDF, HmmState, HmmTopology
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import PDF_CLASS, ContextDependency, EventMap, Leaf, Split, Table

__all__ = [
    "NO_PDF",
    "PDF_CLASS",
    "AlignmentConverter",
    "ContextDependency",
    "ContextDependencyCodec",
    "Converted",
    "EventMap",
    "HmmState",
    "HmmTopology",
    "HmmTopologyCodec",
    "Leaf",
    "Segments",
    "Split",
    "Table",
    "TransitionModel",
    "TransitionModelCodec",
    "is_reordered",
    "read_topology",
    "read_transition_model",
    "read_tree",
    "split_to_phones",
    "write_topology",
    "write_transition_model",
    "write_tree",
]
