"""Statistics that models ship: every format gives the same numbers, and other files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.functional.cmvn import apply_cmvn
from kaldi_compat.functional.normalization import apply_shift_and_scale
from kaldi_compat.options.frontend import GlobalCmvnOptions
from kaldi_compat.options.postprocessing import CmvnOptions
from kaldi_compat.torch.features.model_input import GlobalCmvn
from tests.support.frontend_audio import am_mvn, kaldi_stats, mean_and_deviation, wenet_json

DIM = 80


def as_kaldi(path: Path, text: bool) -> None:
    with io_ark.writer(f"ark{',t' * text}:{path}.table") as table:
        table["a"] = kaldi_stats(DIM)
    content = Path(f"{path}.table").read_bytes()
    path.write_bytes(content[2:])  # without the key


@pytest.mark.parametrize(
    "kind", ["am.mvn", "json", "numbers", "kaldi", "kaldi text", "archive", "array", "tensor", "pair"]
)
def test_every_format_gives_the_same_statistics(kind: str, tmp_path: Path) -> None:
    mean, std = mean_and_deviation(DIM)
    file = tmp_path / "stats"
    source: Any = file
    if kind == "am.mvn":
        file.write_text(am_mvn(DIM))
    elif kind == "json":
        file.write_text(wenet_json(DIM))
    elif kind == "numbers":
        file.write_text(f'{{"mean": {mean.tolist()}, "std": {std.tolist()}}}')
    elif kind.startswith("kaldi"):
        as_kaldi(file, text=kind == "kaldi text")
    elif kind == "archive":
        with io_ark.writer(f"ark:{file}") as table:
            table["global"] = kaldi_stats(DIM)
    elif kind == "pair":
        source = (mean, std.tolist())
    else:
        source = kaldi_stats(DIM) if kind == "array" else torch.from_numpy(kaldi_stats(DIM))
    statistics = Statistics.of(source)
    close = 1e-4 if kind == "kaldi text" else 1e-6  # six digits of sums
    np.testing.assert_allclose(statistics.shift, -mean, rtol=close)
    np.testing.assert_allclose(statistics.scale, 1 / std, rtol=close)
    features = torch.randn(7, DIM, generator=torch.Generator().manual_seed(0)) * 3 + 12
    expected = apply_cmvn(features.double(), kaldi_stats(DIM), CmvnOptions(norm_vars=True)).float()
    torch.testing.assert_close(GlobalCmvn(source)(features), expected, rtol=0, atol=10 * close)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the statistics"),
        (b"", "holds no statistics"),
        (b"hello", "holds no statistics"),
        (b" [ 1 2 3 ]", "expected Kaldi statistics of shape"),
        (b" [\n 1 2 0\n 1 2 0 ]\n", "are of 0 frames"),
        (b"{", "is not a JSON file of statistics"),
        (b'{"mean": [1]}', "has no 'std'"),
        (b'{"mean": [1], "std": [0]}', "every standard deviation must be positive"),
        (b'{"mean": [1, 2], "std": [1]}', "of the same length"),
        (b'{"mean": ["a"], "std": [1]}', "must be numbers"),
        (b'{"mean_stat": [1], "var_stat": [1]}', "has no 'frame_num'"),
        (b"<Nnet> <AddShift> 2 2 <LearnRateCoef> 0 [ 1 x ] <Rescale> 2 2 [ 1 1 ]", "not a number"),
        (b"<Nnet> <AddShift> 2 2 <LearnRateCoef> 0 [ 1 2 ] </Nnet>", "of the same length"),
        (b"<Nnet> <AddShift> 2 2 <LearnRateCoef> 0 [ 1 nan ] <Rescale> 2 2 [ 1 1 ]", "infinite or NaN"),
    ],
)
def test_files_without_statistics_are_refused_with_one_line(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "stats"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FeatureError, match=message) as caught:
        Statistics.of(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_things_that_are_no_statistics_are_refused() -> None:
    with pytest.raises(FeatureError, match="a pair"):
        Statistics.of(3)
    with pytest.raises(FeatureError, match="must be numbers"):
        Statistics.of(("a", "b"))
    with pytest.raises(FeatureError, match=r"expected Kaldi statistics .* not <U1 of shape \(2, 3\)"):
        Statistics.of(np.array([["a", "b", "c"]] * 2))
    with pytest.raises(FeatureError, match="dimension 3 do not fit features of dimension 2"):
        GlobalCmvn(([0.0] * 3, [1.0] * 3))(torch.zeros(4, 2))
    with pytest.raises(FeatureError, match="dimension 3 do not fit features of dimension 2"):
        apply_shift_and_scale(torch.zeros(4, 2), 0.0, torch.ones(3))
    with pytest.raises(OptionError, match="one or the other"):
        GlobalCmvn(([0.0], [1.0]), GlobalCmvnOptions(mean=1.0))


def test_variances_are_floored_where_kaldi_floors_them() -> None:
    sums = np.array([[0.0, 0.0, 1.0], [1e-16, 1e-30, 0.0]])
    np.testing.assert_allclose(Statistics.of(sums).scale, [1e8, 1e10])


@pytest.mark.parametrize("kind", ["array", "json", "kaldi"])
def test_a_negative_variance_is_refused(kind: str, tmp_path: Path) -> None:
    matrix, file = np.array([[10.0, 10.0, 10.0], [50.0, 5.0, 0.0]]), tmp_path / "stats"
    source: Any = matrix if kind == "array" else file
    if kind == "json":
        file.write_text('{"mean_stat": [10, 10], "var_stat": [50, 5], "frame_num": 10}')
    elif kind == "kaldi":
        file.write_text(" [\n 10 10 10\n 50 5 0 ]\n")
    with pytest.raises(
        FeatureError, match=r"the variance of column 1 is negative, -0\.5: .*compute the statistics again"
    ):
        Statistics.of(source)


def test_a_variance_that_is_negative_by_rounding_is_that_of_a_constant_column() -> None:
    sums = np.array([[123456.0, 1.0, 100.0], [123456.0**2 / 100 * (1 - 4e-6), 1.0, 0.0]])
    assert Statistics.of(sums).scale[0] == np.float32(1e10)


@pytest.mark.parametrize("text", ['{"mean": [1e300], "std": [1]}', '{"mean": [1], "std": [1e-300]}'])
def test_numbers_that_overflow_in_single_precision_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "stats").write_text(text)
    with pytest.raises(FeatureError, match="infinite or NaN in single precision"):
        Statistics.of(tmp_path / "stats")


@pytest.mark.parametrize("pair", [(10**400, 1.0), ([1.0], [10**400])])
def test_integers_beyond_double_precision_are_refused(pair: Any) -> None:
    with pytest.raises(FeatureError, match="mean and std must be numbers"):
        Statistics.of(pair)
