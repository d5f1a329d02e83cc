"""The C sources compile without a warning, and run without a finding of sanitizers or a wrong draw of noise."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import setup as build

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which(os.environ.get("CC", "gcc"))

RUN = """
import sys
import numpy as np
from io_ark.native.signatures import Signatures
from kaldi_compat import native
from kaldi_compat.functional import block_cmvn as cmvn
from kaldi_compat.functional import columns
from kaldi_compat.functional import block_deltas as deltas
from kaldi_compat.functional import means
from kaldi_compat.functional import block_vad as vad
from kaldi_compat.exact import compiled as spectral, convolution, products, resample, sums
from kaldi_compat.exact.engine import make_batch
from kaldi_compat.exact.plan import plan_of
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import InterpolatePitchOptions, PitchOptions, SmoothPitchOptions
from kaldi_compat.options.postprocessing import SlidingCmvnOptions, SpliceOptions, VadOptions
from kaldi_compat.options.spectral import FbankOptions, MfccOptions, PlpOptions, SpectrogramOptions
from kaldi_compat.pitch.interpolate import RaggedGrids, most_probable_paths
from kaldi_compat.pitch.smooth import smooth_utterances
from kaldi_compat.pitch.tracker import track_block

signatures = Signatures(sys.argv[1])
library = signatures.library()
assert library, library.reason
native.NATIVE.in_use = True
def use(level):
    native.get_function = lambda name, **kind: signatures.get_function(name, level, **kind)
rng = np.random.default_rng(0)
samples = (rng.standard_normal(9000) * 1000).astype(np.int16)
for kind in (FbankOptions, MfccOptions, PlpOptions, SpectrogramOptions):
    short = {"snip_edges": False, "frame_length": 17.3}
    mixed, dense = {"round_to_power_of_two": False}, {"frame_shift": 0.1}
    cases = [({}, True), ({}, False), (mixed, False), (short, False), (dense, False)]
    for frames, accurate_fft in cases:
        plan = plan_of(kind(**frames), accurate_fft=accurate_fft)
        for lengths in ([9000], [3000, 1, 0, 400, 5000]):
            warps = 1.0 if kind is SpectrogramOptions else np.resize([1.0, 0.9], len(lengths))
            batch = make_batch(plan, samples[: sum(lengths)].copy(), lengths, vtln_warp=warps)
            batch = batch.with_seeds(np.arange(int(batch.rows[-1]), dtype=np.int32) * 77777)
            for level in library.levels:
                out = np.empty((int(batch.rows[-1]), plan.dim), np.float32)
                use(level)
                spectral.compute_batch_features(plan, batch, 0, len(out), out)
