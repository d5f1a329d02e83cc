"""The call sites: which functions of which repositories, and how they are called.

A checkout of each repository lies in a folder of its name. Nothing of a project's code is changed: what its files
import beside the library in question is replaced by empty modules where it is not installed.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.support import frontend_audio

Result = Any


@dataclass(frozen=True)
class Recording:
    """A recording, as files and functions take it.

    Attributes:
        name: of the recording.
        rate: in Hz.
        pcm: int16 (channels, T).
        path: a WAV file.
    """

    name: str
    rate: int
    pcm: Any
    path: str

    @property
    def wave(self) -> Tensor:
        """Samples (channels, T) in -1 to 1."""
        return torch.from_numpy(self.pcm.astype(np.float32) / 32768)

    @property
    def mono(self) -> Tensor:
        """The first channel (1, T) in -1 to 1."""
        return self.wave[:1]

    @property
    def unit(self) -> Any:
        """The first channel (T,) in -1 to 1, an array."""
        return self.wave[0].numpy()

    @property
    def sample(self) -> dict[str, Any]:
        """What the data pipelines of WeNet and its relatives pass on."""
        return {"key": "a", "label": "a", "wav": self.wave, "sample_rate": self.rate}


@dataclass(frozen=True)
class Call:
    """A call site.

    Attributes:
        file: repository and path.
        function: name of the function, for the table.
        library: the library that it imports.
        make: from the file's module, what computes the result for a recording.
        any_rate: False for functions of 16 kHz audio.
        unlike: recordings whose values differ, and why.
        tolerance: largest difference that rounding makes, relative to values above 1.
    """

    file: str
    function: str
    library: str
    make: Callable[[Any], Callable[[Recording], Result]]
    any_rate: bool = True
    unlike: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-3

    @property
    def name(self) -> str:
        """Repository, path and function."""
        return f"{self.file}:{self.function}"


# The commit of each repository, owner first.
REPOSITORIES = {
    "3D-Speaker": ("modelscope", "09e7806"),
    "CosyVoice": ("FunAudioLLM", "ace7c47"),
    "EAT": ("cwx-worst-one", "06c1c34"),
    "FireRedASR": ("FireRedTeam", "834635e"),
    "FireRedASR2S": ("FireRedTeam", "72096c2"),
    "FireRedVAD": ("FireRedTeam", "c30ec49"),
    "FunASR": ("modelscope", "3c58cb5"),
    "ImageBind": ("facebookresearch", "53680b0"),
    "SLAM-LLM": ("ddlBoJack", "3b620ad"),
    "ast": ("YuanGongND", "31088be"),
    "index-tts": ("index-tts", "ee40fa7"),
    "pyannote-audio": ("pyannote", "b749285"),
    "sherpa-onnx": ("k2-fsa", "634265c"),
    "speechbrain": ("speechbrain", "9c826ef"),
    "unilm": ("microsoft", "768a3c8"),
    "wekws": ("wenet-e2e", "1a8ee65"),
    "wenet": ("wenet-e2e", "0154699"),
    "wespeaker": ("wenet-e2e", "dfa7419"),
}


class Session:
    """Stands in for onnxruntime's session: keeps its input."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def get_inputs(self) -> list[Any]:
        return [types.SimpleNamespace(name="input")]

    def run(self, _: Any, inputs: dict[str, Any]) -> list[Any]:
        self.seen.append(inputs["input"][0])
        return [np.zeros((1, 192), np.float32)]


def kept(method: Callable[..., Any], **attributes: Any) -> Callable[..., Any]:
    """Return a method with an object of these attributes as ``self``, whose result is its session's input."""
    session = Session()
    myself = types.SimpleNamespace(campplus_session=session, device="cpu", max_len=10**9, **attributes)

    def call(*arguments: Any) -> Any:
        method(myself, *arguments)
        return session.seen.pop()

    return call


