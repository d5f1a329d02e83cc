"""Adapters that run other implementations of Kaldi's features for the options of the conformance kit.

An adapter passes on the options that its library has. If an option that the library lacks does not have its default,
the adapter raises NotImplementedError, so that a library is judged only by the options that it offers.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conformance.by_programs import programs
from kaldi_explain.grading import vectors

Array = np.ndarray[Any, Any]
Options = dict[str, Any]
FBANK, MFCC, SPECTROGRAM = "compute-fbank-feats", "compute-mfcc-feats", "compute-spectrogram-feats"
ENERGY = ("energy_floor", "raw_energy")


@dataclass(frozen=True)
class Implementation:
    """A library that is scored.

    Attributes:
        name: name of the library.
        version: version or commit that is scored.
        note: remark on the library, which follows "This library" on the page.
        others: causes of differences that explain does not name, from reading the source and the arrays.
        compute: adapter for :func:`kaldi_explain.conform`, or None if ``command`` runs the library.
        command: command line for ``kaldi-compat conform``.
    """

    name: str
    version: str
    note: str = ""
    others: str = ""
    compute: Callable[[Array, Options], Array] | None = None
    command: tuple[str, ...] = ()


@functools.lru_cache(maxsize=1)
def defaults() -> dict[str, Options]:
    """Return Kaldi's defaults for each program, from the vectors of levels 1 and 2."""
    by_program: dict[str, Options] = {}
    for vector in vectors([1, 2]):
        by_program.setdefault(vector.options["program"], vector.options)
    return by_program


def take(options: Options, program: str, *known: str) -> types.SimpleNamespace:
    """Return the options as attributes.

    Raises:
        NotImplementedError: the options are for another program, or an option that is not in ``known`` does not have
            Kaldi's default.
    """
    plain = defaults()[program] if options["program"] == program else None
    free = {"program", "sample_frequency", "dither", *known}
    if not options.get("use_energy", True):
        free |= {*ENERGY}
    if plain is None or any(name not in free and value != plain.get(name) for name, value in options.items()):
        raise NotImplementedError
    return types.SimpleNamespace(**options)


def high(options: types.SimpleNamespace) -> float:
    """Return the upper edge of the filters in Hz."""
    return float(options.high_freq if options.high_freq > 0 else options.sample_frequency / 2 + options.high_freq)


def in_samples(options: types.SimpleNamespace) -> tuple[int, int]:
    """Return length and shift of frames in samples."""
    rate = options.sample_frequency / 1000
    return int(rate * options.frame_length), int(rate * options.frame_shift)


MELS = ("num_mel_bins", "low_freq", "high_freq")
FRAMES = ("frame_length", "frame_shift", "preemphasis_coefficient", "remove_dc_offset", "window_type", "snip_edges",
          "round_to_power_of_two", "blackman_coeff")  # fmt: skip
ALL = (*MELS, *FRAMES, *ENERGY, "htk_compat", "use_energy", "use_power", "use_log_fbank", "num_ceps", "cepstral_lifter",
       "vtln_warp", "vtln_low", "vtln_high", "subtract_mean")  # fmt: skip


def torchaudio(samples: Array, options: Options) -> Array:
    """torchaudio.compliance.kaldi."""
    import torch
    import torchaudio.compliance.kaldi as kaldi

    functions = {FBANK: kaldi.fbank, MFCC: kaldi.mfcc, SPECTROGRAM: kaldi.spectrogram}
    if options["program"] not in functions or options["window_type"] == "sine":
        raise NotImplementedError
    take(options, options["program"], *ALL)
    names = functions[options["program"]].__annotations__
    arguments = {name: value for name, value in options.items() if name in names}
    return functions[options["program"]](torch.from_numpy(samples.astype(np.float32))[None], **arguments).numpy()


