"""Run an implementation of Kaldi's features over the test vectors of the conformance kit, and grade its results."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.numpy_files import load_npy
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_explain.causes import Cause, WrongResult, find_causes

__all__ = ["Result", "Scorecard", "Vector", "conform", "vectors"]

Array = npt.NDArray[Any]
Implementation = Callable[[Array, dict[str, Any]], npt.ArrayLike]
LEVELS = range(1, 9)
GRADES = ("bits", "1e-5", "1e-3", "wrong", "failed", "not supported")
PASSED = GRADES[:3]
MIN_TOLERANCE = 1e-3  # Tolerance of a vector whose rounding errors are small. Absolute for magnitudes below 1.
ROUNDING_FACTOR = 3  # Ratio of the tolerance to Kaldi's rounding error, because implementations round differently.
MAX_LISTED_FAILURES = 5  # Number of failures that a scorecard describes. It counts the other failures.
PACKAGE = "kaldi_conformance"
CHECKOUT = Path(__file__).parents[3] / "reference_data" / "conformance"


def _is_numeric(array: Array) -> bool:
    """Return True if the elements of an array are Booleans, integers or floats. Complex numbers do not count."""
    return array.dtype.kind in "biuf"


@dataclass(frozen=True)
class Vector:
    """Test vector of the conformance kit: an input, all options, and Kaldi's output.

    Attributes:
        id: name of the vector, such as "3-0017".
        level: number of the level, 1 to 8.
        options: the name of Kaldi's program under the key "program", and the values of all its options.
        file: path of the wave file with the audio. None if the input is not audio.
        given: the input: int16 audio (T,), an array, or the bytes of an archive as uint8.
        expected: Kaldi's output, such as features (frames, dim).
        rounding: largest difference between Kaldi's output and a computation in double precision.
        title: title of the level.

    >>> import numpy as np
    >>> from kaldi_explain.grading import Vector
    >>> vector = Vector("1-0000", 1, {"program": "compute-fbank-feats"}, None, np.zeros(8, np.int16), np.eye(2))
    >>> vector.grade(np.eye(2) + 0.5)
    ('wrong', 'the largest error is 0.5, at [0, 0]')
    """

    id: str
    level: int
    options: dict[str, Any]
    file: Path | None
    given: Array
    expected: Array
    rounding: float = 0.0
    title: str = ""

    def __str__(self) -> str:
        return self.id

    @property
    def tolerance(self) -> float:
        """Largest accepted error, as :meth:`grade` defines it: 1e-3, or 3 times :attr:`rounding` if that is larger."""
        return max(MIN_TOLERANCE, ROUNDING_FACTOR * self.rounding)

    def grade(self, result: npt.ArrayLike) -> tuple[str, str]:
        """Grade the output of an implementation for this vector.

        Args:
            result: the output for the input ``given`` and the ``options``.

        Returns:
            The grade, and a description of the error of a wrong result, or "". The grade is "bits" if the numbers equal
            ``expected`` (after conversion to its type if that is a float type), "1e-5" for errors up to 1e-5, "1e-3"
            for errors up to :attr:`tolerance`, and otherwise "wrong". An error is divided by the expected magnitude if
            this is above 1. Integers are only "bits" or "wrong". NaN equals NaN, and empty arrays are equal.
        """
        array, expected = np.asarray(result), self.expected
        if not _is_numeric(array):
            return "wrong", f"elements of type {array.dtype} are not numbers"
        if expected.size == 0 and array.size == 0:
            return "bits", ""
        if array.shape != expected.shape:
            if array.shape[1:] == expected.shape[1:] != ():
                return "wrong", f"{len(array)} frame{'s' * (len(array) != 1)}, not {len(expected)}"
            return "wrong", f"the shape is {array.shape}, not {expected.shape}"
        is_float = expected.dtype.kind == "f"
        with np.errstate(over="ignore", invalid="ignore"):
            # A float is not rounded to an integer, because 1.5 is not a decision.
            converted = array.astype(expected.dtype) if is_float else array
            if np.array_equal(converted, expected, equal_nan=is_float):
                return "bits", ""
            errors = np.abs(array.astype(np.float64) - expected) / np.maximum(1, np.abs(expected.astype(np.float64)))
        # Equal infinities and NaN in both arrays give an error of NaN, but they agree. Any other NaN is wrong.
        errors[(converted == expected) | ((converted != converted) & (expected != expected))] = 0
        errors = np.nan_to_num(errors, nan=np.inf)
        largest = float(errors.max())
        for name, bound in (("1e-5", 1e-5), ("1e-3", self.tolerance)):
            if is_float and largest <= bound:
                return name, ""
        indices = [int(index) for index in np.unravel_index(int(errors.argmax()), errors.shape)]
        return "wrong", f"the largest error is {largest:.2g}, at {indices}"

    def check(self, result: npt.ArrayLike) -> None:
        """Raise AssertionError if ``result``, the output of an implementation for this vector, is wrong.

        Use this method in a test with the decorator ``@pytest.mark.parametrize("vector", vectors(1), ids=str)``.
        """
        grade, why = self.grade(result)
        if grade not in PASSED:
            raise AssertionError(f"vector {self.id}, {self.options['program']}: {why}")


@dataclass(frozen=True)
class Result:
    """Result of one vector.

    Attributes:
        vector: the vector.
        grade: one of ``GRADES``.
        why: the error of a wrong result, or the reason why a vector failed or is not supported. "" if none is known.
        array: the output of the implementation if the grade is "wrong", or else None.
    """

    vector: Vector
    grade: str
    why: str = ""
    array: Array | None = None


@dataclass(frozen=True)
class Scorecard:
    """Results of an implementation for the vectors of the conformance kit.

    ``str()`` returns a table with the number of vectors of each level and grade, the causes, and the first failures.

    Attributes:
        results: the results of all vectors.
        causes: mistakes in the implementation that explain wrong results, the most frequent first.
    """

    results: list[Result]
    causes: list[Cause] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True if at least one vector is supported, and no supported vector is wrong or fails."""
        supported_grades = [result.grade for result in self.results if result.grade != "not supported"]
        return bool(supported_grades) and all(grade in PASSED for grade in supported_grades)

    def counts(self) -> dict[int, dict[str, int]]:
        """Return the numbers of vectors as ``counts[level][grade]``, for each level that was run and each grade."""
        counts = {result.vector.level: dict.fromkeys(GRADES, 0) for result in self.results}
        for result in self.results:
            counts[result.vector.level][result.grade] += 1
        return counts

    def __str__(self) -> str:
        """Return the table of :meth:`counts`, and then lines for causes, results that are not numeric, and failures.

        If no vector is supported, and all reasons are known, the last line is the reason for the first vector.
        """
        lines = [f"{'level':30} {'vectors':>8}" + "".join(f" {grade:>6}" for grade in GRADES)]
        titles = {result.vector.level: result.vector.title for result in self.results}
        for level, counts in sorted(self.counts().items()):
            numbers = "".join(f" {counts[grade]:>{max(6, len(grade))}}" for grade in GRADES)
            lines.append(f"{level} {titles[level]:28} {sum(counts.values()):>8}{numbers}")
        lines += [f"wrong: {cause}" for cause in self.causes]
        invalid = [result for result in self.results if result.array is not None and not _is_numeric(result.array)]
        lines += [f"wrong: {result.why}: {len(invalid)} vector{'s' * (len(invalid) > 1)}, such as {result.vector.id}"
                  for result in invalid[:1]]  # fmt: skip
        failed = [result for result in self.results if result.grade == "failed"]
        lines += [f"failed: {result.vector.id}: {result.why}" for result in failed[:MAX_LISTED_FAILURES]]
        if self.results and all(result.grade == "not supported" and result.why for result in self.results):
            lines.append(f"not supported: {self.results[0].why}")
        if len(failed) > MAX_LISTED_FAILURES:
            lines.append(f"failed: {len(failed) - MAX_LISTED_FAILURES} more")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return the scorecard as a JSON object with ``passed``, ``levels``, ``causes`` and ``vectors``.

        ``levels`` is the result of :meth:`counts`. ``causes`` lists objects with a ``name`` and the ids of ``vectors``.
        ``vectors`` maps the ids of wrong and failed vectors to objects with ``grade`` and ``why``.
        """
        incorrect = [result for result in self.results if result.grade not in (*PASSED, "not supported")]
        values = {
            "passed": self.passed,
            "levels": self.counts(),
            "causes": [{"name": cause.name, "vectors": cause.vectors} for cause in self.causes],
            "vectors": {result.vector.id: {"grade": result.grade, "why": result.why} for result in incorrect},
        }
        return json.dumps(values, indent=1)


def conform(
    implementation: Implementation,
    *,
    level: int | Sequence[int] | None = None,
    kit: str | Path | None = None,
    explain: bool = True,
) -> Scorecard:
    """Run an implementation of Kaldi's features over the conformance kit.

    Args:
        implementation: function that takes the input of a vector (int16 audio (T,), an array, or the bytes of an
            archive as uint8) and its options, and returns an array. It raises NotImplementedError for a vector that it
            does not support. Any other exception is a failure.
        level: one level or several levels to run, 1 to 8. None for all.
        kit: folder of the kit. None for the installed package ``kaldi_conformance`` or the kit of a checkout.
        explain: True to search for the mistakes that wrong results have in common.

    Returns:
        The scorecard.

    Raises:
        OptionError: a level does not exist.
        FeatureError: the kit is not found, or is damaged.

    >>> from kaldi_compat.numpy import Fbank
    >>> from kaldi_explain import conform
    >>> def fbank(samples, options):
    ...     if options["program"] != "compute-fbank-feats":
    ...         raise NotImplementedError
    ...     return Fbank(dither=0.0, sample_frequency=options["sample_frequency"])(samples)
    >>> print(conform(fbank, level=1))
    level                           vectors   bits   1e-5   1e-3  wrong failed not supported
    1 defaults of fbank                  16     16      0      0      0      0             0
    """
    return score([_grade_result(vector, implementation) for vector in vectors(level, kit)], explain=explain)


def score(results: list[Result], *, explain: bool) -> Scorecard:
    """Return the scorecard of ``results``. With ``explain``, also search for the causes of numeric wrong results."""
    wrong_results = [
        WrongResult(vector.id, vector.options, vector.given, result.array, vector.expected, vector.tolerance)
        for result in results
        for vector in [result.vector]
        if result.array is not None and _is_numeric(result.array)
    ]
    return Scorecard(results, find_causes(wrong_results) if explain else [])


def grade(vector: Vector, result: npt.ArrayLike) -> Result:
    """Return the :class:`Result` of a vector for which an implementation returned the array ``result``."""
    name, why = vector.grade(result)
    return Result(vector, name, why, np.asarray(result) if name == "wrong" else None)


def _grade_result(vector: Vector, implementation: Implementation) -> Result:
    """Call an implementation with the input and the options of a vector, and grade the array that it returns.

    The grade is "not supported" after NotImplementedError, and "failed" after any other exception or ``sys.exit``.
    """
    try:
        return grade(vector, implementation(vector.given.copy(), dict(vector.options)))
    except NotImplementedError:
        return Result(vector, "not supported")
    except (Exception, SystemExit) as error:
        return Result(vector, "failed", " ".join(f"{type(error).__name__}: {error}".split()))


def vectors(level: int | Sequence[int] | None = None, kit: str | Path | None = None) -> list[Vector]:
    """Load the test vectors of the conformance kit.

    Args:
        level: one level or several levels, 1 to 8. None for all.
        kit: folder of the kit. None for the installed package ``kaldi_conformance`` or the kit of a checkout.

    Returns:
        The vectors in the order of ``level``. The vectors of a level are in the order of the kit.

    Raises:
        OptionError: a level does not exist.
        FeatureError: the kit is not found, or is damaged.

    >>> from kaldi_explain.grading import vectors
    >>> vectors(1)[0].expected.shape
    (28, 23)
    """
    levels = list(LEVELS) if level is None else [level] if isinstance(level, int) else list(level)
    if wrong := [number for number in levels if number not in LEVELS]:
        raise OptionError(f"level={wrong[0]} does not exist: the kit has the levels 1 to {LEVELS[-1]}")
    folder = find_kit_folder(kit)
    try:
        return [vector for number in levels for vector in _load_level(folder, number)]
    except (OSError, ValueError, KeyError, TypeError, io_ark.ArkError) as error:
        reason = f"the entry {error} is missing" if isinstance(error, KeyError) else error
        raise FeatureError(
            f"{folder} is not a complete conformance kit: {reason}; copy or install the kit again"
        ) from None


def find_kit_folder(kit: str | Path | None = None) -> Path:
    """Return ``kit`` as a path. If it is None, return the installed kit, or else the kit in this checkout.

    Raise FeatureError if the folder does not exist, or is not a conformance kit.
    """
    if kit is None:
        spec = importlib.util.find_spec(PACKAGE)
        installed = list(spec.submodule_search_locations or []) if spec else []
        kit = installed[0] if installed else CHECKOUT
        if not Path(kit).is_dir():
            raise FeatureError(
                "the conformance kit is not installed: copy reference_data/conformance of the source and name it with "
                "kit=... (--kit DIR), or install the package kaldi-conformance"
            )
    if not Path(kit, "level-1.json").is_file():
        raise FeatureError(f"{kit} is not a conformance kit: level-1.json is missing; name the folder with this file")
    return Path(kit)


def _load_level(folder: Path, level: int) -> list[Vector]:
    """Load the vectors of a level. Raise OSError, ValueError, KeyError, TypeError or ArkError for a damaged kit."""
    files: dict[str, Array] = {}  # Maps names of .npy files to their contents, arrays of one dimension.

    def read_array(location: dict[str, Any]) -> Array:
        """Read an array from its ``location``: a "file", an "offset" in elements, and a "shape"."""
        name = Path(location["file"]).name
        if name not in files:
            files[name] = load_npy(folder / name)
        end = location["offset"] + int(np.prod(location["shape"]))
        array: Array = files[name][location["offset"] : end].reshape(location["shape"])
        return array

    @functools.lru_cache(maxsize=64)
    def read_samples(name: str) -> Array:
        """Return the first channel (T,) of the wave file ``name``. Results are cached, because vectors share files."""
        array: Array = io_ark.load(folder / "audio" / name, kind="wave").samples[0]
        return array

    loaded = []
    content = json.loads((folder / f"level-{level}.json").read_text())
    for entry in content["vectors"]:
        location = entry["input"]
        file = None if "offset" in location else folder / "audio" / Path(location["file"]).name
        given = read_array(location) if file is None else read_samples(file.name)
        expected, rounding = read_array(entry["expected"]), entry.get("rounding", 0.0)
        loaded.append(Vector(entry["id"], level, entry["options"], file, given, expected, rounding, content["title"]))
    return loaded