def with_globals(function: Any, result: Callable[[], Any], **names: Any) -> Callable[..., Any]:
    """Return a function that sets global names of another one's module before it is called."""

    def call(*arguments: Any) -> Any:
        function.__globals__.update(names)
        function(*arguments)
        return result()

    return call


def firered(kind: str) -> Callable[[Any], Callable[[Recording], Result]]:
    """Return how FireRed's extractors are called: with a cmvn.ark, on files."""

    def make(code: Any) -> Callable[[Recording], Result]:
        with tempfile.TemporaryDirectory() as folder:
            sys.modules["kaldiio"].save_mat(f"{folder}/cmvn.ark", frontend_audio.kaldi_stats(80))
            extractor = getattr(code, kind)(f"{folder}/cmvn.ark")
        if kind == "AudioFeat":
            return lambda r: extractor.extract(r.path)[0]
        if len(inspect.signature(extractor.__call__).parameters) == 1:
            return lambda r: extractor([r.path])[0][0]
        return lambda r: extractor([r.path], ["a"])[0][0]

    return make


def funasr_onnx(code: Any) -> Callable[[Recording], Result]:
    """FunASR's runtime: whole, and in chunks."""

    def call(r: Recording) -> Result:
        frontend = code.WavFrontend(lfr_m=7, lfr_n=6, dither=0.0, fs=r.rate)
        chunks = [frontend.fbank_online(part) for part in np.array_split(r.unit, 3) if len(part)]
        return [frontend.lfr_cmvn(frontend.fbank(r.unit)[0])[0], *(np.asarray(length) for _, length in chunks)]

    return call


def funasr(code: Any) -> Callable[[Recording], Result]:
    """FunASR's WavFrontend, with statistics."""
    with tempfile.NamedTemporaryFile("w", suffix=".mvn") as file:
        file.write(frontend_audio.am_mvn(560))
        file.flush()
        frontend = code.WavFrontend(cmvn_file=file.name, fs=16000, window="hamming", lfr_m=7, lfr_n=6, dither=0.0)
    return lambda r: frontend(r.mono, torch.tensor([r.pcm.shape[1]]))[0][0]


def pyannote(code: Any) -> Callable[[Recording], Result]:
    """The compute_fbank of pyannote.audio's models."""
    model = code.BaseWeSpeakerResNet()
    return lambda r: model.compute_fbank(r.mono[None])


def nemo(code: Any) -> Callable[[Recording], Result]:
    """sherpa-onnx's scripts for NeMo's models."""
    return lambda r: code.compute_features(r.unit, code.create_fbank())


def gtcrn(code: Any) -> Callable[[Recording], Result]:
    """The calls of gtcrn/test.py's main: an STFT, and back."""
    knf = code.knf
    window = torch.hann_window(512).pow(0.5).tolist()

    def call(r: Recording) -> Result:
        config = knf.StftConfig(n_fft=512, hop_length=256, win_length=512, window=window)
        found = knf.Stft(config)(r.unit)
        real, imag = (np.array(part, dtype=np.float32) for part in (found.real, found.imag))
        again = knf.StftResult(real=real.tolist(), imag=imag.tolist(), num_frames=found.num_frames)
        return [real, imag, np.array(knf.IStft(config)(again), np.float32)]

    return call


def cmvn_of_files(code: Any) -> Callable[[Recording], Result]:
    """WeNet's statistics of a list of files."""
    collate = code.CollateFunc(80, 0)
    return lambda r: [torch.as_tensor(each) for each in collate([("a", r.path)])]


def embedding_job(code: Any) -> Callable[[Recording], Result]:
    """CosyVoice's job for an utterance, stopped where it calls the model."""
    session = Session()
    job = with_globals(code.single_job, lambda: session.seen.pop(), ort_session=session)

    def call(r: Recording) -> Result:
        code.utt2wav = {"a": r.path}
        return job("a")

    return call


