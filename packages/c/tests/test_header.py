"""The header against the exact engine, the front ends of the presets, and Kaldi's stored outputs, byte for byte."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat import list_presets
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.numpy import Spectrogram
from kaldi_compat.options.config import load_options
from kaldi_compat.options.spectral import FbankOptions
from kaldi_explain.conform_command import conform_command
from packages.c.tests.c_header import (
    COMPILERS,
    FOLDER,
    IMPLEMENTATION,
    KINDS_BY_NAME,
    WARNINGS,
    Array,
    Header,
    HeaderError,
    compiled,
    exact_features,
    needs_compiler,
    random_audio,
    random_options,
    speech,
)
from tests.support.native import LEVELS, computing

pytestmark = needs_compiler
KIT = FOLDER.parents[1] / "reference_data" / "conformance"
STREAMED = ["zipformer", "paraformer", "fsmn-vad", "phi4-multimodal", "beats", "mae-ast", "medasr"]


# The tests of a compiler run in one process, which compiles the header once.
@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.xdist_group(f"header by {each}")) for each in COMPILERS],
)
def header(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Header:
    flags = ("-std=c99", "-fno-stack-protector", *WARNINGS)
    return Header(tmp_path_factory.mktemp("header"), *flags, compiler=request.param, more=MODES)


def assert_same_bytes(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes(), f"largest difference {np.nanmax(np.abs(found - expected))}"


@pytest.mark.parametrize("seed", range(80))
def test_features_are_those_of_the_exact_engine(header: Header, seed: int) -> None:
    rng = np.random.default_rng(seed)
    name, options, values = random_options(rng)
    audio = random_audio(rng)
    assert_same_bytes(header.frontend(header.options(name, **values))(audio), exact_features(options, audio))


@pytest.mark.parametrize("kind", KINDS_BY_NAME)
def test_options_and_their_defaults_are_those_of_python(header: Header, kind: str) -> None:
    defaults, of_programs = (
        KINDS_BY_NAME[kind](),
        {"allow_downsample", "allow_upsample", "max_feature_vectors", "debug_mel"},
    )
    for name in {field.name for field in dataclasses.fields(defaults)} - of_programs:
        changed = header.options(kind, **{name: getattr(defaults, name)})
        assert bytes(changed) == bytes(header.options(kind)), name


@pytest.mark.parametrize("vtln_warp", [0.85, 1.0, 1.15])
@pytest.mark.parametrize("name", ["fbank", "mfcc", "plp"])
def test_warped_mel_bins_are_those_of_the_exact_engine(header: Header, name: str, vtln_warp: float) -> None:
    options = KINDS_BY_NAME[name](dither=0.0, vtln_low=60.0)
    found = header.frontend(header.options(name, dither=0, vtln_low=60, vtln_warp=vtln_warp))(speech()[:16000])
    assert_same_bytes(found, exact_features(options, speech()[:16000], vtln_warp))


def test_noise_carries_on_from_one_utterance_to_the_next_until_it_is_seeded(header: Header) -> None:
    audio = speech()[:8000]
    frontend = header.frontend(header.options("fbank"))
    first, second = frontend(audio), frontend(audio)
    assert (first != second).all()
    header.library.kf_seed(frontend.object, 1)
    assert_same_bytes(frontend(audio), first)


@pytest.mark.parametrize("seed", range(40))
def test_chunks_of_any_length_give_the_rows_of_the_whole(header: Header, seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    name, _, values = random_options(rng)
    audio = random_audio(rng)
    whole = header.frontend(header.options(name, **values))(audio)
    edges = np.sort(rng.integers(0, len(audio) + 1, int(rng.integers(0, 40))))
    parts = header.frontend(header.options(name, **values)).stream(np.split(audio, edges))
    assert_same_bytes(np.concatenate(parts), whole)


@pytest.mark.parametrize("preset", list_presets())
def test_presets_are_the_front_ends_of_the_same_names(header: Header, preset: str) -> None:
    options = header.options(preset=preset)
    if ctypes.c_void_p.from_buffer(options, header.statistics_offset).value:
        with pytest.raises(HeaderError, match="statistics are missing"):
            header.frontend(options)
        ctypes.c_void_p.from_buffer(options, header.statistics_offset).value = None
    frontend = header.frontend(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The model's statistics cause a warning.
        ours = Frontend.from_preset(preset)
    wave = speech() if ours.sampling_rate == 16000 else speech()[::2].copy()
    for audio in (wave, wave[:16000], wave[:300], (wave[:50001] / 32768 * 0.37 + 0.0137).astype(np.float32)):
        assert_same_bytes(frontend(audio), ours(audio))


@pytest.mark.parametrize("how", ["C", "NumPy"])
@pytest.mark.parametrize("points", [64, 512, 2048])
def test_spectra_in_double_precision_are_those_of_the_exact_engine(header: Header, points: int, how: str) -> None:
    values: dict[str, Any] = {
        "frame_length": points / 16, "dither": 0.0, "window_type": "hanning", "preemphasis_coefficient": 0.0,
        "remove_dc_offset": False, "return_raw_fft": True,
    }  # fmt: skip
    # The window of a low tone leaves high bins so small that the order of additions decides their last digits.
    audio = (30000 * np.sin(0.02 * np.arange(20000))).astype(np.float32)
    with computing(LEVELS[0] if how == "C" and LEVELS else None):
        ours = Spectrogram(engine="accurate", **values)(audio)
    assert_same_bytes(header.frontend(header.options("spectrogram", double_precision=1, **values))(audio), ours)


@pytest.mark.parametrize("preset", STREAMED)
def test_presets_in_chunks_are_those_of_the_whole(header: Header, preset: str) -> None:
    options = header.options(preset=preset)
    ctypes.c_void_p.from_buffer(options, header.statistics_offset).value = None
    for count in (0, 399, 400, 16000, 16123):
        audio = (speech()[:count] / 32768).astype(np.float32)
        frontend = header.frontend(options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = Frontend.from_preset(preset).stream()
        chunks = np.split(audio, np.sort(np.random.default_rng(count).integers(0, count + 1, 9)))
        parts = frontend.stream(chunks)
        for part, expected in zip(parts, [*map(stream, chunks), stream.flush()], strict=True):
            assert_same_bytes(part, expected)


@pytest.mark.parametrize("count", [1, 80, 260, 1000, 4000])
@pytest.mark.parametrize("stacking", [{"lfr_stack": 5}, {"lfr_stack": 7, "lfr_stride": 6}, {"stack_frames": 3}])
def test_end_of_short_audio_gives_its_stacked_frames(header: Header, stacking: dict[str, int], count: int) -> None:
    options = header.options("fbank", dither=0, frame_length=80, snip_edges=False, **stacking)
    whole = header.frontend(options)(speech()[:count])
    assert_same_bytes(np.concatenate(header.frontend(options).stream([speech()[:count]])), whole)


def test_global_statistics_are_applied(header: Header) -> None:
    rng = np.random.default_rng(0)
    shift, scale = (rng.standard_normal(560).astype(np.float32) for _ in range(2))
    options = header.options(preset="paraformer", num_statistics=560)
    for number, array in enumerate((shift, scale)):
        ctypes.c_void_p.from_buffer(options, header.statistics_offset - 16 + 8 * number).value = array.ctypes.data
    expected = Frontend.from_preset("paraformer", statistics=(-shift.astype(float), 1.0 + 0 * scale))
    plain = expected(speech()[:16000])
    assert_same_bytes(header.frontend(options)(speech()[:16000]), plain * scale)


def test_mean_of_the_utterance_is_subtracted_as_by_kaldi(header: Header) -> None:
    from kaldi_compat.exact.engine import subtract_mean

    for frames in (1, 64, 65, 200, 1003):
        audio = speech()[: 240 + 160 * frames]
        found = header.frontend(header.options("fbank", dither=0, num_mel_bins=43, subtract_mean=True))(audio)
        options = KINDS_BY_NAME["fbank"](dither=0.0, num_mel_bins=43)
        assert_same_bytes(found, subtract_mean(exact_features(options, audio)))


BAD_OPTIONS = [
    ({"sample_frequency": "0"}, "sample_frequency must be positive"),
    ({"sample_frequency": "-8000"}, "sample_frequency must be positive"),
    ({"frame_length": "0"}, "frames must have"),
    ({"frame_length": "1e9"}, "frames must have"),
    ({"frame_shift": "0.01"}, "frames must have"),
    ({"frame_shift": "1e12"}, "frames must have"),
    ({"num_mel_bins": "1000"}, "a mel bin holds no bin of the FFT: use fewer mel bins"),
    ({"num_mel_bins": "3", "low_freq": "100", "high_freq": "110"}, "a mel bin holds no bin .* a wider band"),
    ({"num_mel_bins": "2"}, "num_mel_bins must be 3 or more: increase it"),
    ({"num_mel_bins": "0", "allow_empty_bins": "true"}, "num_mel_bins must be 3 or more: increase it"),
    ({"num_mel_bins": "67108864"}, "too large: reduce num_mel_bins"),
    ({"num_mel_bins": "262144", "allow_empty_bins": "true", "frame_length": "64"}, "too large: reduce num_mel_bins"),
    ({"delta_order": "999", "stack_frames": "999", "frame_length": "400", "num_mel_bins": "300"}, "too large: .*order"),
    ({"delta_order": "999", "stack_frames": "2", "lfr_stack": "7"}, "exclude each other"),
    ({"low_freq": "9000"}, "low_freq and high_freq"),
    ({"high_freq": "8001"}, "low_freq and high_freq"),
    ({"vtln_warp": "1.1", "vtln_low": "10"}, "vtln_low and vtln_high"),
    ({"vtln_warp": "-1"}, "vtln_warp must be positive"),
    ({"round_to_power_of_two": "false", "frame_length": "25.07"}, "even number of points"),
    ({"preemphasis_coefficient": "2"}, "outside its range"),
    ({"waveform_scale": "0"}, "outside its range"),
    ({"lfr_stack": "7", "utterance_cmvn": "true"}, "exclude each other"),
    ({"delta_window": "0"}, "outside its range"),
    ({"num_statistics": "23"}, "statistics are missing"),
    ({"num_mel_bins": "4.5"}, "outside its range"),
    ({"num_mel_bins": "nan"}, "not a finite number"),
    ({"dither": "1e39"}, "not a finite number"),
    ({"window_type": "kaiser"}, "outside its range"),
    ({"snip_edges": "2"}, "outside its range"),
    ({"double_precision": "true", "round_to_power_of_two": "false"}, "double_precision and shorten_frame need an FFT"),
    ({"shorten_frame": "true", "round_to_power_of_two": "false"}, "set round_to_power_of_two"),
    ({"colour": "red"}, "no option or preset has this name"),
]


@pytest.mark.parametrize(("values", "message"), BAD_OPTIONS, ids=lambda value: str(value)[:40])
def test_invalid_options_are_a_status(header: Header, values: dict[str, str], message: str) -> None:
    with pytest.raises(HeaderError, match=message):
        header.frontend(header.options("fbank", **values))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_options_that_are_no_numbers_are_a_status(header: Header, number: float) -> None:
    options = header.options("mfcc")
    for offset in range(8, 40, 4):  # These bytes are the floats of the frame options.
        broken = ctypes.create_string_buffer(options.raw, len(options))
        ctypes.c_float.from_buffer(broken, offset).value = number
        with pytest.raises(HeaderError, match="not a finite number"):
            header.frontend(broken)


def test_cepstra_that_do_not_exist_are_a_status(header: Header) -> None:
    for name, values in (("mfcc", {"num_ceps": 24}), ("plp", {"num_ceps": 14}), ("mfcc", {"num_ceps": 0}),
                         ("mfcc", {"cepstral_lifter": 1e-12})):  # fmt: skip
        with pytest.raises(HeaderError, match="num_ceps must be"):
            header.frontend(header.options(name, **values))


def status_of(header: Header, function: str, *arguments: Any) -> str:
    wrapped = [ctypes.c_int64(each) if isinstance(each, int) else each for each in arguments]
    return str(header.library.kf_strerror(getattr(header.library, function)(*wrapped)).decode())


@pytest.mark.parametrize(("function", "end"), [("kf_compute", 1), ("kf_accept", 0)])
def test_bad_audio_and_buffers_are_a_status_and_nothing_is_taken(header: Header, function: str, end: int) -> None:
    frontend = header.frontend(header.options("fbank", dither=0))
    audio = speech()[:16000].astype(np.float32)
    out, written = np.full((98, 23), 7.0, np.float32), ctypes.c_int64(-1)
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (audio, out)]
    tail = (out.ctypes.data_as(ctypes.c_void_p), 98, ctypes.byref(written))
    small = (tail[0], 97, tail[2])
    assert "too little room" in status_of(header, function, frontend.object, pointers[0], 16000, *small)
    assert "too little room" in status_of(header, function, frontend.object, pointers[0], 2**31, *tail)
    assert "pointer is NULL" in status_of(header, function, frontend.object, None, 100, *tail)
    assert "count is negative" in status_of(header, function, frontend.object, pointers[0], -1, *tail)
    assert "2^46 or more" in status_of(header, function, frontend.object, pointers[0], 2**62, *tail)
    assert "pointer is NULL" in status_of(header, function, None, pointers[0], 16000, *tail)
    nothing = status_of(header, function, frontend.object, pointers[0], 0, *tail)
    assert nothing == ("the audio has no samples: check where it comes from" if end else "no error")
    for bad in (np.nan, np.inf, -np.inf):
        broken = audio.copy()
        broken[-1] = bad
        assert "NaN or infinity" in status_of(header, function, frontend.object, broken.ctypes.data_as(ctypes.c_void_p),
                                              16000, *tail)  # fmt: skip
    assert written.value == 0 and (out == 7.0).all()
    assert status_of(header, function, frontend.object, pointers[0], 16000, *tail) == "no error"
    assert_same_bytes(out, exact_features(KINDS_BY_NAME["fbank"](dither=0.0), audio))


def test_too_little_memory_is_a_status(header: Header) -> None:
    options, size, made = header.options("plp"), ctypes.c_size_t(), ctypes.c_void_p()
    header.check(header.library.kf_size(options, ctypes.byref(size)))
    memory = ctypes.create_string_buffer(size.value)
    for given in (0, 1, size.value - 1):
        status = header.library.kf_init(memory, ctypes.c_size_t(given), options, ctypes.byref(made))
        with pytest.raises(HeaderError, match="less memory"):
            header.check(status)
        assert made.value is None and not any(memory.raw)


def test_options_of_another_size_are_a_status(header: Header) -> None:
    options = ctypes.create_string_buffer(header.options_size)
    for function, arguments in (("kf_defaults", (options, 0)), ("kf_from_preset", (b"wenet", options)),
                                ("kf_set", (options, b"dither", b"0"))):  # fmt: skip
        with pytest.raises(HeaderError, match=r"struct_size is not that of this library: .*kf_version"):
            header.check(getattr(header.library, function)(*arguments))


def test_version_is_that_of_the_header(header: Header) -> None:
    header.library.kf_version.restype = ctypes.c_char_p
    assert re.findall(rb'#define KF_VERSION "(.*)"', (FOLDER / "kaldi_features.h").read_bytes()) == [
        header.library.kf_version()
    ]


# Lines of a configuration file, and the number of mel bins and snip_edges after them; or the status.
LINES = {
    "--num-mel-bins=40": (40, 1),
    "--num-mel-bins=40  # as in the recipe": (40, 1),
    "  --num_mel_bins= 40 \r\n": (40, 1),
    "--Num-Mel-Bins=40": (40, 1),
    "--num-mel-bins=+40#": (40, 1),
    "--snip-edges=false": (23, 0),
    "--snip-edges=F": (23, 0),
    "--snip-edges = false": "no option or preset has this name",
    "--snip-edges": (23, 1),
    "--snip-edges # as before": (23, 1),
    "": (23, 1),
    " \t\n": (23, 1),
    "# --num-mel-bins=40": (23, 1),
    "   # nothing": (23, 1),
    "--": "no option or preset has this name",
    "num-mel-bins=40": "no option or preset has this name",
    "-num-mel-bins=40": "no option or preset has this name",
    "--num-mel-bins": "outside its range",
    "--num-mel-bins=": "outside its range",
    "--snip-edges=": "outside its range",
    "--num-mel-bins=4 0": "outside its range",
    "--colour=red": "no option or preset has this name",
    "--num-mel-bins=" + 200 * "0" + "40": (40, 1),
    "--num-mel-bins=" + 300 * "0" + "40": "no option or preset has this name",
}


@pytest.mark.parametrize(("line", "result"), LINES.items(), ids=lambda value: repr(value)[:40])
def test_lines_of_configuration_files_are_read_as_by_kaldi(
    header: Header, tmp_path: Path, line: str, result: tuple[int, int] | str
) -> None:
    options = header.options("fbank")
    says = status_of(header, "kf_set", options, line.encode(), None)
    if isinstance(result, str):
        assert result in says
        assert options.raw == header.options("fbank").raw
    else:
        assert says == "no error"
        changed = header.options("fbank", num_mel_bins=result[0], snip_edges=bool(result[1]))
        assert options.raw == changed.raw
        (tmp_path / "fbank.conf").write_text(line)
        ours = load_options(FbankOptions, tmp_path / "fbank.conf")
        assert (ours.num_mel_bins, ours.snip_edges) == result


@pytest.mark.costly
def test_null_pointers_are_a_status_or_allowed(tmp_path: Path) -> None:
    program = compiled(tmp_path, NULLS, "-std=c99", "-O0", *WARNINGS, *SANITIZERS, compiler=COMPILERS[-1])
    ended = subprocess.run([program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


SANITIZERS = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
NULLS = (
    IMPLEMENTATION
    + """
