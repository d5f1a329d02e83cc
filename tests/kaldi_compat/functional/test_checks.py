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
from kaldi_compat.errors import AudioError
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


@pytest.mark.parametrize(("name", "call", "advice"), [(name, *row) for name, row in TAKES_LENGTHS.items()], ids=id_of)
@pytest.mark.parametrize("rate", [16000, 16000.0, np.int64(16000)])
def test_a_sampling_rate_is_not_taken_for_lengths(name: str, call: Call, advice: str, rate: Any) -> None:
    with pytest.raises(AudioError, match=f"lengths=16000 is a single number.*{advice}"):
        call(torch.zeros(100_000), rate)


@pytest.mark.parametrize("lengths", [[16000], np.array([16000]), torch.tensor([16000])])
def test_a_list_with_a_length_of_16000_samples_is_taken(lengths: Any) -> None:
    assert kaldi_compat.Fbank(dither=0.0)(torch.zeros(1, 100_000), lengths)[1].tolist() == [98]


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
    assert done.stdout == "expected a NumPy array or a torch tensor, not list: convert it\n", done.stderr
