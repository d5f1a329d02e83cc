"""Compile ``packages/c/kaldi_features.h`` and call it, and random options for it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kaldi_compat.errors import OptionError
from kaldi_compat.exact import engine
from kaldi_compat.exact.engine import make_batch
from kaldi_compat.exact.plan import KINDS, make_plan
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.spectral import WINDOW_TYPES, FrameOptions

Array = npt.NDArray[Any]
FOLDER = Path(__file__).parents[1]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror")
needs_compiler = pytest.mark.skipif(
    not (COMPILERS and FOLDER.exists()), reason="no gcc or clang, or not the sources of the project"
)
FEATURES = {kind: number for number, kind in enumerate(("fbank", "mfcc", "plp", "spectrogram"))}
# Source that a test compiles to a library or a program.
IMPLEMENTATION = '#define KALDI_FEATURES_IMPLEMENTATION\n#include "kaldi_features.h"\n'
SIZES = "size_t sizes(int i) { return i ? offsetof(kf_options, statistics) : sizeof(kf_options); }\n"


def compiled(folder: Path, source: str | Path, *flags: str, compiler: str | None = None) -> Path:
    """Compile a C file, or text in C, with the compiler's ``flags``. Return the path of the result in ``folder``."""
    program = folder / "program"
    if isinstance(source, str):
        (folder / "source.c").write_text(source)
        source = folder / "source.c"
    command = [compiler or COMPILERS[0], *flags, f"-I{FOLDER}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


class HeaderError(Exception):
    """A status other than KF_OK."""


class Header:
    """The functions of the header, compiled as a library."""

    def __init__(self, folder: Path, *flags: str, compiler: str | None = None, more: str = "") -> None:
        source = IMPLEMENTATION + SIZES + more
        self.object = compiled(folder, source, "-O2", *flags, "-c", "-fPIC", compiler=compiler)
        # Linking uses no flags, because fast math would add code that flushes denormals in this process.
        subprocess.run([compiler or COMPILERS[0], "-shared", self.object, "-o", folder / "library"], check=True)
        self.library = ctypes.CDLL(str(folder / "library"))
        for name, result in (("kf_rows", ctypes.c_int64), ("kf_ready", ctypes.c_int64), ("sizes", ctypes.c_size_t),
                             ("kf_preset_name", ctypes.c_char_p), ("kf_strerror", ctypes.c_char_p)):  # fmt: skip
            getattr(self.library, name).restype = result
        self.options_size, self.statistics_offset = self.library.sizes(0), self.library.sizes(1)

    def check(self, status: int) -> None:
        """Raise a HeaderError for a status other than KF_OK."""
        if status:
            raise HeaderError(self.library.kf_strerror(status).decode())

    def options(self, kind: str = "", preset: str = "", **values: Any) -> ctypes.Array[ctypes.c_char]:
        """Return the options of the feature ``kind`` or of a preset, after setting ``values`` by kf_set()."""
        options = ctypes.create_string_buffer(self.options_size.to_bytes(4, "little"), self.options_size)
        if preset:
            self.check(self.library.kf_from_preset(preset.encode(), options))
        else:
            self.check(self.library.kf_defaults(options, FEATURES[kind]))
        for name, value in values.items():
            text = str(int(value)) if isinstance(value, bool) else str(value)
            self.check(self.library.kf_set(options, name.encode(), text.encode()))
        return options

    def frontend(self, options: ctypes.Array[ctypes.c_char]) -> Frontend:
        """Return a front end with these options."""
        return Frontend(self, options)


class Frontend:
    """A front end of the header, in memory with marks around it."""

    def __init__(self, header: Header, options: ctypes.Array[ctypes.c_char]) -> None:
        self.header, size, self.object = header, ctypes.c_size_t(), ctypes.c_void_p()
        header.check(header.library.kf_size(options, ctypes.byref(size)))
        self.memory = np.full(size.value + 66, 0xA5, np.uint8)
        start = ctypes.c_void_p(self.memory.ctypes.data + 33)
        header.check(header.library.kf_init(start, size, options, ctypes.byref(self.object)))
        self.dim = int(header.library.kf_dim(self.object))

    def _call(self, name: str, rows: int, *arguments: Any) -> Array:
        out, written = np.full((rows, self.dim), 7.0, np.float32), ctypes.c_int64()
        end = out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(rows), ctypes.byref(written)
        self.header.check(getattr(self.header.library, name)(self.object, *arguments, *end))
        assert (self.memory[:33] == 0xA5).all() and (self.memory[-33:] == 0xA5).all(), "wrote outside of the memory"
        return out[: written.value]

    def _samples(self, name: str, samples: Array) -> tuple[str, Any, Any]:
        assert samples.dtype in (np.int16, np.float32) and samples.flags.c_contiguous
        suffix = "_int16" if samples.dtype == np.int16 else ""
        return name + suffix, samples.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(samples))

    def __call__(self, samples: Array) -> Array:
        """Return the features of a whole utterance."""
        name, pointer, count = self._samples("kf_compute", samples)
        return self._call(name, self.header.library.kf_rows(self.object, count), pointer, count)

    def stream(self, chunks: Sequence[Array]) -> list[Array]:
        """Return the features (rows, dim) that each chunk completes, and those that the end of the audio completes."""
        ready, parts = self.header.library.kf_ready, []
        for chunk in chunks:
            name, pointer, count = self._samples("kf_accept", chunk)
            parts.append(self._call(name, ready(self.object, count, 0), pointer, count))
        return [*parts, self._call("kf_finish", ready(self.object, ctypes.c_int64(0), 1))]


