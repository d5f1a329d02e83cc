"""The parts of torchaudio beside compliance.kaldi: functions, files and SoX's effects."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import operator
import os
import pickle
import shutil
import subprocess
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from io_ark import load as load_object
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_standins import torchaudio_package as ours
from packages.standins.tests.native_fbank_forms import audio

WAV = Path(__file__).parents[3] / "reference_data" / "inputs" / "wav"


# Defaults in the documentation of torchaudio 2.11, or of the last version that has the function.
RESAMPLE = {"lowpass_filter_width": 6, "rolloff": 0.99, "resampling_method": "sinc_interp_hann", "beta": None}
READ = {"format": None, "buffer_size": 4096, "backend": None}
DEFAULTS: dict[str, dict[str, Any]] = {
    "functional.compute_deltas": {"win_length": 5, "mode": "replicate"},
    "functional.compute_kaldi_pitch": {
        "frame_length": 25.0, "frame_shift": 10.0, "min_f0": 50, "max_f0": 400, "soft_min_f0": 10.0,
        "penalty_factor": 0.1, "lowpass_cutoff": 1000, "resample_frequency": 4000, "delta_pitch": 0.005,
        "nccf_ballast": 7000, "lowpass_filter_width": 1, "upsample_filter_width": 5, "max_frames_latency": 0,
        "frames_per_chunk": 0, "simulate_first_pass_online": False, "recompute_frame": 500, "snip_edges": True,
    },
    "functional.mask_along_axis": {"p": 1.0},
    "functional.mask_along_axis_iid": {"p": 1.0},
    "functional.resample": RESAMPLE,
    "functional.sliding_window_cmn": {"cmn_window": 600, "min_cmn_window": 100, "center": False, "norm_vars": False},
    "transforms.ComputeDeltas": {"win_length": 5, "mode": "replicate"},
    "transforms.FrequencyMasking": {"iid_masks": False},
    "transforms.FrequencyMasking.forward": {"mask_value": 0.0},
    "transforms.Resample": {"orig_freq": 16000, "new_freq": 16000, **RESAMPLE, "dtype": None},
    "transforms.TimeMasking": {"iid_masks": False, "p": 1.0},
    "transforms.TimeMasking.forward": {"mask_value": 0.0},
    "sox_effects.apply_effects_file": {"normalize": True, "channels_first": True, "format": None},
    "sox_effects.apply_effects_tensor": {"channels_first": True},
    "load": {"frame_offset": 0, "num_frames": -1, "normalize": True, "channels_first": True, **READ},
    "info": READ,
    "save": {"channels_first": True, "encoding": None, "bits_per_sample": None, "compression": None, **READ},
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_torchaudios(name: str) -> None:
    parameters = inspect.signature(operator.attrgetter(name)(ours)).parameters
    defaults = {each.name: each.default for each in parameters.values() if each.default is not each.empty}
    assert defaults == DEFAULTS[name]
    with suppress(ImportError, OSError, AttributeError):  # Later versions lack some of the functions.
        theirs = inspect.signature(operator.attrgetter(name)(importlib.import_module("torchaudio"))).parameters
        assert [(each.name, each.default) for each in parameters.values()] == [
            (each.name, each.default) for each in theirs.values()
        ]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_pitch_is_kaldis_in_kaldis_order_for_each_channel() -> None:
    samples = torch.from_numpy(audio(8000)) * 32768
    track = ours.functional.compute_kaldi_pitch(torch.stack((samples, samples.flip(0))), 16000, snip_edges=False)
    assert track.shape == (2, 50, 2)
    options = ours.functional.Pitch(snip_edges=False).options
    np.testing.assert_array_equal(track[0], track_pitch(samples.numpy(), options))


@pytest.mark.parametrize("win_length", [3, 6, 9])
def test_deltas_are_torchaudios(win_length: int) -> None:
    theirs = pytest.importorskip("torchaudio").functional.compute_deltas(noise(2, 5, 30), win_length)
    torch.testing.assert_close(ours.functional.compute_deltas(noise(2, 5, 30), win_length), theirs, rtol=0, atol=1e-6)
    torch.testing.assert_close(ours.transforms.ComputeDeltas(win_length)(noise(2, 5, 30)), theirs, rtol=0, atol=1e-6)


def test_deltas_without_a_window_raise_as_in_torchaudio() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 3"):
        ours.functional.compute_deltas(noise(5, 30), 2)


def test_kaldis_deltas_have_another_name() -> None:
    assert ours.functional.add_deltas(noise(30, 5)).shape == (30, 15)


@pytest.mark.parametrize(
    "options", [{}, {"center": True, "cmn_window": 50}, {"norm_vars": True, "cmn_window": 40, "min_cmn_window": 10}]
)
def test_sliding_normalization_is_torchaudios(options: dict[str, Any]) -> None:
    theirs = pytest.importorskip("torchaudio").functional.sliding_window_cmn(noise(2, 700, 3), **options)
    normalized = ours.functional.sliding_window_cmn(noise(2, 700, 3), **options)
    torch.testing.assert_close(normalized, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowpass_filter_width": 64, "rolloff": 0.95, "resampling_method": "sinc_interp_kaiser"},
        {"resampling_method": "sinc_interp_kaiser", "beta": 10},
    ],
)
@pytest.mark.parametrize("rates", [(44100, 16000), (16000.0, 8000), (8000, 16000), (16000, 16000)])
def test_resampling_is_torchaudios(rates: tuple[int, int], options: dict[str, Any]) -> None:
    torchaudio = pytest.importorskip("torchaudio")
    samples = noise(2, 3, 1001)
    theirs, found = (lib.functional.resample(samples, *rates, **options) for lib in (torchaudio, ours))
    torch.testing.assert_close(found, theirs, rtol=0, atol=2e-6)
    original, module = (lib.transforms.Resample(*rates, **options) for lib in (torchaudio, ours))
    torch.testing.assert_close(module(samples), original(samples), rtol=0, atol=2e-6)
    module.load_state_dict(original.state_dict())


def test_resampling_refuses_what_torchaudio_refuses() -> None:
    resample = ours.functional.resample
    for arguments in ((0, 8000), (44100.5, 8000), (16000, 8000, 0), (16000, 8000, 6, 0.99, "linear")):
        with pytest.raises(OptionError):
            resample(noise(100), *arguments)
    with pytest.raises(TypeError, match="int16"):
        resample(torch.zeros(100, dtype=torch.int16), 16000, 8000)


@pytest.mark.parametrize(
    "effects",
    [
        "gain -6", "gain 10", "gain -n", "gain -n -3", "norm", "norm -3", "channels 1", "channels 2", "channels 3",
        "channels 7", "remix -", "trim 0.1", "trim 0.01 0.02", "trim 0.01 =0.05", "trim 100s 50s", "trim 0:0.01003",
        "trim 0.3 5", "trim 9", "norm -1 : trim 0 0.05 : remix -",
    ],
)  # fmt: skip
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_effects_are_those_of_sox(effects: str, channels: int) -> None:
    samples = noise(channels, 5000) * 0.2
    words = [effect.split() for effect in effects.split(" : ")]
    changed, rate = ours.sox_effects.apply_effects_tensor(samples, 16000, words)
    assert rate == 16000
    expected = sox(samples, effects.replace(" : ", " ").split(), len(changed))
    torch.testing.assert_close(changed, expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    "rates", [("0.9", "16000"), ("1.1", "16k"), ("1", "8000"), ("1", "44100"), ("0.9123", "16000")]
)
@pytest.mark.parametrize("is_speech", [True, False])
def test_speed_and_rate_are_close_to_those_of_sox(rates: tuple[str, str], is_speech: bool) -> None:
    speed, rate = rates
    samples = ours.load(WAV / "speech16k.wav")[0] if is_speech else noise(2, 5000) * 0.1
    effects = [["speed", speed], ["rate", rate]]
    changed, _ = ours.sox_effects.apply_effects_tensor(samples, 16000, effects)
    expected = sox(samples, ["speed", speed, "rate", rate], len(samples))
    assert changed.shape == expected.shape
    assert (changed - expected).norm() < (2e-4 if is_speech else 1e-3) * expected.norm()


def sox(samples: torch.Tensor, words: list[str], channels: int) -> torch.Tensor:
    """Return what the program gives, without dither."""
    if shutil.which("sox") is None:
        pytest.skip("sox is not installed")
    raw = ["-t", "raw", "-e", "float", "-b", "32"]
    command = ["sox", "-V1", "-D", *raw, "-r", "16000", "-c", str(len(samples)), "-", *raw, "-", *words]
    done = subprocess.run(command, input=samples.T.contiguous().numpy().tobytes(), capture_output=True, check=True)
    return (
        torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).reshape(-1, channels).T
        if done.stdout
        else (torch.zeros(channels, 0))
    )


@pytest.mark.parametrize("effect", [["gain", "-n"], ["norm", "-3"]])
@pytest.mark.parametrize("samples", [torch.zeros(2, 100), torch.zeros(1, 0)])
def test_silence_is_not_made_louder(effect: list[str], samples: torch.Tensor) -> None:
    changed, rate = ours.sox_effects.apply_effects_tensor(samples, 16000, [effect])
    assert rate == 16000 and torch.equal(changed, samples)


def test_speed_alone_changes_the_rate() -> None:
    samples, rate = ours.sox_effects.apply_effects_tensor(noise(100, 1), 16000, [["speed", 0.9]], channels_first=False)
    assert (rate, samples.shape) == (14400, (100, 1))


@pytest.mark.parametrize("channels_first", [True, False])
def test_effects_of_a_file_are_those_of_its_samples(tmp_path: Path, channels_first: bool) -> None:
    pytest.importorskip("soundfile")
    samples = noise(2, 100) * 0.2
    ours.save(tmp_path / "a.wav", samples, 16000)
    effects = [["speed", "0.9"]]
    changed, rate = ours.sox_effects.apply_effects_file(tmp_path / "a.wav", effects, channels_first=channels_first)
    assert rate == 14400
    torch.testing.assert_close(changed if channels_first else changed.T, samples, rtol=0, atol=0)


def test_positions_from_the_end_are_those_of_a_file_of_known_length() -> None:
    apply = ours.sox_effects.apply_effects_tensor
    samples = noise(1, 1000).clip(-1, 1)
    torch.testing.assert_close(apply(samples, 8000, [["trim", "-50s"]])[0], samples[:, -50:])
    torch.testing.assert_close(apply(samples, 8000, [["trim", 0.1, "-0.0125"]])[0], samples[:, 800:900])


@pytest.mark.parametrize(
    "effect",
    [
        "reverb 50", "gain -e", "gain a", "gain 1 2", "norm -3 -3", "channels 0", "channels x", "remix 1,2", "remix",
        "trim", "trim -", "trim 0.1 =0.05", "trim 0 1 2", "speed 0", "speed -1", "speed x", "rate -v 16000", "rate 0",
        "rate", "vol 0.5",
    ],
)  # fmt: skip
def test_effects_that_are_not_supported_are_refused(effect: str) -> None:
    with pytest.raises(OptionError, match=f"cannot apply the effect '{effect}': use speed.*, or the program sox"):
        ours.sox_effects.apply_effects_tensor(noise(1, 100), 16000, [effect.split()])


def test_samples_without_channels_are_refused() -> None:
    with pytest.raises(AudioError, match="shape"):
        ours.sox_effects.apply_effects_tensor(noise(100), 16000, [])
    with pytest.raises(AudioError, match=r"shape \(T, channels\), not \(100,\)"):
        ours.sox_effects.apply_effects_tensor(noise(100), 16000, [], channels_first=False)


def test_files_are_read_and_written_as_by_torchaudio_2_8(tmp_path: Path) -> None:
    torchaudio_files = pytest.importorskip("packages.standins.tests.torchaudio_files")  # It needs soundfile.
    stored = json.loads(torchaudio_files.STORED.read_text())
    found = dict(torchaudio_files.outcomes(ours, tmp_path))
    assert found.keys() == stored.keys()
    assert [(call, found[call], value) for call, value in stored.items() if found[call] != value] == []


ABSENT: list[tuple[Any, dict[str, Any], str]] = [
    ("absent.wav", {}, "LibsndfileError"),
    ("no_audio.wav", {}, "LibsndfileError"),
    (io.BytesIO(b"no audio"), {}, "LibsndfileError"),
    (None, {}, "TypeError"),
    (["a.wav"], {}, "TypeError"),
    (str(WAV / "speech16k.wav"), {"frame_offset": "a"}, "TypeError"),
    (str(WAV / "speech16k.wav"), {"num_frames": 1.5}, "TypeError"),
]


IDS = ["absent", "other_file", "other_file_object", "none", "list", "offset_of_text", "fraction_of_a_frame"]


@pytest.mark.parametrize(("source", "options", "kind"), ABSENT, ids=IDS)
def test_errors_are_caught_by_handlers_of_torchaudio_2_8(
    source: Any, options: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.chdir(tmp_path)
    Path("no_audio.wav").write_bytes(b"nothing")
    expected = {"TypeError": TypeError, "LibsndfileError": soundfile.LibsndfileError}[kind]
    with pytest.raises(expected, match="cannot read ") as caught:
        ours.load(source, **options)
    assert isinstance(caught.value, AudioError)
    assert isinstance(caught.value, TypeError) == (kind == "TypeError")
    if kind == "LibsndfileError":
        assert caught.value.code > 0 and caught.value.error_string
    # A worker of a DataLoader sends the error to the main process.
    sent = pickle.loads(pickle.dumps(caught.value))
    assert type(sent) is type(caught.value) and str(sent) == str(caught.value)


@pytest.mark.parametrize("bits", [None, 8, 16, 24, 32, 64])
def test_a_law_in_sphere_files_takes_any_bits(bits: int | None, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    ours.save(tmp_path / "a.sph", noise(1, 100), 8000, encoding="ALAW", bits_per_sample=bits)
    assert soundfile.info(tmp_path / "a.sph").subtype == "ALAW"


def test_encodings_of_ogg_files_have_their_names(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    for encoding, subtype in ((None, "VORBIS"), ("vorbis", "VORBIS"), ("opus", "OPUS")):
        ours.save(tmp_path / "a.ogg", noise(1, 4000), 8000, encoding=encoding)
        assert soundfile.info(tmp_path / "a.ogg").subtype == subtype
        assert ours.info(tmp_path / "a.ogg").num_frames == 4000


@pytest.mark.parametrize(
    ("name", "is_written"), [("a.wav", True), ("a.flac", True), ("a.ogg", False), ("a.sph", False)]
)
def test_an_empty_encoding_is_none_in_some_formats(name: str, is_written: bool, tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    with nullcontext() if is_written else pytest.raises(ValueError, match="encoding=,"):
        ours.save(tmp_path / name, noise(1, 100), 8000, encoding="")
    assert (tmp_path / name).exists() == is_written


def test_bytes_of_a_file_are_read() -> None:
    pytest.importorskip("soundfile")
    path = WAV / "stereo16k.wav"
    torch.testing.assert_close(ours.load(path.read_bytes())[0], ours.load(path)[0], rtol=0, atol=0)
    assert ours.info(memoryview(path.read_bytes())) == ours.info(os.fsencode(path))


def test_other_backends_are_accepted_as_by_torchaudio_2_9() -> None:
    pytest.importorskip("soundfile")
    path = WAV / "stereo16k.wav"
    torch.testing.assert_close(ours.load(path, backend="sox"), ours.load(path, backend="ffmpeg"), rtol=0, atol=0)


def test_integers_are_those_of_the_file() -> None:
    pytest.importorskip("soundfile")
    samples, _ = ours.load(WAV / "speech16k.wav", normalize=False)
    np.testing.assert_array_equal(samples, load_object(str(WAV / "speech16k.wav")).samples)
    assert samples.dtype == torch.int16
    scaled, _ = ours.load_wav(WAV / "speech16k.wav")
    torch.testing.assert_close(scaled, samples.float())


def test_files_that_cannot_be_read_raise_one_line(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    (tmp_path / "a.m4a").write_bytes(b"nothing")
    for function in (ours.load, ours.info):
        with pytest.raises(RuntimeError, match=r"cannot read .*absent.wav: no such file$"):
            function(tmp_path / "absent.wav")
        with pytest.raises(ValueError, match=r"a.m4a: Format not recognised. libsndfile \d.* convert the file"):
            function(str(tmp_path / "a.m4a"))
        with pytest.raises(AudioError, match="cannot read 8 bytes: "):
            function(b"nothing\0")
        with pytest.raises(AudioError, match="has no backend 'none'"):
            function(WAV / "speech16k.wav", backend="none")
    with pytest.raises(AudioError, match=r"PCM_24 in .*fmt_s24.wav: pass normalize=True"):
        ours.load(WAV / "fmt_s24.wav", normalize=False)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a.wav",
            {"encoding": "HTK"},
            "wav does not have samples of torch.float32, encoding=HTK",
        ),
        ("a.flac", {"bits_per_sample": 32}, "flac does not have"),
        ("a.mp3", {"bits_per_sample": 7}, "mp3 does not have"),
        ("a.m4a", {}, "choose a format from wav, flac, ogg"),
        ("a.wav", {"compression": 3}, "compression=3"),
        ("absent/a.wav", {}, "System error"),
    ],
)
def test_files_that_cannot_be_written_raise_one_line(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    pytest.importorskip("soundfile")
    with pytest.raises(AudioError, match=message):
        ours.save(tmp_path / name, torch.zeros(1, 5), 8000, **options)
    with pytest.raises(AudioError, match="shape"):
        ours.save(tmp_path / "b.wav", torch.zeros(5), 8000)


def test_a_missing_c_library_of_soundfile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise OSError("sndfile library not found")

    monkeypatch.setattr(ours.files, "import_extra", fail)
    with pytest.raises(RuntimeError, match=r"cannot load its C library \(sndfile library"):
        ours.info("a.wav")


def test_settings_of_readers_that_torchaudio_has_removed_do_nothing() -> None:
    ours.set_audio_backend(*ours.list_audio_backends())
    assert [ours.get_audio_backend()] == ours.list_audio_backends()
    assert ours.backend.common.AudioMetaData is ours.AudioMetaData
    assert ours.backend.soundfile_backend.save is ours.backend.sox_io_backend.save is ours.save
    ours.utils.sox_utils.set_buffer_size(16500)


def test_name_that_the_module_of_files_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"torchaudio_package\.files' has no attribute 'absent'$"):
        _ = ours.files.absent


@pytest.mark.parametrize("kind", ["FrequencyMasking", "TimeMasking"])
@pytest.mark.parametrize("options", [{}, {"iid_masks": True}, {"p": 0.1}, {"p": 0.1, "iid_masks": True}])
@pytest.mark.parametrize("shape", [(3, 20, 50), (2, 3, 20, 50)])
def test_masks_are_torchaudios(kind: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    if kind == "FrequencyMasking":
        options = {name: value for name, value in options.items() if name != "p"}
    theirs = getattr(pytest.importorskip("torchaudio").transforms, kind)(15, **options)
    mine = getattr(ours.transforms, kind)(15, **options)
    for seed in range(5):
        torch.manual_seed(seed)
        expected = theirs(noise(*shape), mask_value=-1.0)
        torch.manual_seed(seed)
        torch.testing.assert_close(mine(noise(*shape), mask_value=-1.0), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="axis"):
        ours.functional.mask_along_axis(noise(*shape), 5, 0.0, 0)


def test_deltas_are_padded_as_asked_for() -> None:
    ramp = torch.arange(6.0).reshape(1, 6)
    repeated, zeros = (ours.functional.compute_deltas(ramp, 3, mode) for mode in ("replicate", "constant"))
    assert repeated.tolist() == [[0.5, 1.0, 1.0, 1.0, 1.0, 0.5]]
    assert zeros.tolist() == [[0.5, 1.0, 1.0, 1.0, 1.0, -2.0]]


@pytest.mark.parametrize(
    ("before", "now"), [("sinc_interpolation", "sinc_interp_hann"), ("kaiser_window", "sinc_interp_kaiser")]
)
def test_methods_of_resampling_have_the_names_before_torchaudio_2_0(before: str, now: str) -> None:
    resampled = [
        ours.functional.resample(noise(1, 400), 16000, 11025, resampling_method=name)
        for name in (before, now, "sinc_interp_hann", "sinc_interp_kaiser")
    ]
    assert torch.equal(resampled[0], resampled[1])
    assert not torch.equal(resampled[2], resampled[3])


@pytest.mark.parametrize("function", ["mask_along_axis", "mask_along_axis_iid"])
@pytest.mark.parametrize(
    ("param", "axis", "p"), [(15, -1, 1.0), (15, 2, 0.1), (15, -2, 0.5), (2, 1, 1.0), (100, -1, 0.5), (7, -2, 1.0)]
)
def test_masks_of_functions_are_torchaudios(function: str, param: int, axis: int, p: float) -> None:
    theirs = getattr(pytest.importorskip("torchaudio").functional, function)
    mine = getattr(ours.functional, function)
    for seed in range(5):
        found = []
        for mask in (theirs, mine):
            torch.manual_seed(seed)
            found.append(mask(noise(3, 20, 50), param, 0.5, axis % 3, p))
        assert torch.equal(*found)
        torch.manual_seed(seed)
        assert torch.equal(mine(noise(3, 20, 50), param, 0.5, axis, p), found[0])


@pytest.mark.parametrize("iid", [False, True])
def test_mask_may_be_a_value_of_a_tensor_and_leaves_the_input(iid: bool) -> None:
    samples, value = noise(2, 20, 50), torch.tensor(-3.0)
    before = samples.clone()
    for make in (ours.transforms.FrequencyMasking(15, iid), ours.transforms.TimeMasking(15, iid)):
        masked = []
        for each in (value, -3.0):
            torch.manual_seed(4)
            masked.append(make(samples, each))
        assert torch.equal(*masked) and torch.equal(samples, before)
        changed = masked[0] != samples
        assert changed.any() and not changed.all() and (masked[0][changed] == -3).all()


def test_mask_of_nothing_changes_nothing() -> None:
    samples = noise(2, 20, 50)
    for make in (ours.functional.mask_along_axis, ours.functional.mask_along_axis_iid):
        for param, p in ((0, 1.0), (10, 0.0), (10, 0.019)):
            assert torch.equal(make(samples, param, 9.0, 2, p), samples)
        for axis, p in ((0, 1.0), (-3, 1.0), (2, 1.1), (2, -0.1)):
            with pytest.raises(ValueError, match=f"axis={axis} is not one of the last|p={p} must lie within 0 to 1"):
                make(samples, 10, 9.0, axis, p)
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"p={p} must lie within 0 to 1"):
            ours.transforms.TimeMasking(10, p=p)


def test_equal_rates_and_other_shapes_are_resampled_as_they_are() -> None:
    samples = noise(2, 3, 100)
    assert ours.functional.resample(samples, 8000, 8000) is samples
    same = ours.transforms.Resample(8000, 8000)
    assert same(samples) is samples and not list(same.buffers())
    assert ours.functional.resample(torch.zeros(2, 100, dtype=torch.int16), 8000, 8000).dtype == torch.int16
    for length in (1, 441, 442):
        assert ours.functional.resample(noise(2, 3, length), 44100, 16000).shape == (2, 3, -(-length * 160 // 441))
    double = ours.functional.resample(samples.double(), 8000, 12000)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), ours.functional.resample(samples, 8000, 12000), rtol=0, atol=1e-5)
    for dtype in (None, torch.float64):
        assert ours.transforms.Resample(8000, 12000, dtype=dtype).kernel.dtype == (dtype or torch.float32)
    for rates in ((-8000, 16000), (8000, 0), (8000, 16000.5)):
        with pytest.raises(OptionError, match="sampling rates must be positive whole numbers of Hz"):
            ours.transforms.Resample(*rates)


def test_pitch_takes_every_option_and_any_number_of_channels() -> None:
    samples = torch.from_numpy(audio(8000)).float()
    plain = ours.functional.compute_kaldi_pitch(samples, 16000)
    many = ours.functional.compute_kaldi_pitch(samples.expand(2, 1, -1), 16000)
    assert plain.shape == (48, 2) and many.shape == (2, 1, 48, 2) and torch.equal(many[1, 0], plain)
    options: dict[str, Any] = {
        "frame_length": 30.0, "frame_shift": 5.0, "min_f0": 60, "max_f0": 350, "soft_min_f0": 12.0,
        "penalty_factor": 0.2, "lowpass_cutoff": 900, "resample_frequency": 3900, "delta_pitch": 0.01,
        "nccf_ballast": 6000, "lowpass_filter_width": 2, "upsample_filter_width": 4, "max_frames_latency": 3,
        "frames_per_chunk": 10, "simulate_first_pass_online": True, "recompute_frame": 20, "snip_edges": False,
    }  # fmt: skip
    expected = ours.functional.Pitch(sample_frequency=16000.0, **options)(samples)
    assert torch.equal(ours.functional.compute_kaldi_pitch(samples, 16000, *options.values()), expected)


@pytest.mark.parametrize("channels_first", [True, False])
def test_samples_of_a_file_are_contiguous(tmp_path: Path, channels_first: bool) -> None:
    pytest.importorskip("soundfile")
    samples = noise(2, 100) * 0.2
    ours.save(tmp_path / "a.wav", samples if channels_first else samples.T, 16000, channels_first)
    found, rate = ours.load(tmp_path / "a.wav", channels_first=channels_first)
    assert found.is_contiguous() and rate == 16000
    assert torch.equal(found if channels_first else found.T, samples)


def test_open_files_need_a_format_and_are_read(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    with pytest.raises(AudioError, match="an open file needs a format"):
        ours.save(io.BytesIO(), torch.zeros(1, 5), 8000)
    with pytest.raises(AudioError, match="has no backend 'none'"):
        ours.save(tmp_path / "a.wav", torch.zeros(1, 5), 8000, backend="none")
    written = io.BytesIO()
    ours.save(written, noise(1, 50) * 0.2, 8000, format="flac", bits_per_sample=24)
    written.seek(0)
    assert ours.info(written) == ours.AudioMetaData(8000, 50, 1, 24, "FLAC")
    written.seek(0)
    torch.testing.assert_close(ours.load(written)[0], noise(1, 50) * 0.2, rtol=0, atol=2e-7)


def test_each_effect_clips_its_result() -> None:
    apply = ours.sox_effects.apply_effects_tensor
    samples = torch.tensor([[0.5, -0.25, 2.0, -3.0]])
    louder, rate = apply(samples, 16000, [["gain", "20"], ["gain", "-20"]])
    torch.testing.assert_close(louder, torch.tensor([[0.1, -0.1, 0.1, -0.1]]), rtol=0, atol=1e-7)
    assert rate == 16000 and louder.dtype == torch.float32
    assert apply(samples.double(), 8000, [])[0].tolist() == [[0.5, -0.25, 1.0, -1.0]]
    assert torch.equal(apply(samples, 8000, [["gain"]])[0], apply(samples, 8000, [])[0])


def test_effects_take_samples_before_channels() -> None:
    apply = ours.sox_effects.apply_effects_tensor
    samples = noise(3, 400) * 0.2
    for effects in ([["channels", 2]], [["remix", "-"]], [["rate", "8k"]], [["trim", "10s", "=30s"]]):
        first, last = apply(samples, 16000, effects), apply(samples.T, 16000, effects, channels_first=False)
        assert first[0].is_contiguous() and torch.equal(first[0], last[0].T) and first[1] == last[1]


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ("0:0.5 0:0.25", 4000, 6000),
        ("1:00", 8000, 8000),
        ("0:00:0.25 =4001s", 2000, 4001),
        ("=0.25 -0.25", 2000, 6000),
        ("+0.25 +8s", 2000, 2008),
        ("-8s", 7992, 8000),
        ("0.00007", 1, 8000),
        ("0.00006", 0, 8000),
        ("0 =1", 0, 8000),
    ],
)
def test_positions_are_minutes_and_seconds_or_samples(words: str, begin: int, end: int) -> None:
    samples = noise(1, 8000).clip(-1, 1)
    trimmed, _ = ours.sox_effects.apply_effects_tensor(samples, 8000, [["trim", *words.split()]])
    assert torch.equal(trimmed, samples[:, begin:end])


@pytest.mark.parametrize("words", ["0:-1", "=-1", "--1", "-1:-1", "1:x", "0.5 =0.25", "0 -2"])
def test_positions_before_the_start_are_refused(words: str) -> None:
    with pytest.raises(OptionError, match="cannot apply the effect"):
        ours.sox_effects.apply_effects_tensor(noise(1, 8000), 8000, [["trim", *words.split()]])


@pytest.mark.parametrize(("target", "rate"), [("16000", 16000), ("16k", 16000), ("44.1k", 44100), ("8000.5", 8000)])
def test_rate_is_in_hertz_or_kilohertz(target: str, rate: int) -> None:
    samples = noise(2, 800) * 0.1
    changed, new_rate = ours.sox_effects.apply_effects_tensor(samples, 16000, [["rate", target]])
    hertz = float(target.rstrip("k")) * (1000 if "k" in target else 1)
    assert new_rate == rate and changed.shape == (2, round(800 * hertz / 16000))
    if rate == 16000:
        assert torch.equal(changed, samples)


def test_integers_are_not_resampled() -> None:
    integers = torch.zeros(100, dtype=torch.int16)
    for module in (
        ours.transforms.Resample(16000, 8000),
        lambda samples: ours.functional.resample(samples, 8000, 16000),
    ):
        with pytest.raises(TypeError, match=r"expected floating point samples, not torch\.int16"):
            module(integers)
    narrow = ours.functional.resample(noise(1, 400), 16000, 8000, lowpass_filter_width=1)
    assert narrow.shape == (1, 200)
    with pytest.raises(OptionError, match="lowpass_filter_width must be positive, not 0"):
        ours.functional.resample(noise(1, 400), 16000, 8000, 0)


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_channels_are_refused(count: str) -> None:
    with pytest.raises(OptionError, match=f"cannot apply the effect 'channels {count}'"):
        ours.sox_effects.apply_effects_tensor(noise(2, 100), 16000, [["channels", count]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 16000), "samples must be a tensor, not a value of type NoneType"),
        (("x.wav", 16000), "samples must be a tensor, not a value of type str"),
        ((np.zeros((1, 9)), 16000), "torch.as_tensor converts an array"),
        ((torch.zeros(1, 9), 0), "a sampling rate of 0 Hz"),
        ((torch.zeros(1, 9), 2**31), "a sampling rate of 2147483648 Hz"),
        ((torch.zeros(1, 9), 10**12), "a sampling rate of 1000000000000 Hz"),
        ((torch.zeros(1, 9, device="meta"), 16000), "no data"),
        ((torch.zeros(1, 9, dtype=torch.uint8), 16000), "must be one of"),
        ((torch.zeros(0, 9), 16000), "0 channels"),
        ((torch.zeros(1025, 9), 16000), "1025 channels"),
    ],
)
def test_save_that_is_refused_keeps_the_file(tmp_path: Path, arguments: tuple[Any, int], message: str) -> None:
    path = tmp_path / "audio.wav"
    ours.save(path, torch.ones(1, 9), 8000)
    before = path.read_bytes()
    with pytest.raises(AudioError, match=message):
        ours.save(path, *arguments)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("channels", "rate"), [(1024, 16000), (1, 2**31 - 1)])
def test_save_writes_the_most_channels_and_the_highest_rate(tmp_path: Path, channels: int, rate: int) -> None:
    samples = torch.arange(9.0).div(16).expand(channels, 9)
    ours.save(tmp_path / "audio.wav", samples, rate, encoding="PCM_F")
    loaded, found = ours.load(tmp_path / "audio.wav")
    assert torch.equal(loaded, samples) and found == rate


def test_save_with_a_zero_byte_in_the_name_writes_no_other_file(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="zero byte"):
        ours.save(f"{tmp_path}/audio\0.wav", torch.ones(1, 9), 8000)
    assert not [*tmp_path.iterdir()]


def test_negative_frame_offset_counts_from_the_end_and_stops_at_the_start(tmp_path: Path) -> None:
    path = str(tmp_path / "a.wav")
    ours.save(path, torch.arange(10).unsqueeze(0) / 16, 16000)
    whole = ours.load(path)[0]
    assert torch.equal(ours.load(path, frame_offset=-3)[0], whole[:, -3:])
    assert torch.equal(ours.load(path, frame_offset=-11)[0], whole)
