"""Decision trees: which pdf a phone in its context has.

Source: Kaldi's ``src/tree/event-map.h``, ``event-map.cc`` and ``context-dep.cc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from io_ark.errors import FormatError

PDF_CLASS = -1
"""The key of the pdf-class in an event; the other keys are positions in the window of phones."""


@dataclass(frozen=True)
class Leaf:
    """Leaf of a tree.

    Attributes:
        pdf: the answer.
    """

    pdf: int


@dataclass(frozen=True)
class Table:
    """Node with a child for each value of a key.

    Attributes:
        key: a position in the window, or :data:`PDF_CLASS`.
        children: the child of each value from 0 on; None for a value without an answer.
    """

    key: int
    children: tuple[EventMap | None, ...]


@dataclass(frozen=True)
class Split:
    """Node with a question.

    Attributes:
        key: a position in the window, or :data:`PDF_CLASS`.
        values: values for which the answer is yes, ascending.
        yes: child for these values.
        no: child for all others.
    """

    key: int
    values: tuple[int, ...]
    yes: EventMap
    no: EventMap

    @cached_property
    def value_set(self) -> frozenset[int]:
        """The values as a set."""
        return frozenset(self.values)


EventMap = Leaf | Table | Split


@dataclass(frozen=True)
class ContextDependency:
    """Tree from phones in context to pdfs.

    Attributes:
        width: phones in a window: 3 for triphones, 1 for monophones.
        central: position of the central phone in the window, from 0 on.
        root: the root of the tree.

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
        """The largest pdf of the tree plus one."""
        return 1 + max(self._answers({}), default=-1)

    def pdf(self, phones: Sequence[int], pdf_class: int) -> int | None:
        """Return the pdf of a pdf-class of the central phone.

        Args:
            phones: the window of phones; 0 before the first phone of an utterance and after the last one.
            pdf_class: the pdf-class.

        Returns:
            The pdf; None if the tree has no answer.

        Raises:
            FormatError: there are not as many phones as the tree asks about.
        """
        if len(phones) != self.width:
            raise FormatError(f"the tree takes {self.width} phones, not {len(phones)}")
        event = dict(enumerate(phones)) | {PDF_CLASS: pdf_class}
        node: EventMap | None = self.root
        while not isinstance(node, Leaf):
            if node is None or node.key not in event:
                return None
            node = _child(node, event[node.key])
        return node.pdf

    def possible_pdfs(self, event: Mapping[int, int]) -> list[int]:
        """Return the pdfs, ascending, that are possible if these keys have these values."""
        return sorted(set(self._answers(event)))

    def _answers(self, event: Mapping[int, int]) -> Iterator[int]:
        """Yield the answers that are possible for an event, some several times."""
        nodes: list[EventMap | None] = [self.root]
        while nodes:
            node = nodes.pop()
            if isinstance(node, Leaf):
                yield node.pdf
            elif node is not None and node.key in event:
                nodes.append(_child(node, event[node.key]))
            elif isinstance(node, Table):
                nodes.extend(node.children)
            elif node is not None:
                nodes += [node.yes, node.no]


def _child(node: Table | Split, value: int) -> EventMap | None:
    if isinstance(node, Split):
        return node.yes if value in node.value_set else node.no
    return node.children[value] if 0 <= value < len(node.children) else None
