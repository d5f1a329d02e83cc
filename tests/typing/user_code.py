"""Code of a user, to be read by type checkers and never run. Lines that end in ``# error`` must be refused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import kaldi_compat
from kaldi_compat import (
    Batch,
    BucketBatchSampler,
    Cmvn,
    CmvnOptions,
    DeltaOptions,
    Deltas,
    Fbank,
    FbankOptions,
    FeatureDataset,
    FeaturesOnDevice,
    FeatureStream,
    Frontend,
    Mfcc,
    MfccOptions,
    OnlineCmvn,
    Pitch,
    PitchOptions,
    Plp,
    ProcessPitch,
    ShiftedDeltas,
    SlidingCmvn,
    SpecAugment,
    Spectrogram,
    Splice,
    Utterance,
    WaveDataset,
    collate,
    load_options,
    process_pitch,
    track_pitch,
)
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.numpy import Frontend as ArrayFrontend
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.numpy import Fbank as ArrayFbank

# Options by name, with their types.
fbank = Fbank(num_mel_bins=80, dither=0.0, window_type="hamming", snip_edges=False)
Fbank(num_mell_bins=80)  # error
Fbank(num_mel_bins="eighty")  # error
Fbank(n_mels=80)  # error
Fbank(80)  # error
Fbank(snip_edges="no")  # error
Fbank(num_ceps=13)  # error
Mfcc(num_ceps=13, num_mel_bins=40)
Mfcc(n_mfcc=13)  # error
Mfcc(use_power=True)  # error
Plp(lpc_order=12)
Plp(lpc_order=12.5)  # error
Spectrogram(return_raw_fft=True)
Spectrogram(num_mel_bins=23)  # error
Pitch(min_f0=60)
Pitch(fmin=60)  # error
ProcessPitch(add_raw_log_pitch=True)
ProcessPitch(add_raw_pitch=True)  # error
Deltas(delta_order=1)
Deltas(order=1)  # error
ShiftedDeltas(num_blocks=7)
ShiftedDeltas(blocks=7)  # error
Splice(left_context=1, right_context=1)
Splice(context=1)  # error
SlidingCmvn(cmn_window=300, center=True)
SlidingCmvn(window=300)  # error
Cmvn(norm_vars=True)
Cmvn(torch.zeros(2, 14), skip_dims=[0], norm_means=True)
Cmvn(norm_var=True)  # error

# Functions take options by name, too.
deltas: Tensor = add_deltas(torch.zeros(50, 13), delta_order=1)
delta_array: npt.NDArray[np.float32] = add_deltas(np.zeros((50, 13), np.float32), DeltaOptions(), delta_window=3)
add_deltas(torch.zeros(50, 13), order=1)  # error
add_deltas(torch.zeros(50, 13), delta_order="one")  # error
track_pitch(torch.zeros(16000), min_f0=60)
track_pitch(torch.zeros(16000), fmin=60)  # error
process_pitch(torch.zeros(50, 2), add_delta_pitch=False, lengths=None)
sliding_cmvn(torch.zeros(50, 13), CmvnOptions())  # error

# Options as a dataclass, alone or changed by name.
options = FbankOptions(num_mel_bins=80)
Fbank(options)
Fbank(options, dither=0.0)
Fbank(MfccOptions())  # error
FbankOptions(num_mell_bins=80)  # error
FbankOptions(num_mel_bins="80")  # error
PitchOptions(min_f0=[60.0])  # error
CmvnOptions(True)  # error
options.num_mel_bins = 40  # error
bins: int = fbank.options.num_mel_bins
text: str = fbank.options.num_mel_bins  # error
loaded: FbankOptions = load_options(FbankOptions, "conf/fbank.conf")
wrong: MfccOptions = load_options(FbankOptions, "conf/fbank.conf")  # error

# A tensor for a tensor, a pair for a padded batch, a list for a list.
samples, lengths = torch.zeros(2, 16000), torch.tensor([16000, 8000])
frames: Tensor = fbank(samples)
padded, counts = fbank(samples, lengths)
shapes: list[torch.Size] = [padded.shape, counts.shape]
from_list: list[Tensor] = fbank([samples[0], samples[1]])
pair: tuple[Tensor, Tensor] = fbank.forward(samples, [16000, 8000], vtln_warp=[0.9, 1.1])
tracked: Tensor = Pitch()(samples)
normalized: list[Tensor] = Cmvn()(from_list)
delta_frames, delta_counts = Deltas()(padded, counts)
bad_tensor: Tensor = fbank(samples, lengths)  # error
bad_list: list[Tensor] = fbank(samples)  # error
bad_pair: tuple[Tensor, Tensor] = Cmvn()(frames)  # error
fbank("audio.wav")  # error
fbank(samples, vtln_wrap=0.9)  # error
fbank([samples[0]], lengths)  # error
model_input: Tensor = Frontend("ast")(samples)
array_input: tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] = ArrayFrontend("ast")(np.zeros((1, 16000)), [9])
bad_input: list[Tensor] = Frontend("ast")(samples)  # error
bad_array: list[npt.NDArray[np.float32]] = ArrayFrontend("ast")(np.zeros(16000))  # error

# Presets by name, which editors complete, or from a file.
names: list[PresetName] = ["zipformer", "paraformer"]
misspelt: PresetName = "zipfomer"  # error
Frontend.from_preset(names[0])
Frontend.from_preset("my.json")

# Modules are modules, and subclasses keep the constructor.
model = nn.Sequential(fbank, Cmvn())
stream = FeatureStream(fbank, slots=2)
slot_frames, slot_counts = stream(torch.zeros(2, 8000), [8000, 4000], vtln_warp=[0.9, 1.1])
chunk_frames: Tensor = fbank.stream()(torch.zeros(8000), final=True)
chunk_pair: tuple[Tensor, Tensor] = Deltas().stream(2)(torch.zeros(2, 50, 13), [50, 40])
one_frame: Tensor = Pitch().stream(max_latency=50)(torch.zeros(8000))
flushed: Tensor = Cmvn(torch.zeros(2, 14)).stream().flush()
OnlineCmvn(torch.zeros(2, 14)).stream().new_speaker()
wrong_frames: list[Tensor] = Frontend.from_preset("ast").stream()(torch.zeros(8000))  # error
fbank.stream()(torch.zeros(8000), vtln=1.1)  # error
Deltas().stream()(torch.zeros(50, 13), vtln_warp=1.1)  # error
Deltas().stream(max_latency=5)  # error
FeatureStream(FbankOptions())  # error

# Items and batches of data sets, and the state of a sampler.
data = WaveDataset("wav.scp", feature=fbank, transform=SpecAugment(), text="text", tokenizer=str.encode)
item: Utterance = data[0]
batch: Batch = collate([item])
tokens: Tensor | None = batch.tokens
batches: list[Batch] = list(FeaturesOnDevice([batch], fbank, "cpu", SpecAugment()))
done: int = BucketBatchSampler(data.lengths(), batch_size=8).state_dict()["batches"]
label: Tensor = item.label  # error
WaveDataset("wav.scp", tokenizer=len)  # error
WaveDataset("wav.scp", augment=fbank)  # error
FeatureDataset("feats.scp", posteriors=7)  # error

# Arrays.
array_fbank = ArrayFbank(num_mel_bins=80)
ArrayFbank(num_mell_bins=80)  # error
arrays: list[npt.NDArray[np.float32]] = array_fbank([np.zeros(16000)])
array_rows, array_counts = array_fbank(np.zeros((2, 16000)), [16000, 8000])
bad_array: list[npt.NDArray[np.float32]] = array_fbank(np.zeros(16000))  # error


class MyFbank(Fbank):
    """A feature of the user's own."""


MyFbank(num_mel_bins=40)
MyFbank(num_mel_bin=40)  # error

kaldi_compat.Fbank(num_mel_bins=80)
kaldi_compat.Fbnk()  # error
