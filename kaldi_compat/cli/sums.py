"""Sums of vectors and matrices for vector-sum, matrix-sum and the programs that average vectors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.alignments import require_single_file
from kaldi_compat.cli.files import format_wxfilename
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, map_table, require_one_entry
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.exact.products import scale_vector
from kaldi_compat.exact.sums import fused_multiply_add

Kind = Literal["vector", "matrix"]

DIMENSIONS = {"vector": 1, "matrix": 2}
PLURALS = {"vector": "vectors", "matrix": "matrices"}


def recognize_form(names: Sequence[str]) -> Literal["tables", "table", "files", "none"]:
    """Return the form of a program's arguments. The last argument is the output.

    The form is "tables" if the output is a table, otherwise "files" if the first input is a file, "table" if a table is
    the only input, or "none".
    """
    if io_ark.is_table_wspecifier(names[-1]):
        return "tables"
    if not io_ark.is_table_rspecifier(names[0]):
        return "files"
    return "table" if len(names) == 2 else "none"


def sum_table(kind: Kind, source: str, target: str, *, average: bool, binary: bool) -> int:
    """Add up the entries of a table in double precision, write the sum to a file, and return the exit status.

    Empty entries, and entries that differ in shape from the first added entry, are skipped with a warning.

    Args:
        kind: type of the entries.
        source: rspecifier of the table.
        target: name of the output file.
        average: True to divide the sum by the number of added entries.
        binary: True to write the file in binary format.

    Returns:
        0 if more entries are added than skipped, otherwise 1.
    """
    counts = Counts()
    total = np.zeros((0,) * DIMENSIONS[kind])
    with Tables() as tables:
        for block in tables.read(kind, source):
            for part in split_by_shape(block):
                shape = tuple(part.shapes[0, : part.dimensions].tolist())
                if shape[0] and total.shape in (shape, (0,) * part.dimensions):
                    total = add_entries(total, part)
                    counts.done += len(part)
                else:
                    counts.failed += len(part)
                    warn_of_shape(kind, part.decode_keys(), shape, total.shape)
    if average and counts.done:
        total = total * (1.0 / counts.done)
    io_ark.save(target, total.astype(np.float32), kind=kind, binary=binary)
    name = format_wxfilename(target)
    logger.info("Summed %d %s, %d with errors; wrote sum to %s", counts.done, PLURALS[kind], counts.failed, name)
    return 0 if counts.failed < counts.done else 1


def warn_of_shape(kind: Kind, keys: Sequence[str], shape: Sequence[int], expected: Sequence[int]) -> None:
    """Log that the entries of ``keys`` are left out of a sum, because ``shape`` is not ``expected`` or is empty."""
    for key in keys:
        if shape[0]:
            logger.warning("Dimension mismatch for key %s: %s vs. %s", key, format_shape(shape), format_shape(expected))
        else:
            logger.warning("Zero %s input for key %s", kind, key)


def sum_vectors(blocks: Iterable[ArrayBlock]) -> tuple[Doubles, int]:
    """Add up the vectors of all blocks in double precision. Return the sum, (dim,), and the number of vectors.

    Raise FeatureError if the vectors differ in length.
    """
    total, count = np.zeros(0), 0
    for block in blocks:
        for part in split_by_shape(block):
            if count and part.shapes[0, 0] != len(total):
                key = part.decode_keys()[0]
                raise FeatureError(f"{key}: the vector has dimension {part.shapes[0, 0]}, but the earlier vectors have "
                                   f"{len(total)}: sum vectors of one dimension")  # fmt: skip
            total = add_entries(total, part)
            count += len(part)
    return total, count


def add_in_order(values: Iterable[float], start: float) -> float:
    """Return ``start`` plus numbers, added one by one as in C++. From Python 3.12, ``sum`` corrects rounding errors."""
    return functools.reduce(operator.add, values, start)


def split_by_shape(block: ArrayBlock) -> Iterator[ArrayBlock]:
    """Split a block into runs of consecutive entries of the same shape."""
    changes = np.flatnonzero((block.shapes[1:] != block.shapes[:-1]).any(axis=1)) + 1
    return block.split([0, *changes.tolist(), len(block)])


def add_entries(total: Doubles, block: ArrayBlock) -> Doubles:
    """Return ``total`` plus the entries of a block of one shape, added in order. An empty ``total`` means zeros."""
    terms = block.values.reshape(len(block), *block.shapes[0, : block.dimensions].tolist()).astype(np.float64)
    terms = terms if total.shape != terms.shape[1:] else np.concatenate((total[None], terms))
    result: Doubles = np.add.accumulate(terms, axis=0)[-1]
    return result


def sum_files(kind: Kind, names: Sequence[str], *, average: bool, binary: bool) -> int:
    """Add up the vectors or matrices in files, write the sum to a file, and return the exit status 0.

    As in Kaldi, a vector or matrix may be larger than the sum of the earlier files, which is then padded with zeros.

    Args:
        kind: type of the object in each file.
        names: names of the input files, followed by the name of the output file.
        average: True to divide the sum by the number of files.
        binary: True to write the file in binary format.

    Raises:
        OptionError: a name is an rspecifier of a table.
        FeatureError: a vector or matrix has fewer rows or columns than the sum of the earlier files.
    """
    *sources, target = names
    total = np.zeros((0,) * DIMENSIONS[kind], np.float32)
    for name in map(require_single_file, sources):
        value = io_ark.load(name, kind=kind)
        padding = [(0, new - old) for new, old in zip(value.shape, total.shape, strict=True)]
        if any(added < 0 for _, added in padding):
            raise FeatureError(
                f"{name}: the {kind} is {format_shape(value.shape)}, smaller than the sum of the earlier files, "
                f"{format_shape(total.shape)}: sum {PLURALS[kind]} of one shape"
            )
        total = np.pad(total, padding) + value
    if average:
        total = scale_vector(total, 1.0 / len(sources))
    io_ark.save(target, total, kind=kind, binary=binary)
    logger.info("Summed %d %s; wrote sum to %s", len(sources), PLURALS[kind], format_wxfilename(target))
    return 0


def sum_tables(kind: Kind, names: Sequence[str], scale: float, scales: Sequence[float]) -> int:
    """Add up the entries that several tables have under each key of the first table, and write a table of the sums.

    Args:
        kind: type of the entries.
        names: rspecifiers of the tables, followed by the wspecifier of the output.
        scale: factor by which the entries of the first table are multiplied.
        scales: factors by which the entries of the other tables are multiplied.

    Returns:
        0 if the number of entries missing from the other tables is less than half the number of sums, otherwise 1.
    """
    source, *others, target = names
    with Tables() as tables:
        writer = tables.open_writer(kind, target)
        blocks = tables.read(kind, source)
        sums = _Sums(kind, source, scale)
        for number, (name, factor) in enumerate(zip(others, scales, strict=True), 2):
            label = f"system {number}, rspecifier: {name}"
            sums.systems.append(_System(tables.open_lookup(kind, name), factor, label))
        counts = map_table(blocks, writer, sums.add_systems)
    logger.info(
        "Processed %d utterances: with a total of %d %s across %d different systems",
        counts.done, sums.total, PLURALS[kind], len(names) - 1,
    )  # fmt: skip
    logger.info("Produced output for %d utterances; %d total missing %s", counts.done, sums.missing, PLURALS[kind])
    return 0 if counts.done and sums.missing < counts.done - sums.missing else 1


class _System(NamedTuple):
    """Table (system) with entries that are added to the entries of the first table."""

    reader: LookupReader[Floats]
    factor: float  # Factor by which the entries of this table are multiplied.
    label: str  # Number and rspecifier of this table, for messages.


@dataclass
class _Sums:
    """Adds the entries of other tables (systems) to the entries of the first table."""

    kind: Kind
    source: str  # Rspecifier of the first table.
    scale: float  # Factor by which the entries of the first table are multiplied.
    systems: list[_System] = field(default_factory=list)
    total: int = 0  # Number of entries added so far, of all tables.
    missing: int = 0  # Number of entries that other tables lack for keys of the first table.

    def add_systems(self, block: ArrayBlock) -> ArrayBlock:
        """Add the entries that the other tables have under the keys of ``block``, a block of the first table.

        If a table lacks an entry, or its entry has a different shape, log a warning, and add nothing from this table.
        If this happens in a block of several entries, raise Skip, so that the caller splits the block.
        """
        keys, shapes = block.decode_keys(), block.shapes[:, : block.dimensions].tolist()
        systems = [(system, system.reader.find_values(keys)) for system in self.systems]
        shapes_match = [[value is None or [*value.shape] for value in values] == shapes for _, values in systems]
        if not all(shapes_match):
            require_one_entry(block, block)
        result = block.values if self.scale == 1.0 else scale_vector(block.values, self.scale)
        self.total += len(block)
        for (system, values), has_same_shapes in zip(systems, shapes_match, strict=True):
            terms = [value for value in values if value is not None]
            self.total += len(terms)
            self.missing += len(block) - len(terms)
            if not has_same_shapes:
                self._warn_of_system(keys[0], shapes[0], terms, system.label)
            elif system.factor != 0:
                result = add_scaled_array(result, np.float32(system.factor), ArrayBlock.from_arrays(keys, terms).values)
        return replace(block, values=result)

    def _warn_of_system(self, key: str, shape: Sequence[int], values: Sequence[Floats], label: str) -> None:
        """Log that the table ``label`` has no entry ``key`` (``values`` is empty), or an entry of a different shape."""
        if not values:
            logger.warning("No %s found for utterance %s for %s", self.kind, key, label)
            return
        logger.warning(
            "Dimension mismatch for utterance %s : %s for %s vs %s primary %s, rspecifier:%s",
            key, format_shape(values[0].shape), label, format_shape(shape), self.kind, self.source,
        )  # fmt: skip


def add_scaled_array(x: Floats, factor: np.float32, y: Floats) -> Floats:
    """Return ``x + factor * y`` for arrays of the same shape. The result is rounded once, not after the product."""
    if abs(factor) == 1:
        return x + y if factor > 0 else x - y
    return fused_multiply_add(factor, y, x)


def format_shape(shape: Iterable[int]) -> str:
    """Format the shape of a vector or matrix as in Kaldi's logs, such as "3 by 4" for (3, 4)."""
    return " by ".join(map(str, shape))
