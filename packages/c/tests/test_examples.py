"""The examples in C and Rust, and the build with CMake."""

from __future__ import annotations

import dataclasses
import re
import shutil
import struct
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

# The tests run in one process, which compiles the examples once.
pytestmark = [needs_compiler, pytest.mark.xdist_group("examples in C")]


def printed(command: list[str | Path], audio: bytes = b"") -> Array:
    ended = subprocess.run(command, input=audio, capture_output=True, check=True)
    return np.array([line.split() for line in ended.stdout.decode().splitlines()], np.float32)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the programs of the examples in C."""
    made = {}
    for name in ("wav_to_fbank", "online"):
        source = FOLDER / "examples" / f"{name}.c"
        made[name] = compiled(tmp_path_factory.mktemp(name), source, "-std=c99", "-O2", *WARNINGS)
    return made


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.c")), ids=lambda path: path.name)
def test_programs_compile_without_warnings(tmp_path: Path, path: Path, compiler: str) -> None:
    compiled(tmp_path, path, "-std=c99", "-fsyntax-only", *WARNINGS, compiler=compiler)


@pytest.mark.costly
def test_wave_file_to_features(examples: dict[str, Path]) -> None:
    program = examples["wav_to_fbank"]
    wave = FOLDER.parents[1] / "reference_data" / "inputs" / "wav" / "speech16k.wav"
    samples = np.frombuffer(wave.read_bytes()[44:], np.int16)
    found = printed([program, "campplus", wave])
    assert found.tobytes() == Frontend.from_preset("campplus")(samples).tobytes()
    assert graded(["--file", str(program)]) == ["bits"] * 16
    with pytest.raises(subprocess.CalledProcessError) as error:
        printed([program, "whisper", wave])
    assert b"no option or preset has this name" in error.value.stderr


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def wave_file(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def wave_format(tag: int = 1, channels: int = 1, rate: int = 16000, bits: int = 16) -> bytes:
    block = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits))


AUDIO = (3000 * np.sin(np.arange(4001) / 5)).astype("<i2").tobytes()
DATA = chunk(b"data", AUDIO)
EXTENSIBLE = struct.pack("<HHIIHHHHIH14s", 0xFFFE, 1, 16000, 32000, 2, 16, 22, 16, 4, 1, bytes(14))
# Chunks of wave files, and why the files are refused; "" for files that have the features of AUDIO.
WAVES = {
    "plain": (wave_format() + DATA, ""),
    "chunk before": (chunk(b"LIST", b"title") + wave_format() + chunk(b"fact", b"1234567") + DATA, ""),
    "chunk after": (wave_format() + DATA + chunk(b"LIST", b"title"), ""),
    "extensible": (chunk(b"fmt ", EXTENSIBLE) + DATA, ""),
    "from a pipe": (wave_format() + b"data\xff\xff\xff\xff" + AUDIO, ""),
    "stereo": (wave_format(channels=2) + DATA, "more than one channel"),
    "8 kHz": (wave_format(rate=8000) + DATA, "8000 Hz, but the features are those of 16000 Hz: resample it"),
    "8 bits": (wave_format(bits=8) + DATA, "not 16-bit PCM"),
    "float": (wave_format(tag=3, bits=32) + DATA, "not 16-bit PCM"),
    "mu-law": (wave_format(tag=7, bits=8) + DATA, "not 16-bit PCM"),
    "cut": (wave_format() + DATA[:-100], "the file ends before its samples"),
    "cut chunk": (wave_format() + b"LIST\xff\0\0\0ab", "the file ends within a chunk"),
    "no format": (DATA, "no format or no samples"),
    "no samples": (wave_format(), "no format or no samples"),
    "small format": (chunk(b"fmt ", b"\1\0\1\0") + DATA, "no format or no samples"),
    "nothing": (b"", "no format or no samples"),
}


def test_chunks_of_wave_files_are_walked_and_other_formats_refused(examples: dict[str, Path], tmp_path: Path) -> None:
    program = examples["wav_to_fbank"]
    expected, file = Frontend.from_preset("zipformer")(np.frombuffer(AUDIO, "<i2")), tmp_path / "a.wav"
    for name, (chunks, reason) in WAVES.items():
        file.write_bytes(wave_file(chunks))
        ended = subprocess.run([program, "zipformer", file], capture_output=True, text=True)
        if reason:
            assert (ended.returncode, ended.stdout) == (1, ""), name
            assert ended.stderr.startswith(f"wav_to_fbank: {file}: ") and reason in ended.stderr, name
        else:
            assert ended.returncode == 0, ended.stderr
            found = np.array([line.split() for line in ended.stdout.splitlines()], np.float32)
            assert found.tobytes() == expected.tobytes(), name
    file.write_bytes(b"OggS" + bytes(100))
    paths = {file: "not a wave file", tmp_path / "absent.wav": "cannot open", tmp_path: "cannot read"}
    for path, reason in paths.items():
        ended = subprocess.run([program, "zipformer", path], capture_output=True, text=True)
        assert ended.returncode == 1 and reason in ended.stderr
    count = 1800 * 16000  # The audio lasts half an hour.
    with open(file, "wb") as stream:
        stream.write(wave_file(wave_format() + b"data" + struct.pack("<I", 2 * count)))
        stream.truncate(44 + 2 * count)
    assert len(printed([program, "zipformer", file, "frame_shift=10000", "snip_edges=1"])) == 180


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["zipformer", "num_mel_binz=40"], "num_mel_binz: no option or preset has this name"),
        (["zipformer", "num_mel_bins=forty"], "num_mel_bins: an option is not a finite number"),
        (["zipformer", "num_mel_bins"], "num_mel_bins: write OPTION=VALUE"),
        (["zipfromer"], "zipfromer: no option or preset has this name"),
    ],
)
def test_errors_name_the_word(examples: dict[str, Path], tmp_path: Path, words: list[str], reason: str) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(wave_file(wave_format() + DATA))
    for command in ([examples["online"], *words], [examples["wav_to_fbank"], words[0], file, *words[1:]]):
        ended = subprocess.run(command, input="", capture_output=True, text=True)
        assert ended.returncode == 1 and f": {reason}" in ended.stderr and ended.stderr.count("\n") == 1


@pytest.mark.costly
@pytest.mark.parametrize("language", ["c", "c++"])
def test_examples_of_the_readme_compile(tmp_path: Path, language: str) -> None:
    blocks = re.findall("```c\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    lines = "".join(blocks).splitlines()
    includes = [line for line in lines if line.startswith("#")]
    body = ["int main(void) {", "float samples[1600] = {0};", "int64_t count = 1600;", *lines, "return 0; }"]
    source = "\n".join(includes + [line for line in body if not line.startswith("#")])
    standard = {"c": "-std=c99", "c++": "-std=c++17"}[language]
    compiled(tmp_path, source + "\n", "-x", language, standard, "-Wall", "-Wextra", "-Werror")


def test_a_wave_file_is_no_raw_audio(examples: dict[str, Path]) -> None:
    ended = subprocess.run([examples["online"]], input=wave_file(wave_format() + DATA), capture_output=True)
    assert ended.returncode == 1 and b"expected raw samples, not a wave file" in ended.stderr and not ended.stdout


def test_samples_from_standard_input(examples: dict[str, Path]) -> None:
    for count in (0, 100, 16001):
        found = printed([examples["online"], "zipformer", "num-mel-bins=40"], speech()[:count].tobytes())
        options = KINDS_BY_NAME["fbank"](dither=0.0, num_mel_bins=40, snip_edges=False, high_freq=-400)
        scaled = dataclasses.replace(options, waveform_scale=1 / 32768)
        assert found.tobytes() == exact_features(scaled, speech()[:count]).tobytes()


@pytest.mark.costly
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


@pytest.mark.costly
@pytest.mark.skipif(not shutil.which("cmake"), reason="no CMake")
def test_installed_library_is_found_by_pkg_config(tmp_path: Path) -> None:
    for command in (["cmake", "-S", FOLDER, "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path}/installed",
                     "-DCMAKE_INSTALL_LIBDIR=lib", "-DBUILD_TESTING=OFF"],
                    ["cmake", "--build", "build"], ["cmake", "--install", "build"]):  # fmt: skip
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    described = (tmp_path / "installed" / "lib" / "pkgconfig" / "kaldi_features.pc").read_text()
    assert f"libdir={tmp_path}/installed/lib\n" in described and "-lkaldi_features" in described
    assert (tmp_path / "installed" / "include" / "kaldi_features.h").exists()
