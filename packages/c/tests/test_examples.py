"""The examples in C and Rust, and the build with CMake."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.frontends.numpy import Frontend
from kaldi_explain.conform_command import conform_command
from packages.c.tests.c_header import (
    COMPILERS,
    FOLDER,
    KINDS_BY_NAME,
    WARNINGS,
    Array,
    compiled,
    exact_features,
    needs_compiler,
    speech,
)

pytestmark = needs_compiler


def printed(command: list[str | Path], audio: bytes = b"") -> Array:
    ended = subprocess.run(command, input=audio, capture_output=True, check=True)
    return np.array([line.split() for line in ended.stdout.decode().splitlines()], np.float32)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_wave_file_to_features(tmp_path: Path, compiler: str) -> None:
    source = FOLDER / "examples" / "wav_to_fbank.c"
    program = compiled(tmp_path, source, "-std=c99", "-O2", *WARNINGS, compiler=compiler)
    wave = FOLDER.parents[1] / "reference_data" / "inputs" / "wav" / "speech16k.wav"
    samples = np.frombuffer(wave.read_bytes()[44:], np.int16)
    found = printed([program, "campplus", wave])
    assert found.tobytes() == Frontend.from_preset("campplus")(samples).tobytes()
    assert graded(["--file", str(program)]) == ["bits"] * 16
    with pytest.raises(subprocess.CalledProcessError) as error:
        printed([program, "whisper", wave])
    assert b"no option or preset has this name" in error.value.stderr


def test_samples_from_standard_input(tmp_path: Path) -> None:
    program = compiled(tmp_path, FOLDER / "examples" / "online.c", "-std=c99", "-O2", *WARNINGS)
    for count in (0, 100, 16001):
        found = printed([program, "zipformer", "num-mel-bins=40"], speech()[:count].tobytes())
        options = KINDS_BY_NAME["fbank"](dither=0.0, num_mel_bins=40, snip_edges=False, high_freq=-400)
        scaled = dataclasses.replace(options, waveform_scale=1 / 32768)
        assert found.tobytes() == exact_features(scaled, speech()[:count]).tobytes()


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
def test_rust(tmp_path: Path) -> None:
    compiled(tmp_path, FOLDER / "kaldi_features.c", "-O2", "-c")
    subprocess.run(["ar", "rcs", "libkaldi_features.a", "program"], cwd=tmp_path, check=True)
    command = ["rustc", "-D", "warnings", "-O", "-L", ".", FOLDER / "examples" / "fbank.rs", "-o", "fbank"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = printed([tmp_path / "fbank", "zipformer"], speech()[:16001].tobytes())
    assert found.tobytes() == Frontend.from_preset("zipformer")(speech()[:16001]).tobytes()
    assert graded([str(tmp_path / "fbank")]) == ["bits"] * 16


def graded(example: list[str]) -> list[str]:
    """Return the grades of an example at level 1 of the kit."""
    card = conform_command([sys.executable, str(FOLDER / "examples" / "grade.py"), *example, "{list.json}"], level=[1])
    return [result.grade for result in card.results]


@pytest.mark.skipif(not shutil.which("cmake"), reason="no CMake")
def test_installed_library_is_found_by_pkg_config(tmp_path: Path) -> None:
    for command in (["cmake", "-S", FOLDER, "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path}/installed",
                     "-DCMAKE_INSTALL_LIBDIR=lib", "-DBUILD_TESTING=OFF"],
                    ["cmake", "--build", "build"], ["cmake", "--install", "build"]):  # fmt: skip
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    described = (tmp_path / "installed" / "lib" / "pkgconfig" / "kaldi_features.pc").read_text()
    assert f"libdir={tmp_path}/installed/lib\n" in described and "-lkaldi_features" in described
    assert (tmp_path / "installed" / "include" / "kaldi_features.h").exists()