def archives(code: Any) -> Callable[[Recording], Result]:
    """FunASR's loader of audio in archives, which kaldiio has written."""
    kaldiio = sys.modules["kaldiio"]

    def call(r: Recording) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            kaldiio.save_ark(f"{folder}/a.ark", {"a": (r.rate, r.pcm[0])}, scp=f"{folder}/a.scp")
            place = Path(f"{folder}/a.scp").read_text().split()[1]
            found = code.load_audio_text_image_video(place, fs=r.rate, data_type="kaldi_ark")
            return [torch.as_tensor(found), np.frombuffer(Path(f"{folder}/a.ark").read_bytes(), np.uint8)]

    return call


CEPSTRA = 5e-3  # torchaudio's DCT: the MFCCs of digital silence, which are 0, reach 2e-3 there
QUIET = 3e-3  # of log energies far below the loudest bins, where float32 rounds the FFT
HAMMING = types.SimpleNamespace(model=types.SimpleNamespace(frontend_type="fbank"), window_type="hamming")
FAIRSEQ = ("edgelm", "kosmos-2/fairseq")
CALLS = (
    Call("wenet/wenet/dataset/processor.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: code.compute_fbank(r.sample, num_mel_bins=80)["feat"]),
    Call("wenet/wenet/dataset/processor.py", "compute_mfcc", "torchaudio",
         lambda code: lambda r: code.compute_mfcc(r.sample, num_mel_bins=40)["feat"], tolerance=CEPSTRA),
    Call("wenet/tools/compute_cmvn_stats.py", "CollateFunc", "torchaudio", cmvn_of_files),
    Call("wenet/runtime/gpu/model_repo/feature_extractor/1/model.py", "Fbank", "kaldifeat", lambda code: triton(code)),
    Call("wenet/runtime/gpu/model_repo_stateful/feature_extractor/1/model.py", "Fbank", "kaldifeat",
         lambda code: triton(code)),
    Call("wespeaker/wespeaker/dataset/processor.py", "compute_fbank, apply_cmvn", "torchaudio",
         lambda code: lambda r: next(code.apply_cmvn(code.compute_fbank([r.sample], dither=0.0)))["feat"]),
    Call("wespeaker/wespeaker/cli/speaker.py", "Speaker.compute_features", "torchaudio",
         lambda code: lambda r: code.Speaker.compute_features(HAMMING, r.wave, r.rate)),
    Call("wespeaker/wespeaker/bin/infer_onnx.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: code.compute_fbank(r.path)),
    Call("wespeaker/wespeaker/diar/make_fbank.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: code.compute_fbank(r.wave[0], sample_frequency=r.rate, subseg_cmn=False)),
    Call("wekws/wekws/dataset/processor.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: next(code.compute_fbank([r.sample], num_mel_bins=40))["feat"]),
    Call("wekws/wekws/dataset/processor.py", "compute_mfcc", "torchaudio",
         lambda code: lambda r: next(code.compute_mfcc([r.sample]))["feat"], tolerance=CEPSTRA),
    Call("FunASR/funasr/frontends/wav_frontend.py", "WavFrontend", "torchaudio", funasr, any_rate=False),
    Call("FunASR/funasr/utils/speaker_utils.py", "extract_feature", "torchaudio",
         lambda code: lambda r: code.extract_feature([r.wave[0]])[0]),
    Call("FunASR/funasr/utils/load_utils.py", "load_audio_text_image_video", "kaldiio", archives),
    Call("FunASR/runtime/python/onnxruntime/funasr_onnx/utils/frontend.py", "WavFrontend", "kaldi_native_fbank",
         funasr_onnx),
    Call("FunASR/runtime/python/libtorch/funasr_torch/utils/frontend.py", "WavFrontend", "kaldi_native_fbank",
         funasr_onnx),
    Call("FunASR/runtime/triton_gpu/model_repo_sense_voice_small/feature_extractor/1/model.py", "Fbank", "kaldifeat",
         lambda code: triton(code)),
    Call("3D-Speaker/speakerlab/process/processor.py", "FBank", "torchaudio",
         lambda code: functools.partial(lambda fbank, r: fbank(r.wave), code.FBank(80, 16000, mean_nor=True)),
         any_rate=False),
    Call("CosyVoice/cosyvoice/cli/frontend.py", "_extract_spk_embedding", "torchaudio",
         lambda code: functools.partial(lambda call, r: call(r.unit),
                                        kept(code.CosyVoiceFrontEnd._extract_spk_embedding)), any_rate=False),
    Call("CosyVoice/cosyvoice/utils/onnx.py", "EmbeddingExtractor.inference", "torchaudio",
         lambda code: functools.partial(lambda call, r: call(r.wave), kept(code.EmbeddingExtractor.inference))),
    Call("CosyVoice/tools/extract_embedding.py", "single_job", "torchaudio", embedding_job, any_rate=False),
    Call("FireRedASR/fireredasr/data/asr_feat.py", "ASRFeatExtractor", "kaldi_native_fbank",
         firered("ASRFeatExtractor"), any_rate=False),
    Call("FireRedASR2S/fireredasr2s/fireredasr2/data/asr_feat.py", "ASRFeatExtractor", "kaldi_native_fbank",
         firered("ASRFeatExtractor"), any_rate=False),
    Call("FireRedASR2S/fireredasr2s/fireredlid/data/feat.py", "FeatExtractor", "kaldi_native_fbank",
         firered("FeatExtractor"), any_rate=False),
    Call("FireRedASR2S/fireredasr2s/fireredvad/core/audio_feat.py", "AudioFeat", "kaldi_native_fbank",
         firered("AudioFeat")),
    Call("FireRedVAD/fireredvad/core/audio_feat.py", "AudioFeat", "kaldi_native_fbank", firered("AudioFeat")),
    Call("index-tts/backends/trt/pipeline/audio_processing.py", "compute_kaldi_fbank", "torchaudio",
         lambda code: lambda r: code.compute_kaldi_fbank(r.wave, "cpu")),
    Call("pyannote-audio/src/pyannote/audio/models/embedding/wespeaker/__init__.py", "compute_fbank", "torchaudio",
         pyannote),
    Call("unilm/beats/BEATs.py", "BEATs.preprocess", "torchaudio",
         lambda code: lambda r: code.BEATs.preprocess(None, r.wave)),
    Call("unilm/beats/Tokenizers.py", "Tokenizers.preprocess", "torchaudio",
         lambda code: lambda r: code.Tokenizers.preprocess(None, r.wave)),
    *(Call(f"unilm/{path}/fairseq/data/audio/audio_utils.py", "_get_torchaudio_fbank", "torchaudio",
           lambda code: lambda r: code._get_torchaudio_fbank(r.pcm.astype(np.float32), r.rate)) for path in FAIRSEQ),
    *(Call(f"unilm/{path}/examples/hubert/simple_kmeans/dump_mfcc_feature.py", "MfccFeatureReader", "torchaudio",
           lambda code: lambda r: code.MfccFeatureReader(r.rate).get_feats(r.path), tolerance=CEPSTRA)
      for path in FAIRSEQ),
    *(Call(f"unilm/{path}/examples/textless_nlp/gslm/speech2unit/pretrained/logmel_feature_reader.py",
           "LogMelFeatureReader", "torchaudio",
           lambda code: lambda r: code.LogMelFeatureReader(num_mel_bins=80, frame_length=25.0).get_feats(r.path))
      for path in FAIRSEQ),
    Call("SLAM-LLM/src/slam_llm/models/BEATs/BEATs.py", "BEATs.preprocess", "torchaudio",
         lambda code: lambda r: code.BEATs.preprocess(r.wave)),
    Call("SLAM-LLM/src/slam_llm/models/EAT/EAT.py", "EAT_preprocess", "torchaudio",
         lambda code: lambda r: code.EAT_preprocess(r.wave[0])),
    Call("EAT/inference/inference.py", "preprocess_audio", "torchaudio",
         lambda code: lambda r: code.preprocess_audio(r.path, 1024, -4.268, 4.569), any_rate=False),
    Call("ImageBind/imagebind/data.py", "waveform2melspec", "torchaudio",
         lambda code: lambda r: code.waveform2melspec(r.mono, r.rate, 128, 204)),
    Call("ast/egs/audioset/inference.py", "make_features", "torchaudio",
         lambda code: lambda r: code.make_features(r.path, 128)),
    Call("speechbrain/speechbrain/lobes/models/beats.py", "BEATs.preprocess", "torchaudio",
         lambda code: lambda r: code.BEATs.preprocess(None, r.wave)),
    Call("sherpa-onnx/scripts/3dspeaker/test-onnx.py", "compute_features", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_features(r.unit, r.rate)),
    Call("sherpa-onnx/scripts/wespeaker/test.py", "compute_features", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_features(r.unit, r.rate)),
    Call("sherpa-onnx/scripts/sense-voice/test.py", "compute_feat", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_feat(r.unit, r.rate, np.zeros(560), np.ones(560)), tolerance=QUIET),
    Call("sherpa-onnx/scripts/t-one/test.py", "compute_feat", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_feat(r.unit, r.rate, 300)),
    Call("sherpa-onnx/scripts/whisper/test.py", "compute_features", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_features(r.path), any_rate=False),
    Call("sherpa-onnx/scripts/wenet/test-onnx.py", "get_features", "kaldi_native_fbank",
         lambda code: lambda r: code.get_features(r.path), any_rate=False),
    Call("sherpa-onnx/scripts/tele-speech/test.py", "get_features", "kaldi_native_fbank",
         lambda code: lambda r: code.cmvn(code.get_features(r.path)), any_rate=False,
         unlike={"silence": "rounding errors are divided by their own deviation"}),
    Call("sherpa-onnx/scripts/zipformer-ctc/ascend/2025-07-03/onnx_test.py", "compute_feat", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_feat(r.unit, r.rate, 3000)),
    *(Call(f"sherpa-onnx/scripts/nemo/{path}", "compute_features", "kaldi_native_fbank", nemo, tolerance=QUIET)
      for path in ("GigaAM/test-onnx-ctc.py", "canary/test_180m_flash.py", "parakeet-tdt-0.6b-v2/test_onnx.py",
                   "parakeet-tdt-0.6b-v3/test_onnx.py", "parakeet-unified-en-0.6b/test_onnx.py")),
    Call("sherpa-onnx/scripts/gtcrn/test.py", "main's Stft and IStft", "kaldi_native_fbank", gtcrn,
         unlike={"10ms": "shorter than the padding: the original reads past the audio"}),
)  # fmt: skip


def triton(code: Any) -> Callable[[Recording], Result]:
    """The module that WeNet's and FunASR's Triton servers compute features with."""
    kaldifeat = sys.modules["kaldifeat"]
    opts = kaldifeat.FbankOptions()
    opts.frame_opts.dither = 0
    opts.mel_opts.num_bins = 80
    opts.device = torch.device("cpu")
    fbank = code.Fbank(opts)
    return lambda r: fbank([r.wave[0] * 32768])


def imported(file: Path) -> Any:
    """Import a file of a checkout, as a module of a package whose folder is the file's."""
    package = f"project_{abs(hash(file))}"
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = [str(file.parent)]
    name = f"{package}.{file.stem}".removesuffix(".__init__")
    locations = [str(file.parent)] if file.stem == "__init__" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(call: Call, sources: Path) -> Callable[[Recording], Result]:
    """Import a call's file, and return what computes its result."""
    sys.argv = [call.file]
    return call.make(imported(sources / call.file))
