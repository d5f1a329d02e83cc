"""The kaldi_native_fbank API equals kaldi_native_fbank: values, shapes, options and errors.

What version 1.23 returned is stored (tests/support/native_fbank_forms.py); where the original is installed, its
behaviour is compared, too. Its own tests run over these names outside the repository: see
docs/migrating/repositories.md.
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import kaldi_standins.kaldi_native_fbank as knf
from kaldi_compat import KaldiRandom
from kaldi_compat.errors import OptionError
from kaldi_standins.kaldi_native_fbank import online
from packages.standins.tests.native_fbank_forms import FORMS, audio, stored
from tests.support.processes import output_of

OPTIONS = [name for name in knf.__all__ if name.endswith("Options")]


def original() -> Any:
    return pytest.importorskip("kaldi_native_fbank")


def without_dither() -> Any:
    return knf.FbankOptions(knf.FrameExtractionOptions(dither=0))


@pytest.mark.parametrize("form", FORMS)
def test_values_are_the_originals(form: str) -> None:
    ours = FORMS[form](knf)
    theirs = stored(form)
    assert len(ours) == len(theirs)
    for array, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["icefall", "whisper", "matrices", "mel"])
def test_types_are_the_originals(form: str) -> None:
    for ours, theirs in zip(FORMS[form](knf), FORMS[form](original()), strict=True):
        assert (ours.dtype, ours.shape, ours.strides) == (theirs.dtype, theirs.shape, theirs.strides)


def test_every_name_of_the_original_exists() -> None:
    theirs = original()
    assert set(theirs.__all__) <= set(knf.__all__)
    for name in set(theirs.__all__) & {each for each in theirs.__all__ if each[0].isupper()}:
        public = {each for each in dir(getattr(theirs, name)) if each[0] != "_"}
        assert all(hasattr(getattr(knf, name), each) or each in FIELDS.get(name, ()) for each in public), name


FIELDS = {name: vars(getattr(knf, name)()).keys() for name in OPTIONS} | {
    "StftConfig": vars(knf.StftConfig(4, 2, 4)).keys()
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_the_originals_defaults_text_and_dictionaries(name: str) -> None:
    ours, theirs = getattr(knf, name)(), getattr(original(), name)()
    for option, value in vars(ours).items():
        assert isinstance(value, knf.FrameExtractionOptions | knf.MelBanksOptions) or value == getattr(theirs, option)
    if "object at" not in str(theirs):
        assert str(ours) == str(theirs)
    if hasattr(theirs, "as_dict"):
        assert ours.as_dict() == theirs.as_dict()
        assert str(type(ours).from_dict(theirs.as_dict())) == str(theirs)
    assert str(pickle.loads(pickle.dumps(ours))) == str(ours)


def test_text_of_the_stft_is_the_originals() -> None:
    assert str(knf.StftConfig(512, 128, 400, "hann")) == str(original().StftConfig(512, 128, 400, "hann"))


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("num_bins", [80, np.int64(80), True], [80.0, "80", None, 2**40]),
        ("low_freq", [20, 0.1, np.float32(3)], ["20", None]),
        ("htk_mode", [1, None, np.bool_(True)], ["yes", [1]]),
        ("norm", ["", b"slaney"], [1, None]),
    ],
)
def test_values_of_options_are_converted_or_refused_as_in_the_original(
    name: str, values: list[Any], wrong: list[Any]
) -> None:
    for library in (knf, original()):
        options = library.MelBanksOptions()
        for value in values:
            setattr(options, name, value)
            expected = np.float32(value) if name == "low_freq" else value.decode() if value == b"slaney" else value
            assert getattr(options, name) == (bool(value) if name == "htk_mode" else expected)
        for value in wrong:
            with pytest.raises(TypeError):
                setattr(options, name, value)


def test_names_that_are_no_options_are_refused_as_in_the_original() -> None:
    for library in (knf, original()):
        with pytest.raises(AttributeError):
            library.FbankOptions().dither = 0.0
        with pytest.raises(TypeError):
            library.FbankOptions(dither=0.0)
        assert str(library.MelBanksOptions.from_dict({"num_bins": 80.0, "bins": 3, "norm": 3})).count("80") == 1
        with pytest.raises(TypeError):
            library.MelBanksOptions.from_dict(None)


@pytest.mark.parametrize("name", OPTIONS)
def test_constructors_describe_all_options(name: str) -> None:
    described = getattr(knf, name).__init__.__doc__
    for field in getattr(knf, name).__dataclass_fields__:
        assert f"{field}:" in described


def test_groups_of_options_are_copied() -> None:
    for library in (knf, original()):
        frames = library.FrameExtractionOptions(dither=7)
        options = library.FbankOptions(frame_opts=frames)
        frames.dither = 8
        assert options.frame_opts.dither == 7
        options.frame_opts = frames
        frames.dither = 9
        duplicate = copy.copy(options)
        duplicate.frame_opts.dither = 3
        assert options.frame_opts.dither == 8
        assert options != library.FbankOptions()
        assert options in {options}


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        ([], None),
        ((0, 1, 2), None),
        (range(500), None),
        (np.zeros(400, np.int16), None),
        (np.zeros((1, 400), np.float32), TypeError),
        ("abc", TypeError),
        (["a"], TypeError),
        (3.0, TypeError),
        ([float("nan")] * 400, RuntimeError),
    ],
)
def test_audio_is_accepted_or_refused_as_in_the_original(chunk: Any, error: type[Exception] | None) -> None:
    for library in (knf, original()):
        fbank = library.OnlineFbank(library.FbankOptions())
        if error is None:
            fbank.accept_waveform(16000, chunk)
        else:
            with pytest.raises(error):
                fbank.accept_waveform(16000, chunk)


def test_frames_have_numbers_and_errors_as_in_the_original() -> None:
    for library in (knf, original()):
        options = library.FbankOptions()
        options.frame_opts.dither = 0.0
        fbank = library.OnlineFbank(options)
        with pytest.raises(IndexError):
            fbank.get_frame(0)
        fbank.accept_waveform(sampling_rate=16000, waveform=audio())
        assert (fbank.dim, fbank.num_frames_ready, round(fbank.frame_shift_in_seconds, 6)) == (23, 36, 0.01)
        assert not fbank.is_last_frame(35)
        frame = fbank.get_frame(3)
        assert (frame.dtype, frame.shape, frame.flags.writeable) == (np.float32, (23,), True)
        fbank.pop(3)
        assert fbank.get_frame(frame=3)[0] == frame[0]
        with pytest.raises(RuntimeError):
            fbank.get_frame(2)
        with pytest.raises(IndexError):
            fbank.get_frame(36)
        with pytest.raises(TypeError):
            fbank.get_frame(3.0)
        fbank.input_finished()
        assert fbank.is_last_frame(35)
        with pytest.raises(RuntimeError):
            fbank.accept_waveform(16000, [0.0])
        fbank.pop(100)
        assert fbank.num_frames_ready == 36
        with pytest.raises(ValueError, match="sampling_rate does not match"):
            library.OnlineFbank(options).accept_waveform(8000, [0.0])
        with pytest.raises(TypeError):
            library.OnlineFbank(None)


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("mel_opts", "num_bins", 2),
        ("mel_opts", "num_bins", 200),
        ("mel_opts", "low_freq", -1.0),
        ("mel_opts", "is_librosa, norm", "x"),
        ("frame_opts", "window_type", "x"),
        ("frame_opts", "frame_length_ms", 0.0),
    ],
)
def test_options_that_cannot_be_computed_raise_a_value_error(group: str, name: str, value: Any) -> None:
    for library in (knf, original()):
        options = library.FbankOptions()
        for each in name.split(", "):
            setattr(getattr(options, group), each, True if each == "is_librosa" else value)
        with pytest.raises(ValueError):
            library.OnlineFbank(options)


@pytest.mark.parametrize("chunk", [[0.5] * 8000, np.full(8000, 0.5, np.float32), np.full(8000, 0.5)])
def test_lists_and_arrays_give_the_same(chunk: Any) -> None:
    features = []
    for samples in (chunk, audio(8000) * 0 + np.float32(0.5)):
        fbank = knf.OnlineFbank(without_dither())
        fbank.accept_waveform(16000, samples)
        features.append(fbank.get_frame(40))
    np.testing.assert_array_equal(*features)


def streamed(chunks: list[Any], reads: str) -> Any:
    """Return all frames of chunks, which are read at once, when a third chunk has come, or at the end."""
    fbank, frames = knf.OnlineFbank(without_dither()), []
    for number, chunk in enumerate(chunks, 1):
        fbank.accept_waveform(16000, chunk)
        known = fbank.num_frames_ready
        if reads == "at once" or (reads == "late" and number % 3 == 0):
            frames += [fbank.get_frame(i) for i in range(len(frames), known)]
            fbank.pop(known - 2)
        assert fbank.num_frames_ready == known == max((sum(map(len, chunks[:number])) - 240) // 160, 0)
    fbank.input_finished()
    return np.array(frames + [fbank.get_frame(i) for i in range(len(frames), fbank.num_frames_ready)])


@pytest.mark.parametrize("reads", ["at once", "late", "at the end"])
@pytest.mark.parametrize("size", [70, 160, 1000, 20000])
@pytest.mark.parametrize("kinds", ["l", "a", "i", "lai"])
def test_streams_give_the_same_bits_whenever_frames_are_read(kinds: str, size: int, reads: str) -> None:
    samples = (audio(40000) * 3000).astype(np.int16)
    as_kind = {"l": lambda chunk: chunk.tolist(), "a": lambda chunk: chunk.astype(np.float32), "i": lambda chunk: chunk}
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    chunks = [as_kind[kinds[i % len(kinds)]](chunk) for i, chunk in enumerate(chunks)]
    np.testing.assert_array_equal(streamed(chunks, reads), streamed([samples], reads))


@pytest.mark.parametrize("htk_mode", [False, True])
def test_mel_energies_are_floored_in_htk_mode_alone(htk_mode: bool) -> None:
    theirs = pytest.importorskip("kaldi_native_fbank")
    spectrum = np.linspace(-1, 1, 257, dtype=np.float32)
    found = []
    for library in (theirs, knf):
        options = library.MelBanksOptions()
        options.htk_mode = htk_mode
        found.append(library.MelBanks(options).compute(spectrum))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e39])
def test_a_chunk_that_completes_a_frame_of_nan_is_refused(wrong: float) -> None:
    fbank = knf.OnlineFbank(without_dither())
    for chunk in ([0.5] * 160, [0.5] * 160, [wrong] * 79):
        fbank.accept_waveform(16000, chunk)
    with pytest.raises(RuntimeError, match="nan"):
        fbank.accept_waveform(16000, [0.5])


def test_a_chunk_may_be_overwritten_after_it_was_accepted() -> None:
    fbank, chunk = knf.OnlineFbank(without_dither()), audio(900)
    fbank.accept_waveform(16000, chunk)
    whole = np.concatenate((chunk, np.zeros(100, np.float32)))
    chunk[:] = 0
    fbank.accept_waveform(16000, np.zeros(100, np.float32))
    other = knf.OnlineFbank(without_dither())
    other.accept_waveform(16000, whole)
    np.testing.assert_array_equal(fbank.get_frame(3), other.get_frame(3))


def test_a_long_chunk_is_not_kept_after_its_frames() -> None:
    fbank, chunk = knf.OnlineFbank(without_dither()), audio(200000)
    fbank.accept_waveform(16000, chunk[:1000])
    tracemalloc.start()
    fbank.accept_waveform(16000, chunk)
    fbank.pop(fbank.num_frames_ready)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 50_000  # the samples and their frames are 0.8 and 0.1 MB


def test_a_subclass_may_count_its_frames_by_a_method() -> None:
    class Counted(knf.OnlineFbank):  # online-fbank has such a class.
        def num_frames_ready(self) -> int:  # type: ignore[override]
            return super().num_frames_ready

    fbank = Counted(without_dither())
    fbank.accept_waveform(16000, audio(900))
    assert fbank.num_frames_ready() == 4
    with pytest.raises(IndexError, match="0 to 3"):
        fbank.get_frame(4)


def test_dither_is_kaldis_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "_noise", KaldiRandom())
    options = knf.RawAudioSamplesOptions()
    options.frame_opts.dither = 1.0
    samples = knf.OnlineRawAudioSamples(options)
    samples.accept_waveform(16000, [0.0] * 800)
    first = float(samples.get_frame(0)[0])
    noise = np.array([samples.get_frame(i) for i in range(3)])
    assert abs(noise.std() - 1) < 0.05
    monkeypatch.setattr(online, "_noise", KaldiRandom())
    again = knf.OnlineRawAudioSamples(options)
    again.accept_waveform(16000, [0.0] * 800)
    assert float(again.get_frame(0)[0]) == first


def test_raw_frames_may_have_an_odd_number_of_samples() -> None:
    options = knf.RawAudioSamplesOptions()
    options.frame_opts.samp_freq = 22050
    options.frame_opts.frame_length_ms = options.frame_opts.frame_shift_ms = 300.0
    samples = knf.OnlineRawAudioSamples(options)
    waveform = np.arange(22050, dtype=np.float32) / 22050
    samples.accept_waveform(22050, waveform)
    samples.input_finished()
    frames = np.stack([samples.get_frame(i) for i in range(samples.num_frames_ready)])
    assert samples.dim == 6615
    np.testing.assert_array_equal(frames, waveform[: 3 * 6615].reshape(3, 6615))


def test_transforms_are_read_from_files(tmp_path: Any) -> None:
    path = tmp_path / "lda.mat"
    path.write_text(" [\n 1 2 3\n 4 5 6 ]\n")
    transform = knf.FeatureTransform.read(str(path))
    assert (transform.input_dim, transform.output_dim, transform.is_affine(2)) == (3, 2, True)
    with pytest.raises(RuntimeError, match="cannot read"):
        knf.FeatureTransform.read(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="does not fit"):
        transform.apply(np.zeros((3, 5), np.float32))


def test_normalization_in_place() -> None:
    features = np.arange(6, dtype=np.float32).reshape(3, 2)
    knf.apply_cmvn_(knf.compute_cmvn_stats(features), knf.CmvnOptions(), features)
    assert features.tolist() == [[-2, -2], [0, 0], [2, 2]]


def test_frames_of_another_dimension_are_not_accumulated() -> None:
    """NumPy would add the count of frames without columns to all sums."""
    accumulator = knf.CmvnAccumulator()
    accumulator.accumulate(np.ones((3, 2), np.float32))
    words = "columns, but the accumulated statistics have 2: pass frames"
    with pytest.raises(ValueError, match=words):
        accumulator.accumulate(np.ones((3, 5), np.float32))
    with pytest.raises(ValueError, match=words):
        accumulator.add(0, [])
    assert accumulator.stats.tolist() == [[3.0, 3.0, 3.0], [3.0, 3.0, 0.0]]


def test_buffered_features_cannot_go_back() -> None:
    for library in (knf, original()):
        fbank = library.OnlineNemoFbank(library.NemoFbankOptions())
        fbank.accept_waveform(16000, audio().tolist())
        assert (fbank.num_frames_ready, fbank.num_trailing_samples, fbank.dim) == (37, 80, 80)
        assert fbank.get_frames(5, 0)[0].shape == (0, 80)
        fbank.get_frames(5, 3)
        for first, count in ((4, 1), (36, 2), (-1, 1)):
            with pytest.raises(ValueError):
                fbank.get_frames(first, count)


@pytest.mark.parametrize("samples", [0, 79])
def test_audio_without_frames_has_no_last_buffered_frame(samples: int) -> None:
    for library in (knf, original()):
        fbank = library.OnlineNemoFbank(library.NemoFbankOptions())
        fbank.accept_waveform(16000, [0.0] * samples)
        fbank.input_finished()
        assert not fbank.is_last_frame(-1)


def test_only_buffered_frame_is_the_last_one() -> None:
    for library in (knf, original()):
        fbank = library.OnlineNemoFbank(library.NemoFbankOptions())
        fbank.accept_waveform(16000, [0.0] * 160)
        fbank.input_finished()
        assert (fbank.num_frames_ready, fbank.is_last_frame(0)) == (1, True)


def test_mel_banks_are_computed_without_torch() -> None:
    use = "from kaldi_standins.kaldi_native_fbank import MelBanks; MelBanks()"
    output_of(f"import sys; {use}; assert 'torch' not in sys.modules")


def test_audio_without_enough_samples_is_refused() -> None:
    with pytest.raises(
        ValueError, match="empty audio cannot be padded by pad_mode='reflect': pass at least one sample"
    ):
        knf.Stft(knf.StftConfig(4, 2, 4))([])
    with pytest.raises(ValueError, match=r"fewer samples \(2\) than the window \(400\): pad the audio"):
        knf.FeatureWindowFunction(knf.FrameExtractionOptions()).apply([1.0, 2.0])


@pytest.mark.parametrize(
    ("size", "problem"), [(0, "must be positive"), (-2, "must be positive"), (3, "should be even")]
)
def test_the_size_of_a_fourier_transform_is_checked(size: int, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        knf.Rfft(size)


def test_nested_lists_of_unequal_lengths_are_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"numbers of shape \(T,\), not list of shape \(2,\) and type object"):
        knf.OnlineFbank(without_dither()).accept_waveform(16000, [[1.0], [2.0, 3.0]])
