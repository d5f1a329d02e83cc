"""LDA and PLDA are estimated as by Kaldi's programs, by the formulas of the EM algorithm, and with its properties."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import io_ark
from io_ark.errors import FormatError
from io_ark.models import Lda, Plda
from io_ark.models.eigen import compute_eigenvectors
from io_ark.models.lda import compute_mean, compute_norm
from tests.support.codec_samples import MODELS

Array = npt.NDArray[Any]
REFERENCE = Path(__file__).parents[3] / "reference_data"
INPUTS, EXPECTED = REFERENCE / "inputs" / "speakers", REFERENCE / "expected" / "speakers"


def vectors_of_make_sh(dim: int) -> tuple[Array, list[str]]:
    """Return the vectors and speakers that data/models/make.sh gave to Kaldi's ivector-compute-plda."""
    rng = np.random.default_rng(dim)
    mixing = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    means = rng.standard_normal((40, dim)) @ mixing * np.linspace(2, 0.3, dim) + rng.standard_normal(dim)
    rows = [mean + rng.standard_normal(dim) @ mixing.T * 0.7 for mean in means for _ in range(5)]
    text = [[f"{value:.5g}" for value in row] for row in rows]
    return np.array(text, np.float32), [f"s{speaker}" for speaker in range(40) for _ in range(5)]


def stored_vectors() -> tuple[Array, list[str]]:
    vectors = dict(io_ark.read(f"ark:{INPUTS}/vectors.txt"))
    speakers = dict(line.split() for line in (INPUTS / "utt2spk").read_text().splitlines())
    return np.array([*vectors.values()]), [speakers[key] for key in vectors]