def kaldi_native_fbank(samples: Array, options: Options) -> Array:
    """kaldi_native_fbank.OnlineFbank and OnlineMfcc."""
    import kaldi_native_fbank as knf

    kinds = {FBANK: (knf.FbankOptions, knf.OnlineFbank), MFCC: (knf.MfccOptions, knf.OnlineMfcc)}
    if options["program"] not in kinds:
        raise NotImplementedError
    chosen = take(options, options["program"], *set(ALL) - {"vtln_warp", "subtract_mean"}, "chunks", "output")
    kind, online = kinds[options["program"]]
    opts = kind()
    frame, mel = opts.frame_opts, opts.mel_opts
    frame.samp_freq, frame.dither, frame.preemph_coeff = chosen.sample_frequency, 0, chosen.preemphasis_coefficient
    frame.frame_length_ms, frame.frame_shift_ms = chosen.frame_length, chosen.frame_shift
    mel.num_bins = chosen.num_mel_bins
    for target, names in ((frame, FRAMES[3:]), (mel, ("low_freq", "high_freq", "vtln_low", "vtln_high")),
                          (opts, (*ENERGY, "htk_compat", "use_energy", "use_power", "use_log_fbank", "num_ceps",
                                  "cepstral_lifter"))):  # fmt: skip
        for name in names:
            if name in options and hasattr(target, name):
                setattr(target, name, options[name])
    extractor = online(opts)
    chunks, ready = options.get("chunks", [len(samples)]), []
    for number, part in enumerate(np.split(samples, np.cumsum(chunks)[:-1])):
        extractor.accept_waveform(chosen.sample_frequency, part.astype(np.float32).tolist())
        if number == len(chunks) - 1:
            extractor.input_finished()
        ready.append(extractor.num_frames_ready)
    if options.get("output") == "frames-ready":
        return np.array(ready)
    return np.array([extractor.get_frame(n) for n in range(ready[-1])])


def kaldifeat(samples: Array, options: Options) -> Array:
    """kaldifeat.Fbank, Mfcc, Plp and Spectrogram."""
    import kaldifeat
    import torch

    kinds = {FBANK: "Fbank", MFCC: "Mfcc", "compute-plp-feats": "Plp", SPECTROGRAM: "Spectrogram"}
    if options["program"] not in kinds:
        raise NotImplementedError
    more = ("lpc_order", "compress_factor", "cepstral_scale")
    chosen = take(options, options["program"], *set(ALL) - {"vtln_warp", "subtract_mean"}, *more)
    kind = kinds[chosen.program]
    opts = getattr(kaldifeat, f"{kind}Options")()
    names = {"sample_frequency": "samp_freq", "frame_length": "frame_length_ms", "frame_shift": "frame_shift_ms",
             "preemphasis_coefficient": "preemph_coeff", "num_mel_bins": "num_bins"}  # fmt: skip
    for name, value in (options | {"dither": 0.0}).items():
        for target in (opts, opts.frame_opts, getattr(opts, "mel_opts", None)):
            if hasattr(target, names.get(name, name)):
                setattr(target, names.get(name, name), value)
    return getattr(kaldifeat, kind)(opts)(torch.from_numpy(samples.astype(np.float32))).numpy()


NUMBERS = ("sample_frequency", "frame_shift", "frame_length", "preemphasis_coefficient", "remove_dc_offset",
           "round_to_power_of_two", "blackman_coeff", "snip_edges", "num_mel_bins", "low_freq", "high_freq", "vtln_low",
           "vtln_high", "use_energy", "raw_energy", "htk_compat", "energy_floor", "use_log_fbank", "use_power",
           "num_ceps", "cepstral_lifter")  # fmt: skip


def load_native_fbank_port(library: str) -> Callable[[Array, Options], Array]:
    """Return the adapter of a port of kaldi-native-fbank: a library made of knf_port.c or knf_port.rs."""

    def compute(samples: Array, options: Options) -> Array:
        if options["program"] not in (FBANK, MFCC):
            raise NotImplementedError
        chosen = take(options, options["program"], *set(ALL) - {"vtln_warp", "subtract_mean"})
        numbers = np.array([float(options.get(name, 0)) for name in NUMBERS], np.float32)
        audio = samples.astype(np.float32)
        out = np.zeros(len(audio) * (getattr(chosen, "num_mel_bins", 23) + 2) + 1, np.float32)
        arguments = (array.ctypes.data_as(ctypes.c_void_p) for array in (numbers, audio, out))
        values, waveform, room = arguments
        port, is_mfcc = ctypes.CDLL(library).knf_port, int(chosen.program == MFCC)
        count = port(is_mfcc, values, chosen.window_type.encode(), waveform, len(audio), room)
        if count < 0:
            raise RuntimeError("the port refuses the options")
        dim = chosen.num_ceps if chosen.program == MFCC else chosen.num_mel_bins + chosen.use_energy
        return out[:count].reshape(-1, dim)

    return compute