#include <stdio.h>
#include <stdlib.h>
#define MUST(call, status)                                                                                           \
    if ((call) != status) return fprintf(stderr, "line %d: %s\\n", __LINE__, #call), 1;
int main(void) {
    static char memory[1 << 20];
    static const float samples[100] = {0};
    static const char *const presets[] = {"zipformer", "wespeaker", "xvector", "paraformer", "seamless-m4t"};
    kf_options options;
    size_t size;
    int64_t rows = 7;
    kf *f = NULL;
    options.struct_size = sizeof options;
    MUST(kf_defaults(NULL, KF_FBANK), KF_ERROR_ARGUMENT)
    MUST(kf_from_preset(NULL, &options), KF_ERROR_ARGUMENT)
    MUST(kf_from_preset("wenet", NULL), KF_ERROR_ARGUMENT)
    MUST(kf_defaults(&options, KF_FBANK), KF_OK)
    MUST(kf_set(NULL, "dither", "0"), KF_ERROR_ARGUMENT)
    MUST(kf_set(&options, NULL, "0"), KF_ERROR_ARGUMENT)
    MUST(kf_set(&options, "dither", NULL), KF_ERROR_NAME)
    MUST(kf_set_statistics(NULL, samples, samples, 3), KF_ERROR_ARGUMENT)
    MUST(kf_set_statistics(&options, NULL, samples, 3), KF_ERROR_ARGUMENT)
    MUST(kf_set_statistics(&options, samples, NULL, 3), KF_ERROR_ARGUMENT)
    MUST(kf_size(NULL, &size), KF_ERROR_ARGUMENT)
    MUST(kf_size(&options, NULL), KF_ERROR_ARGUMENT)
    MUST(kf_init(NULL, sizeof memory, &options, &f), KF_ERROR_ARGUMENT)
    MUST(kf_init(memory, sizeof memory, NULL, &f), KF_ERROR_ARGUMENT)
    MUST(kf_init(memory, sizeof memory, &options, NULL), KF_ERROR_ARGUMENT)
    MUST(kf_dim(NULL), 0)
    MUST(kf_rows(NULL, 100), 0)
    MUST(kf_ready(NULL, 100, 1), 0)
    kf_reset(NULL);
    kf_seed(NULL, 1);
    MUST(kf_finish(NULL, NULL, 0, &rows), KF_ERROR_ARGUMENT)
    for (int i = 0; i < 5; i++) { /* audio without a row needs no output */
        if (kf_from_preset(presets[i], &options) != KF_OK) continue;
        options.snip_edges = 1, options.pad_frames = 0, options.shorten_frame = 0;
        options.statistics = NULL;
        MUST(kf_init(memory, sizeof memory, &options, &f), KF_OK)
        MUST(kf_compute(f, samples, 100, NULL, 0, &rows), KF_OK)
        MUST(rows, 0)
        MUST(kf_compute(f, NULL, 100, NULL, 0, &rows), KF_ERROR_ARGUMENT)
        MUST(kf_compute(f, samples, 100, NULL, 0, NULL), KF_ERROR_ARGUMENT)
        MUST(kf_compute(f, samples, 100, NULL, -1, &rows), KF_ERROR_ARGUMENT)
        if (kf_accept(f, samples, 100, NULL, 0, &rows) == KF_ERROR_STREAM) continue;
        MUST(kf_accept(f, NULL, 0, NULL, 0, &rows), KF_OK)
        MUST(kf_accept(f, NULL, 1, NULL, 0, &rows), KF_ERROR_ARGUMENT)
        MUST(kf_finish(f, NULL, 0, &rows), KF_OK)
        MUST(rows, 0)
    }
    return 0;
}
"""
)


def test_whole_utterances_are_needed_by_some_presets(header: Header) -> None:
    frontend = header.frontend(header.options(preset="wespeaker"))
    with pytest.raises(HeaderError, match="needs the whole utterance"):
        frontend.stream([speech()[:4000]])


@pytest.mark.parametrize("text", ["0.97", "-4.2677393", "1e-07", "11.512925464970229", "123456789012345678901234567890",
                                  "5e-324", ".5", "7690.0", "1.1754943508222875e-38"])  # fmt: skip
def test_numbers_are_read_as_by_python(header: Header, text: str) -> None:
    options = header.options("fbank", utterance_epsilon=text.lstrip("-")) if float(text) < 1e38 else None
    sign = "-" if text.startswith("-") else ""
    values = header.options("fbank", dither=text)
    assert ctypes.c_float.from_buffer(values, 24).value == np.float32(text), sign
    if options is not None and float(text) > 1e-300:
        raw = np.frombuffer(options.raw, np.uint8)
        assert np.float64(text.lstrip("-")).tobytes() in raw.tobytes()


# Compilers warn of uninitialized variables when they optimize. The fixture `header` uses only one level.
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flags",
    ["-fsyntax-only", pytest.param("-O0 -c", marks=pytest.mark.slow), pytest.param("-O3 -c", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("standard", ["-std=c99", "-std=c11", "-std=c++17"])
def test_every_standard_compiles_without_warnings(tmp_path: Path, compiler: str, standard: str, flags: str) -> None:
    language = ["-x", "c++"] if "++" in standard else []
    compiled(tmp_path, IMPLEMENTATION, standard, *flags.split(), *WARNINGS, *language, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_fast_math_is_refused(tmp_path: Path, compiler: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        compiled(tmp_path, IMPLEMENTATION, "-O2", "-ffast-math", "-c", compiler=compiler)
    assert "fast math changes the features" in error.value.stderr


# Each of these flags changes results of some compiler if the header does not turn it off.
HOSTILE_FLAGS = ["-freciprocal-math -fassociative-math"]
OTHER_HOSTILE_FLAGS = [
    "-freciprocal-math",
    "-fassociative-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    "-ffp-contract=fast -mfma",
    "-fno-signed-zeros",
    "-ffinite-math-only",
    "-fno-honor-nans",
    "-frounding-math",
    "-fsingle-precision-constant",
    "-mfpmath=387",
    "-mrecip",
    "-ffp-eval-method=double",
]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flags", [*HOSTILE_FLAGS, *(pytest.param(flags, marks=pytest.mark.slow) for flags in OTHER_HOSTILE_FLAGS)]
)
def test_flags_that_change_numbers_are_refused_or_have_no_effect(tmp_path: Path, compiler: str, flags: str) -> None:
    try:
        compiled(tmp_path, "int x;", *flags.split(), "-fsyntax-only", compiler=compiler)
    except subprocess.CalledProcessError:
        pytest.skip("not a flag of this compiler")
    try:
        header = Header(tmp_path, *flags.split(), compiler=compiler)
    except subprocess.CalledProcessError as error:
        assert re.search("fast math changes the features|a wider type changes the features|-mfpmath", error.stderr)
        return
    for seed in range(4):
        rng = np.random.default_rng(seed)
        name, options, values = random_options(rng)
        audio = random_audio(rng)
        try:
            frontend = header.frontend(header.options(name, **values))
        except HeaderError as error:
            assert "the arithmetic is not IEEE 754's" in str(error)
            return
        assert_same_bytes(frontend(audio), exact_features(options, audio))


MODES = """
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
void flush(int on) { _mm_setcsr(on ? _mm_getcsr() | 0x8000 : _mm_getcsr() & ~0x8000u); }
#else
void flush(int on) { (void)on; }
#endif
void round_up(int on) { fesetround(on ? FE_UPWARD : FE_TONEAREST); }
int has_flush(void) {
#if defined(__x86_64__)
    return 1;
#else
    return 0;
#endif
}
kf_status in_mode(int mode, kf *f, const float *samples, int64_t count, float *out, int64_t room, int64_t *rows) {
    if (mode == 1) flush(1);
    if (mode == 2) round_up(1);
    const kf_status whole = kf_compute(f, samples, count, out, room, rows);
    const kf_status part = kf_accept(f, samples, count, out, room, rows);
    flush(0), round_up(0);
    kf_reset(f);
    return whole == part ? whole : KF_NUM_STATUSES;
}
"""


def test_a_processor_that_rounds_up_or_flushes_denormals_is_a_status(header: Header) -> None:
    frontend = header.frontend(header.options("fbank", dither=0))
    audio, out, written = np.ones(4000, np.float32), np.full((23, 23), 7.0, np.float32), ctypes.c_int64()
    call = frontend.object, audio.ctypes.data_as(ctypes.c_void_p), 4000, out.ctypes.data_as(ctypes.c_void_p), 23
    for mode in (2, *([1] if header.library.has_flush() else [])):
        says = status_of(header, "in_mode", ctypes.c_int(mode), *call, ctypes.byref(written))
        assert "round to nearest, keep denormals" in says and written.value == 0 and (out == 7.0).all()
    assert status_of(header, "in_mode", ctypes.c_int(0), *call, ctypes.byref(written)) == "no error"


def test_half_precision_of_the_processor_is_not_refused(tmp_path: Path) -> None:
    try:
        compiled(tmp_path, "int x;", "-mavx512fp16", "-c")
    except subprocess.CalledProcessError:
        pytest.skip("not for AVX512-FP16")
    compiled(tmp_path, IMPLEMENTATION, "-mavx512fp16", "-fsyntax-only")


def test_no_other_library_is_needed(header: Header) -> None:
    listed = subprocess.run(["nm", "-u", str(header.object)], capture_output=True, text=True, check=True).stdout.split()
    of_test = {"fesetround"}
    assert set(listed) - {"U"} - of_test <= {"memcpy", "memmove", "memset", "strcmp", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.costly
def test_programs_of_the_kit_are_graded_as_equal_in_all_bits(tmp_path: Path) -> None:
    program = compiled(tmp_path, FOLDER / "conform.c", "-std=c99", "-O2", *WARNINGS)
    ended = subprocess.run([program, KIT], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sum(int(line.split(",")[1].split()[0]) for line in ended.stdout.splitlines()) == 1271
    card = conform_command([str(program), "{audio}", "{options.json}", "{out.npy}"], level=[1])
    counts = [[result.grade for result in card.results].count(grade) for grade in ("bits", "not supported")]
    assert counts == [16, 0], str(card)


@pytest.mark.slow
def test_random_options_audio_and_chunks_do_not_break_memory(tmp_path: Path) -> None:
    flags = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    try:
        program = compiled(tmp_path, FOLDER / "fuzz.c", *flags, *WARNINGS)
    except subprocess.CalledProcessError:
        pytest.skip("no sanitizers")
    ended = subprocess.run([program, "20000", "7"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
