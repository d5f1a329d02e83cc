"""The call sites: which functions of which repositories, and how they are called."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import shutil
import sys
import tempfile
import types
import unittest.mock
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from packages.standins.tests.toolkits.manifest import Call, Recording, Result
from tests.support import frontend_audio

Make = Callable[[Any], Callable[[Recording], Result]]
CEPSTRA = 5e-3  # Tolerance for torchaudio's DCT, which gives up to 2e-3 instead of 0 for digital silence.
QUIET = 3e-3  # Tolerance for log energies far below the loudest bins, which the FFT in float32 rounds.
ROOT = Path(__file__).parents[4]
HAMMING = types.SimpleNamespace(model=types.SimpleNamespace(frontend_type="fbank"), window_type="hamming")


VITA = {"resample_conf": {"resample_rate": 16000},
        "fbank_conf": {"num_mel_bins": 80, "frame_length": 25, "frame_shift": 10, "dither": 0.0}}  # fmt: skip


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


def flash(code: Any) -> Callable[[Recording], Result]:
    """FlashCosyVoice's data set, whose item is made for the speaker model first."""
    session = Session()

    def call(r: Recording) -> Result:
        code.s3tokenizer.load_audio = lambda *_, **__: r.wave[0]
        data = bare(code.AudioDataset, datas=[{"prompt_wav": r.path}], spk_model=session)
        with contextlib.suppress(Exception):  # The next steps need models.
            data[0]
        return session.seen.pop()

    return call


def freeze_omni(code: Any) -> Callable[[Recording], Result]:
    """Freeze-Omni's features of audio in chunks, which it keeps between them."""

    def call(r: Recording) -> Result:
        processor = code.audioEncoderProcessor()
        chunks = r.wave[0].split(processor.get_chunk_size())
        return [processor.process(chunk) for chunk in chunks if len(chunk) == processor.get_chunk_size()]

    return call


def whale(code: Any) -> Callable[[Recording], Result]:
    """VITA's extractor of its web demonstration."""
    options = {"num_mel_bins": 80, "frame_length": 25, "frame_shift": 10, "dither": 0.0}
    return lambda r: bare(code.WhaleFeatureExtractor, sampling_rate=r.rate, **options)._extract_fbank_features(
        r.pcm[:1] / np.float32(32768)
    )


def triton(code: Any) -> Callable[[Recording], Result]:
    """The module that WeNet's and FunASR's Triton servers compute features with."""
    kaldifeat = sys.modules["kaldifeat"]
    opts = kaldifeat.FbankOptions()
    opts.frame_opts.dither = 0
    opts.mel_opts.num_bins = 80
    opts.device = torch.device("cpu")
    fbank = code.Fbank(opts)
    return lambda r: fbank([r.wave[0] * 32768])


def bare(kind: Any, **attributes: Any) -> Any:
    """Return an object of a class with these attributes, made without its constructor, which needs a model."""
    made = kind.__new__(kind)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def sampled(name: str, **options: Any) -> Make:
    """Return how WeNet's processors and their relatives are called: with a sample, or with an iterable of them."""

    def make(code: Any) -> Callable[[Recording], Result]:
        function = getattr(code, name)
        if inspect.isgeneratorfunction(function):
            return lambda r: next(function([r.sample], **options))["feat"]
        return lambda r: function(r.sample, **options)["feat"]

    return make


def of_file(kind: str, **attributes: Any) -> Make:
    """Return how the Audio Spectrogram Transformer's data sets and their relatives read a file."""
    options = {"melbins": 128, "target_length": 512, "audio_conf": {"target_length": 512}, "roll_mag_aug": False}

    def make(code: Any) -> Callable[[Recording], Result]:
        data = bare(getattr(code, kind), **(options | attributes))

        def call(r: Recording) -> Result:
            found = data._wav2fbank(r.path)
            return found[0] if isinstance(found, tuple) else found

        return call

    return make


def reference(code: Any) -> Callable[[Recording], Result]:
    """GPT-SoVITS's reader of a reference recording: the audio that its spectrogram is made from, and that at 16 kHz."""
    code.spectrogram_torch = lambda audio, *_, **__: audio
    names = ("filter_length", "hop_length", "win_length")
    configs = types.SimpleNamespace(sampling_rate=32000, device="cpu", is_half=False, **dict.fromkeys(names, 1))
    return lambda r: code.TTS._get_ref_spec(
        types.SimpleNamespace(configs=configs, prompt_cache={}, is_v2pro=True), r.path
    )


def decoded(code: Any) -> Callable[[Recording], Result]:
    """WeNet's reader of a file, of bytes, and of a part of a file."""

    def call(r: Recording) -> Result:
        given = ({"wav": r.path}, {"wav": Path(r.path).read_bytes()}, {"wav": r.path, "start": 0.001, "end": 0.009})
        return [code.decode_wav({"key": "a", **each})["wav"] for each in given]

    return call


def raw(code: Any) -> Callable[[Recording], Result]:
    """WeSpeaker's reader of a file, and of a command."""

    def call(r: Recording) -> Result:
        lines = [json.dumps({"key": "a", "spk": "a", "wav": wav}) for wav in (r.path, f"cat {r.path} |")]
        return [each["wav"] for each in code.parse_raw({"src": line} for line in lines)]

    return call


def embedded(kind: str) -> Make:
    """Return how CosyVoice's front end and its copies are called, stopped where they call the speaker model.

    Later versions read the file themselves: by a function that returns its argument here.
    """

    def make(code: Any) -> Callable[[Recording], Result]:
        code.load_wav = lambda audio, _: audio
        call = kept(getattr(code, kind)._extract_spk_embedding)
        return lambda r: call(r.mono)

    return make


def speaker(kind: str) -> Make:
    """Return how ModelScope's speaker models compute their features."""

    def make(code: Any) -> Callable[[Recording], Result]:
        model = bare(getattr(code, kind), feature_dim=80)
        return lambda r: getattr(model, f"_{kind}__extract_feature")(r.mono)

    return make


def frontend(**options: Any) -> Make:
    """Return how FunASR's WavFrontend and its copies are called, without statistics."""

    def make(code: Any) -> Callable[[Recording], Result]:
        made = code.WavFrontend(fs=16000, window="hamming", lfr_m=7, lfr_n=6, dither=0.0, **options)
        return lambda r: made(r.mono, torch.tensor([r.pcm.shape[1]]))[0][0]

    return make


def upstream(**config: Any) -> Make:
    """Return how S3PRL's create_transform is called, and the transform with samples."""

    def make(code: Any) -> Callable[[Recording], Result]:
        transform, _ = code.create_transform(dict(config))
        return lambda r: transform(r.mono)

    return make


def baseline(kind: str) -> Make:
    """Return how S3PRL's baseline features are called, with deltas and normalization."""

    def make(code: Any) -> Callable[[Recording], Result]:
        kaldi = {"feat_type": kind, kind: {"num_mel_bins": 80} if kind == "fbank" else {"num_ceps": 13}}
        extracter, _, _ = code.get_extracter({"kaldi": kaldi, "delta": {"order": 2}, "cmvn": {"use_cmvn": False}})
        return lambda r: extracter(r.mono[0])

    return make


