"""Audio of a wrong type, and a sampling rate in place of lengths, are refused by everything that takes audio."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_compat
import kaldi_compat.frontends.numpy
import kaldi_compat.numpy
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional.reverberate import reverberate

EIGHT_BIT = np.random.default_rng(0).integers(0, 256, 1600).astype(np.uint8)
Call = Callable[..., Any]
OF_ARRAYS: dict[str, Call] = {
    **{name: getattr(kaldi_compat.numpy, name)(dither=0.0) for name in ("Fbank", "Mfcc", "Plp", "Spectrogram")},
    "ArrayStream": lambda samples: kaldi_compat.numpy.Fbank(dither=0.0).stream()(samples[:10]),
    "Frontend": kaldi_compat.frontends.numpy.Frontend.from_preset("wespeaker"),
    "FrontendStream": lambda samples: kaldi_compat.frontends.numpy.Frontend("zipformer").stream()(samples[:10]),
    "list": lambda samples: kaldi_compat.numpy.Fbank(dither=0.0)([samples]),
    "track_pitch": kaldi_compat.track_pitch,
    "reverberate": lambda samples: reverberate(samples, 16000.0),
}
OF_TENSORS: dict[str, Call] = {
    **{name: getattr(kaldi_compat, name)(dither=0.0) for name in ("Fbank", "Mfcc", "Plp", "Spectrogram")},
    "FeatureStream": lambda samples: kaldi_compat.Fbank(dither=0.0).stream()(samples[:10]),
    "two slots": lambda samples: kaldi_compat.Fbank(dither=0.0).stream(2)(samples[:20].reshape(2, 10)),
    "Pitch": kaldi_compat.Pitch(),
    "PitchStream": lambda samples: kaldi_compat.Pitch(nccf_ballast_online=True).stream()(samples[:10]),
    "Frontend": kaldi_compat.Frontend.from_preset("wespeaker"),
    "FrontendStream": lambda samples: kaldi_compat.Frontend("zipformer").stream()(samples[:10]),
    "list": lambda samples: kaldi_compat.Fbank(dither=0.0)([samples]),
    "list of Pitch": lambda samples: kaldi_compat.Pitch()([samples]),
    "resample_waveform": lambda samples: kaldi_compat.resample_waveform(samples, 16000, 8000),
    "track_pitch": kaldi_compat.track_pitch,
    "reverberate": lambda samples: reverberate(samples, 16000.0),
}


def id_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


@pytest.mark.parametrize(("name", "call"), OF_ARRAYS.items(), ids=id_of)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32"])
def test_arrays_of_unsigned_or_8_bit_integers_are_refused(name: str, call: Call, dtype: str) -> None:
    with pytest.raises(AudioError, match=rf"not {dtype}: .*16"):
        call(EIGHT_BIT.astype(dtype))


@pytest.mark.parametrize(("name", "call"), OF_TENSORS.items(), ids=id_of)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_tensors_of_unsigned_or_8_bit_integers_are_refused(name: str, call: Call, dtype: str) -> None:
    with pytest.raises(AudioError, match=rf"not {dtype}: for 8-bit audio, pass .* \* 256"):
        call(torch.from_numpy(EIGHT_BIT).to(getattr(torch, dtype)))


def test_the_advice_for_8_bit_audio_gives_the_features_of_16_bits() -> None:
    fbank, sixteen = kaldi_compat.numpy.Fbank(dither=0.0), (EIGHT_BIT.astype(np.float32) - 128) * 256
    np.testing.assert_array_equal(fbank((EIGHT_BIT.astype("int16") - 128) * 256), fbank(sixteen))
    tensor = torch.from_numpy(EIGHT_BIT)
    np.testing.assert_array_equal((tensor.short() - 128) * 256, (EIGHT_BIT.astype("int16") - 128) * 256)


TAKES_LENGTHS: dict[str, tuple[Call, str]] = {
    "Fbank": (kaldi_compat.Fbank(), "sample_frequency=16000"),
    "Mfcc of arrays": (
        lambda samples, rate: kaldi_compat.numpy.Mfcc()(samples.numpy(), rate),
        "sample_frequency=16000",
    ),
    "ArrayStream": (
        lambda samples, rate: kaldi_compat.numpy.Fbank().stream()(samples.numpy(), rate),
        "sample_frequency=16000",
    ),
    "FrontendStream of arrays": (
        lambda samples, rate: kaldi_compat.frontends.numpy.Frontend("zipformer").stream()(samples.numpy(), rate),
        "takes audio at 16000 Hz: resample",
    ),
    "list": (lambda samples, rate: kaldi_compat.Fbank()([samples], rate), "sample_frequency=16000"),
    "Pitch": (kaldi_compat.Pitch(), "sample_frequency=16000"),
    "Frontend": (kaldi_compat.Frontend("wespeaker"), "sampling_rate=16000"),
    "Frontend of arrays": (
        lambda samples, rate: kaldi_compat.frontends.numpy.Frontend("wespeaker")(samples.numpy(), rate),
        "sampling_rate=16000",
    ),
    "FeatureStream": (kaldi_compat.Fbank().stream(), "sample_frequency=16000"),
    "PitchStream": (kaldi_compat.Pitch(nccf_ballast_online=True).stream(), "sample_frequency=16000"),
    "FrontendStream": (kaldi_compat.Frontend("zipformer").stream(), "sample_frequency=16000"),
}


@pytest.mark.parametrize("name", ["Fbank", "Pitch", "Frontend", "FeatureStream"])
def test_valid_lengths_are_not_formatted_for_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formatting takes as long as the features of a chunk, and waits for a GPU."""
    formatted: list[object] = []
    monkeypatch.setattr(torch.Tensor, "__format__", lambda tensor, _: formatted.append(tensor) or "")
    TAKES_LENGTHS[name][0](torch.zeros(1, 4000), torch.tensor([4000]))
    assert not formatted