def random_options(rng: np.random.Generator) -> tuple[str, FrameOptions, dict[str, Any]]:
    """Draw a feature and options that it accepts. Return its name, the options, and the drawn values by name."""
    choices: dict[str, Any] = {
        "sample_frequency": [8000.0, 16000.0, 11025.0, 22050.0, 44100.0],
        "frame_length": [10.0, 17.3, 20.5, 25.0, 32.0, 64.0, float(rng.integers(90, 700)) / 16],
        "frame_shift": [2.5, 3.7, 10.0, 12.5, 30.0, 80.0],
        "preemphasis_coefficient": [0.0, 0.5, 0.95, 1.0],
        "remove_dc_offset": [False, True],
        "dither": [0.0, 0.1, 1.0],
        "window_type": WINDOW_TYPES,
        "blackman_coeff": [0.42, 0.36],
        "round_to_power_of_two": [False, True],
        "snip_edges": [False, True],
        "waveform_scale": [0.5, 2.0, 3e-5, 32768.0],
        "energy_floor": [0.1, 1.0, 1e6],
        "raw_energy": [False, True],
        "return_raw_fft": [False, True],
        "num_mel_bins": [*range(3, 48), 64, 80, 128],
        "low_freq": [0.0, 20.0, 64.0, 125.5],
        "high_freq": [0.0, -400.0, -1000.0, 3700.0],
        "htk_compat": [False, True],
        "allow_empty_bins": [False, True],
        "use_energy": [False, True],
        "use_log_fbank": [False, True],
        "use_power": [False, True],
        "num_ceps": [*range(1, 24)],
        "cepstral_lifter": [0, 10, 22, 40],
        "lpc_order": [*range(1, 24)],
        "compress_factor": [0.1, 0.2, 0.33333, 0.5, 1.0],
        "cepstral_scale": [0.0, 0.1, 1.0, 2.0],
    }
    while True:
        kind = KINDS_BY_NAME[name := str(rng.choice(list(KINDS_BY_NAME)))]
        known = {field.name for field in dataclasses.fields(kind)} & set(choices)
        changed = [each for each in sorted(known) if rng.random() < 0.35]
        values = {each: choices[each][rng.integers(len(choices[each]))] for each in changed}
        try:
            options = kind(**values)
            make_plan(options)
        except OptionError:
            continue
        if options.padded_window_size % 2 == 0:
            return name, options, values


KINDS_BY_NAME = {name: kind for kind, name in KINDS.items()}


def random_audio(rng: np.random.Generator) -> Array:
    """Draw noise (T,) of random length and level with a silent part, as int16 or float32."""
    samples = rng.standard_normal(int(rng.integers(1, 9000))) * 10.0 ** rng.uniform(0, 4)
    samples[len(samples) // 3 : len(samples) // 2] = 0
    audio: Array = samples.clip(-32768, 32767).astype(np.int16)
    return audio if rng.random() < 0.5 else samples.astype(np.float32)


def exact_features(options: FrameOptions, samples: Array, vtln_warp: float = 1.0) -> Array:
    """Return the exact engine's features (frames, dim), dithered with the first noise that a Kaldi program draws."""
    plan = make_plan(options)
    batch = make_batch(plan, samples, vtln_warp=vtln_warp)
    return engine.compute_batch_features(plan, batch.with_seeds(KaldiRandom().frame_seeds(int(batch.rows[-1]))))


@functools.lru_cache(maxsize=1)
def speech() -> Array:
    """Return 24 seconds of speech at 16 kHz, int16."""
    from tests.support.frontend_audio import clips

    return clips()["30s"][: 24 * 16000]