def knf(samples: Array, options: Options) -> Array:
    """knf of rouseabout, whose options are fixed."""
    take(options, FBANK, "num_mel_bins", "high_freq", "snip_edges")
    if (options["num_mel_bins"], options["high_freq"], options["snip_edges"]) != (80, -400.0, False):
        raise NotImplementedError
    library, rate = ctypes.CDLL(os.environ["KNF_ROUSEABOUT"]), int(options["sample_frequency"])
    library.knf_create.restype = ctypes.c_void_p
    library.knf_get_frame.restype = ctypes.POINTER(ctypes.c_float * 80)
    handle = ctypes.c_void_p(library.knf_create(rate, 80))
    audio = samples.astype(np.float32)
    library.knf_accept_waveform(handle, rate, audio.ctypes.data_as(ctypes.c_void_p), len(audio))
    library.knf_input_finished(handle)
    frames = [list(library.knf_get_frame(handle, n).contents) for n in range(library.knf_num_frames_ready(handle))]
    return np.array(frames, np.float32).reshape(-1, 80)


def lhotse(samples: Array, options: Options) -> Array:
    """lhotse.features.kaldi.layers.Wav2LogFilterBank and Wav2MFCC."""
    import torch
    from lhotse.features.kaldi.layers import Wav2LogFilterBank, Wav2MFCC

    layers = {FBANK: Wav2LogFilterBank, MFCC: Wav2MFCC}
    if options["program"] not in layers:
        raise NotImplementedError
    left_out = {"vtln_warp", "htk_compat", "subtract_mean", "use_log_fbank"}
    chosen = take(options, options["program"], *set(ALL) - left_out)
    if chosen.window_type == "sine":
        raise NotImplementedError
    ceps = {"num_ceps": chosen.num_ceps, "cepstral_lifter": chosen.cepstral_lifter} if chosen.program == MFCC else {}
    layer = layers[chosen.program](
        sampling_rate=int(chosen.sample_frequency), frame_length=chosen.frame_length / 1000, dither=0.0,
        frame_shift=chosen.frame_shift / 1000, round_to_power_of_two=chosen.round_to_power_of_two,
        remove_dc_offset=chosen.remove_dc_offset, preemph_coeff=chosen.preemphasis_coefficient,
        window_type=chosen.window_type, snip_edges=chosen.snip_edges, use_energy=chosen.use_energy,
        raw_energy=chosen.raw_energy, use_fft_mag=not getattr(chosen, "use_power", True), low_freq=chosen.low_freq,
        high_freq=chosen.high_freq, num_filters=chosen.num_mel_bins,
        energy_floor=chosen.energy_floor or float(np.finfo(np.float32).eps), **ceps,
    )  # fmt: skip
    return layer(torch.from_numpy(samples.astype(np.float32))[None])[0].numpy()