def audioldm(code: Any) -> Callable[[Recording], Result]:
    """AudioLDM's add-on features, at 16 kHz."""

    def call(r: Recording) -> Result:
        given = {"waveform": r.mono, "sampling_rate": r.rate, "log_mel_spec": torch.zeros(512, 64)}
        return code.extract_kaldi_fbank_feature(None, given, {})["ta_kaldi_fbank"]

    return call


def masr(kind: str) -> Make:
    """Return how MASR's featurizer is called."""
    return lambda code: lambda r: getattr(code.AudioFeaturizer, f"_compute_{kind}")(None, r.unit, r.rate, n_mels=80)


def two_of_a_script(code: Any, folder: str) -> Any:
    """FunCodec's loader of script files, opened for each."""
    return [code.kaldi_loader(f"{folder}/wav.scp", max_cache_fd=2)[key] for key in UTTERANCES[:: len(UTTERANCES) - 1]]


def parse_ark(code: Any, folder: str) -> Any:
    """TeleSpeech's reader of features in a list."""
    return next(code.parse_ark([{"src": f"utt:a\tfeat:{place(folder)}\tshape:1,20\ttext:a"}]))["feat"]


def affinities(code: Any, folder: str) -> Any:
    """Kaldi's spectral clustering: matrices of a script file."""
    return list(code.LoadAffinityMatrix(f"{folder}/feats.scp").values())


def online(code: Any) -> Callable[[Recording], Result]:
    """fairseq's agent for simultaneous translation: the audio in three chunks."""
    options = {"shift_size": 10, "window_size": 25, "sample_rate": 16000, "feature_dim": 80, "global_cmvn": None}

    def call(r: Recording) -> Result:
        extractor = code.OnlineFeatureExtractor(types.SimpleNamespace(**options))
        chunks = (extractor((part * 32768).tolist()) for part in np.array_split(r.unit, 3))
        return [chunk for chunk in chunks if chunk is not None]

    return call


def online_fbank(code: Any) -> Callable[[Recording], Result]:
    """A class derived from kaldi_native_fbank's OnlineFbank, fed with chunks, its frames stacked."""

    def call(r: Recording) -> Result:
        made, found = code.OnlineFbank(sample_rate=r.rate), []
        parts = np.array_split(r.unit, 3)
        for i, part in enumerate(parts):
            made.accept_waveform(part, i == len(parts) - 1)
            found.append(made.get_lfr_frames())
        return found

    return call


def streamed(code: Any) -> Callable[[Recording], Result]:
    """icefall's streaming decoders: the extractor that they make, fed with chunks, frame by frame."""

    def call(r: Recording) -> Result:
        extractor, frames = code.create_streaming_feature_extractor(), []
        for part in r.mono[0].split(4000):
            extractor.accept_waveform(sampling_rate=r.rate, waveform=part)
            frames += [extractor.get_frame(i) for i in range(len(frames), extractor.num_frames_ready)]
        return torch.cat(frames) if frames else torch.zeros(0)

    return call


UTTERANCES = ("a", *(f"b{i:02}" for i in range(99)))


def written(r: Recording, folder: str, library: str = "kaldiio") -> list[Any]:
    """Write a hundred utterances by the library in question, the first of them the recording, and return the bytes.

    The folder then has feats.ark, feats.scp of matrices, vec.ark, vec.scp of vectors, and for kaldiio wav.ark, wav.scp.
    """
    module = sys.modules[library]
    matrices = {name: r.matrix[: None if name == "a" else 40] for name in UTTERANCES}
    for kind, entries in (("feats", matrices), ("vec", {name: matrix[0] for name, matrix in matrices.items()})):
        with open(f"{folder}/{kind}.ark", "wb") as file, open(f"{folder}/{kind}.scp", "w") as script:
            for name, value in entries.items():
                script.write(f"{name} {folder}/{kind}.ark:{file.tell() + len(name) + 1}\n")
                if library == "kaldiio":
                    module.save_ark(file, {name: value})
                else:
                    (module.write_mat if value.ndim == 2 else module.write_vec_flt)(file, value, key=name)
    if library == "kaldiio":
        audio = {name: (r.rate, r.pcm[0, : None if name == "a" else 160]) for name in UTTERANCES}
        module.save_ark(f"{folder}/wav.ark", audio, scp=f"{folder}/wav.scp")
    return [np.frombuffer(file.read_bytes(), np.uint8) for file in sorted(Path(folder).glob("*.ark"))]


def archived(read: Callable[[Any, str], Any], library: str = "kaldiio") -> Make:
    """Return how a reader of archives is called: with the module and a folder that ``written`` has filled before."""

    def make(code: Any) -> Callable[[Recording], Result]:
        prepared: dict[str, tuple[Any, list[Any]]] = {}

        def call(r: Recording) -> Result:
            if r.name not in prepared:
                folder = tempfile.TemporaryDirectory()
                prepared[r.name] = folder, written(r, folder.name, library)
            folder, stored = prepared[r.name]
            found = read(code, folder.name)
            return [*stored, *(found if isinstance(found, tuple | list) else [found])]

        return call

    return make


def place(folder: str, name: str = "feats") -> str:
    """Return where the first entry of a script file lies."""
    return Path(f"{folder}/{name}.scp").read_text().split()[1]


def utterance(folder: str) -> list[Any]:
    """Return a batch of one utterance as ESPnet's data.json describes it."""
    return [("a", {"input": [{"feat": place(folder), "shape": [1, 20]}], "output": [{"tokenid": "1 2"}]})]


def scp_dataset(code: Any, folder: str) -> Any:
    """The data set of ParallelWaveGAN, of audio and features, and those made of it, of more features."""
    expected = inspect.signature(code.AudioMelSCPDataset).parameters
    files = {name: f"{folder}/{'wav' if name == 'wav_scp' else 'feats'}.scp" for name in expected if "_scp" in name}
    data = code.AudioMelSCPDataset(**files, **{"batch_size": 2} if "batch_size" in expected else {})
    return [part for item in data[0] for part in (item if "batch_size" in expected else [item])]


def opentransformer(code: Any, folder: str) -> Any:
    """OpenTransformer's data set of Kaldi's features, with statistics of the speaker."""
    data = bare(code.KaldiDataset, feat_list=[("a", place(folder))], apply_cmvn=False, apply_spec_augment=False,
                target_dict={"a": [1]})  # fmt: skip
    return data[0][1]


def writer(code: Any, folder: str) -> Any:
    """TeleSpeech's writer and reader of features."""
    feats = sys.modules["kaldiio"].load_mat(place(folder))
    made = code.KaldiWriter(f"{folder}/new", 0)
    with made.feat_path as out:
        out("a", feats)
    return np.frombuffer(Path(f"{folder}/new/feats.0.ark").read_bytes(), np.uint8)


