"""Run the front ends of published models, their own unmodified code, on reference audio, and store what they compute.

``python reference_data/frontends/make.py --sources DIR [NAME ...]``, in the environment of the tests, with torchaudio,
kaldi-native-fbank and transformers. DIR holds a checkout of each project, at the commit that the preset names: FunASR,
3D-Speaker, unilm, wenet, wespeaker, wekws, FireRedASR, FireRedASR2S, FireRedVAD, ImageBind, AudioMAE, ssast,
MAE-AST-Public, EAT, pyannote-audio, CosyVoice, Step-Audio, index-tts, chatterbox, seed-vc, fairseq, sherpa-onnx and
kaldi. For ``kaldi-hires`` and the x-vectors, ``--kaldi-bin`` names the folder with Kaldi's programs.

What a project's files import besides its front end (models, augmentation, other libraries) is replaced by empty
stand-ins if it is not installed. Nothing of the computation is replaced.

A file ``NAME.npz`` has for each clip of tests/support/frontend_audio.py its shape, ``CLIP/shape``, and some of its
rows, ``CLIP/rows``. A clip that the project's code refuses is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from io_ark import load
from tests.support import frontend_audio
from tests.support.frontend_audio import clips, kept_rows

HERE = Path(__file__).parent
Audio = np.ndarray[Any, Any]
STAND_INS = (
    "PIL", "backbone", "cosyvoice", "einops", "fairseq", "feature_utils", "funasr", "hf_utils", "hydra", "imagebind",
    "inflect", "langid", "librosa", "mae_ast", "modules", "munch", "omegaconf", "onnxruntime", "pkg_resources",
    "pyannote", "pydub", "pytorchvideo", "scipy", "speakerlab", "torchvision", "wenet", "whisper", "yaml",
)  # fmt: skip


class Anything:
    """Stands in for whatever a project imports and its front end does not use."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if arguments and callable(arguments[0]) else Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (type("Base", (), {"__init__": lambda self, *_, **__: None}),)


class StandIn(types.ModuleType):
    """An empty module that has every name."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = {"Model": Model, "UpstreamBase": Model, "load_wav": lambda wav, rate: torch.from_numpy(wav)[None]}
        return known.get(name, Anything())


class Model:
    """pyannote's base class, as far as its constructor goes: keeps the named arguments as ``hparams``."""

    def __init__(self, **_: Any) -> None:
        pass

    def save_hyperparameters(self, *names: str) -> None:
        frame = inspect.currentframe()
        given = frame.f_back.f_locals  # type: ignore[union-attr]
        self.hparams = types.SimpleNamespace(**{name: given[name] for name in names})


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each missing module of STAND_INS; asked last."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in (*STAND_INS, "project"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> StandIn:
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