def transformers(samples: Array, options: Options) -> Array:
    """transformers.audio_utils, called as SeamlessM4T's and Speech2Text's feature extractors call it."""
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    known = set(FRAMES) - {"snip_edges", "blackman_coeff"}
    chosen = take(options, FBANK, *MELS, *known, "use_power")
    length, shift = in_samples(chosen)
    points = 1 << (length - 1).bit_length() if chosen.round_to_power_of_two else length
    names = {"hanning": "hann", "rectangular": "boxcar"}
    if chosen.window_type in ("sine", "blackman") or len(samples) < length:
        raise NotImplementedError
    window = window_function(length, names.get(chosen.window_type, chosen.window_type), periodic=False)
    filters = mel_filter_bank(points // 2 + 1, chosen.num_mel_bins, chosen.low_freq, high(chosen),
                              int(chosen.sample_frequency), norm=None, mel_scale="kaldi",
                              triangularize_in_mel_space=True)  # fmt: skip
    return spectrogram(
        samples.astype(np.float32), window, frame_length=length, hop_length=shift, fft_length=points, center=False,
        power=2.0 if chosen.use_power else 1.0, preemphasis=chosen.preemphasis_coefficient, mel_filters=filters,
        log_mel="log", mel_floor=1.192092955078125e-07, remove_dc_offset=chosen.remove_dc_offset,
    ).T  # fmt: skip


def python_speech_features(samples: Array, options: Options) -> Array:
    """python_speech_features.fbank and mfcc, with a povey window where the function takes one."""
    from python_speech_features import fbank, mfcc

    program = options["program"]
    if program not in (FBANK, MFCC):
        raise NotImplementedError
    chosen = take(options, program, *MELS, "frame_length", "frame_shift", "preemphasis_coefficient", "num_ceps",
                 "cepstral_lifter", "window_type")  # fmt: skip
    windows = {"povey": lambda n: np.hanning(n) ** 0.85, "hamming": np.hamming, "hanning": np.hanning,
               "rectangular": np.ones}  # fmt: skip
    if chosen.window_type not in windows:
        raise NotImplementedError
    length, _ = in_samples(chosen)
    common: dict[str, Any] = {
        "samplerate": chosen.sample_frequency, "winlen": chosen.frame_length / 1000,
        "preemph": chosen.preemphasis_coefficient,
        "winstep": chosen.frame_shift / 1000, "nfilt": chosen.num_mel_bins, "nfft": 1 << (length - 1).bit_length(),
        "lowfreq": chosen.low_freq, "highfreq": high(chosen), "winfunc": windows[chosen.window_type],
    }  # fmt: skip
    if program == FBANK:
        return np.log(fbank(samples, **common)[0])
    return mfcc(samples, numcep=chosen.num_ceps, ceplifter=chosen.cepstral_lifter, **common)


def librosa(samples: Array, options: Options) -> Array:
    """librosa.feature.melspectrogram with HTK's scale, no norm and frames that are not centered, then the logarithm."""
    import librosa

    chosen = take(options, FBANK, *MELS, "frame_length", "frame_shift", "window_type", "use_power")
    if chosen.window_type not in ("hamming", "hanning", "povey", "rectangular"):
        raise NotImplementedError
    length, shift = in_samples(chosen)
    window = {"povey": np.hanning(length) ** 0.85, "hamming": np.hamming(length), "hanning": np.hanning(length),
              "rectangular": np.ones(length)}[chosen.window_type]  # fmt: skip
    points = 1 << (length - 1).bit_length()
    energies = librosa.feature.melspectrogram(
        y=librosa.effects.preemphasis(samples.astype(np.float32)), sr=int(chosen.sample_frequency), n_fft=points,
        hop_length=shift, win_length=length, window=window, center=False, power=2.0 if chosen.use_power else 1.0,
        n_mels=chosen.num_mel_bins, fmin=chosen.low_freq, fmax=high(chosen), htk=True, norm=None,
    )  # fmt: skip
    return np.log(np.maximum(energies.T, np.finfo(np.float32).eps))


def speechbrain(samples: Array, options: Options) -> Array:
    """Compute speechbrain.lobes.features.Fbank, which is in decibels."""
    import torch
    from speechbrain.lobes.features import Fbank

    chosen = take(options, FBANK, *MELS, "frame_length", "frame_shift")
    length, _ = in_samples(chosen)
    layer = Fbank(sample_rate=int(chosen.sample_frequency), n_mels=chosen.num_mel_bins, f_min=int(chosen.low_freq),
                  f_max=int(high(chosen)), win_length=chosen.frame_length, hop_length=chosen.frame_shift,
                  n_fft=1 << (length - 1).bit_length())  # fmt: skip
    return layer(torch.from_numpy(samples.astype(np.float32))[None])[0].numpy()


