"""Models that Kaldi's programs wrote (data/models/make.sh): same bytes, Kaldi's scores, and what is refused."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
from io_ark.codecs import AnyCodec, read_any
from io_ark.codecs.fst import Fst
from io_ark.errors import FormatError, TruncatedError
from io_ark.models import AcousticModel, AmDiagGmm, DiagGmm, FullGmm, IvectorExtractor, Network, Plda
from io_ark.streams.source import BytesSource, StreamSource
from tests.support.codec_samples import MODELS, OTHER_MODELS
from tests.support.codec_tools import from_bytes, to_bytes
from tests.support.processes import memory_below

BOTH = {
    **{f"plda{dim}": f"plda{dim}.txt" for dim in (1, 3, 12)},
    **{f"{kind}{dim}.gmm": f"{kind}{dim}.txt" for kind in ("diag", "full") for dim in (1, 4, 7)},
    **{f"extractor{dim}.ie": f"extractor{dim}.txt" for dim in (1, 4, 7)},
}


def encoded(value: Any, binary: bool) -> bytes:
    sink = io.BytesIO()
    AnyCodec().write(sink, value, binary=binary)
    return sink.getvalue()


@pytest.mark.parametrize("name", [*BOTH, *BOTH.values()])
def test_model_has_other_bytes_after_reading_and_writing(name: str) -> None:
    data = (MODELS / name).read_bytes()
    assert encoded(io_ark.load(MODELS / name), data[:1] == b"\0") == data


@pytest.mark.parametrize(("name", "text"), BOTH.items())
def test_model_in_text_is_not_that_of_kaldi(name: str, text: str) -> None:
    assert encoded(io_ark.load(MODELS / name), False) == (MODELS / text).read_bytes()


def test_model_from_text_is_not_that_of_kaldi() -> None:
    assert encoded(io_ark.load(MODELS / "plda12.txt"), True) == (MODELS / "plda12.from_text").read_bytes()


@pytest.mark.parametrize("name", ["mono", "tri"])
def test_acoustic_model_has_other_bytes_after_reading_and_writing(name: str) -> None:
    path, text = OTHER_MODELS / f"{name}.mdl", (MODELS / f"{name}.mdl.txt").read_bytes()
    model = io_ark.load(path)
    assert isinstance(model, AcousticModel) and isinstance(model.densities, AmDiagGmm)
    assert len(model.densities.densities) == model.transitions.num_pdfs
    assert encoded(model, True) == path.read_bytes()
    assert encoded(model, False) == text
    assert encoded(read_any(BytesSource(text)), False) == text
    pdfs = model.arrays()["pdfs"]
    assert len(pdfs) == model.densities.num_gauss and set(pdfs) == set(range(model.transitions.num_pdfs))


def test_sizes_are_those_of_the_training() -> None:
    extractor = io_ark.load(MODELS / "extractor7.ie")
    assert isinstance(extractor, IvectorExtractor)
    assert extractor.projections.shape == (3, 7, 3) and extractor.weights.shape == (3,)
    assert io_ark.load(MODELS / "extractor4.ie").weight_projections.shape == (5, 6)
    assert repr(io_ark.load(MODELS / "full4.gmm")) == "FullGmm(num_gauss=5, dim=4)"


def test_arrays_name_the_pdf_of_each_gaussian() -> None:
    one, two = (DiagGmm(np.full(n, 1 / n), np.ones((n, 3)), np.ones((n, 3))) for n in (2, 1))
    arrays = AmDiagGmm((one, two, one)).arrays()
    assert arrays["pdfs"].tolist() == [0, 0, 1, 2, 2] and arrays["means"].shape == (5, 3)


# Scores.

TRAIN, TEST, NUM_UTTS = (dict(io_ark.read(MODELS / name)) for name in ("train.vectors", "test.vectors", "num_utts"))
COUNTS = [NUM_UTTS[key] for key in TRAIN]
SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("plda12", {}),
    "simple": ("plda12", {"simple_length_normalization": True}),
    "unnormalized": ("plda12", {"normalize_length": False}),
    "unnormalized_simple": ("plda12", {"normalize_length": False, "simple_length_normalization": True}),
    "num_utts": ("plda12", {"num_utts": COUNTS}),
    "num_utts_simple": ("plda12", {"num_utts": COUNTS, "simple_length_normalization": True}),
    "num_utts_unnormalized": ("plda12", {"num_utts": COUNTS, "normalize_length": False}),
    "smooth": ("plda12.smooth", {"num_utts": COUNTS}),
    "text": ("plda12.txt", {"num_utts": COUNTS}),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_not_those_of_ivector_plda_scoring(name: str) -> None:
    model, options = SCORES[name]
    found = io_ark.load(MODELS / model, kind="plda").score(list(TRAIN.values()), list(TEST.values()), **options)
    np.testing.assert_allclose(found.T.ravel(), np.loadtxt(MODELS / f"scores.{name}"), rtol=1e-6)


@pytest.mark.parametrize(("factor", "name"), [(0.1, "plda12.smooth"), (1.0, "plda12.smooth1")])
def test_smoothing_is_not_that_of_ivector_copy_plda(factor: float, name: str) -> None:
    smoothed, expected = io_ark.load(MODELS / "plda12", kind="plda").smooth(factor), io_ark.load(MODELS / name)
    for key, value in expected.arrays().items():
        np.testing.assert_array_equal(smoothed.arrays()[key], value)


def test_deviations_of_smoothed_models_are_powers_of_the_c_library() -> None:
    """C++ computed the expected numbers. With AVX-512, the operator ** of NumPy gives other bits."""
    smoothed = Plda(np.zeros(2), np.eye(2), np.array([1.0, 1.625])).smooth(0.1)
    assert np.diag(smoothed.transform).tolist() == [0.95346258859978783, 0.92747779055438795]


def test_transform_is_not_that_of_one_vector_and_precision_is_lost() -> None:
    plda = io_ark.load(MODELS / "plda12", kind="plda")
    vectors = np.stack(list(TRAIN.values()))
    for given in vectors, vectors.astype(np.float64):
        many = plda.transform_vectors(given, COUNTS)
        assert many.dtype == given.dtype
        for one, vector, count in zip(many, given, COUNTS, strict=True):
            np.testing.assert_allclose(
                plda.transform_vectors(vector, count), one, rtol=1e-6 if vector.itemsize == 4 else 1e-12
            )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"enrolled": np.ones((2, 5))}, r"vectors of shape \(2, 5\) do not fit a PLDA model of 12"),
        ({"num_utts": [1, 2]}, r"num_utts has the shape \(2,\): pass a number, or an array of shape"),
        ({"num_utts": 0}, "num_utts must be positive"),
        ({"tested": np.ones(12)}, r"expected vectors of shape \(trials, 12\), not of shape \(12,\)"),
    ],
)
def test_vectors_that_do_not_fit_are_scored(change: dict[str, Any], said: str) -> None:
    arguments = {"enrolled": np.ones((3, 12)), "tested": np.ones((2, 12))} | change
    with pytest.raises(FormatError, match=said):
        io_ark.load(MODELS / "plda12", kind="plda").score(**arguments)


def test_smoothing_beyond_1_is_accepted() -> None:
    with pytest.raises(FormatError, match=r"between 0 and 1, not 1\.5"):
        io_ark.load(MODELS / "plda12", kind="plda").smooth(1.5)


# Mixtures.


@pytest.mark.parametrize("name", ["diag4.gmm", "full4.gmm", "full7.gmm"])
def test_moments_are_not_those_of_the_constants_of_kaldi(name: str) -> None:
    gmm = io_ark.load(MODELS / name)
    moments = gmm.arrays()
    for weight, mean, covariance, gconst in zip(*moments.values(), gmm.gconsts, strict=True):
        full = np.diag(covariance) if covariance.ndim == 1 else covariance
        normal = torch.distributions.MultivariateNormal(torch.tensor(mean).double(), torch.tensor(full).double())
        assert np.log(weight) + normal.log_prob(torch.zeros(len(mean))) == pytest.approx(gconst, rel=2e-3)


@pytest.mark.parametrize("name", ["diag4.gmm", "diag7.gmm", "full4.gmm", "full7.gmm"])
def test_mixture_without_gconsts_of_an_old_kaldi_is_refused(name: str) -> None:
    data, gmm = (MODELS / name).read_bytes(), io_ark.load(MODELS / name)
    start, end = data.index(b"<GCONSTS>"), data.index(b"<WEIGHTS>")
    old = data[:start] + data[end:]
    for token in b"DiagGMM", b"FullGMM":
        old = old.replace(b"<%s>" % token, b"<%sBegin>" % token).replace(b"</%s>" % token, b"<%sEnd>" % token)
    found = read_any(BytesSource(old))
    np.testing.assert_allclose(found.gconsts, gmm.gconsts, rtol=1e-4)
    np.testing.assert_array_equal(found.precisions, gmm.precisions)


def test_shapes_that_do_not_fit_are_accepted() -> None:
    with pytest.raises(FormatError, match=r"Plda\.psi has the shape \(2,\): pass an array of shape \(3,\)"):
        Plda(np.ones(3), np.eye(3), np.ones(2))
    with pytest.raises(FormatError, match="no dimensions"):
        Plda(np.ones(0), np.ones((0, 0)), np.ones(0))
    with pytest.raises(FormatError, match=r"DiagGmm\.precisions has the shape \(2, 2\): .* shape \(1, 2\)"):
        DiagGmm(np.ones(1), np.ones((1, 2)), np.ones((2, 2)))
    with pytest.raises(FormatError, match="has no inverse"):
        FullGmm(np.ones(1), np.ones((1, 2)), np.ones((1, 2, 2)))
    with pytest.raises(FormatError, match=r"of the same dimension, not mixtures of dimensions \[2, 3\]"):
        AmDiagGmm(tuple(DiagGmm(np.ones(1), np.ones((1, dim)), np.ones((1, dim))) for dim in (2, 3)))
    with pytest.raises(FormatError, match="expected an object of type DiagGmm, not FullGmm"):
        to_bytes("diag-gmm", io_ark.load(MODELS / "full4.gmm"))


# Damaged files.


def test_signalling_nan_of_a_float_warns() -> None:
    nan = struct.pack("<I", 0x7F800001)
    data = b"\0B<Plda> FV \4\1\0\0\0" + nan + b"FM \4\1\0\0\0\4\1\0\0\0" + nan + b"FV \4\1\0\0\0" + nan + b"</Plda> "
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(read_any(BytesSource(data)).psi).all()


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("plda3", b"FV", b"XV", "expected '</Plda>'"),
        ("plda3", b"DM \4\3", b"DM \4\2", "expected a vector|expected a matrix|shape"),
        ("full4.txt", b"<INV_COVARS> [\n", b"<INV_COVARS> [\n1 ]\n[\n", "a matrix has the shape"),
        ("extractor7.ie", b"<M> \4\3", b"<M> \4\2", "expected '<SigmaInv>'"),
        ("extractor7.txt", b"<M> 3", b"<M> -3", "the number of Gaussians is negative: -3"),
        ("mono.mdl.txt", b"<DIMENSION> 3", b"<DIMENSION> 4", "have dimension 3, but the header has 4"),
        ("mono.mdl.txt", b"<NUMPDFS> 20", b"<NUMPDFS> 0", "one or more mixtures"),
    ],
)
def test_damaged_model_is_read(name: str, old: bytes, new: bytes, said: str) -> None:
    data = (MODELS / name).read_bytes()
    if old == b"FV":
        data, old, new = data.replace(b"</Plda>", b"</Pxda>"), b"", b""
    with pytest.raises(FormatError, match=said) as caught:
        read_any(BytesSource(data.replace(old, new, 1)))
    assert caught.value.offset is not None


@pytest.mark.parametrize("name", ["extractor7.ie", "full4.gmm", "plda12", "diag4.gmm"])
def test_false_count_takes_memory(name: str) -> None:
    data = (MODELS / name).read_bytes()
    for start in (at + 3 for at in range(len(data) - 7) if data[at : at + 3] in (b"V \4", b"M \4", b"P \4", b"> \4")):
        with memory_below(4 << 20), pytest.raises(FormatError):
            read_any(BytesSource(data[:start] + b"\xff\xff\xff\x7f" + data[start + 4 :]))


@pytest.mark.sweep
def test_truncated_mixtures_of_an_acoustic_model_are_read() -> None:
    data = (OTHER_MODELS / "mono.mdl").read_bytes()
    for length in range(data.index(b"<DIMENSION>") + 1, len(data) - 1):
        with pytest.raises(FormatError):
            read_any(BytesSource(data[:length]))


def test_truncated_model_is_read_from_a_pipe() -> None:
    data = (MODELS / "extractor7.ie").read_bytes()
    assert encoded(read_any(StreamSource(io.BytesIO(data))), True) == data
    with pytest.raises(TruncatedError):
        read_any(StreamSource(io.BytesIO(data[:-200])))


# Networks, graphs and text files, which are files of their own.


def test_network_is_changed(tmp_path: Path) -> None:
    transitions = io_ark.load(OTHER_MODELS / "mono.mdl", kind="transition-model")
    network = (
        b"<Nnet3> \ninput-node name=input dim=40\noutput-node name=output input=a\n\n<NumComponents> \4\0\0\n\n\0\0"
    )
    path = tmp_path / "final.mdl"
    path.write_bytes(to_bytes("transition-model", transitions) + network)
    model = io_ark.load(path)
    assert encoded(model, True) == path.read_bytes()
    assert isinstance(model.densities, Network) and model.densities.kind == "Nnet3"
    assert model.densities.config == ["input-node name=input dim=40", "output-node name=output input=a"]
    with pytest.raises(FormatError, match="write it with binary=True"):
        io_ark.save(tmp_path / "text", model, binary=False)
    with pytest.raises(FormatError, match="no Gaussian mixtures"):
        model.arrays()
    (tmp_path / "a.ark").write_bytes(b"key " + path.read_bytes())
    with pytest.raises(FormatError, match="store it in a file, not in an archive"):
        io_ark.load(f"{tmp_path}/a.ark:4")


def test_transition_model_alone_is_refused() -> None:
    data = to_bytes("transition-model", io_ark.load(OTHER_MODELS / "mono.mdl", kind="transition-model"))
    model = read_any(BytesSource(data))
    assert model.densities is None and encoded(model, True) == data


def test_graph_is_changed(tmp_path: Path) -> None:
    names = b"".join(struct.pack("<i", len(name)) + name for name in (b"vector", b"standard"))
    data = struct.pack("<i", 2125659606) + names + struct.pack("<iiQqqq", 2, 0, 3, 0, 7, 5) + b"states"
    (tmp_path / "HCLG.fst").write_bytes(data)
    graph = io_ark.load(tmp_path / "HCLG.fst")
    assert isinstance(graph, Fst) and (graph.type, graph.num_states, graph.num_arcs) == ("vector", 7, 5)
    io_ark.save(tmp_path / "copy", graph)
    assert (tmp_path / "copy").read_bytes() == data == encoded(from_bytes("fst", data), True)
    with pytest.raises(FormatError, match="an FST is a whole file and cannot be in an archive"):
        io_ark.load(f"{tmp_path}/HCLG.fst:1", kind="fst")


TEXTS: list[tuple[str, bytes, Any]] = [
    ("config", b"# of a model\n\n--left-context=3 # frames\n  --Use_energy\n", {"left-context": "3", "use-energy": ""}),
    ("config", b"# only a comment.\n", {}),
    ("config", b"--word=#x\n", {"word": ""}),
    ("symbol-table", b"<eps> 0\nSIL 1\n\n", {"<eps>": 0, "SIL": 1}),
    ("int-lines", b"11\r\n12\r\n", [11, 12]),
    ("lines", b"1 nonword\n2 begin\n", [["1", "nonword"], ["2", "begin"]]),
    ("lines", b"1 2\n3\n", [["1", "2"], ["3"]]),
]


@pytest.mark.parametrize(("kind", "data", "value"), TEXTS)
def test_text_file_is_read_as_a_whole(kind: str, data: bytes, value: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    found = io_ark.load(tmp_path / "file")
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value
    io_ark.save(tmp_path / "copy", found, kind=kind)  # type: ignore[call-overload]
    again = io_ark.load(tmp_path / "copy", kind=kind)  # type: ignore[call-overload]
    assert (again.tolist() if isinstance(again, np.ndarray) else again) == value


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("config", b"--a=1\nb=2\n", "line 2: expected --name=value, found 'b=2'"),
        ("symbol-table", b"a 1\nb\n", "line 2: expected a symbol and its integer, found 'b'"),
        ("symbol-table", b"a 1\na 2\n", "line 2: the symbol 'a' has two integers"),
        ("symbol-table", b"a 1\nb " + b"9" * 5000, "line 2: expected a symbol"),
        ("symbol-table", b"a 1\nb 9223372036854775808\n", "line 2: expected a symbol and its integer"),
        ("int-lines", b"1\n9223372036854775808\n", "line 2: expected an integer"),
        ("int-lines", b"-9223372036854775808\n", "does not fit into 32 bits"),
        ("int-lines", b"1\nx\n", "line 2: expected an integer, found 'x'"),
        ("int-lines", b"1\n3000000000\n", "does not fit into 32 bits"),
    ],
)
def test_wrong_line_of_a_text_file_is_named(kind: str, data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        from_bytes(kind, data)


@pytest.mark.parametrize("kind", ["config", "symbol-table", "int-lines", "lines"])
def test_text_file_cannot_be_in_an_archive(kind: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(FormatError, match="is a whole file and cannot be in an archive"),
        io_ark.writer(f"ark:{tmp_path}/a", kind=kind),
    ):
        pass
    (tmp_path / "b").write_bytes(b"key 1\nkey 2\n")
    with pytest.raises(FormatError, match="is a whole file and cannot be in an archive"):
        io_ark.load(f"{tmp_path}/b:4", kind=kind)