def audio_features(code: Any, folder: str) -> Any:
    """CAT's preparation of data: features of a list of files to an archive, here without processes of its own."""
    import soundfile

    rate, samples = sys.modules["kaldiio"].load_mat(place(folder, "wav"))
    soundfile.write(f"{folder}/a.wav", samples, rate)
    code.DataLoader = lambda data, **_: (data[i] for i in range(len(data)))
    code.tqdm = lambda data, **_: data
    processor = code.ReadProcessor().append(code.FBankProcessor(rate, 40))
    code._process_as_kaldi([("a", f"{folder}/a.wav")], f"{folder}/new.scp", f"{folder}/new.ark", processor)
    return [mat for _, mat in sys.modules["kaldiio"].load_ark(f"{folder}/new.ark")]


def espnet_tables(code: Any, folder: str) -> Any:
    """ESPnet's writer of tables: the bytes that it writes, and compressed matrices, on the scale of their values."""
    kaldiio, new = sys.modules["kaldiio"], Path(f"{folder}/new")
    new.mkdir(exist_ok=True)
    for name, options in (("plain", {"write_num_frames": f"ark,t:{new}/frames"}), ("small", {"compress": True})):
        with code.file_writer_helper(f"ark,scp:{new}/{name}.ark,{new}/{name}.scp", **options) as writer:
            for key, matrix in kaldiio.load_scp_sequential(f"{folder}/feats.scp"):
                writer[key] = matrix
    written = [new / "plain.ark", new / "plain.scp", new / "frames", new / "small.scp"]
    small = [
        np.ascontiguousarray(matrix) / max(1, np.abs(matrix).max())
        for _, matrix in kaldiio.load_ark(f"{new}/small.ark")
    ]
    return [*(np.frombuffer(each.read_bytes().replace(folder.encode(), b""), np.uint8) for each in written), *small]


def espnet_reader(code: Any, folder: str) -> Any:
    """ESPnet's readers of tables: of an archive, of a script file, of segments, and of shapes alone."""
    Path(f"{folder}/segments").write_text("s a 0 0.005\nt b00 0.001 0.009\n")
    found = [matrix for _, matrix in code.file_reader_helper(f"ark:{folder}/feats.ark")]
    found += [matrix for _, matrix in code.file_reader_helper(f"scp:{folder}/feats.scp")]
    segments = code.file_reader_helper(f"scp:{folder}/wav.scp", segments=f"{folder}/segments")
    found += [samples for _, (_, samples) in segments]
    return [*found, *(np.array(shape) for _, shape in code.KaldiReader(f"scp:{folder}/feats.scp", return_shape=True))]


def voiced(code: Any, folder: str) -> Any:
    """dropclass_speaker's test, up to the scores: features through a pipeline of two of Kaldi's programs."""
    kaldiio = sys.modules["kaldiio"]
    shutil.copyfile(f"{folder}/feats.scp", f"{folder}/feats_trimmed.scp")
    lengths = {key: len(matrix) for key, matrix in kaldiio.load_scp(f"{folder}/feats.scp").items()}
    decisions = {key: (np.arange(length) % 3 > 0).astype(np.float32) for key, length in lengths.items()}
    kaldiio.save_ark(f"{folder}/vad.ark", decisions, scp=f"{folder}/vad_trimmed.scp")
    seen: list[torch.Tensor] = []
    network = unittest.mock.Mock(side_effect=lambda feats: seen.append(feats[0]) or feats[0, :1])
    code.tqdm = lambda data, **_: data
    with contextlib.suppress(TypeError):  # The scores need further modules.
        code.test_nosil(network, types.SimpleNamespace(data_base_path=folder, veri_utts=UTTERANCES), "cpu")
    return seen


class Layered(torch.nn.Module):
    """A network with a layer, whose output pytorch_xvectors takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Identity()

    def forward(self, x: torch.Tensor, eps: float) -> torch.Tensor:
        return self.layer(x.mean(2) + eps)  # type: ignore[no-any-return]


def layer_outputs(code: Any, folder: str) -> Any:
    """pytorch_xvectors: the vectors of a script file's features."""
    code.kaldi_python_io = unittest.mock.MagicMock()
    code.par_core_extractXvectors(f"{folder}/feats.scp", "", "", Layered(), "layer")
    written = code.kaldi_python_io.ArchiveWriter.return_value.__enter__.return_value.write
    return np.stack([call.args[1] for call in written.call_args_list])


def labelled(code: Any, folder: str) -> Any:
    """pytorch_MLP_for_ASR: features, and the states of their alignments, both through Kaldi's programs."""
    models, library = ROOT / "reference_data" / "inputs" / "models", sys.modules["kaldi_io"]
    shutil.copyfile(models / "ali.gz", f"{folder}/ali.1.gz")
    shutil.copyfile(models / "mono.mdl", f"{folder}/final.mdl")
    first = library.read_mat(place(folder))
    with open(f"{folder}/x.ark", "wb") as file, open(f"{folder}/x.scp", "w") as script:
        for key, states in library.read_vec_int_ark(f"gunzip -c {folder}/ali.1.gz |"):
            script.write(f"{key} {folder}/x.ark:{file.tell() + len(key) + 1}\n")
            library.write_mat(file, np.resize(first, (len(states), 20)), key=key)
    options = " add-deltas ark:- ark:- |"
    _, features, states, ends = code.load_dataset(f"{folder}/x.scp", options, folder, "ali-to-pdf", 0, 0)
    return [features, states, np.array(ends)]


def decoar(code: Any) -> Callable[[Recording], Result]:
    """speech-representations: normalized features of a file by three of Kaldi's programs, up to the model."""
    featurizer = bare(code.DeCoAR2Featurizer, _ctx=None, _model=lambda data, _: data)
    return lambda r: featurizer.file_to_feats(r.path)


def telespeech(code: Any) -> Callable[[Recording], Result]:
    """telespeech-asr-python: MFCCs of a file, of an object for each file."""
    code.OrtInferRuntimeSession = unittest.mock.Mock()
    return lambda r: code.TeleSpeechAsrInferSession("").get_features(r.path)


def ced(code: Any) -> Callable[[Recording], Result]:
    """CED's script with kaldi_native_fbank, with options as numbers, up to the model."""

    def call(r: Recording) -> Result:
        code.ort = unittest.mock.Mock()
        run = code.ort.InferenceSession.return_value.run
        run.return_value = np.zeros((1, 1, 5))
        sys.argv = [code.__file__, r.path, "--chunk=100"]
        code.main()
        return [each.kwargs["input_feed"]["feats"] for each in run.call_args_list]

    return call


def xvectors(code: Any, folder: str) -> Any:
    """Kaldi's diarization recipe: vectors of a script file."""
    return list(code.ReadXvecs(f"{folder}/vec.scp").values())


def plda(code: Any, folder: str) -> Any:
    """VBx's reader of Kaldi's PLDA models, on kaldi_io's private parts."""
    vector, matrix = np.arange(3.0), np.arange(9.0).reshape(3, 3)
    body = io_of(vector) + io_of(matrix) + io_of(vector)
    Path(f"{folder}/plda").write_bytes(b"\0B<Plda> " + body + b"</Plda> ")
    return code.read_plda(f"{folder}/plda")