@functools.cache
def project(path: Path, name: str = "") -> Any:
    """Import one file of a checkout."""
    spec = importlib.util.spec_from_file_location(
        name or f"project_{path.stem}_{abs(hash(path))}", path, submodule_search_locations=[] if name else None
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tensor(audio: Audio) -> torch.Tensor:
    """Return audio as the users of torchaudio have it: (1, T) in -1 to 1."""
    return torch.from_numpy(audio.astype(np.float32) / 32768)[None]


def unit(audio: Audio) -> Audio:
    """Return audio in -1 to 1, (T,)."""
    return audio.astype(np.float32) / 32768


def funasr(sources: Path, stack: int, stride: int) -> Callable[[Audio], Any]:
    """FunASR's WavFrontend, with statistics in an am.mvn, as its models configure it."""
    code = project(sources / "FunASR/funasr/frontends/wav_frontend.py")
    with tempfile.NamedTemporaryFile("w", suffix=".mvn") as file:
        file.write(frontend_audio.am_mvn(80 * stack))
        file.flush()
        frontend = code.WavFrontend(
            cmvn_file=file.name, fs=16000, window="hamming", n_mels=80, lfr_m=stack, lfr_n=stride, dither=0.0
        )
    return lambda audio: frontend(tensor(audio), torch.tensor([len(audio)]))[0][0]


def three_d_speaker(sources: Path) -> Callable[[Audio], Any]:
    """3D-Speaker's FBank, as its inference scripts make it."""
    code = project(sources / "3D-Speaker/speakerlab/process/processor.py")
    extractor = code.FBank(80, sample_rate=16000, mean_nor=True)
    return lambda audio: extractor(tensor(audio))


def beats(sources: Path) -> Callable[[Audio], Any]:
    """BEATs.preprocess."""
    code = project(sources / "unilm/beats/BEATs.py")
    return lambda audio: code.BEATs.preprocess(None, tensor(audio))[0]


def wenet(sources: Path) -> Callable[[Audio], Any]:
    """WeNet's compute_fbank, and the GlobalCMVN of its models with statistics in json."""
    code = project(sources / "wenet/wenet/dataset/processor.py")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(frontend_audio.wenet_json(80))
        file.flush()
        mean, istd = project(sources / "wenet/wenet/utils/cmvn.py").load_cmvn(file.name, True)
    cmvn = project(sources / "wenet/wenet/models/transformer/cmvn.py", "wenet_cmvn").GlobalCMVN(
        torch.from_numpy(mean).float(), torch.from_numpy(istd).float()
    )

    def compute(audio: Audio) -> Any:
        sample = {"key": "a", "wav": tensor(audio), "sample_rate": 16000}
        return cmvn(code.compute_fbank(sample, num_mel_bins=80, dither=0.0)["feat"])

    return compute


def wespeaker(sources: Path) -> Callable[[Audio], Any]:
    """WeSpeaker's compute_fbank and apply_cmvn."""
    code = project(sources / "wespeaker/wespeaker/dataset/processor.py")

    def compute(audio: Audio) -> Any:
        sample = {"key": "a", "label": "a", "wav": tensor(audio), "sample_rate": 16000}
        (result,) = code.apply_cmvn(code.compute_fbank([sample], num_mel_bins=80, dither=0.0))
        return result["feat"]

    return compute


def pyannote(sources: Path, span: float | None = None) -> Callable[[Audio], Any]:
    """The compute_fbank of pyannote.audio's WeSpeaker models."""
    file = sources / "pyannote-audio/src/pyannote/audio/models/embedding/wespeaker/__init__.py"
    code = project(file, "project")
    frames = project(sources / "pyannote-audio/src/pyannote/audio/utils/receptive_field.py")
    code.conv1d_num_frames = frames.conv1d_num_frames
    model = code.BaseWeSpeakerResNet(fbank_centering_span=span)
    return lambda audio: model.compute_fbank(tensor(audio)[None])[0]


def fireredasr(sources: Path, file: str, kind: str = "ASRFeatExtractor") -> Callable[[Audio], Any]:
    """An extractor of FireRedTeam, with statistics in a Kaldi matrix."""
    code = project(sources / file)
    with tempfile.TemporaryDirectory() as folder:
        import kaldiio

        kaldiio.save_mat(f"{folder}/cmvn.ark", frontend_audio.kaldi_stats(80))
        extractor = getattr(code, kind)(f"{folder}/cmvn.ark")

    def compute(audio: Audio) -> Any:
        with wav_file(audio) as name:
            if kind == "AudioFeat":
                return extractor.extract(name)[0]
            names = [[name]] * len(inspect.signature(extractor.__call__).parameters)
            return extractor(*names)[0][0]

    return compute


def wekws(sources: Path, bins: int, function: str = "compute_fbank") -> Callable[[Audio], Any]:
    """WeKws's compute_fbank or compute_mfcc, and the GlobalCMVN of its models with statistics in json."""
    code = project(sources / "wekws/wekws/dataset/processor.py")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(frontend_audio.wenet_json(bins))
        file.flush()
        mean, istd = project(sources / "wekws/wekws/utils/cmvn.py").load_cmvn(file.name)
    cmvn = project(sources / "wekws/wekws/model/cmvn.py", "wekws_cmvn").GlobalCMVN(
        torch.from_numpy(mean).float(), torch.from_numpy(istd).float()
    )

    def compute(audio: Audio) -> Any:
        sample = {"key": "a", "label": 0, "wav": tensor(audio), "sample_rate": 16000}
        (result,) = getattr(code, function)([sample], num_mel_bins=bins)
        return cmvn(result["feat"])

    return compute


def index_tts(sources: Path) -> Callable[[Audio], Any]:
    """IndexTTS's compute_kaldi_fbank."""
    code = project(sources / "index-tts/backends/trt/pipeline/audio_processing.py")
    return lambda audio: code.compute_kaldi_fbank(tensor(audio))[0]


def chatterbox(sources: Path) -> Callable[[Audio], Any]:
    """Chatterbox's extract_feature."""
    code = project(sources / "chatterbox/src/chatterbox/models/s3gen/xvector.py")
    return lambda audio: code.extract_feature([tensor(audio)[0]])[0][0]


def seed_vc(sources: Path) -> Callable[[Audio], Any]:
    """Seed-VC's compute_style, stopped where it calls its encoder."""
    code = project(sources / "seed-vc/modules/v2/vc_wrapper.py")
    seen: list[torch.Tensor] = []
    myself = types.SimpleNamespace(style_encoder=lambda feat, lengths: seen.append(feat))

    def compute(audio: Audio) -> Any:
        code.VoiceConversionWrapper.compute_style(myself, tensor(audio))
        return seen.pop()[0]

    return compute


def mae_ast(sources: Path) -> Callable[[Audio], Any]:
    """MAE-AST's wav_to_spectrogram, with the settings of its models."""
    code = project(sources / "MAE-AST-Public/s3prl/mae_ast/expert.py", "project.expert")
    myself = types.SimpleNamespace(sample_rate=16000, feature_dim=128)
    return lambda audio: code.UpstreamExpert.wav_to_spectrogram(myself, tensor(audio))


def imagebind(sources: Path) -> Callable[[Audio], Any]:
    """ImageBind's waveform2melspec, and torchvision's Normalize with the defaults of load_and_transform_audio_data."""
    code = project(sources / "ImageBind/imagebind/data.py")
    defaults = {
        name: each.default for name, each in inspect.signature(code.load_and_transform_audio_data).parameters.items()
    }

    def compute(audio: Audio) -> Any:
        mel = code.waveform2melspec(tensor(audio), 16000, defaults["num_mel_bins"], defaults["target_length"])
        return ((mel - defaults["mean"]) / defaults["std"])[0].T

    return compute


def audioset(sources: Path, file: str, kind: str) -> Callable[[Audio], Any]:
    """The data set of AudioMAE and SSAST, configured as for the evaluation on AudioSet."""
    code = project(sources / file)

    def compute(audio: Audio) -> Any:
        settings = {"num_mel_bins": 128, "target_length": 1024, "freqm": 0, "timem": 0, "mixup": 0}
        settings |= {"dataset": "audioset", "mode": "val", "mean": -4.2677393, "std": 4.5689974, "noise": False}
        with tempfile.TemporaryDirectory() as folder, wav_file(audio) as name:
            data, labels = Path(folder, "data.json"), Path(folder, "labels.csv")
            data.write_text(json.dumps({"data": [{"wav": name, "labels": "/m/a"}]}))
            labels.write_text('index,mid,display_name\n0,/m/a,"a"\n')
            return getattr(code, kind)(str(data), settings, label_csv=str(labels))[0][0].reshape(-1, 128)

    return compute


def eat(sources: Path) -> Callable[[Audio], Any]:
    """EAT's extract_features, stopped where it calls the model."""
    code = project(sources / "EAT/feature_extract/feature_extract.py")
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    seen: list[torch.Tensor] = []

    def extract_feature_tensor(model: Any, x: torch.Tensor, framework: str) -> torch.Tensor:
        seen.append(x)
        return torch.zeros(1, 1, 1)

    code.load_model, code.extract_feature_tensor = lambda arguments: None, extract_feature_tensor

    def compute(audio: Audio) -> Any:
        with wav_file(audio) as name, tempfile.NamedTemporaryFile(suffix=".npy") as target:
            line = ["--source_file", name, "--target_file", target.name, "--model_dir", "", "--checkpoint_dir", ""]
            line += ["--granularity", "all", "--target_length", "1024", "--mode", "finetune", "--framework", "fairseq"]
            code.extract_features(code.get_parser().parse_args(line))
        return seen.pop()[0, 0]

    return compute


def cosyvoice(sources: Path, name: str = "CosyVoice") -> Callable[[Audio], Any]:
    """CosyVoice's _extract_spk_embedding, stopped where it calls campplus.onnx; of Step-Audio, its copy."""
    code = project(sources / name / "cosyvoice/cli/frontend.py")
    seen: list[Audio] = []

    class Session:
        def get_inputs(self) -> list[Any]:
            return [types.SimpleNamespace(name="input")]

        def run(self, _: Any, inputs: dict[str, Audio]) -> list[Audio]:
            seen.append(inputs["input"][0])
            return [np.zeros((1, 192), np.float32)]

    myself = types.SimpleNamespace(campplus_session=Session(), device="cpu")

    def compute(audio: Audio) -> Any:
        code.CosyVoiceFrontEnd._extract_spk_embedding(myself, unit(audio) if name == "CosyVoice" else tensor(audio))
        return seen.pop()

    return compute


def lhotse(_: Path) -> Callable[[Audio], Any]:
    """lhotse's Fbank with its defaults, which icefall's recipes use."""
    from lhotse import Fbank

    extractor = Fbank()
    return lambda audio: extractor.extract(unit(audio), 16000)


def telespeech(sources: Path) -> Callable[[Audio], Any]:
    """sherpa-onnx's get_features and cmvn for TeleSpeech."""
    code = project(sources / "sherpa-onnx/scripts/tele-speech/test.py")

    def compute(audio: Audio) -> Any:
        with wav_file(audio) as name:
            return code.cmvn(code.get_features(name))

    return compute


def kaldi_xvector(sources: Path, programs: str, recipe: str) -> Callable[[Audio], Any]:
    """Kaldi's programs as the recipes for x-vectors call them, without dithering."""
    conf = sources / "kaldi/egs" / recipe / "v2/conf"
    rate = 8000 if recipe == "sre16" else 16000
    commands = f"""
        compute-mfcc-feats --config={conf}/mfcc.conf --dither=0 scp:wav.scp ark:mfcc.ark
        compute-vad --config={conf}/vad.conf ark:mfcc.ark ark:vad.ark
        apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 ark:mfcc.ark ark:normalized.ark
        select-voiced-frames ark:normalized.ark ark:vad.ark ark:o.ark
    """

    def compute(audio: Audio) -> Any:
        with wav_file(audio, rate) as name, tempfile.TemporaryDirectory() as folder:
            Path(folder, "wav.scp").write_text(f"a {name}\n")
            for line in commands.strip().splitlines():
                program, *arguments = line.split()
                subprocess.run([f"{programs}/{program}", *arguments], check=True, capture_output=True, cwd=folder)
            return load(f"{folder}/o.ark:2")

    return compute


def hubert_mfcc(sources: Path) -> Callable[[Audio], Any]:
    """fairseq's MfccFeatureReader."""
    reader = project(sources / "fairseq/examples/hubert/simple_kmeans/dump_mfcc_feature.py").MfccFeatureReader(16000)
    reader.read_audio = lambda path, ref_len: unit(path)
    return lambda audio: reader.get_feats(audio)


def sonar(_: Path) -> Callable[[Audio], Any]:
    """kaldi-native-fbank as fairseq2's waveform_to_fbank_converter.cc calls it but without noise, and what follows."""
    import kaldi_native_fbank

    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = 80

    def compute(audio: Audio) -> Any:
        online = kaldi_native_fbank.OnlineFbank(options)
        online.accept_waveform(16000, audio.astype(np.float32))
        online.input_finished()
        fbank = torch.tensor(np.array([online.get_frame(t) for t in range(online.num_frames_ready)]))
        deviation, mean = torch.std_mean(fbank, dim=0)
        return (fbank - mean) / deviation

    return compute


def kaldi_hires(sources: Path, programs: str) -> Callable[[Audio], Any]:
    """Kaldi's compute-mfcc-feats with conf/mfcc_hires.conf."""
    conf = sources / "kaldi/egs/wsj/s5/conf/mfcc_hires.conf"

    def compute(audio: Audio) -> Any:
        with wav_file(audio) as name, tempfile.TemporaryDirectory() as folder:
            Path(folder, "wav.scp").write_text(f"a {name}\n")
            command = [f"{programs}/compute-mfcc-feats", f"--config={conf}", "--dither=0", f"scp:{folder}/wav.scp"]
            subprocess.run([*command, f"ark:{folder}/o.ark"], check=True, capture_output=True)
            return load(f"{folder}/o.ark:2")

    return compute


def transformers(model: str, extractor: str, field: str, **settings: Any) -> Callable[[Audio], Any]:
    """A feature extractor of transformers with its defaults."""
    module = importlib.import_module(f"transformers.models.{model}.feature_extraction_{model}")
    made = getattr(module, extractor)(**settings)
    return lambda audio: np.asarray(made(unit(audio), sampling_rate=16000, return_tensors="np")[field][0])


@contextlib.contextmanager
def wav_file(audio: Audio, rate: int = 16000) -> Iterator[str]:
    """Write a WAV file of this audio, and return its name."""
    import soundfile

    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        soundfile.write(file, audio, rate, format="WAV", subtype="PCM_16")
        file.flush()
        yield file.name


def front_ends(sources: Path, programs: str) -> dict[str, Callable[[], Callable[[Audio], Any]]]:
    """Return what computes each reference; presets that share their code and configuration share one."""
    return {
        "paraformer": lambda: funasr(sources, 7, 6),
        "fsmn-vad": lambda: funasr(sources, 5, 1),
        "campplus": lambda: three_d_speaker(sources),
        "cosyvoice": lambda: cosyvoice(sources),
        "wespeaker": lambda: wespeaker(sources),
        "pyannote-wespeaker": lambda: pyannote(sources),
        "pyannote-span": lambda: pyannote(sources, span=0.5),
        "wenet": lambda: wenet(sources),
        "wekws": lambda: wekws(sources, 40),
        "wekws-mfcc": lambda: wekws(sources, 80, "compute_mfcc"),
        "hubert-mfcc": lambda: hubert_mfcc(sources),
        "sonar": lambda: sonar(sources),
        "sre16-xvector": lambda: kaldi_xvector(sources, programs, "sre16"),
        "voxceleb-xvector": lambda: kaldi_xvector(sources, programs, "voxceleb"),
        "fireredasr": lambda: fireredasr(sources, "FireRedASR/fireredasr/data/asr_feat.py"),
        "fireredasr2": lambda: fireredasr(sources, "FireRedASR2S/fireredasr2s/fireredasr2/data/asr_feat.py"),
        "fireredlid": lambda: fireredasr(sources, "FireRedASR2S/fireredasr2s/fireredlid/data/feat.py", "FeatExtractor"),
        "fireredvad": lambda: fireredasr(sources, "FireRedVAD/fireredvad/core/audio_feat.py", "AudioFeat"),
        "index-tts": lambda: index_tts(sources),
        "chatterbox": lambda: chatterbox(sources),
        "seed-vc": lambda: seed_vc(sources),
        "step-audio": lambda: cosyvoice(sources, "Step-Audio"),
        "beats": lambda: beats(sources),
        "imagebind": lambda: imagebind(sources),
        "audiomae": lambda: audioset(sources, "AudioMAE/dataset.py", "AudiosetDataset"),
        "ssast": lambda: audioset(sources, "ssast/src/dataloader.py", "AudioDataset"),
        "mae-ast": lambda: mae_ast(sources),
        "eat": lambda: eat(sources),
        "zipformer": lambda: lhotse(sources),
        "telespeech": lambda: telespeech(sources),
        "kaldi-hires": lambda: kaldi_hires(sources, programs),
        "speech2text": lambda: transformers("speech_to_text", "Speech2TextFeatureExtractor", "input_features"),
        "seamless-m4t": lambda: transformers("seamless_m4t", "SeamlessM4TFeatureExtractor", "input_features"),
        "ast": lambda: transformers("audio_spectrogram_transformer", "ASTFeatureExtractor", "input_values"),
        "phi4-multimodal": lambda: transformers(
            "phi4_multimodal", "Phi4MultimodalFeatureExtractor", "audio_input_features"
        ),
        "medasr": lambda: transformers("lasr", "LasrFeatureExtractor", "input_features"),
    }


def main() -> None:
    """Make the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--kaldi-bin", default="")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sys.meta_path.append(StandIns())
    import soundfile
    import torchaudio

    # torchaudio's own reader needs torchcodec.
    torchaudio.load = lambda name: (torch.from_numpy(soundfile.read(name, dtype="float32")[0])[None], 16000)
    known = front_ends(given.sources, given.kaldi_bin)
    for name in given.names or known:
        compute, arrays = known[name](), {}
        for clip, audio in clips().items():
            try:
                with contextlib.redirect_stdout(None), np.errstate(all="ignore"):
                    features = np.array(compute(audio), np.float32)
            except Exception as error:
                print(f"{name}: {clip} is refused: {type(error).__name__} {str(error)[:80]}")
                continue
            arrays[f"{clip}/shape"] = np.array(features.shape)
            arrays[f"{clip}/rows"] = features[kept_rows(len(features))] if len(features) else features
        np.savez_compressed(HERE / f"{name}.npz", **arrays)
        print(name, {clip: tuple(arrays[f"{clip}/shape"].tolist()) for clip in clips() if f"{clip}/shape" in arrays})


if __name__ == "__main__":
    main()