for level in library.levels:
    for rate, count in ((16000, 900), (44100, 17), (44100, 3000), (4000, 0)):
        filters = resample.make_resampling_filters(rate, 4000, 1000.0, 6)
        audio_in = samples[:count].copy()
        use(level)
        resample.resample_chunk(audio_in, filters, (0, -(-count * 4000 // rate)))
        sums.compute_vector_sums(audio_in.astype(np.float32))
    utterances = [samples[:count] for count in (2000, 0, 300, 9000, 1700)] + [0 * samples.repeat(3)]
    sizes = np.array([len(each) for each in utterances])
    short = {"delta_pitch": 0.3, "upsample_filter_width": 1, "frames_per_chunk": 3}
    for changes in ({}, {"snip_edges": False, "recompute_frame": 9}, {"preemphasis_coefficient": 0.9}, short):
        track_block(np.concatenate(utterances), np.cumsum(sizes) - sizes, sizes, PitchOptions(**changes))
track = np.abs(rng.normal([0.5, 100], [0.3, 20], (500, 2))).astype(np.float32)
track[rng.random(500) < 0.4, 1] = 0
for level in library.levels:
    use(level)
    for bounds in ([0, 500], [0, 1, 2, 40, 500]):
        grids = RaggedGrids.from_features(track, np.array(bounds), InterpolatePitchOptions(), KaldiRandom())
        for change in (8.5, 12.0, 400.0):
            most_probable_paths(grids, InterpolatePitchOptions(max_pitch_change_per_frame=change))
for level in library.levels:
    use(level)
    for dim in (1, 13, 70):
        bounds = np.array([0, 1, 1, 9, 400])
        x = (rng.standard_normal((400, dim)) * 9).astype(np.float32)
        for firsts in ([0, -2], [-40, 30]):
            deltas.filter_block(x, bounds, [(1.0,), (0.5, 0.0, -0.5, 1.0)], firsts)
        columns.splice_block(x, bounds, SpliceOptions(left_context=3, right_context=20))
        cmvn.compute_statistics(x, bounds)
        cmvn.compute_statistics(x, bounds, weights=x[:, 0].copy())
        sums.products(x, bounds, x)
        products.multiply_by_transpose(x, x[:7], bounds)
        products.multiply_vectors(x[:7], x, x[:7, 0].copy())
        for center, norm_vars in ((True, False), (False, True)):
            window = {"cmn_window": 30, "min_cmn_window": 7, "center": center, "norm_vars": norm_vars}
            cmvn.normalize_by_sliding_windows(x, bounds, SlidingCmvnOptions(**window))
        for mean, average in ((151, 5), (1, 1), (3, 901)):
            windows = SmoothPitchOptions(normalization_window_size=mean, average_window_size=average)
            if dim > 1:
                smooth_utterances(abs(x) / 99, bounds, windows)
        for left, right in ((3, 900), (-1, 0), (500, -1)):
            means.compute_window_means(x[:, 0], x[:, -1], bounds, left, right)
        vad.detect_voiced(x, bounds, VadOptions(vad_frames_context=2))
    for taps, count in ((1, 1), (2, 9), (5, 3), (100, 2000), (801, 30)):
        convolution._convolve_in_c(*(samples[:size].astype(np.float32) for size in (count, taps)))
print("done")
"""


@pytest.mark.skipif(COMPILER is None or platform.machine() != "x86_64", reason="needs a C compiler on x86-64")
@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    assert COMPILER is not None
    # No symbols of lines, and no check of pointers that nothing is read by: half of the time of compilation.
    common = [COMPILER, "-std=c99", "-O1", "-fPIC", "-ffp-contract=off", "-fno-sanitize-recover=all"]
    common += ["-fsanitize=address,undefined", "-fno-sanitize=pointer-overflow", f"-I{ROOT / 'io_ark/native'}"]
    common += ["-DHAVE_SSE2", "-DHAVE_AVX2", "-DHAVE_AVX512", *build.identity("kaldi_compat.native")]
    objects = []
    for source in sorted((ROOT / "kaldi_compat/native").glob("*_simd.c")):
        for level, flags in build.LEVELS.items():
            objects.append(str(tmp_path / f"{source.stem}_{level}.o"))
            built = subprocess.run(
                [*common, *flags, f"-DSIMD_LEVEL={level}", "-c", str(source), "-o", objects[-1]], check=False
            )
            if built.returncode:
                pytest.skip("the compiler has no sanitizers, or not these instruction sets")
    levels_source = str(ROOT / "io_ark/native/simd_levels.c")
    subprocess.run([*common, "-shared", levels_source, *objects, "-lm", "-o", str(tmp_path / "_native.so")], check=True)
    shutil.copy(ROOT / "kaldi_compat/native/signatures.txt", tmp_path)
    runtime = subprocess.run([COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    settings = {"LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "KALDI_COMPAT_NATIVE": "1"}
    environment = os.environ | settings
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr[-3000:]


SOURCES = [path for package in build.PACKAGES for path in build.sources_of(package)]


@pytest.mark.costly
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("level", build.LEVELS)
# What is used uninitialized shows when a compiler optimizes, which takes half a minute.
@pytest.mark.parametrize("how", ["-fsyntax-only", pytest.param("-c", marks=pytest.mark.slow)])
def test_c_files_compile_without_warnings(how: str, level: str, tmp_path: Path) -> None:
    macros = [f"-DSIMD_LEVEL={level}", *(f"-DHAVE_{name.upper()}" for name in build.LEVELS)]
    macros += build.identity(build.PACKAGES[0])
    folders = [f"-I{Path(*package.split('.'))}" for package in build.PACKAGES]
    flags = [*build.FLAGS, *build.LEVELS[level], "-Werror", *macros, *folders, how]
    for source in SOURCES:
        target = [] if how == "-fsyntax-only" else ["-o", str(tmp_path / "object")]
        done = subprocess.run([str(COMPILER), *flags, str(source), *target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries round otherwise")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the levels are those of x86")
@pytest.mark.parametrize("level", build.LEVELS)
def test_every_draw_and_every_number_is_as_in_the_c_library(level: str, tmp_path: Path) -> None:
    if level not in f"sse2 {Path('/proc/cpuinfo').read_text()}":
        pytest.skip("the processor does not support this level")
    program = tmp_path / "noise"
    flags = ["-O2", "-std=gnu99", "-ffp-contract=off", "-fno-builtin", f"-I{ROOT / 'kaldi_compat' / 'native'}"]
    source = str(Path(__file__).with_name("noise.c"))
    subprocess.run([str(COMPILER), *flags, *build.LEVELS[level], source, "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.startswith("0 draws are wrong"), done.stdout[-2000:]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("flag", ["-Ofast", "-ffast-math", "-funsafe-math-optimizations"])
def test_libraries_linked_with_fast_math_leave_denormals_to_the_process(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source.c").write_text("int number(void) { return 3; }")
    objects = [str(tmp_path / "source.o")]
    subprocess.run([str(COMPILER), "-fPIC", "-c", str(tmp_path / "source.c"), "-o", *objects], check=True)
    monkeypatch.setenv("CC", f"{COMPILER} {flag}")
    monkeypatch.setenv("LDFLAGS", flag)
    build.run(build.link_command(objects, tmp_path / "library.so"))
    script = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(5e-324 * 1.0 != 0)"
    command = [sys.executable, "-c", script, str(tmp_path / "library.so")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.skipif(COMPILER is None or platform.machine() != "x86_64", reason="needs a C compiler on x86-64")
def test_flags_of_the_user_that_our_own_do_not_undo_are_refused(tmp_path: Path) -> None:
    source = str(ROOT / "kaldi_compat/native/spectral_simd.c")
    includes = [f"-I{ROOT / 'io_ark/native'}", f"-I{ROOT / 'kaldi_compat/native'}"]
    command = [str(COMPILER), "-mfpmath=387", *build.FLAGS, "-DSIMD_LEVEL=sse2", *includes, "-fsyntax-only", source]
    done = subprocess.run(command, capture_output=True, text=True)
    if "387" in done.stderr and "instruction set" in done.stderr:
        pytest.skip("not a flag of this compiler")
    assert done.returncode and "leave -mfpmath=387 out of CFLAGS" in done.stderr