def vbx(samples: Array, options: Options) -> Array:
    """VBx's features.py, called as its predict.py calls it."""
    import features as vbx_features

    known = set(FRAMES) - {"blackman_coeff", "round_to_power_of_two"}
    chosen = take(options, FBANK, *MELS, *known, "use_power")
    length, shift = in_samples(chosen)
    windows = {"povey": vbx_features.povey_window, "hamming": np.hamming, "hanning": np.hanning, "rectangular": np.ones}
    if chosen.window_type not in windows or len(samples) < length:
        raise NotImplementedError
    if not chosen.snip_edges:
        before, after = length // 2 - shift // 2, length // 2
        samples = np.r_[samples[before - 1 :: -1], samples, samples[-1 : -after - 1 : -1]]
    filters = vbx_features.mel_fbank_mx(length, chosen.sample_frequency, NUMCHANS=chosen.num_mel_bins,
                                        LOFREQ=chosen.low_freq, HIFREQ=high(chosen), htk_bug=False)  # fmt: skip
    return vbx_features.fbank_htk(samples, windows[chosen.window_type](length), length - shift, filters,
                                  USEPOWER=chosen.use_power, PREEMCOEF=chosen.preemphasis_coefficient,
                                  ZMEANSOURCE=chosen.remove_dc_offset)  # fmt: skip


def onnx_asr(samples: Array, options: Options) -> Array:
    """The graphs kaldi.onnx and wespeaker.onnx of onnx-asr, whose options are fixed."""
    chosen = take(options, FBANK, *ALL)
    asked = {name: value for name, value in options.items() if value != defaults()[FBANK][name]}
    graphs = {
        "kaldi": {"num_mel_bins": 80, "high_freq": -400.0, "snip_edges": False},
        "wespeaker": {"num_mel_bins": 80, "window_type": "hamming"},
    }
    [name] = [name for name, fixed in graphs.items() if fixed == asked] or [""]
    if not name or chosen.sample_frequency != 16000:
        raise NotImplementedError
    lengths = np.array([len(samples)], np.int64)
    audio = samples[None].astype(np.float32)
    features, _ = _load_graph(name).run(None, {"waveforms": audio, "waveforms_lens": lengths})
    return features[0]


@functools.lru_cache(maxsize=2)
def _load_graph(name: str) -> Any:
    import onnx_asr
    import onnxruntime

    return onnxruntime.InferenceSession(Path(onnx_asr.__file__).parent / "preprocessors" / "data" / f"{name}.onnx")


def paddleaudio(samples: Array, options: Options) -> Array:
    """paddleaudio.compliance.kaldi."""
    import paddle
    from paddleaudio.compliance import kaldi

    names = {"hanning": "hann", "rectangular": "rect"}
    functions = {FBANK: kaldi.fbank, MFCC: kaldi.mfcc, SPECTROGRAM: kaldi.spectrogram}
    if options["program"] not in functions or options["window_type"] == "sine":
        raise NotImplementedError
    chosen = take(options, options["program"], *ALL)
    renamed = {
        "sr": int(chosen.sample_frequency), "window_type": names.get(chosen.window_type, chosen.window_type),
        "preemphasis_coefficient": chosen.preemphasis_coefficient, "n_mels": getattr(chosen, "num_mel_bins", None),
        "n_mfcc": getattr(chosen, "num_ceps", None),
    }  # fmt: skip
    values = {name: value for name, value in {**options, **renamed}.items()
              if name in functions[options["program"]].__annotations__}  # fmt: skip
    return functions[options["program"]](paddle.to_tensor(samples.astype(np.float32))[None], **values).numpy()