def planted(speakers: int, utterances: int, dim: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Return vectors, their speakers, and the covariances within and between speakers that they are drawn from."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, dim, dim))
    numbers = np.repeat(np.arange(speakers), utterances)
    vectors = (rng.standard_normal((speakers, dim)) @ a)[numbers] + rng.standard_normal((len(numbers), dim)) @ b + 3
    return vectors, numbers, b.T @ b, a.T @ a


def covariances(plda: Plda) -> tuple[Array, Array]:
    """Return the covariances within and between speakers of a model."""
    back = np.linalg.inv(plda.transform)
    return back @ back.T, back * plda.psi @ back.T


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    """Compare relative to the largest expected value."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_plda_has_the_values_and_signs_of_the_model_of_kaldi(dim: int) -> None:
    plda, expected = Plda.fit(*vectors_of_make_sh(dim)), io_ark.load(MODELS / f"plda{dim}", kind="plda")
    for name, array in expected.arrays().items():
        assert_close(plda.arrays()[name], array, 1e-9)


@pytest.mark.parametrize(
    ("case", "options"),
    [("001", {"dim": 3}), ("002", {"dim": 5, "total_covariance_factor": 0.5, "covariance_floor": 0.2})],
)
def test_lda_has_the_values_and_signs_of_the_matrix_of_kaldi(case: str, options: dict[str, Any]) -> None:
    lda = Lda.fit(*stored_vectors(), **options)
    assert lda.matrix.dtype == np.float32
    assert_close(lda.matrix, io_ark.load(EXPECTED / case / "lda", kind="matrix"), 1e-6)


def test_adapted_plda_is_the_model_of_kaldi() -> None:
    plda = io_ark.load(INPUTS / "plda", kind="plda")
    adapted = plda.adapt([vector for _, vector in io_ark.read(f"ark:{INPUTS}/domain.txt")])
    for name, array in io_ark.load(EXPECTED / "016" / "plda", kind="plda").arrays().items():
        assert_close(adapted.arrays()[name], array, 1e-6)


def em_iteration(vectors: Array, numbers: Array, within: Array, between: Array) -> tuple[Array, Array]:
    """Compute one iteration of EM speaker by speaker.

    The speaker's variable and the deviations of all vectors from it are Gaussian given the vectors.
    """
    means = {number: vectors[numbers == number].mean(axis=0) for number in set(numbers)}
    center = np.mean([*means.values()], axis=0)
    new_within, new_between = np.zeros_like(within), np.zeros_like(between)
    for number, mean in means.items():
        own = vectors[numbers == number]
        gain = between @ np.linalg.inv(between + within / len(own))
        expected = gain @ (mean - center)
        posterior = between - gain @ between
        new_between += np.outer(expected, expected) + posterior
        for vector in own:
            deviation = vector - center - expected
            new_within += np.outer(deviation, deviation) + posterior
    return new_within / len(vectors), new_between / len(means)


def test_plda_follows_the_em_algorithm() -> None:
    vectors, numbers, _, _ = planted(30, 4, 3)
    vectors, numbers = vectors[5:], numbers[5:]  # The speakers have different numbers of vectors.
    within = between = np.eye(3)
    for iterations in range(4):
        plda = Plda.fit(vectors, numbers, num_em_iters=iterations)
        np.testing.assert_allclose(covariances(plda), (within, between), rtol=1e-9, atol=1e-9)
        within, between = em_iteration(vectors, numbers, within, between)


def log_likelihood(vectors: Array, numbers: Array, plda: Plda) -> float:
    """Return the log-likelihood of all vectors: the vectors of a speaker are one large Gaussian vector."""
    within, between = covariances(plda)
    total = 0.0
    for number in set(numbers):
        own = vectors[numbers == number] - plda.mean
        covariance = np.kron(np.eye(len(own)), within) + np.kron(np.ones((len(own), len(own))), between)
        flat = own.reshape(-1)
        total -= (np.linalg.slogdet(covariance)[1] + flat @ np.linalg.solve(covariance, flat)) / 2
    return total


def test_likelihood_rises_with_each_iteration() -> None:
    vectors, numbers, _, _ = planted(25, 5, 2)
    likelihoods = [
        log_likelihood(vectors, numbers, Plda.fit(vectors, numbers, num_em_iters=count)) for count in range(8)
    ]
    assert (np.diff(likelihoods) > -1e-9).all() and likelihoods[-1] > likelihoods[0] + 1


def test_planted_covariances_are_recovered() -> None:
    vectors, numbers, within, between = planted(3000, 6, 3)
    plda = Plda.fit(vectors, numbers)
    estimated = covariances(plda)
    assert_close(estimated[0], within, 0.03)
    assert_close(estimated[1], between, 0.08)
    assert (np.diff(plda.psi) <= 0).all()
    lda = Lda.fit(vectors, numbers, dim=3)
    linear = lda.matrix[:, :-1].astype(np.float64)
    np.testing.assert_allclose(linear @ within @ linear.T, np.eye(3), atol=0.3)


def test_scores_depend_neither_on_the_order_of_vectors_nor_on_a_linear_map() -> None:
    vectors, numbers, _, _ = planted(40, 4, 3)
    order = np.random.default_rng(1).permutation(len(vectors))
    names = [f"speaker {number}" for number in numbers]
    mixing = np.array([[2, 1, 0], [0, 1, 0.5], [1, 0, 3]])
    scores = Plda.fit(vectors, numbers).score(vectors[:9], vectors[9:20], num_utts=2)
    shuffled = Plda.fit(vectors[order], [names[i] for i in order])
    mapped = Plda.fit(vectors @ mixing, numbers, num_em_iters=1000)  # EM starts from other covariances.
    np.testing.assert_allclose(shuffled.score(vectors[:9], vectors[9:20], num_utts=2), scores, rtol=1e-9, atol=1e-9)
    fixed = Plda.fit(vectors, numbers, num_em_iters=1000).score(vectors[:9], vectors[9:20])
    np.testing.assert_allclose(mapped.score(vectors[:9] @ mixing, vectors[9:20] @ mixing), fixed, rtol=1e-6, atol=1e-6)


def test_scores_of_trials_are_elements_of_the_matrix_of_scores() -> None:
    plda = io_ark.load(MODELS / "plda12", kind="plda")
    enrolled, tested = np.random.default_rng(0).standard_normal((2, 20, 12))
    numbers = np.arange(20) % 4 + 1
    scores = plda.log_likelihood_ratios(enrolled, tested, numbers)
    np.testing.assert_allclose(plda.score_trials(enrolled, tested, numbers), np.diagonal(scores), rtol=1e-10)
    with pytest.raises(FormatError, match="equal numbers of speakers and utterances, not 20 and 19"):
        plda.score_trials(enrolled, tested[1:])


def test_adaptation_without_excess_variance_keeps_the_covariances() -> None:
    plda = io_ark.load(MODELS / "plda3", kind="plda")
    vectors = plda.mean + 1e-3 * np.random.default_rng(0).standard_normal((50, 3))
    adapted = plda.adapt(vectors, mean_diff_scale=0)
    np.testing.assert_allclose(adapted.mean, vectors.mean(axis=0))
    np.testing.assert_allclose(covariances(adapted), covariances(plda), rtol=1e-8, atol=1e-10)


def test_adaptation_gives_the_variance_of_the_data_to_the_model() -> None:
    plda = io_ark.load(MODELS / "plda3", kind="plda")
    vectors = 50 * np.random.default_rng(0).standard_normal((4000, 3))  # more variance in each direction
    adapted = plda.adapt(vectors, mean_diff_scale=0)
    assert_close(sum(covariances(adapted)), np.cov(vectors.T, bias=True), 1e-6)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 3)),
        np.eye(4),
        np.array([[2.0, -1, 0], [-1, 3, 0], [0, 0, 1]]),
        np.array([[1.0, 0, 0], [0, 1, -2], [0, -2, 1]]),
        np.ones((5, 5)),
        np.diag([1e-300, 1e300, 1.0]),
        np.array([[1e-200, -1e-200], [-1e-200, 0]]),
    ],
)
def test_eigenvectors_diagonalize_special_matrices(matrix: Array) -> None:
    values, vectors = compute_eigenvectors(matrix)
    assert (np.diff(np.abs(values)) <= 0).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(matrix)), atol=1e-12)
    assert_close(vectors * values @ vectors.T, matrix, 1e-12) if matrix.any() else np.testing.assert_array_equal(
        values, 0
    )


@pytest.mark.parametrize("dim", [1, 2, 7, 60])
def test_eigenvalues_are_those_of_lapack(dim: int) -> None:
    matrix = np.random.default_rng(dim).standard_normal((dim, dim))
    matrix = matrix + matrix.T
    values, vectors = compute_eigenvectors(matrix)
    assert_close(np.sort(values), np.linalg.eigvalsh(matrix), 1e-12)
    assert_close(vectors * values @ vectors.T, matrix, 1e-12)


def test_eigenvalues_are_ordered_by_their_size_as_in_kaldi() -> None:
    values, vectors = compute_eigenvectors(np.diag([1.0, -3, 2, -0.5]))
    assert values.tolist() == [-3, 2, 1, -0.5]
    np.testing.assert_array_equal(np.abs(vectors), np.eye(4)[:, [1, 2, 0, 3]])


def test_lda_is_a_matrix_of_any_nested_numbers() -> None:
    assert Lda([[1.0, 2.0, 3.0]]).transform_vectors([[1, 1], [0, 0]]).tolist() == [[6], [3]]  # type: ignore[arg-type]


BAD = np.array([[1, 2], [np.nan, 1], [2, 3]])


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda v, s: Plda.fit(v[:3], s[:3]), "PLDA of dimension 3 needs at least 4 vectors, not 3"),
        (lambda v, s: Plda.fit(v, s * 0), "all vectors are from one speaker: PLDA needs at least 2 speakers"),
        (lambda v, s: Plda.fit(v, np.arange(len(v))), "every speaker has only one vector"),
        (lambda v, s: Plda.fit(v, s[1:]), "expected 20 speakers"),
        (lambda v, s: Plda.fit(v[0], s), r"expected a nonempty array of shape \(vectors, dim\), not \(3,\)"),
        (lambda v, s: Plda.fit({"u": v[0]}, s), r"not \(\): pass list\(vectors\.values\(\)\)"),
        (lambda v, s: Plda.fit(v[:0], s[:0]), r"not \(0, 3\)"),
        (lambda v, s: Plda.fit(BAD, s[:3]), "vector 1 contains NaN or infinities"),
        (lambda v, s: Plda.fit(v * 0, s, num_em_iters=10000), "covariance matrix is singular"),
        (lambda v, s: Lda.fit(v, s, dim=4), "dim=4 must be an integer from 1 to 3, the dimension of the vectors"),
        (lambda v, s: Lda.fit(v, s, dim=0), "dim=0 must be an integer from 1 to 3"),
        (lambda v, s: Lda.fit(v, s * 0, dim=1), "LDA needs at least 2 speakers"),
        (lambda v, s: Lda.fit(v, np.arange(len(v)), dim=1), "a speaker with at least 2 vectors"),
        (lambda v, s: Lda.fit(v[[0, 5]], s[[0, 5]] , dim=1), "every speaker has only one vector"),
        (lambda v, s: Lda.fit(BAD, s[:3], dim=1), "vector 1 contains NaN or infinities"),
        (lambda v, s: Lda.fit(v, s, dim=1, covariance_floor=-1), "covariance_floor=-1 must not be negative"),
        (lambda v, s: Lda.fit(v[s].astype(np.float32), s, dim=1), "the covariance is singular"),
        (lambda v, s: Lda(v[0]), "an LDA transform is a matrix"),
        (lambda v, s: Lda.fit(v, s, dim=2).transform_vectors(v[:, :2]), "do not fit an LDA transform of 3 dimensions"),
        (lambda v, s: Plda.fit(v, s).transform_vectors(v[:, 1:]), r"of shape \(20, 2\) do not fit a PLDA model of 3"),
        (lambda v, s: Plda.fit(v, s).transform_vectors(v[0, 0]), r"of shape \(\) do not fit a PLDA model of 3"),
        (lambda v, s: Plda.fit(v, s).adapt(v[:, 1:]), "vectors of 2 dimensions do not fit a PLDA model of 3"),
        (lambda v, s: Plda.fit(v, s).adapt(v, mean_diff_scale=-1), "mean_diff_scale=-1 must not be negative"),
        (lambda v, s: Plda.fit(v, s).adapt(v[:0]), r"not \(0, 3\)"),
        (lambda v, s: Plda.fit(v, [None] * 20), "speakers must be strings or integers"),
        (lambda v, s: Lda.fit(v, s, dim=np.float64(2)), "dim=2.0 must be an integer from 1 to 3"),
        (lambda v, s: Lda(np.zeros((2, 0))), "an LDA transform is a matrix"),
        (lambda v, s: Plda.fit(v, s).adapt(9 * v, within_covar_scale=-1), "within_covar_scale=-1 makes the within-sp"),
        *(
            (lambda v, s, name=name, value=value: Plda.fit(v, s).adapt(v, **{name: value}), f"{name}=.* must be finite")
            for name in ("mean_diff_scale", "within_covar_scale", "between_covar_scale")
            for value in (np.nan, np.inf, 1e39)
        ),
        *(
            (lambda v, s, name=name, value=value: Lda.fit(v, s, dim=1, **{name: value}), f"{name}=.* must be finite")
            for name in ("total_covariance_factor", "covariance_floor")
            for value in (np.nan, -np.inf, 1e39)
        ),
    ],
)  # fmt: skip
def test_vectors_that_determine_no_model_are_refused(fit: Any, message: str) -> None:
    vectors, numbers, _, _ = planted(4, 5, 3)
    with pytest.raises(FormatError, match=message):
        fit(vectors, numbers)


def test_adaptation_adds_the_scaled_difference_of_the_means() -> None:
    """Copies of the vectors on both sides of their mean have the same mean, and the variance that the scale adds."""
    vectors, speakers = stored_vectors()
    plda = Plda.fit(vectors, speakers)
    domain = vectors[:40] * 2.0 + 0.5
    difference = domain.mean(axis=0) - plda.mean
    spread = np.concatenate([domain + 1.5 * difference, domain - 1.5 * difference])
    expected = plda.adapt(spread, mean_diff_scale=0.0)
    actual = plda.adapt(domain, mean_diff_scale=2.25)
    pairs = [(actual.score(vectors[:5], vectors[5:9]), expected.score(vectors[:5], vectors[5:9]))]
    for one, other in [*pairs, (actual.psi, expected.psi), (actual.mean, expected.mean)]:
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    assert not np.allclose(actual.psi, plda.adapt(domain, mean_diff_scale=1.0).psi, rtol=1e-3)


def test_offset_of_lda_for_centered_vectors_is_a_positive_zero() -> None:
    """Kaldi adds the product to zero, and the text of a matrix shows the sign of a zero."""
    half = np.random.default_rng(3).integers(-9, 10, (4, 2)).astype(np.float64)  # Eighths of integers are exact.
    vectors = np.concatenate((half, -half))
    offsets = np.asarray(Lda.fit(vectors, np.arange(8) % 4, dim=2).matrix)[:, -1]
    assert (offsets == 0).all() and not np.signbit(offsets).any()


def test_scale_that_rounds_to_zero_is_not_negative() -> None:
    """Kaldi reads the scale in single precision."""
    plda = Plda(np.zeros(2), np.eye(2), np.array([2.0, 1.0]))
    vectors = np.random.default_rng(3).standard_normal((9, 2))
    expected, actual = (plda.adapt(vectors, mean_diff_scale=scale) for scale in (0.0, -1e-60))
    np.testing.assert_array_equal(actual.psi, expected.psi)


def test_within_speaker_covariance_stays_positive() -> None:
    plda = Plda(np.zeros(1), np.eye(1), np.array([1.0]))  # The total variance is 2, half of it within speakers.
    vectors = np.array([[-2.0], [2.0]])  # Variance 4, twice the total variance of the model.
    assert plda.adapt(vectors, within_covar_scale=-0.4).psi[0] > 0
    with pytest.raises(FormatError, match="makes the within-speaker covariance negative"):
        plda.adapt(vectors, within_covar_scale=-0.6)


def test_means_and_norms_are_rounded_as_in_kaldi() -> None:
    # Printed by a C++ program with the types of Kaldi's ivector-compute-lda.cc and VectorBase::Norm.
    mean = compute_mean(np.float32([[1, 0]] * 6 + [[-6, 2]]))
    assert [f"{number:.9g}" for number in mean.tolist()] == ["-1.11022302e-16", "0.285714298"]
    assert compute_mean(np.float32([[4], [1], [-5]])).tolist() == [0.0]  # By division, the mean is -2.2e-16.
    assert f"{compute_norm(np.arange(1, 15, dtype=np.float32) / np.float32(7)):g}" == "4.5513"


def test_models_log_numbers_as_kaldi_does(caplog: pytest.LogCaptureFixture) -> None:
    # Kaldi's smoothing factor, and the covariances in the directions of the eigenvalues, are floats.
    psi = np.array([1 / 0.1234565 - 1])  # The within-speaker covariance, 1 / (1 + psi), is 0.1234565.
    plda = Plda(mean=np.zeros(1), transform=np.eye(1), psi=psi)
    with caplog.at_level(logging.INFO, "io_ark"):
        plda.smooth(0.1234565)
        plda.adapt(np.array([[3.0], [-2.0]]))
    assert "Smoothing within-class covariance by 0.123457, Psi is initially" in caplog.text
    assert "within-class covar in this direction is 0.123457, between-class is 0.876544" in caplog.text


def test_trials_of_a_model_without_variation_between_speakers_score_zero_as_in_kaldi() -> None:
    # Plda::LogLikelihoodRatio then subtracts two results of the same operations.
    plda = Plda(mean=np.zeros(50), transform=np.eye(50), psi=np.zeros(50))
    enrolled, tested = np.random.default_rng(0).standard_normal((2, 200, 50))
    assert not plda.score_trials(enrolled, tested, 3).any()
