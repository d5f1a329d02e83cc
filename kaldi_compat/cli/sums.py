"""What vector-sum and matrix-sum share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.alignments import single_file
from kaldi_compat.cli.files import printable_wxfilename
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, map_table
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.products import scaled
from kaldi_compat.exact.sums import fused

Floats = npt.NDArray[np.float32]
Kind = Literal["vector", "matrix"]

DIMENSIONS = {"vector": 1, "matrix": 2}
MANY = {"vector": "vectors", "matrix": "matrices"}


def form_of(names: Sequence[str]) -> Literal["tables", "table", "files", "none"]:
    """Return what to add up: several tables, one table, several files, or nothing valid."""
    if io_ark.is_table_wspecifier(names[-1]):
        return "tables"
    if not io_ark.is_table_rspecifier(names[0]):
        return "files"
    return "table" if len(names) == 2 else "none"


def sum_table(kind: Kind, source: str, target: str, *, average: bool, binary: bool) -> int:
    """Add up all entries of a table in double precision, but those of another shape than the first, and write a file.

    Args:
        kind: type of the entries.
        source: the table.
        target: the file.
        average: divide the sum by the number of entries.
        binary: write in binary.
    """
    counts = Counts()
    total = np.zeros((0,) * DIMENSIONS[kind])
    with Tables() as tables:
        for block in tables.read(kind, source):
            for key, value in block.entries():
                if len(value) and total.shape in (value.shape, (0,) * value.ndim):
                    total = total + value if len(total) else value.astype(np.float64)
                    counts.done += 1
                    continue
                counts.failed += 1
                if len(value):
                    logger.warning("Dimension mismatch for key %s: %s vs. %s", key, shape_of(value), shape_of(total))
                else:
                    logger.warning("Zero %s input for key %s", kind, key)
    if average and counts.done:
        total = total * (1.0 / counts.done)
    io_ark.write_object(kind, target, total.astype(np.float32), binary=binary)
    name = printable_wxfilename(target)
    logger.info("Summed %d %s, %d with errors; wrote sum to %s", counts.done, MANY[kind], counts.failed, name)
    return 0 if counts.failed < counts.done else 1


def sum_of_vectors(blocks: Iterable[ArrayBlock]) -> tuple[npt.NDArray[np.float64], int]:
    """Return the sum of vectors in double precision, and their number.

    Raises:
        FeatureError: they differ in length.
    """
    total, count = np.zeros(0), 0
    for block in blocks:
        for key, vector in block.entries():
            if count and len(vector) != len(total):
                raise FeatureError(f"{key}: dimension {len(vector)}, but {len(total)} before")
            total = total + vector if count else vector.astype(np.float64)
            count += 1
    return total, count


def sum_files(kind: Kind, names: Sequence[str], *, average: bool, binary: bool) -> int:
    """Add up the entries in files, and write a file.

    Args:
        kind: type of the entries. As in Kaldi, each must be at least as large as the ones before.
        names: the files, and the one to write.
        average: divide the sum by the number of files.
        binary: write in binary.

    Raises:
        OptionError: one of the names is a table.
        FeatureError: an entry is smaller than one before.
    """
    *sources, target = names
    total = np.zeros((0,) * DIMENSIONS[kind], np.float32)
    for name in map(single_file, sources):
        value = io_ark.read_object(kind, name)
        missing = [(0, new - old) for new, old in zip(value.shape, total.shape, strict=True)]
        if any(more < 0 for _, more in missing):
            raise FeatureError(f"{name}: the {kind} is {shape_of(value)}, but the ones before are {shape_of(total)}")
        total = np.pad(total, missing) + value
    if average:
        total = scaled(total, 1.0 / len(sources))
    io_ark.write_object(kind, target, total, binary=binary)
    logger.info("Summed %d %s; wrote sum to %s", len(sources), MANY[kind], printable_wxfilename(target))
    return 0


def sum_tables(kind: Kind, names: Sequence[str], scale: float, scales: Sequence[float]) -> int:
    """Add up the entries of each key of a table and of others, and write a table.

    Args:
        kind: type of the entries.
        names: the tables, and the one to write.
        scale: factor on the first table.
        scales: factors on the other tables.
    """
    source, *others, target = names
    total = missing = 0
    with Tables() as tables:
        writer = tables.write(kind, target)
        blocks = tables.read(kind, source)
        readers = [tables.lookup(kind, name) for name in others]

        def add(key: str, value: Floats) -> Floats:
            nonlocal total, missing
            result = value if scale == 1.0 else scaled(value, scale)
            total += 1
            for number, (reader, name, factor) in enumerate(zip(readers, others, scales, strict=True), 2):
                where = f"system {number}, rspecifier: {name}"
                if key not in reader:
                    missing += 1
                    logger.warning("No %s found for utterance %s for %s", kind, key, where)
                    continue
                total += 1
                other = reader[key]
                if other.shape == result.shape:
                    result = result if factor == 0 else fused(np.float32(factor), other, result)
                else:
                    logger.warning(
                        "Dimension mismatch for utterance %s : %s for %s vs %s primary %s, rspecifier:%s",
                        key, shape_of(other), where, shape_of(result), kind, source,
                    )  # fmt: skip
            return result

        counts = map_table(blocks, writer, lambda block: block.map(add))
    logger.info(
        "Processed %d utterances: with a total of %d %s across %d different systems",
        counts.done, total, MANY[kind], len(names) - 1,
    )  # fmt: skip
    logger.info("Produced output for %d utterances; %d total missing %s", counts.done, missing, MANY[kind])
    return 0 if counts.done and missing < counts.done - missing else 1


def shape_of(array: npt.NDArray[Any]) -> str:
    """Return the shape of a vector or matrix as Kaldi logs it."""
    return " by ".join(map(str, array.shape))
