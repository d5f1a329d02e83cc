"""Decision trees, which map a phone in its context to a pdf.

Source: Kaldi's ``src/tree/event-map.h``, ``event-map.cc`` and ``context-dep.cc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import register_kind
from io_ark.errors import FormatError

Integers = npt.NDArray[np.integer[Any]]

PDF_CLASS = -1
"""Key of the pdf-class in an event, which maps keys to values. All other keys are positions in the window of phones."""


@dataclass(frozen=True)
class Leaf:
    """Leaf of a decision tree (:class:`ContextDependency`).

    Attributes:
        pdf: pdf that the tree returns.
    """

    pdf: int


@dataclass(frozen=True)
class Table:
    """Node of a decision tree with a child for each value of a key.

    Attributes:
        key: position in the window of phones, or :data:`PDF_CLASS`.
        children: children for the values 0, 1, 2, ... None if the tree has no pdf for a value.
    """

    key: int
    children: tuple[EventMap | None, ...]


@dataclass(frozen=True)
class Split:
    """Node of a decision tree with a question about the value of a key.

    Attributes:
        key: position in the window of phones, or :data:`PDF_CLASS`.
        values: values for which the answer is yes, in ascending order.
        yes: child for the values in ``values``.
        no: child for all other values.
    """

    key: int
    values: tuple[int, ...]
    yes: EventMap
    no: EventMap

    @cached_property
    def value_set(self) -> frozenset[int]:
        """Values for which the answer is yes, as a set."""
        return frozenset(self.values)


EventMap = Leaf | Table | Split


@register_kind("tree")
@dataclass(frozen=True)
class ContextDependency:
    """Decision tree that maps a window of phones and a pdf-class to a pdf.

    Attributes:
        width: number of phones in a window, such as 3 for triphones and 1 for monophones.
        central: position of the central phone in the window, counted from 0.
        root: root of the tree.

    >>> from io_ark.models import PDF_CLASS, ContextDependency, Leaf, Split, Table
    >>> tree = ContextDependency(1, 0, Table(0, (None, Leaf(0), Split(PDF_CLASS, (0,), Leaf(1), Leaf(2)))))
    >>> tree.num_pdfs, tree.pdf([2], 0), tree.pdf([2], 1), tree.pdf([3], 0)
    (3, 1, 2, None)
    >>> tree.possible_pdfs({0: 2})
    [1, 2]
    """

    width: int
    central: int
    root: EventMap

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs: the largest pdf of the tree plus one."""
        return 1 + max(self._iterate_pdfs({}), default=-1)

    def pdf(self, phones: Sequence[int], pdf_class: int) -> int | None:
        """Return the pdf of the central phone of a window, for a pdf-class.

        Args:
            phones: window of ``width`` phones. 0 stands for positions outside the utterance.
            pdf_class: pdf-class of the central phone.

        Returns:
            The pdf, or None if the tree has no pdf for the phones.

        Raises:
            FormatError: the number of phones is not the width of the tree.
        """
        if len(phones) != self.width:
            raise FormatError(f"expected {self.width} phones, the width of the tree, not {len(phones)}")
        (pdf,) = self.pdfs(np.array([phones]), np.array([pdf_class])).tolist()
        return None if pdf < 0 else pdf

    def pdfs(self, windows: Integers, pdf_classes: Integers) -> npt.NDArray[np.int64]:
        """Return the pdfs of many windows of phones (see :meth:`pdf`).

        Args:
            windows: phones (windows, width). 0 stands for positions outside the utterance.
            pdf_classes: pdf-class of the central phone of each window, (windows,).

        Returns:
            Pdfs (windows,), or -1 where the tree has no pdf for the phones.
        """
        events = np.column_stack((windows, pdf_classes)).astype(np.int64)
        bits = int(events.max(initial=0)).bit_length()
        if bits not in self._nodes:
            self._nodes[bits] = _Nodes.from_tree(self.root, self.width, 1 << bits)
        nodes = self._nodes[bits]
        nodes_of_events = np.full(len(events), nodes.root)  # Node or leaf (events,) of each event, as in _Nodes.
        indices = np.flatnonzero(nodes_of_events >= 0)  # Indices of the events that have not reached a leaf.
        while len(indices):
            node = nodes_of_events[indices]
            value = events[indices, nodes.keys[node]] - nodes.firsts[node]
            is_inside = (value >= 0) & (value < nodes.sizes[node])
            child = nodes.children[np.where(is_inside, nodes.starts[node] + value, 0)]
            nodes_of_events[indices] = child = np.where(is_inside, child, nodes.otherwise[node])
            indices = indices[child >= 0]
        return -2 - nodes_of_events  # A leaf is -2 - pdf, and a missing pdf is -1 in both notations.

    @cached_property
    def _nodes(self) -> dict[int, _Nodes]:
        """Cache that maps a number of bits to the arrays of the tree for values below ``2**bits``."""
        return {}

    def possible_pdfs(self, event: Mapping[int, int]) -> list[int]:
        """Return the pdfs that an event may have if only a part of the event is known, in ascending order.

        ``event`` maps the known positions in the window to phones, and :data:`PDF_CLASS`, if known, to a pdf-class.
        """
        return sorted(set(self._iterate_pdfs(event)))

    def _iterate_pdfs(self, event: Mapping[int, int]) -> Iterator[int]:
        """Yield the pdfs of all events that contain the keys and values of ``event``. A pdf may occur several times."""
        nodes: list[EventMap | None] = [self.root]
        while nodes:
            node = nodes.pop()
            if isinstance(node, Leaf):
                yield node.pdf
            elif node is not None and node.key in event:
                nodes.append(_select_child(node, event[node.key]))
            elif isinstance(node, Table):
                nodes.extend(node.children)
            elif node is not None:
                nodes += [node.yes, node.no]