def io_of(value: Any) -> bytes:
    """Return an array of doubles as Kaldi writes it inside an object."""
    sizes = b"".join(b"\4" + size.to_bytes(4, "little") for size in value.shape)
    return (b"DV " if value.ndim == 1 else b"DM ") + sizes + value.tobytes()


def touchnet(kind: str) -> Make:
    """Return how TouchNet's data functions are called."""
    shape = {"num_mel_bins": 80, "frame_length": 25, "frame_shift": 10, "dither": 0.0}
    cepstra = {"num_ceps": 40, "high_freq": 0.0, "low_freq": 20.0}
    config = types.SimpleNamespace(**{f"audiofeat_{name}": value for name, value in (shape | cepstra).items()})

    def make(code: Any) -> Callable[[Recording], Result]:
        function = getattr(code, f"audio_compute_{kind}")
        return lambda r: next(function([{"waveform": r.wave, "sample_rate": r.rate}], config))["audiofeat"]

    return make


def amphion(code: Any) -> Callable[[Recording], Result]:
    """Amphion's features for WeNet's models, stopped where it calls the model."""
    seen: list[Any] = []
    model = types.SimpleNamespace(
        parameters=lambda: iter([torch.zeros(1)]),
        encoder_extractor=lambda feats, *_, **__: seen.append(feats) or feats,
    )
    conf = {"fbank_conf": {"num_mel_bins": 80, "frame_length": 25, "frame_shift": 10, "dither": 0.0}}
    extractor = bare(code.WenetExtractor, model=model, extract_conf=conf)

    def call(r: Recording) -> Result:
        extractor.extract_content_features(r.mono.clone(), [r.pcm.shape[1]])
        return seen.pop()

    return call


def subtools(kind: str, **options: Any) -> Make:
    """Return how asv-subtools' features are called, minus the mean."""

    def make(code: Any) -> Callable[[Recording], Result]:
        made = code.KaldiFeature(kind, options, {"mean_norm": True})
        return lambda r: made(r.mono)[0]

    return make


def seed_vc(code: Any) -> Callable[[Recording], Result]:
    """Seed-VC's speaker embedding, stopped where it calls the model."""
    wrapper = types.SimpleNamespace(style_encoder=lambda feats, *_: feats)
    return lambda r: code.VoiceConversionWrapper.compute_style(wrapper, r.mono)


def mae_ast(code: Any) -> Callable[[Recording], Result]:
    """The features of MAE-AST's data set, of each type."""
    kinds = [bare(code.MAE_AST_Dataset, sample_rate=16000, feature_type=kind, feature_dim=dim, deltas=kind == "mfcc")
             for kind, dim in (("fbank", 128), ("mfcc", 13))]  # fmt: skip
    return lambda r: [data.postprocess_spec(r.mono[0], r.rate) for data in kinds]


def las_audio(code: Any) -> Callable[[Recording], Result]:
    """The audio transform of End-to-end-ASR-Pytorch: features, deltas, normalization."""
    config = {"feat_type": "fbank", "feat_dim": 40, "delta_order": 1, "apply_cmvn": True, "frame_length": 25}
    transform, _ = code.create_transform(config)
    return lambda r: transform(r.path)


def valor(code: Any) -> Callable[[Recording], Result]:
    """VALOR's audio of a file."""
    options = {"audio_melbins": 64, "audio_target_length": 512, "audio_mean": -4.2, "audio_std": 4.5,
               "audio_frame_shift": 10, "audio_encoder_type": "ast"}  # fmt: skip

    def call(r: Recording) -> Result:
        mapper = code.AudioMapper(str(Path(r.path).parent), types.SimpleNamespace(**options), "", 1)
        mapper.training = False
        return mapper[Path(r.path).stem]

    return call


def lavish(code: Any) -> Callable[[Recording], Result]:
    """LAVISH's audio of a file."""
    opt = types.SimpleNamespace(audio_length=1, vis_encoder_type="vit")
    data = bare(code.AVE_dataset, opt=opt, norm_mean=-4.27, norm_std=4.57)
    return lambda r: data._wav2fbank(r.path, idx=1)[0]


def espnet_item(code: Any, folder: str) -> Any:
    """OpenTransformer's data set of ESPnet's descriptions."""
    info = {"input": [{"feat": place(folder)}], "output": [{"token": "a"}]}
    return bare(code.ESPNetDataset, utts=[("a", info)], apply_spec_augment=False, encode=list)[0][1]


def neural_sp(code: Any, folder: str) -> Any:
    """neural_sp's data set."""
    names = ("xlen", "text", "utt_id", "speaker", "session", "prev_utt", "feat_path")
    frame = {name: [place(folder) if name == "feat_path" else "1"] for name in names}
    data = bare(code.CustomDataset, df=frame, df_sub1=None, df_sub2=None, _vocab_sub1=0, _vocab_sub2=0, is_test=True,
                word_alignment_dir=None, ctc_alignment_dir=None, simulate_longform=False,
                _token2idx=[list])  # fmt: skip
    return data[0]["xs"]


def shared(files: str, function: str, make: Make, library: str = "torchaudio", **more: Any) -> Iterable[Call]:
    """Return the same call of each of the files."""
    return [Call(file, function, library, make, **more) for file in files.split()]