def archives(package: str) -> Callable[[Array, Options], Array]:
    """Return the adapter of a package with kaldiio's names, for matrices and vectors."""

    def compute(data: Array, options: Options) -> Array:
        import tempfile

        kaldiio = __import__(package, fromlist=["load_ark"])
        if options["program"] not in ("read-archive", "write-archive") or options["object"] == "posterior":
            raise NotImplementedError
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "a.ark"
            if options["program"] == "read-archive":
                file.write_bytes(data.tobytes())
                [(_, value)] = kaldiio.load_ark(str(file))
                return np.asarray(value)
            method = {"compression_method": options["compression_method"]} if options.get("compress") else {}
            kaldiio.save_ark(str(file), {options["key"]: data}, text=not options.get("binary", True), **method)
            return np.frombuffer(file.read_bytes(), np.uint8)

    return compute


def kaldi_native_io(data: Array, options: Options) -> Array:
    """kaldi_native_io's readers and writers."""
    import tempfile

    import kaldi_native_io as kio

    kinds = {"float-matrix": "FloatMatrix", "double-matrix": "DoubleMatrix", "float-vector": "FloatVector",
             "int32-vector": "Int32Vector"}  # fmt: skip
    if options["program"] not in ("read-archive", "write-archive") or options["object"] not in kinds:
        raise NotImplementedError
    kind = kinds[options["object"]]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.ark"
        if options["program"] == "read-archive":
            file.write_bytes(data.tobytes())
            with getattr(kio, f"Sequential{kind}Reader")(f"ark:{file}") as reader:
                [value] = [np.array(value) for _, value in reader]  # A copy, because the reader reuses its memory.
            return value
        if options.get("compress"):
            with kio.CompressedMatrixWriter(f"ark:{file}") as writer:
                writer.write(options["key"], data, kio.CompressionMethod(options["compression_method"]))
        else:
            with getattr(kio, f"{kind}Writer")(f"ark{'' if options['binary'] else ',t'}:{file}") as writer:
                writer.write(options["key"], data.tolist() if kind == "Int32Vector" else data)
        return np.frombuffer(file.read_bytes(), np.uint8)


def get_version(name: str) -> str:
    """Return the version of a package."""
    return importlib.metadata.version(name)


def get_commit(folder: str) -> str:
    """Return the commit of a checkout, which its file COMMIT contains."""
    return (Path(folder) / "COMMIT").read_text().strip()


OTHERS = {
    "kaldi-native-fbank, C port (ThirdLetterC)": "the values of the FFT are read in a different order than they are "
    "written, so the imaginary part of each bin is combined with the real part of the next bin",
    "kaldi-native-fbank, Rust port (RustedBytes)": "the raw energy is computed after preemphasis, and the floor before "
    "the logarithm of cepstra is 1e-20",
    "kaldifeat": "the first sample of a frame differs with snip_edges=False if the frame shift exceeds the frame "
    "length, and the energy of PLP differs with raw_energy=False",
    "lhotse": "the energy replaces the first frame of the MFCCs instead of the first column",
    "paddleaudio.compliance.kaldi": "the floor before the logarithm is 1e-07 for cepstra and spectrograms of silence",
    "VBx: features.py": "a different number of frames",
    "librosa": "a different number of frames",
    "python_speech_features": "only energies of zero are replaced by a floor, and the energy of MFCCs is computed from "
    "the windowed frame",
    "speechbrain": "a different number of frames, because audio shorter than a frame gives one frame",
}


def c_header() -> list[tuple[str, Callable[[], str], str, Any]]:
    """Return packages/c/kaldi_features.h, its WebAssembly builds and its examples, built in the folder SCORE_C."""
    built, folder = os.environ.get("SCORE_C", ""), Path(__file__).resolve().parents[2] / "packages" / "c"
    wasm, grade = (
        ("node", str(folder / "wasm" / "conform.mjs")),
        (sys.executable, str(folder / "examples" / "grade.py")),
    )

    def version() -> str:
        return (
            re.findall('KF_VERSION "(.*)"', (folder / "kaldi_features.h").read_text())[0]
            if built
            else os.environ["SCORE_C"]
        )

    return [
        ("kaldi-compat: C header", version, "", (f"{built}/conform", "{audio}", "{options.json}", "{out.npy}")),
        ("kaldi-compat: WebAssembly with SIMD", version, "", (*wasm, "{list.json}")),
        ("kaldi-compat: WebAssembly without SIMD", version, "", (*wasm, "--scalar", "{list.json}")),
        ("kaldi-compat: example wav_to_fbank", version, "", (*grade, "--file", f"{built}/wav_to_fbank", "{list.json}")),
        ("kaldi-compat: example online", version, "", (*grade, f"{built}/online", "{list.json}")),
        ("kaldi-compat: example fbank.rs", version, "", (*grade, f"{built}/fbank", "{list.json}")),
    ]


