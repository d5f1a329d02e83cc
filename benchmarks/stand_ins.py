"""Each library that we stand in for beside its stand-in, call by call, for the pages on migrating.

    OMP_NUM_THREADS=1 python benchmarks/stand_ins.py [kaldiio torchaudio ...] [--rounds 15] [--record]

Prints milliseconds of processor time, the least of several rounds in which the two take turns. A library that cannot be
imported is left out, and its stored figures stay.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from figures import Table, report
from measuring import Work, make_parser, measure_least_times

RATE = 16000
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/stand_ins.py"
Cases = dict[str, dict[str, Work]]  # Work by row and column of the table. A column is a kind of data, such as "10 s".


def make_samples(seconds: float) -> np.ndarray:
    """Return noise on the scale of 16-bit integers, as float32."""
    return (1000 * np.random.default_rng(0).standard_normal(int(seconds * RATE))).astype(np.float32)


def make_matrices() -> list[tuple[str, np.ndarray]]:
    """Return 500 float32 matrices of 200 to 800 frames of 80, 81 MB."""
    rng = np.random.default_rng(0)
    frames = rng.integers(200, 800, 500)
    return [(f"utt{i:03}", rng.standard_normal((n, 80), dtype=np.float32)) for i, n in enumerate(frames)]


def write_inputs(values: list[tuple[str, np.ndarray]]) -> None:
    """Write the matrices to archives and script files in the current folder, plain and compressed."""
    import io_ark

    for name, compress in (("plain", None), ("small", 2)):
        with io_ark.writer(f"ark,scp:{name}.ark,{name}.scp", compress=compress) as writer:
            for key, matrix in values:
                writer[key] = matrix


def repeat(count: int, work: Work) -> Work:
    """Return a function that does the work several times."""

    def repeated() -> None:
        for _ in range(count):
            work()

    return repeated


def list_kaldiio_cases(lib: Any) -> Cases:
    """Return the calls of kaldiio: mappings, archives and writers."""
    values = make_matrices()
    write_inputs(values)
    Path("short.scp").write_text("".join(Path("plain.scp").read_text().splitlines(keepends=True)[:100]))

    def write(specifier: str, **options: Any) -> Work:
        def work() -> None:
            with lib.WriteHelper(specifier, **options) as writer:
                for key, matrix in values:
                    writer(key, matrix)

        return work

    def look_up(name: str) -> Work:
        return lambda: list(lib.load_scp(name).values())

    return {
        "`load_scp`, all values": {"": look_up("plain.scp")},
        "`load_scp` of 100 lines, no values, 100 times": {"": repeat(100, lambda: lib.load_scp("short.scp"))},
        "`load_ark`": {"": lambda: [matrix for _, matrix in lib.load_ark("plain.ark")]},
        "`load_scp`, compressed (method 2)": {"": look_up("small.scp")},
        "`load_ark`, compressed": {"": lambda: [matrix for _, matrix in lib.load_ark("small.ark")]},
        "`WriteHelper`, archive and script file": {"": write("ark,scp:out.ark,out.scp")},
        "`WriteHelper`, compressed": {"": write("ark:out.ark", compression_method=2)},
    }


def list_kaldi_native_io_cases(lib: Any) -> Cases:
    """Return the calls of kaldi_native_io: typed readers and writers."""
    values = make_matrices()
    write_inputs(values)

    def read(specifier: str) -> Work:
        def work() -> None:
            with lib.SequentialFloatMatrixReader(specifier) as reader:
                for _ in reader:
                    pass

        return work

    def look_up(specifier: str) -> Work:
        def work() -> None:
            with lib.RandomAccessFloatMatrixReader(specifier) as reader:
                for key, _ in values:
                    reader[key]

        return work

    def write() -> None:
        with lib.FloatMatrixWriter("ark,scp:out.ark,out.scp") as writer:
            for key, matrix in values:
                writer[key] = matrix

    def compress() -> None:
        with lib.CompressedMatrixWriter("ark:out.ark") as writer:
            for key, matrix in values:
                writer.write(key, matrix, lib.CompressionMethod.kAutomaticMethod)

    return {
        "`SequentialFloatMatrixReader`, `scp:`": {"": read("scp:plain.scp")},
        "`SequentialFloatMatrixReader`, `ark:`": {"": read("ark:plain.ark")},
        "`RandomAccessFloatMatrixReader`": {"": look_up("scp:plain.scp")},
        "`SequentialFloatMatrixReader`, `scp:`, compressed": {"": read("scp:small.scp")},
        "`RandomAccessFloatMatrixReader`, compressed": {"": look_up("scp:small.scp")},
        "`FloatMatrixWriter`, archive and script file": {"": write},
        "`CompressedMatrixWriter`": {"": compress},
    }


def list_kaldi_io_cases(lib: Any) -> Cases:
    """Return the calls of kaldi_io: generators, and matrices that are written to an open file."""
    values = make_matrices()
    write_inputs(values)

    def write() -> None:
        with open("out.ark", "wb") as file:
            for key, matrix in values:
                lib.write_mat(file, matrix, key)

    return {
        "`read_mat_scp`": {"": lambda: [matrix for _, matrix in lib.read_mat_scp("plain.scp")]},
        "`read_mat_ark`": {"": lambda: [matrix for _, matrix in lib.read_mat_ark("plain.ark")]},
        "`write_mat` to an open file": {"": write},
    }


def list_torchaudio_cases(lib: Any) -> Cases:
    """Return the calls of torchaudio.compliance.kaldi: functions of one utterance."""
    import torch

    audio = {f"{seconds} s": torch.from_numpy(make_samples(seconds))[None] for seconds in (10, 1)}
    options: dict[str, dict[str, Any]] = {"fbank": {"num_mel_bins": 80}, "mfcc": {}, "spectrogram": {}}
    return {
        f"`{name}`": {length: partial(getattr(lib, name), x, dither=0.0, **chosen) for length, x in audio.items()}
        for name, chosen in options.items()
    }


def list_kaldifeat_cases(lib: Any) -> Cases:
    """Return the calls of kaldifeat: features of one utterance and of a list of utterances."""
    import torch

    cases: Cases = {}
    for name in ("Fbank", "Mfcc", "Plp", "Spectrogram"):
        options = getattr(lib, f"{name}Options")()
        options.frame_opts.dither = 0
        if name == "Fbank":
            options.mel_opts.num_bins = 80
        feature = getattr(lib, name)(options)
        one, many = torch.from_numpy(make_samples(10)), [torch.from_numpy(make_samples(1))] * 32
        label = "`Fbank` (80 bins)" if name == "Fbank" else f"`{name}`"
        cases[label] = {
            "10 s": partial(feature, one),
            "32 x 1 s": partial(feature, many),
        }
    return cases


def list_kaldi_native_fbank_cases(lib: Any) -> Cases:
    """Return the calls of kaldi_native_fbank: streams, whose frames are read one by one, and functions of frames."""
    whole = make_samples(10) / 32768

    def options(name: str) -> Any:
        if name == "WhisperFbank":
            return lib.WhisperFeatureOptions()
        if name in ("RawAudioSamples", "NemoFbank"):
            return getattr(lib, f"{name}Options")()
        chosen = getattr(lib, f"{name}Options")()
        chosen.frame_opts.dither = 0
        if name == "Fbank":
            chosen.mel_opts.num_bins = 80
        return chosen

    def frames(name: str, chunks: list[Any]) -> Work:
        def work() -> None:
            feature = getattr(lib, f"Online{name}")(options(name))
            get_frame, done = getattr(feature, "get_frame", None) or partial(feature.get_frames, n=1), 0
            for chunk in chunks:
                feature.accept_waveform(RATE, chunk)
                for i in range(done, feature.num_frames_ready):
                    get_frame(i)
                done = feature.num_frames_ready

        return work

    def read_later(chunks: list[Any]) -> None:
        feature = lib.OnlineFbank(options("Fbank"))
        for chunk in chunks:
            feature.accept_waveform(RATE, chunk)
        for i in range(feature.num_frames_ready):
            feature.get_frame(i)

    def transform() -> None:
        lib.Stft(lib.StftConfig(n_fft=512, hop_length=160, win_length=400))(whole.tolist())

    def pitch() -> None:
        lib.compute_and_process_kaldi_pitch(
            lib.PitchExtractionOptions(), lib.ProcessPitchOptions(), (32768 * whole).tolist()
        )

    def split(seconds: float) -> list[np.ndarray]:
        return np.split(whole, round(10 / seconds))

    chunks = [chunk.tolist() for chunk in split(0.01)]
    frame, power, frames198 = whole[:512].tolist(), np.ones(257, np.float32), np.ones((198, 80), np.float32)
    banks, window = lib.MelBanks(), lib.FeatureWindowFunction(lib.FrameExtractionOptions())
    return {
        "`OnlineFbank` (80 bins), 10 s as a list": {"": frames("Fbank", [whole.tolist()])},
        "10 s as an array": {"": frames("Fbank", [whole])},
        "10 s in chunks of 100 ms as arrays": {"": frames("Fbank", split(0.1))},
        "10 s in chunks of 10 ms as arrays": {"": frames("Fbank", split(0.01))},
        "10 s in chunks of 10 ms as lists": {"": frames("Fbank", chunks)},
        "10 s in chunks of 10 ms as lists, frames read at the end": {"": partial(read_later, chunks)},
        "0.5 s as a list": {"": frames("Fbank", [whole[:8000].tolist()])},
        "`OnlineMfcc`, 10 s as a list": {"": frames("Mfcc", [whole.tolist()])},
        "`OnlineWhisperFbank`, 10 s as a list": {"": frames("WhisperFbank", [whole.tolist()])},
        "`Stft`, 10 s": {"": transform},
        "`compute_and_process_kaldi_pitch`, 10 s": {"": pitch},
        "`OnlineRawAudioSamples`, 10 s in chunks of 10 ms": {"": frames("RawAudioSamples", chunks)},
        "`OnlineNemoFbank`, 10 s in chunks of 10 ms": {"": frames("NemoFbank", chunks)},
        "`Rfft(512)` of a list, 1,000 times": {"": repeat(1000, lambda: lib.Rfft(512).compute(frame))},
        "`MelBanks()`, 100 times": {"": repeat(100, lib.MelBanks)},
        "`MelBanks.compute`, 1,000 times": {"": repeat(1000, lambda: banks.compute(power))},
        "`FeatureWindowFunction.apply` of a list, 1,000 times": {"": repeat(1000, lambda: window.apply(frame[:400]))},
        "`splice_frames` of 198 frames, 1,000 times": {"": repeat(1000, lambda: lib.splice_frames(frames198))},
    }


def list_lhotse_cases(lib: Any) -> Cases:
    """Return the calls of lhotse: extractors of one recording and of a batch."""
    cases: Cases = {}
    for label, name in (("fbank", "Fbank"), ("MFCC", "Mfcc")):
        extractor = getattr(lib, name)(getattr(lib, f"{name}Config")())
        many = [make_samples(1) / 32768] * 32
        cases[label] = {
            "10 s": partial(extractor.extract, make_samples(10) / 32768, RATE),
            "1 s": partial(extractor.extract, make_samples(1) / 32768, RATE),
            "32 x 1 s": partial(extractor.extract_batch, many, RATE),
        }
    return cases


def list_transformers_cases(lib: Any) -> Cases:
    """Return the calls of transformers: extractors of four utterances of 10 s, padded to tensors."""
    audio = [make_samples(10) / 32768] * 4
    names = {"Speech2Text": "Speech2Text", "SeamlessM4T": "SeamlessM4T", "AST": "AST",
             "Phi-4-multimodal": "Phi4Multimodal", "LASR": "Lasr"}  # fmt: skip
    cases: Cases = {}
    for label, name in names.items():
        extractor = getattr(lib, f"{name}FeatureExtractor")()
        cases[label] = {"": partial(extractor, audio, sampling_rate=RATE, return_tensors="pt")}
    return cases


# Maps a library to its module, the stand-in's module, the calls, and the head of the rows.
LIBRARIES: dict[str, tuple[str, str, Callable[[Any], Cases], str]] = {
    "kaldiio": ("kaldiio", "kaldi_standins.kaldiio", list_kaldiio_cases, "call"),
    "kaldi_native_io": ("kaldi_native_io", "kaldi_standins.kaldi_native_io", list_kaldi_native_io_cases, "class"),
    "kaldi_io": ("kaldi_io", "kaldi_standins.kaldi_io", list_kaldi_io_cases, "function"),
    "torchaudio": ("torchaudio.compliance.kaldi", "kaldi_standins.torchaudio", list_torchaudio_cases, "function"),
    "kaldifeat": ("kaldifeat", "kaldi_standins.kaldifeat", list_kaldifeat_cases, "feature"),
    "kaldi_native_fbank": (
        "kaldi_native_fbank", "kaldi_standins.kaldi_native_fbank", list_kaldi_native_fbank_cases, "call",
    ),
    "lhotse": ("lhotse", "kaldi_standins.lhotse", list_lhotse_cases, "feature"),
    "transformers": ("transformers", "kaldi_standins.transformers", list_transformers_cases, "extractor"),
}  # fmt: skip


def compare(name: str, rounds: int) -> Table:
    """Measure all calls of a library and of its stand-in in turns, and return the table."""
    original, ours, cases, head = LIBRARIES[name]
    theirs, stand_in = (cases(importlib.import_module(module)) for module in (original, ours))
    columns, rows = [head], []
    for row, works in theirs.items():
        rows.append([row])
        for case, work in works.items():
            heads = [f"{who}{', ' if case else ''}{case}: ms" for who in (name, "stand-in")]
            columns += [column for column in heads if column not in columns]
            timings = measure_least_times(
                {name: work, "stand-in": stand_in[row][case]}, rounds, written=partial(Path().glob, "out.*")
            )
            rows[-1] += [f"{1000 * seconds:.3g}" for seconds in timings.values()]
    return Table(COMMAND, columns, rows)


@contextmanager
def in_scratch_folder() -> Iterator[None]:
    """Work in a folder that is removed afterwards, in memory where there is one."""
    place, old = Path("/dev/shm"), Path.cwd()
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(old)


def main() -> None:
    """Compare the libraries on the command line, or all."""
    parser = make_parser(__doc__)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"of {', '.join(LIBRARIES)}; default: all")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in chosen.libraries or LIBRARIES:
        if name not in LIBRARIES:
            parser.error(f"unknown library {name!r}: choose from {', '.join(LIBRARIES)}")
        try:
            importlib.import_module(LIBRARIES[name][0])
        except (ImportError, OSError) as error:
            print(f"{name}: left out ({error})")
            continue
        with in_scratch_folder():
            table = compare(name, chosen.rounds)
        report(f"stand-in-{name}", table)


if __name__ == "__main__":
    main()
