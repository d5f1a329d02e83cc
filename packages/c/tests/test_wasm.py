"""The WebAssembly build and its JavaScript, in Node, against the exact engine and the stored outputs, byte for byte."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import list_presets
from kaldi_explain.conform_command import conform_command
from packages.c.tests.c_header import FOLDER, KINDS_BY_NAME, Array, exact_features, random_audio, random_options, speech

WASM = FOLDER / "wasm"
NODE = shutil.which("node") or ""
BUILDS: dict[str, tuple[str, ...]] = {"simd": (), "scalar": ("--scalar",)}
pytestmark = pytest.mark.skipif(not WASM.exists(), reason="not the sources of the project")
needs_node = pytest.mark.skipif(not NODE, reason="no node")


def built() -> Any:
    """Return the module ``packages/c/wasm/build.py``."""
    spec = importlib.util.spec_from_file_location("wasm_build", WASM / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: str, *arguments: str) -> Any:
    """Run JavaScript in Node with the package as ``K``, and return the value of its variable ``result``."""
    package = json.dumps((WASM / "kaldi_features.js").as_uri())
    text = f"import * as K from {package};\n{script}\nconsole.log(JSON.stringify(result));"
    command = [NODE, "--input-type=module", "-", *arguments]
    ended = subprocess.run(command, input=text, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_files_are_made_of_the_header_that_is_here() -> None:
    made, build = json.loads((WASM / "build.json").read_text()), built()
    current = {"kaldi_features.h": build.compute_digest(build.HEADER)} | {
        name: build.compute_digest(WASM / name) for name in build.FLAGS
    }
    assert {name: made[name] for name in current} == current, "python packages/c/wasm/build.py builds them again"
    assert all((WASM / name).stat().st_size < 120_000 for name in build.FLAGS)


@pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="no ziglang")
def test_the_same_compiler_gives_the_same_bytes(tmp_path: Path) -> None:
    built().build_files(tmp_path)
    made = json.loads((tmp_path / "build.json").read_text())
    if made["compiler"] == json.loads((WASM / "build.json").read_text())["compiler"]:
        assert all((tmp_path / name).read_bytes() == (WASM / name).read_bytes() for name in built().FLAGS)


def test_types_and_version_are_those_of_the_header() -> None:
    header, types = (FOLDER / "kaldi_features.h").read_text(), (WASM / "kaldi_features.d.ts").read_text()
    names = re.findall(r"KF__(?:FIELD|FLAG|REAL)\((\w+), [^)]", header)
    declared = re.findall(r"^  (\w+)\?:", types.partition("interface Options {")[2].partition("\n}")[0], re.M)
    assert sorted({*names} - {"name", "feature", "num_statistics"}) == sorted({*declared} - {"statistics"})
    exported = set(
        re.findall(r"^export (?:async )?(?:function|class) (\w+)", (WASM / "kaldi_features.js").read_text(), re.M)
    )
    assert exported == set(re.findall(r"^export (?:declare )?(?:function|class) (\w+)", types, re.M))
    version = re.findall(r'#define KF_VERSION "(.*)"', header)
    assert [json.loads((WASM / "package.json").read_text())["version"]] == version


@needs_node
@pytest.mark.parametrize("build", BUILDS)
def test_kit_is_equal_in_all_bits(build: str) -> None:
    card = conform_command([NODE, str(WASM / "conform.mjs"), *BUILDS[build], "{list.json}"], level=[1, 2, 8])
    counts = [[result.grade for result in card.results].count(grade) for grade in ("bits", "not supported")]
    assert counts == [16 + 26 + 104, 24 + 18], str(card)


def answers(folder: Path, seeds: range, build: str) -> list[tuple[Array, Array]]:
    """Return the features of the WebAssembly build and of the exact engine for random options from each seed."""
    vectors, expected = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        name, options, values = random_options(rng)
        audio = random_audio(rng)
        (folder / f"{seed}.f32").write_bytes(audio.astype(np.float32).tobytes())
        plain = {key: value if isinstance(value, str) else float(value) for key, value in values.items()}
        vectors.append({"audio": str(folder / f"{seed}.f32"), "out": str(folder / f"{seed}.npy"),
                        "options": {"program": f"compute-{name}-feats", **plain}})  # fmt: skip
        expected.append(exact_features(options, audio))
    (folder / "list.json").write_text(json.dumps(vectors))
    subprocess.run([NODE, str(WASM / "conform.mjs"), *BUILDS[build], str(folder / "list.json")], check=True)
    return [(np.load(folder / f"{seed}.npy"), each) for seed, each in zip(seeds, expected, strict=True)]


@needs_node
@pytest.mark.parametrize("build", BUILDS)
def test_features_are_those_of_the_exact_engine(tmp_path: Path, build: str) -> None:
    for found, expected in answers(tmp_path, range(5000, 5060), build):
        assert found.shape == expected.shape and found.tobytes() == expected.tobytes()


@needs_node
@pytest.mark.filterwarnings("ignore:the preset .* normalizes by statistics")
def test_every_preset_takes_audio_in_minus_one_to_one(tmp_path: Path) -> None:
    audio = (speech()[:16000] / 32768).astype(np.float32)
    (tmp_path / "audio").write_bytes(audio.tobytes())
    script = """
    import { readFileSync, writeFileSync } from "node:fs";
    const [folder] = process.argv.slice(2), bytes = readFileSync(folder + "/audio");
    const audio = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const result = {};
    for (const name of await K.presetNames()) {
      const frontend = await K.Fbank.fromPreset(name, { statistics: null });
      const features = frontend.compute(audio);
      const again = frontend.compute(Int16Array.from(audio, (x) => x * 32768));
      writeFileSync(`${folder}/${name}`, features.data);
      const differs = Buffer.compare(Buffer.from(features.data.buffer), Buffer.from(again.data.buffer));
      result[name] = [features.frames, features.dim, differs];
    }
    """
    shapes = run(script, str(tmp_path))
    assert sorted(shapes) == sorted(list_presets())
    for name, (frames, dim, differs) in shapes.items():
        expected = Frontend.from_preset(name)(audio)
        assert expected.shape == (frames, dim) and not differs, name
        assert (tmp_path / name).read_bytes() == expected.tobytes(), name


@needs_node
def test_kaldis_defaults_take_audio_in_minus_one_to_one(tmp_path: Path) -> None:
    script = """
    const audio = Float32Array.from({ length: 4000 }, (_, n) => (n * 7919 % 2001 - 1000) / 32768);
    const frontend = await K.Mfcc.create({ dither: 0, "num-ceps": 12, use_energy: false });
    const result = [...frontend.compute(audio).data];
    """
    audio = np.array([n * 7919 % 2001 - 1000 for n in range(4000)], np.float32)
    expected = exact_features(KINDS_BY_NAME["mfcc"](dither=0.0, num_ceps=12, use_energy=False), audio)
    assert np.array(run(script), np.float32).tobytes() == expected.tobytes()


@needs_node
def test_statistics_and_chunks() -> None:
    script = """
    const audio = Float32Array.from({ length: 9000 }, (_, n) => (n * 7919 % 2001 - 1000) / 32768);
    const shift = new Float32Array(560).fill(-1.5), scale = new Float32Array(560).fill(0.25);
    const plain = (await K.Fbank.fromPreset("paraformer", { statistics: null })).compute(audio);
    const frontend = await K.Fbank.fromPreset("paraformer", { statistics: { shift, scale } });
    const whole = frontend.compute(audio), parts = [];
    for (let at = 0; at < audio.length; at += 128) parts.push(frontend.accept(audio.subarray(at, at + 128)));
    parts.push(frontend.finish());
    const streamed = parts.flatMap(({ data }) => [...data]);
    const same = streamed.length === whole.data.length && streamed.every((x, n) => x === whole.data[n]);
    const result = [whole.frames, same,
      whole.data.every((x, n) => x === Math.fround(Math.fround(plain.data[n] - 1.5) * 0.25))];
    """
    assert run(script) == [9, True, True]


MISTAKES = {
    'await K.Fbank.fromPreset("whisper")': "this name: use those of Options and presetNames()",
    "await K.Fbank.create({ num_mel_bin: 80 })": "num_mel_bin=80: no option or preset has this name",
    "await K.Fbank.create({ num_mel_bins: 80.5 })": "num_mel_bins=80.5: an option is not a finite number",
    "await K.Fbank.create({ sample_frequency: NaN })": "sample_frequency=NaN: an option is not a finite number",
    "await K.Fbank.create({ sample_frequency: 0 })": "sample_frequency must be positive",
    "await K.Fbank.create({ num_mel_bins: 1000 })": "no bin of the FFT: use fewer mel bins, a wider band",
    "await K.Fbank.create({ num_mel_bins: 2 })": "num_mel_bins must be 3 or more: increase it",
    'await K.Fbank.fromPreset("paraformer")': "set shift and scale, or statistics to null",
    "(await K.Fbank.create()).compute([1, 2, 3])": "samples must be a Float32Array in -1 to 1, or an Int16Array",
    "(await K.Fbank.create()).compute()": "samples must be a Float32Array in -1 to 1, or an Int16Array",
    "(await K.Fbank.create()).compute(new Float32Array(0))": "the audio has no samples",
    "(await K.Fbank.create()).compute(new Float32Array(1000).fill(NaN))": "the audio holds NaN or infinity",
    '(await K.Fbank.fromPreset("wespeaker")).accept(new Float32Array(9))': "the whole utterance: use compute(),",
}


@needs_node
def test_mistakes_are_errors_of_one_line() -> None:
    cases = ", ".join(f"async () => {{ {code} }}" for code in MISTAKES)
    script = f"""
    const result = [];
    for (const each of [{cases}]) result.push(await each().then(() => "none", (error) => error.message));
    """
    for message, (code, expected) in zip(run(script), MISTAKES.items(), strict=True):
        assert expected in message and "\n" not in message, code


@needs_node
def test_remedy_for_too_little_memory_fits_what_needs_it() -> None:
    script = """
    const frontend = await K.Fbank.create();
    WebAssembly.Memory.prototype.grow = () => { throw new RangeError("no memory"); };
    const message = (error) => error.message;
    const result = [
      await K.Fbank.create({ num_mel_bins: 100000, allow_empty_bins: 1 }).catch(message),
      await Promise.resolve().then(() => frontend.compute(new Float32Array(10000000))).catch(message)];
    """
    tables, audio = run(script)
    assert tables.endswith("bytes of memory: use fewer mel bins, shorter frames or fewer stacked frames"), tables
    assert audio.endswith("bytes of memory: pass the audio to accept() in chunks"), audio