CALLS = (
    # The processor of WeNet and of projects derived from WeNet.
    *shared(
        """
        wenet/wenet/dataset/processor.py
        CopyNE/wenet/dataset/processor.py
        DialectMoE/wenet/dataset/processor.py
        LLM_ASR/basic_wenet/data_utils.py
        MLC-SLM-Baseline/wenet/dataset/processor.py
        MSDM-ISCSLP2024/wenet/dataset/processor.py
        OSUM/OSUM/wenet/dataset/process/processor.py
        Easy-Turn/Easy_Turn/examples/wenetspeech/whisper/wenet/dataset/processor.py
        TeleSpeech-ASR/wenet_representation/wenet/dataset/processor.py
        fast-u2pp/wenet/dataset/processor.py
        paper_accurate_fast_cheap/wenet/dataset/processor.py
        reverb/asr/wenet/dataset/processor.py
        """,
        "compute_fbank", sampled("compute_fbank", num_mel_bins=80),
    ),
    *shared(
        """
        wenet/wenet/dataset/processor.py
        DialectMoE/wenet/dataset/processor.py
        MLC-SLM-Baseline/wenet/dataset/processor.py
        TeleSpeech-ASR/wenet_representation/wenet/dataset/processor.py
        reverb/asr/wenet/dataset/processor.py
        """,
        "compute_mfcc", sampled("compute_mfcc", num_mel_bins=40), tolerance=CEPSTRA,
    ),
    Call("wenet/wenet/dataset/processor.py", "decode_wav", "torchaudio", decoded),
    Call("wenet/tools/compute_cmvn_stats.py", "CollateFunc", "torchaudio", cmvn_of_files),
    *shared(
        """
        wenet/runtime/gpu/model_repo/feature_extractor/1/model.py
        wenet/runtime/gpu/model_repo_stateful/feature_extractor/1/model.py
        FunASR/runtime/triton_gpu/model_repo_sense_voice_small/feature_extractor/1/model.py
        sherpa/triton/model_repo_offline/feature_extractor/1/model.py
        sherpa/triton/model_repo_streaming/feature_extractor/1/model.py
        """,
        "Fbank", triton, "kaldifeat",
    ),
    *shared(
        """
        wespeaker/wespeaker/dataset/processor.py
        ExPO/wespeaker/dataset/processor.py
        Wespeaker_MC_SSL/wespeaker/dataset/processor.py
        enskd/wespeaker/dataset/processor.py
        wespeaker_hubert/wespeaker/dataset/processor.py
        """,
        "compute_fbank, apply_cmvn",
        lambda code: lambda r: next(code.apply_cmvn(code.compute_fbank([r.sample], dither=0.0)))["feat"],
    ),
    Call("wespeaker/wespeaker/dataset/processor.py", "parse_raw", "torchaudio", raw),
    Call("wespeaker/wespeaker/cli/speaker.py", "Speaker.compute_features", "torchaudio",
         lambda code: lambda r: code.Speaker.compute_features(HAMMING, r.wave, r.rate)),
    *shared(
        """
        wespeaker/wespeaker/bin/infer_onnx.py
        ExPO/wespeaker/bin/infer_onnx.py
        Wespeaker_MC_SSL/wespeaker/bin/infer_onnx.py
        enskd/wespeaker/bin/infer_onnx.py
        wesep/tools/extract_embed_depreciated.py
        """,
        "compute_fbank", lambda code: lambda r: code.compute_fbank(r.path),
    ),
    Call("wespeaker/wespeaker/diar/make_fbank.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: code.compute_fbank(r.wave[0], sample_frequency=r.rate, subseg_cmn=False)),
    Call("wesep/wesep/cli/extractor.py", "Extractor.compute_fbank", "torchaudio",
         lambda code: lambda r: code.Extractor.compute_fbank(None, r.mono, r.rate)),
    Call("wesep/wesep/utils/funcs.py", "compute_fbank, apply_cmvn", "torchaudio",
         lambda code: lambda r: code.apply_cmvn(code.compute_fbank(r.wave, dither=0.0, sample_rate=r.rate))),
    Call("wekws/wekws/dataset/processor.py", "compute_fbank", "torchaudio", sampled("compute_fbank", num_mel_bins=40)),
    Call("wekws/wekws/dataset/processor.py", "compute_mfcc", "torchaudio", sampled("compute_mfcc"), tolerance=CEPSTRA),
    Call("TouchNet/touchnet/data/functions.py", "audio_compute_fbank", "torchaudio", touchnet("fbank")),
    Call("TouchNet/touchnet/data/functions.py", "audio_compute_mfcc", "torchaudio", touchnet("mfcc"),
         tolerance=CEPSTRA),
    Call("MeanVC/src/infer/infer_ref.py", "extract_fbanks", "torchaudio",
         lambda code: lambda r: code.extract_fbanks(r.unit, r.rate)),
    Call("Amphion/processors/content_extractor.py", "WenetExtractor.extract_content_features", "torchaudio", amphion),
    # FunASR and projects derived from FunASR.
    Call("FunASR/funasr/frontends/wav_frontend.py", "WavFrontend", "torchaudio", funasr, any_rate=False),
    *shared(
        """
        Ming/Ming-omni/audio_processing_bailingmm.py
        Step-Audio/funasr_detach/frontends/wav_frontend.py
        """,
        "WavFrontend", frontend(), any_rate=False,
    ),
    *shared(
        """
        FunASR/funasr/utils/speaker_utils.py
        Step-Audio/funasr_detach/utils/speaker_utils.py
        chatterbox/src/chatterbox/models/s3gen/xvector.py
        """,
        "extract_feature", lambda code: lambda r: code.extract_feature([r.wave[0]])[0],
    ),
    Call("FunASR/funasr/utils/load_utils.py", "load_audio_text_image_video", "kaldiio",
         archived(lambda code, folder: torch.as_tensor(
             code.load_audio_text_image_video(place(folder, "wav"), data_type="kaldi_ark"))), any_rate=False),
    *shared(
        """
        FunASR/runtime/python/onnxruntime/funasr_onnx/utils/frontend.py
        FunASR/runtime/python/libtorch/funasr_torch/utils/frontend.py
        SenseVoice/utils/frontend.py
        YeAudio/yeaudio/utils/frontend.py
        """,
        "WavFrontend", funasr_onnx, "kaldi_native_fbank",
    ),
    *shared(
        """
        OmniSenseVoice/src/omnisense/utils/frontend.py
        SenseVoice-python/sensevoice/utils/frontend.py
        """,
        "WavFrontend.fbank", lambda code: lambda r: code.WavFrontend(dither=0.0, fs=r.rate).fbank(r.unit)[0],
        "kaldi_native_fbank",
    ),
    Call("FunCodec/egs/LibriTTS/codec/utils/compute_fbank.py", "compute_fbank", "torchaudio",
         lambda code: lambda r: code.compute_fbank(r.path, resample_rate=r.rate)),
    Call("FunCodec/funcodec/models/frontend/wav_frontend.py", "WavFrontend", "torchaudio", frontend(), any_rate=False,
         root="."),
    # Speaker embeddings
    *shared(
        """
        3D-Speaker/speakerlab/process/processor.py
        MLC-SLM-Baseline/examples/mlcslm/sdasr/speakerlab/process/processor.py
        RealtimeSD/speakerlab/process/processor.py
        """,
        "FBank", lambda code: functools.partial(lambda fbank, r: fbank(r.wave), code.FBank(80, 16000, mean_nor=True)),
        any_rate=False,
    ),
    Call("AlphaAvatar/avatar-plugins/avatar-plugins-persona/alphaavatar/plugins/persona/utils/fbank.py", "FBank",
         "torchaudio", lambda code: functools.partial(lambda fbank, r: fbank(r.unit), code.FBank(80, 16000, True)),
         any_rate=False),
    *(Call(f"modelscope/modelscope/models/audio/sv/{file}.py", f"{kind}.__extract_feature", "torchaudio",
           speaker(kind))
      for file, kind in (("DTDNN", "SpeakerVerificationCAMPPlus"), ("ERes2Net", "SpeakerVerificationERes2Net"),
                         ("xvector", "SpeakerVerificationTDNN"))),
    *shared(
        """
        VoiceprintRecognition-Pytorch/mvector/data_utils/featurizer.py
        AudioClassification-Pytorch/macls/data_utils/featurizer.py
        """,
        "KaldiFbank", lambda code: lambda r: code.KaldiFbank(num_mel_bins=80)(r.mono),
    ),
    Call("asv-subtools/pytorch/libs/egs/kaldi_features.py", "KaldiFeature, mfcc", "torchaudio",
         subtools("mfcc", num_ceps=23), tolerance=CEPSTRA),
    Call("asv-subtools/pytorch/libs/egs/kaldi_features.py", "KaldiFeature, fbank", "torchaudio", subtools("fbank")),
    *shared(
        """
        pyannote-audio/src/pyannote/audio/models/embedding/wespeaker/__init__.py
        DiariZen/pyannote-audio/pyannote/audio/models/embedding/wespeaker/__init__.py
        """,
        "compute_fbank", pyannote,
    ),
    # Speech synthesis
    *shared(
        """
        CosyVoice/cosyvoice/cli/frontend.py
        BreezyVoice/cosyvoice/cli/frontend.py
        CosyEdit/cosyvoice/cli/frontend.py
        GLM-4-Voice/cosyvoice/cli/frontend.py
        JoyTTS/cosyvoice/cli/frontend.py
        OSUM/OSUM-EChat/tts/cosyvoice/cli/frontend.py
        RankDPO-TTS/cosyvoice/cli/frontend.py
        Step-Audio/cosyvoice/cli/frontend.py
        """,
        "_extract_spk_embedding", embedded("CosyVoiceFrontEnd"), any_rate=False,
    ),
    Call("GLM-TTS/cosyvoice/cli/frontend.py", "_extract_spk_embedding", "torchaudio", embedded("TTSFrontEnd"),
         any_rate=False),
    Call("sglang-omni/sglang_omni/models/ming_omni/talker/modeling_ming_omni_talker.py", "_extract_spk_embedding",
         "torchaudio", embedded("SpkembExtractor"), any_rate=False),
    Call("CosyVoice/cosyvoice/utils/file_utils.py", "load_wav", "torchaudio",
         lambda code: lambda r: code.load_wav(r.path, 24000, 8000)),
    Call("GPT-SoVITS/GPT_SoVITS/TTS_infer_pack/TTS.py", "TTS._get_ref_spec", "torchaudio", reference,
         root="."),
    Call("CosyVoice/cosyvoice/utils/onnx.py", "EmbeddingExtractor.inference", "torchaudio",
         lambda code: functools.partial(lambda call, r: call(r.wave), kept(code.EmbeddingExtractor.inference))),
    Call("CosyVoice/tools/extract_embedding.py", "single_job", "torchaudio", embedding_job, any_rate=False),
    Call("index-tts/backends/trt/pipeline/audio_processing.py", "compute_kaldi_fbank", "torchaudio",
         lambda code: lambda r: code.compute_kaldi_fbank(r.wave, "cpu")),
    Call("FlashCosyVoice/flashcosyvoice/cli.py", "AudioDataset.__getitem__", "torchaudio", flash, any_rate=False),
    Call("Freeze-Omni/bin/inference.py", "audioEncoderProcessor.process", "torchaudio", freeze_omni, any_rate=False,
         tolerance=QUIET),
    Call("VITA/vita/model/multimodal_encoder/whale/init_model.py", "audioEncoderProcessor.process", "torchaudio",
         lambda code: lambda r: code.audioEncoderProcessor(VITA).process(r.path)[0], any_rate=False),
    Call("VITA/web_demo/vllm_tools/model_weight_file/processor_whale.py",
         "WhaleFeatureExtractor._extract_fbank_features", "torchaudio", whale),
    Call("seed-vc/modules/v2/vc_wrapper.py", "VoiceConversionWrapper.compute_style", "torchaudio", seed_vc),
    # Projects that call kaldi_native_fbank or kaldifeat.
    *(Call(f"FireRed{path}.py", kind, "kaldi_native_fbank", firered(kind), any_rate=kind == "AudioFeat")
      for path, kind in (("ASR/fireredasr/data/asr_feat", "ASRFeatExtractor"),
                         ("ASR2S/fireredasr2s/fireredasr2/data/asr_feat", "ASRFeatExtractor"),
                         ("ASR2S/fireredasr2s/fireredlid/data/feat", "FeatExtractor"),
                         ("ASR2S/fireredasr2s/fireredvad/core/audio_feat", "AudioFeat"),
                         ("VAD/fireredvad/core/audio_feat", "AudioFeat"))),
    Call("campplus/campplus/src/utils/AudioProcess.py", "extract_feature", "kaldi_native_fbank",
         lambda code: lambda r: code.extract_feature(r.path)),
    Call("online-fbank/online_fbank/online_fbank.py", "OnlineFbank", "kaldi_native_fbank", online_fbank),
    *(Call(f"sherpa-onnx/scripts/{path}", "compute_features", "kaldi_native_fbank",
           lambda code: lambda r: code.compute_features(r.unit, r.rate))
      for path in ("3dspeaker/test-onnx.py", "wespeaker/test.py")),
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
    Call("CED/onnx_inference_with_kaldi.py", "main", "kaldi_native_fbank", ced, any_rate=False, root=".",
         tolerance=QUIET),
    Call("telespeech-asr-python/telespeechasr/onnx/onnx_infer.py", "get_features", "kaldi_native_fbank", telespeech,
         any_rate=False, tolerance=CEPSTRA),
    Call("sherpa-ncnn/scripts/sense-voice/test-ncnn.py", "compute_feat", "kaldi_native_fbank",
         lambda code: lambda r: code.compute_feat(r.unit, r.rate), tolerance=QUIET),
    *(Call(f"sherpa/scripts/{path}", "compute_features", "kaldi_native_fbank",
           lambda code: lambda r: code.compute_features(r.path), any_rate=False)
      for path in ("3d-speaker/test.py", "whisper/test.py")),
    *shared(
        """
        icefall/egs/librispeech/ASR/conv_emformer_transducer_stateless2/streaming-ncnn-decode.py
        icefall/egs/librispeech/ASR/zipformer/onnx_pretrained-streaming.py
        """,
        "create_streaming_feature_extractor", streamed, "kaldifeat", any_rate=False,
    ),
    # Self-supervised and audio models
    *shared(
        """
        unilm/beats/BEATs.py
        GenRepASD/beats/BEATs.py
        InternVideo/InternVideo2/multi_modality/models/backbones/beats/BEATs.py
        anomaly-score-normalization/beats/BEATs.py
        music-xcodec2/beats/BEATs.py
        speechbrain/speechbrain/lobes/models/beats.py
        """,
        "BEATs.preprocess", lambda code: lambda r: code.BEATs.preprocess(None, r.wave),
    ),
    Call("BioFoundation/projects/biofoundation/modules/models/BEATs/BEATs.py", "BEATs.preprocess", "torchaudio",
         lambda code: lambda r: code.BEATs.preprocess(None, r.mono[None])),
    Call("unilm/beats/Tokenizers.py", "Tokenizers.preprocess", "torchaudio",
         lambda code: lambda r: code.Tokenizers.preprocess(None, r.wave)),
    Call("SLAM-LLM/src/slam_llm/models/BEATs/BEATs.py", "BEATs.preprocess", "torchaudio",
         lambda code: lambda r: code.BEATs.preprocess(r.wave)),
    Call("BioFoundation/projects/biofoundation/modules/models/ssast.py", "ASTModel.preprocess", "torchaudio",
         lambda code: lambda r: code.ASTModel.preprocess(None, r.mono[None], sample_rate=r.rate)),
    *shared(
        """
        fairseq/fairseq/data/audio/audio_utils.py
        UniSpeech/src/fairseq/data/audio/audio_utils.py
        espresso/fairseq/data/audio/audio_utils.py
        unilm/edgelm/fairseq/data/audio/audio_utils.py
        unilm/kosmos-2/fairseq/fairseq/data/audio/audio_utils.py
        """,
        "_get_torchaudio_fbank", lambda code: lambda r: code._get_torchaudio_fbank(r.pcm.astype(np.float32), r.rate),
    ),
    *shared(
        """
        UniSpeech/src/examples/hubert/simple_kmeans/dump_mfcc_feature.py
        av_hubert/avhubert/clustering/dump_mfcc_feature.py
        unilm/edgelm/examples/hubert/simple_kmeans/dump_mfcc_feature.py
        unilm/kosmos-2/fairseq/examples/hubert/simple_kmeans/dump_mfcc_feature.py
        """,
        "MfccFeatureReader", lambda code: lambda r: code.MfccFeatureReader(r.rate).get_feats(r.path),
        tolerance=CEPSTRA,
    ),
    *shared(
        """
        fairseq/examples/textless_nlp/gslm/speech2unit/pretrained/logmel_feature_reader.py
        unilm/edgelm/examples/textless_nlp/gslm/speech2unit/pretrained/logmel_feature_reader.py
        unilm/kosmos-2/fairseq/examples/textless_nlp/gslm/speech2unit/pretrained/logmel_feature_reader.py
        """,
        "LogMelFeatureReader",
        lambda code: lambda r: code.LogMelFeatureReader(num_mel_bins=80, frame_length=25.0).get_feats(r.path),
    ),
    *shared(
        """
        fairseq/examples/speech_to_text/simultaneous_translation/agents/fairseq_simul_st_agent.py
        espresso/examples/speech_to_text/simultaneous_translation/agents/fairseq_simul_st_agent.py
        """,
        "OnlineFeatureExtractor", online, any_rate=False,
    ),
    Call("SLAM-LLM/src/slam_llm/models/EAT/EAT.py", "EAT_preprocess", "torchaudio",
         lambda code: lambda r: code.EAT_preprocess(r.wave[0])),
    Call("EAT/inference/inference.py", "preprocess_audio", "torchaudio",
         lambda code: lambda r: code.preprocess_audio(r.path, 1024, -4.268, 4.569), any_rate=False),
    Call("ast/egs/audioset/inference.py", "make_features", "torchaudio",
         lambda code: lambda r: code.make_features(r.path, 128)),
    *shared(
        """
        ast/src/dataloader.py
        AudioMAE/dataset.py
        MetaTransformer/Audio/src/dataloader.py
        cav-mae/src/dataloader.py
        psla/src/dataloaders/audioset_dataset.py
        uavm/src/dataloader.py
        DTFAT/src/dataloader.py
        """,
        "AudiosetDataset._wav2fbank", of_file("AudiosetDataset"),
    ),
    Call("ssast/src/dataloader.py", "AudioDataset._wav2fbank", "torchaudio", of_file("AudioDataset")),
    Call("MetaTransformer/Data2Seq/Data2Seq.py", "Data2Seq.get_audio_embeddings", "torchaudio",
         lambda code: lambda r: code.Data2Seq.get_audio_embeddings(r.path)),
    Call("MAE-AST-Public/mae_ast/data/mae_ast_dataset.py", "MAE_AST_Dataset.postprocess_spec", "torchaudio", mae_ast,
         tolerance=CEPSTRA),
    Call("MAE-AST-Public/s3prl/mae_ast/expert.py", "UpstreamExpert.wav_to_spectrogram", "torchaudio",
         lambda code: lambda r: bare(code.UpstreamExpert, sample_rate=r.rate, feature_dim=128)
         .wav_to_spectrogram(r.mono)),
    *(Call(f"s3prl/s3prl/upstream/{model}/audio.py", "create_transform", "torchaudio",
           upstream(feat_type="fbank", feat_dim=80, frame_length=25, frame_shift=10), any_rate=False)
      for model in ("apc", "npc")),
    Call("s3prl/s3prl/upstream/decoar/audio.py", "create_transform", "torchaudio",
         lambda code: functools.partial(lambda made, r: made(r.mono), code.create_transform()), any_rate=False),
    *shared(
        """
        s3prl/s3prl/upstream/ssast/audio.py
        ssast/src/finetune/superb/upstream/ast/audio.py
        """,
        "create_transform", upstream(feat_type="fbank", feat_dim=128), any_rate=False,
    ),
    *(Call("s3prl/s3prl/upstream/baseline/extracter.py", f"get_extracter, {kind}", "torchaudio", baseline(kind),
           any_rate=False, tolerance=CEPSTRA)
      for kind in ("fbank", "mfcc")),
    Call("NPC/src/audio.py", "FeatureExtractor", "torchaudio",
         lambda code: functools.partial(lambda made, r: made(r.path),
                                        code.FeatureExtractor(frame_length=25, frame_shift=10)), any_rate=False,
         root="."),
    Call("End-to-end-ASR-Pytorch/src/audio.py", "create_transform", "torchaudio", las_audio, any_rate=False),
    Call("kospeech/kospeech/data/audio/feature.py", "FilterBank", "torchaudio",
         lambda code: lambda r: code.FilterBank(n_mels=80)(r.unit)),
    Call("kospeech/kospeech/data/audio/feature.py", "Spectrogram", "torchaudio",
         lambda code: lambda r: code.Spectrogram(feature_extract_by="kaldi")(r.unit), tolerance=QUIET),
    *(Call("MASR/masr/data_utils/featurizer/audio_featurizer.py", f"AudioFeaturizer._compute_{kind}", "torchaudio",
           masr(kind), tolerance=CEPSTRA)
      for kind in ("fbank", "mfcc")),
    Call("Audyn/audyn/transforms/kaldi.py", "KaldiMelSpectrogram", "torchaudio",
         lambda code: lambda r: code.KaldiMelSpectrogram(r.rate, n_mels=80)(r.mono)),
    Call("Audyn/audyn/transforms/kaldi.py", "KaldiMFCC", "torchaudio",
         lambda code: lambda r: code.KaldiMFCC(r.rate, n_mfcc=13)(r.mono), tolerance=CEPSTRA),
    *shared(
        """
        AudioLDM2/audioldm2/utilities/data/add_on.py
        AudioLDM-training-finetuning/audioldm_train/dataset_plugin.py
        """,
        "extract_kaldi_fbank_feature", audioldm,
    ),
    # Multimodal models.
    *shared(
        """
        ImageBind/imagebind/data.py
        Anything2Image/anything2image/imagebind/data.py
        BindDiffusion_valid/imagebind/data.py
        CoherentAVEdit/imagebind/data.py
        KeyVID/imagebind/data.py
        LLaMA-Adapter/imagebind_LLM/ImageBind/data.py
        NExT-GPT/nextgpt/model/multimodal_encoder/ImageBind/data.py
        PandaGPT/code/model/ImageBind/data.py
        TAViS/imagebind/data.py
        Video-LLaMA/video_llama/models/ImageBind/data.py
        """,
        "waveform2melspec", lambda code: lambda r: code.waveform2melspec(r.mono, r.rate, 128, 204),
    ),
    *shared(
        """
        LanguageBind/data/process_audio.py
        LanguageBind/languagebind/audio/processing_audio.py
        """,
        "AudioTransform.get_mel",
        lambda code: lambda r: bare(code.AudioTransform, sample_rate=r.rate, num_mel_bins=128).get_mel(r.mono),
    ),
    Call("OneLLM/data/data_utils.py", "make_audio_features", "torchaudio",
         lambda code: lambda r: code.make_audio_features(r.path)),
    *shared(
        """
        EfficientAT/models/preprocess.py
        passt_hear21/hear21passt/models/preprocess.py
        """,
        "AugmentMelSTFT", lambda code: lambda r: code.AugmentMelSTFT().eval()(r.mono),
    ),
    *shared(
        """
        ssast_ciab/src/finetune/ciab/attention_maps.py
        ssast_ciab/src/finetune/ciab/demonstration.py
        """,
        "spectrogram_rep",
        lambda code: lambda r: torch.view_as_real(
            code.spectrogram_rep(r.mono, types.SimpleNamespace(target_length=512))[0]
        ),
    ),
    Call("VALOR/data/data.py", "AudioMapper.__getitem__", "torchaudio", valor),
    Call("LAVISH/AVE/dataloader.py", "AVE_dataset._wav2fbank", "torchaudio", lavish),
    # Archives
    Call("OpenTransformer/otrans/data/kaldi.py", "KaldiDataset.__getitem__", "kaldiio", archived(opentransformer)),
    Call("OpenTransformer/otrans/data/espnet.py", "ESPNetDataset.__getitem__", "kaldiio", archived(espnet_item)),
    Call("neural_sp/neural_sp/datasets/asr/dataset.py", "CustomDataset.__getitem__", "kaldiio", archived(neural_sp)),
    *shared(
        """
        ParallelWaveGAN/parallel_wavegan/datasets/scp_dataset.py
        UniCATS-CTX-vec2wav/ctx_vec2wav/datasets/scp_dataset.py
        VoiceFlow-TTS/hifigan/parallel_wavegan/datasets/scp_dataset.py
        seq2seq-vc/seq2seq_vc/datasets/dataset.py
        """,
        "AudioMelSCPDataset", archived(scp_dataset), "kaldiio",
    ),
    *shared(
        """
        SpeechT5/SpeechLM/speechlm/data/hubert_dataset.py
        SpeechT5/SpeechUT/speechut/data/hubert_dataset.py
        """,
        "HubertDataset.get_audio",
        archived(lambda code, folder: bare(code.HubertDataset, audio_root="", audio_names=[place(folder)],
                                           normalize=False).get_audio(0)),
        "kaldiio",
    ),
    Call("SpeechT5/VATLM/vat_hubert/vathubert/data/onlyaudiohubert_dataset.py", "load_feature", "kaldiio",
         archived(lambda code, folder: bare(code.OnlyAudioHubertDataset, stack_order_audio=4)
                  .load_feature(place(folder)))),
    Call("TeleSpeech-ASR/wenet_representation/wenet/dataset/processor.py", "parse_ark", "kaldiio", archived(parse_ark)),
    Call("TeleSpeech-ASR/wenet_representation/wenet/discrete_token/utils.py", "KaldiWriter", "kaldiio",
         archived(writer), tolerance=0.05),  # kaldiio rounds the bytes of compressed matrices differently.
    Call("wesep/wesep/utils/file_utils.py", "read_vec_scp_file", "kaldiio",
         archived(lambda code, folder: list(code.read_vec_scp_file(f"{folder}/vec.scp").values()))),
    Call("CAT/cat/utils/data/data_prep.py", "FBankProcessor, _process_as_kaldi", "kaldiio", archived(audio_features)),
    Call("CAT/cat/shared/data.py", "FeatureReader", "kaldiio",
         archived(lambda code, folder: code.FeatureReader()(place(folder)))),
    Call("espnet/espnet/utils/cli_writers.py", "file_writer_helper", "kaldiio", archived(espnet_tables), root=".",
         tolerance=0.05),  # Half a step of compressed values, which kaldiio rounds differently.
    Call("espnet/espnet/utils/cli_readers.py", "file_reader_helper", "kaldiio", archived(espnet_reader), root="."),
    Call("FunCodec/funcodec/datasets/dataset.py", "kaldi_loader", "kaldiio", archived(two_of_a_script)),
    Call("Step-Audio/funasr_detach/models/eend/eend_ola_dataloader.py", "EENDOLADataset.__getitem__", "kaldiio",
         archived(lambda code, folder: bare(code.EENDOLADataset, samples=[("a", place(folder), place(folder))])[0][1])),
    *shared(
        """
        Speech-Transformer/src/data/data.py
        Listen-Attend-Spell/src/data/data.py
        """,
        "load_inputs_and_targets",
        archived(lambda code, folder: code.load_inputs_and_targets(utterance(folder))[0], "kaldi_io"), "kaldi_io",
    ),
    Call("serenade/serenade/datasets/dataset.py", "AudioSCPDataset", "kaldiio",
         archived(lambda code, folder: code.AudioSCPDataset(f"{folder}/wav.scp")[0])),
    *shared(
        """
        VBx/VBx/predict.py
        DVBx/VBx/predict_and_label.py
        """,
        "load_utt", archived(lambda code, folder: code.load_utt(f"{folder}/feats.ark", "a", 2), "kaldi_io"), "kaldi_io",
    ),
    *shared(
        """
        VBx/VBx/kaldi_utils.py
        DVBx/VBx/utils/kaldi_utils.py
        """,
        "read_plda", archived(plda, "kaldi_io"), "kaldi_io",
    ),
    Call("pychain_example/dataset.py", "ChainDataset.__getitem__", "kaldi_io",
         archived(lambda code, folder: bare(code.ChainDataset, no_feat=False, train=False, samples=[
             {"utt_id": "a", "feat": place(folder), "length": 1}])[0][0], "kaldi_io")),
    Call("espresso/espresso/data/feat_text_dataset.py", "AudioFeatDataset", "kaldi_io",
         archived(lambda code, folder: bare(code.AudioFeatDataset, input_format="feat", rxfiles=[place(folder)],
                                            feature_transforms=None)._get_features(0), "kaldi_io")),
    Call("dropclass_speaker/test_model_speaker.py", "test_nosil", "kaldiio", archived(voiced), any_rate=False),
    Call("pytorch_xvectors/train_utils.py", "par_core_extractXvectors", "kaldiio", archived(layer_outputs)),
    Call("pytorch_MLP_for_ASR/data_io.py", "load_dataset", "kaldi_io", archived(labelled, "kaldi_io"), any_rate=False),
    Call("speech-representations/src/speech_reps/featurize.py", "DeCoAR2Featurizer.file_to_feats", "kaldi_io", decoar,
         any_rate=False),
    *(Call(f"kaldi/egs/callhome_diarization/v1/diarization/{path}.py", name, "kaldi_io", archived(read, "kaldi_io"))
      for path, name, read in (("calc_cossim_scores", "ReadXvecs", xvectors),
                               ("spec_clust", "LoadAffinityMatrix", affinities))),
)  # fmt: skip
