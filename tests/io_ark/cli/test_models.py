"""Models that Kaldi's programs wrote, shown and converted by ``ark``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import io_ark
from tests.support.ark_program import Ark
from tests.support.codec_samples import MODELS, OTHER_MODELS


def test_show_hides_what_is_inside(ark: Ark) -> None:
    assert ark(f"show {MODELS}/plda3").out.splitlines()[0].endswith("plda3: Plda")
    assert "transform: float64 3 x 3, " in ark(f"show {MODELS}/plda3.txt").out
    shown = ark(f"show {OTHER_MODELS}/mono.mdl").out
    assert "transitions: TransitionModel(num_transition_ids=48, num_pdfs=20)\n  topology: HmmTopology\n" in shown
    assert "densities: AmDiagGmm(num_pdfs=20, num_gauss=20, dim=3)" in shown
    assert (
        json.loads(ark(f"show --json {MODELS}/plda3").out)["value"]["psi"] == io_ark.load(MODELS / "plda3").psi.tolist()
    )
    Path("mfcc.conf").write_text("--num-ceps=40\n")
    assert ark("show mfcc.conf").out == "mfcc.conf: dictionary\nnum-ceps: 40\n"
    for name in "full4.txt", "plda3":
        assert "a single object" in ark(f"ls {MODELS}/{name}").err


def test_deep_tree_ends_show_with_a_traceback(ark: Ark) -> None:
    depth = 5000
    Path("tree").write_bytes(
        b"ContextDependency 1 0 ToPdf "
        + b"SE 0 [ 1 ]\n{ CE 0 " * depth
        + b"CE 1 "
        + b"} " * depth
        + b"EndContextDependency "
    )
    assert "root: Split" in ark("show tree").out
    assert "nested too deeply for JSON" in ark("show --json tree", 2).err


@pytest.mark.parametrize("name", ["plda12", "plda12.txt"])
def test_converted_plda_is_not_what_diarizen_reads(name: str, ark: Ark) -> None:
    ark(f"convert {MODELS}/{name} plda.npz")
    stored, plda = np.load("plda.npz"), io_ark.load(MODELS / name, kind="plda")
    assert sorted(stored) == ["mu", "psi", "tr"]
    vectors = np.stack([value for _, value in io_ark.read(MODELS / "test.vectors")]).astype(np.float64)
    # As in DiariZen's vbx_setup: rows of tr are the directions.
    np.testing.assert_allclose(
        (vectors - stored["mu"]).dot(stored["tr"].T), plda.transform_vectors(vectors, normalize_length=False), rtol=1e-9
    )
    within = np.linalg.inv(stored["tr"].T.dot(stored["tr"]))
    np.testing.assert_allclose(stored["tr"] @ within @ stored["tr"].T, np.eye(12), atol=1e-9)
    assert (np.diff(stored["psi"]) <= 0).all()


def test_converted_models_lack_arrays(ark: Ark) -> None:
    expected = {
        f"{MODELS}/diag4.txt": {"weights": (5,), "means": (5, 4), "covariances": (5, 4)},
        f"{MODELS}/full4.gmm": {"weights": (5,), "means": (5, 4), "covariances": (5, 4, 4)},
        f"{OTHER_MODELS}/mono.mdl": {"weights": (20,), "means": (20, 3), "covariances": (20, 3), "pdfs": (20,)},
    }
    for name, shapes in expected.items():
        ark(f"convert {name} o.npz")
        assert {key: value.shape for key, value in np.load("o.npz").items()} == shapes
    assert "no Gaussian mixtures" in ark(f"convert {OTHER_MODELS}/mono.txt o.npz", 2).err