def list_implementations() -> list[Implementation]:
    """Return the implementations that this environment has; see score.py for its variables."""
    sources = os.environ.get("SCORE_SOURCES", "")
    listed: list[tuple[str, Callable[[], str], str, Any]] = [
        ("kaldi-compat: programs", lambda: get_version("kaldi-compat"), "", programs),
        *c_header(),
        ("kaldi-native-fbank", lambda: get_version("kaldi_native_fbank"), "", kaldi_native_fbank),
        ("kaldifeat", lambda: get_commit(os.environ["KALDIFEAT"]), "", kaldifeat),
        ("kaldi-native-fbank, C port (ThirdLetterC)", lambda: os.environ["KNF_C_VERSION"], "",
         load_native_fbank_port(os.environ.get("KNF_C", ""))),
        ("kaldi-native-fbank, Rust port (RustedBytes)", lambda: os.environ["KNF_RUST_VERSION"], "",
         load_native_fbank_port(os.environ.get("KNF_RUST", ""))),
        ("knf, C (rouseabout)", lambda: os.environ["KNF_ROUSEABOUT_VERSION"], "supports only the options of icefall's "
         "models", knf),
        ("torchaudio.compliance.kaldi", lambda: get_version("torchaudio"), "refuses audio that is shorter than a frame",
         torchaudio),
        ("lhotse", lambda: get_version("lhotse"), "ends with an error in nearly all computations of MFCCs with "
         "use_energy=True, which is Kaldi's default", lhotse),
        ("transformers: audio_utils", lambda: get_version("transformers"), "", transformers),
        ("transformers.js", lambda: os.environ["TRANSFORMERS_JS_VERSION"], "",
         ("node", os.environ.get("TRANSFORMERS_JS", ""), "{list.json}")),
        ("paddleaudio.compliance.kaldi", lambda: get_commit(f"{sources}/PaddleSpeech"), "refuses audio that is "
         "shorter than a frame", paddleaudio),
        ("onnx-asr: ONNX graphs", lambda: get_version("onnx-asr"), "has two graphs with fixed options", onnx_asr),
        ("VBx: features.py", lambda: get_commit(f"{sources}/VBx"), "follows HTK: values below 1 are replaced by 1 "
         "before the logarithm", vbx),
        ("librosa", lambda: get_version("librosa"), "differs from Kaldi on purpose: triangular filters in Hz as "
         "in HTK, no removal of the DC offset, preemphasis of the whole recording", librosa),
        ("python_speech_features", lambda: get_version("python_speech_features"), "differs from "
         "Kaldi on purpose: the edges of mel bins are rounded to FFT bins, and the power spectrum is divided by the "
         "number of points", python_speech_features),
        ("speechbrain", lambda: get_version("speechbrain"), "differs from Kaldi on purpose: decibels, limited "
         "to 80 dB below the maximum, and centered frames", speechbrain),
        ("kaldiio", lambda: get_version("kaldiio"), "does not compute features", archives("kaldiio")),
        ("kaldi_native_io", lambda: get_version("kaldi_native_io"), "does not compute features", kaldi_native_io),
    ]  # fmt: skip
    implementations_here = []
    for name, version, note, how in listed:
        try:
            stated = version()
        except (ImportError, KeyError, OSError) as error:
            print(f"left out: {name}: {error!r}", file=sys.stderr)
            continue
        adapter: dict[str, Any] = {"command": how} if isinstance(how, tuple) else {"compute": how}
        implementations_here.append(Implementation(name, stated, note, OTHERS.get(name, ""), **adapter))
    return implementations_here