@pytest.mark.parametrize(("name", "call", "advice"), [(name, *row) for name, row in TAKES_LENGTHS.items()], ids=id_of)
@pytest.mark.parametrize("rate", [16000, 16000.0, np.int64(16000)])
def test_a_sampling_rate_is_not_taken_for_lengths(name: str, call: Call, advice: str, rate: Any) -> None:
    with pytest.raises(AudioError, match=f"lengths=16000 is a single number.*{advice}"):
        call(torch.zeros(100_000), rate)


@pytest.mark.parametrize("lengths", [[16000], np.array([16000]), torch.tensor([16000])])
def test_a_list_with_a_length_of_16000_samples_is_taken(lengths: Any) -> None:
    assert kaldi_compat.Fbank(dither=0.0)(torch.zeros(1, 100_000), lengths)[1].tolist() == [98]


def test_tensors_given_to_numpy_features_are_refused() -> None:
    for tensor in (torch.tensor(1.0), torch.zeros(500), torch.zeros(2, 500)):
        with pytest.raises(AudioError, match=r"not Tensor: convert the input with np\.asarray"):
            kaldi_compat.numpy.Fbank()(tensor)  # type: ignore[call-overload]


def test_series_of_arrays_is_a_list() -> None:
    """A series of pandas has a data type and is not a list."""
    arrays = [np.zeros(500), np.zeros(600)]
    series = type("Series", (), {"dtype": np.dtype(object), "__iter__": lambda _: iter(arrays)})()
    assert len(kaldi_compat.numpy.Fbank(dither=0.0)(series)) == 2


def test_lists_are_refused_without_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
from kaldi_compat import FeatureError
from kaldi_compat.functional.deltas import add_deltas
try:
    add_deltas([[1.0, 2.0]])
except FeatureError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message = "expected a NumPy array or a torch tensor, not list: convert it with np.asarray or torch.as_tensor\n"
    assert done.stdout == message, done.stderr


_TRACK = np.tile(np.array([0.9, 100.0], np.float32), (8, 1))
_ARRAY, _TENSOR, _FRAMES = np.full(800, 9, np.int16), torch.full((800,), 9, dtype=torch.int16), torch.ones(8, 5)
TAKES_GENERATOR: dict[str, tuple[Call, str]] = {
    "array": (lambda source: kaldi_compat.numpy.Fbank()(_ARRAY, generator=source), "numpy"),
    "arrays": (lambda source: kaldi_compat.numpy.Fbank()([_ARRAY], generator=source), "numpy"),
    "ArrayStream": (lambda source: kaldi_compat.numpy.Fbank().stream()(_ARRAY, generator=source), "numpy"),
    "process_pitch": (lambda source: kaldi_compat.process_pitch(_TRACK, generator=source), "numpy"),
    "tensor": (lambda source: kaldi_compat.Fbank()(_TENSOR, generator=source), "torch"),
    "float64": (lambda source: kaldi_compat.Fbank()(_TENSOR.double(), generator=source), "torch"),
    "rows": (lambda source: kaldi_compat.Fbank()(_TENSOR.double()[None], [700], generator=source), "torch"),
    "tensors": (lambda source: kaldi_compat.Fbank()([_TENSOR], generator=source), "torch"),
    "FeatureStream": (lambda source: kaldi_compat.Fbank().stream()(_TENSOR, generator=source), "torch"),
    "ProcessPitch": (lambda source: kaldi_compat.ProcessPitch()(torch.from_numpy(_TRACK), generator=source), "torch"),
    "ProcessPitchStream": (
        lambda source: kaldi_compat.ProcessPitch().stream()(torch.from_numpy(_TRACK), generator=source),
        "torch",
    ),
    "SpecAugment": (lambda source: kaldi_compat.SpecAugment(1, 2, 1, 2)(_FRAMES, generator=source), "torch"),
}


@pytest.mark.parametrize("name", TAKES_GENERATOR)
def test_generators_of_a_wrong_type_are_refused(name: str) -> None:
    call, library = TAKES_GENERATOR[name]
    random = {"numpy": np.random.default_rng(0), "torch": torch.Generator().manual_seed(0)}
    call(random.pop(library))
    advice = {"numpy": "numpy.random.default_rng(5)", "torch": "torch.Generator().manual_seed(5)"}[library]
    for source in (5, *random.values(), kaldi_compat.KaldiRandom):
        with pytest.raises(OptionError) as caught:
            call(source)
        kind = type(source).__name__
        assert str(caught.value) == f"generator cannot be of type {kind}: pass a generator such as {advice}"
