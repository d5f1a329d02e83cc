"""Tensors and arrays that do not hold their numbers one by one are refused with a documented error; views are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import kaldi_compat as kc
from kaldi_compat import numpy as arrays
from kaldi_compat.functional.deltas import add_deltas

MODULES = {
    "fbank": kc.Fbank(dither=0.0),
    "spectrogram": kc.Spectrogram(dither=0.0),
    "pitch": kc.Pitch(nccf_ballast_online=True),
    "chunk": lambda audio: kc.Fbank(dither=0.0).stream()(audio),
    "cmvn": kc.Cmvn(),
    "deltas": kc.Deltas(),
    "masks": kc.SpecAugment(1, 3, 1, 4),
}
FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "sparse": Tensor.to_sparse,
    "quantized": lambda x: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8),
    "nested": lambda x: torch.nested.nested_tensor(list(x)),
    "meta": lambda x: x.to("meta"),
    "8-bit": lambda x: x.to(torch.float8_e5m2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_tensor_of_an_unusual_form_is_refused(name: str, form: str) -> None:
    if form == "meta" and name in ("cmvn", "deltas", "masks"):
        pytest.skip("these have no device of their own")
    with pytest.raises(kc.KaldiCompatError, match=form):
        MODULES[name](FORMS[form](100 * torch.randn(1, 800)))


TAKES_LENGTHS: dict[str, Callable[[Any], Any]] = {
    "fbank": lambda lengths: kc.Fbank(dither=0.0)(100 * torch.ones(2, 800), lengths),
    "float64": lambda lengths: kc.Fbank(dither=0.0)(100 * torch.ones(2, 800).double(), lengths),
    "arrays": lambda lengths: arrays.Fbank(dither=0.0)(100 * np.ones((2, 800), np.float32), lengths),
    "frontend": lambda lengths: kc.Frontend("zipformer")(torch.zeros(2, 800), lengths),
    "pitch": lambda lengths: kc.Pitch()(100 * torch.ones(2, 800), lengths),
    "deltas": lambda lengths: kc.Deltas()(torch.ones(2, 800, 3), lengths),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TAKES_LENGTHS)
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_lengths_of_an_unusual_form_are_refused(name: str, form: str) -> None:
    lengths = torch.tensor([800.0, 500.0]) if form in ("quantized", "8-bit") else torch.tensor([800, 500])
    with pytest.raises(kc.KaldiCompatError, match=form):
        TAKES_LENGTHS[name](FORMS[form](lengths))
    with pytest.raises(kc.KaldiCompatError, match=r"lengths must be integers, not torch\.bfloat16"):
        TAKES_LENGTHS[name](lengths.bfloat16())


@pytest.mark.parametrize("name", TAKES_LENGTHS)
def test_lengths_are_integers_of_any_type(name: str) -> None:
    expected = TAKES_LENGTHS[name]([800, 500])[1].tolist()
    for dtype in ("int16", "int32", "uint16", "uint64"):
        if hasattr(torch, dtype):
            _, counts = TAKES_LENGTHS[name](torch.tensor([800, 500]).to(getattr(torch, dtype)))
            assert counts.tolist() == expected


@pytest.mark.parametrize("name", TAKES_LENGTHS)
def test_lengths_that_numpy_cannot_read_as_integers_are_refused(name: str) -> None:
    for lengths in (
        [torch.tensor(1, device="meta")] * 2,
        [torch.tensor(1.0, requires_grad=True)] * 2,
        np.array([800, 500], "m8[s]"),
    ):
        with pytest.raises(kc.KaldiCompatError, match="lengths must be integers"):
            TAKES_LENGTHS[name](lengths)


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="needs the compiler of PyTorch 2.7")
def test_compiled_module_takes_lengths_that_are_no_tensor() -> None:
    features = torch.randn(3, 50, 13)
    expected = kc.Deltas()(features, torch.tensor([50, 20, 0]))
    for lengths in ([50, 20, 0], np.array([50, 20, 0])):  # The compiler traces the array after the list differently.
        torch._dynamo.reset()
        compiled = torch.compile(kc.Deltas(), backend="eager")(features, lengths)
        for one, two in zip(compiled, expected, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_lengths_of_32_and_64_bits_keep_their_type() -> None:
    for dtype, expected in ((torch.int16, torch.int64), (torch.int32, torch.int32), (torch.int64, torch.int64)):
        _, counts = kc.Deltas()(torch.ones(2, 8, 3), torch.tensor([8, 5], dtype=dtype))
        assert counts.dtype == expected


class Followed(Tensor):
    """A tensor whose operations another library follows."""


def test_operations_on_a_subclass_of_tensor_stay_visible() -> None:
    for module in (kc.Fbank(dither=0.0), kc.Frontend("zipformer")):
        assert type(module(torch.rand(2, 800).as_subclass(Followed))) is Followed


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_shapes_are_inferred_without_data(dtype: torch.dtype) -> None:
    module = kc.Fbank(dither=0.0).to("meta")
    assert module(torch.zeros(2, 800, dtype=dtype, device="meta")).shape == (2, 3, 23)
    assert kc.Deltas()(torch.zeros(2, 5, 13, device="meta")).shape == (2, 5, 39)
    with pytest.raises(kc.AudioError, match="on the device cpu, but the module is on meta"):
        module(torch.zeros(2, 800, dtype=dtype))


@pytest.mark.parametrize("name", MODULES)
def test_view_with_the_negative_bit_is_read(name: str) -> None:
    if name == "masks":
        pytest.skip("its masks are random")
    samples = 100 * torch.randn(1, 800)
    torch.testing.assert_close(MODULES[name](torch._neg_view(-samples)), MODULES[name](samples))


@pytest.mark.parametrize("feature", [arrays.Fbank(dither=0.0), add_deltas], ids=["fbank", "deltas"])
def test_mask_of_an_array_is_not_dropped(feature: Any) -> None:
    with pytest.raises(kc.KaldiCompatError, match="masked"):
        feature(np.ma.masked_array(np.ones((2, 800), np.float32), np.arange(1600).reshape(2, 800) == 3))


def test_sparse_vtln_factors_are_refused() -> None:
    with pytest.raises(kc.OptionError, match="vtln_warp must be a number, or one factor for each utterance"):
        kc.Fbank(dither=0.0)(torch.zeros(2, 800), vtln_warp=torch.ones(2).to_sparse())


@pytest.mark.parametrize("feature", [kc.Fbank(dither=0.0), arrays.Fbank(dither=0.0)], ids=["torch", "arrays"])
@pytest.mark.parametrize("factor", [10**5000, [1, 10**5000]], ids=["one", "two"])
def test_vtln_factors_that_are_too_large_for_a_float_are_refused(feature: Any, factor: Any) -> None:
    with pytest.raises(kc.OptionError, match="vtln_warp must be a number, or one factor for each utterance, not"):
        feature(torch.zeros(2, 800) if isinstance(feature, kc.Fbank) else np.zeros((2, 800), "f4"), vtln_warp=factor)