class _Nodes(NamedTuple):
    """Arrays that represent a tree. A child is the number of a node, -1 for no pdf, or -2 - pdf for a leaf.

    Attributes:
        root: root, represented like a child.
        keys: key (nodes,) of each node.
        firsts: first value (nodes,) with a child in ``children``.
        sizes: number (nodes,) of successive values with a child in ``children``.
        starts: index (nodes,) in ``children`` of the first child of each node.
        otherwise: child (nodes,) for all other values.
        children: concatenated children of all nodes.
    """

    root: int
    keys: Integers
    firsts: Integers
    sizes: Integers
    starts: Integers
    otherwise: Integers
    children: Integers

    @classmethod
    def from_tree(cls, root: EventMap, width: int, max_value: int) -> _Nodes:
        """Return the arrays of a tree for windows of ``width`` phones, and for values from 0 to ``max_value``."""
        queue: list[Table | Split] = []
        nodes: list[tuple[int, int, int, int, int]] = []
        children = [-1]

        def add_node(node: EventMap | None) -> int:
            """Return the number that stands for a child, and queue the child unless it is a leaf or None."""
            if node is None:
                return -1
            if isinstance(node, Leaf):
                return -2 - node.pdf
            queue.append(node)
            return len(queue) - 1

        root_child = add_node(root)
        for node in queue:  # `add_node` appends to the queue while it is being iterated.
            first, other, row = 0, -1, []
            if not PDF_CLASS <= node.key < width:
                pass  # No event has the key, so no child can be reached.
            elif isinstance(node, Table):
                row = [add_node(child) for child in node.children[: max_value + 1]]
            else:
                yes, other = add_node(node.yes), add_node(node.no)
                values = [value for value in node.values if 0 <= value <= max_value]
                first = min(values, default=0)
                row = [other] * (max(values, default=-1) - first + 1)
                for value in values:
                    row[value - first] = yes
            nodes.append((node.key if row else 0, first, len(row), len(children), other))
            children += row
        keys, firsts, sizes, starts, otherwise = np.array(nodes, np.int64).reshape(-1, 5).T
        return cls(root_child, keys, firsts, sizes, starts, otherwise, np.array(children))


def _select_child(node: Table | Split, value: int) -> EventMap | None:
    """Return the child of a node for a value of the node's key, or None if the node has no child for the value."""
    if isinstance(node, Split):
        return node.yes if value in node.value_set else node.no
    return node.children[value] if 0 <= value < len(node.children) else None
