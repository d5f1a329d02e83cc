"""Extractors on torch: encoders and codecs of transformers, batches of tensors, digests of weights."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from io_ark.extras import import_extra
from kaldi_compat.dump.errors import DumpError, one_line
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.torch.kernels import is_broken, is_out_of_memory
from kaldi_compat.torch.kernels.transfers import release_memory

Audio = Sequence[npt.NDArray[np.float32]]
SECONDS_FOR_HUB = 10
# Weights that only training uses.
UNUSED = ("masked_spec_embed",)
FULL_MEMORY = "DefaultCPUAllocator"


def pad(audio: Audio, device: str) -> tuple[Tensor, Tensor]:
    """Return a batch of audio as a tensor ``(B, T)``, padded with zeros, and its lengths ``(B,)``."""
    lengths = torch.tensor([len(each) for each in audio])
    batch = nn.utils.rnn.pad_sequence([torch.from_numpy(each) for each in audio], batch_first=True)
    return batch.to(device), lengths.to(device)


@contextlib.contextmanager
def inference(device: str, dtype: str, threads: int) -> Iterator[None]:
    """Compute without gradients, with this precision, and on a CPU with this many threads."""
    before, kind = torch.get_num_threads(), torch.device(device).type
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode(), torch.autocast(kind, getattr(torch, dtype), enabled=dtype != "float32"):
            yield
    finally:
        torch.set_num_threads(before)


def is_full(error: BaseException) -> bool:
    """Return True if an error says that memory is short; give what is unused back to the GPU then."""
    full = is_out_of_memory(error) or (isinstance(error, RuntimeError) and FULL_MEMORY in str(error))
    if full:
        release_memory()
    return full


def is_lost(device: str) -> bool:
    """Return True if a GPU does nothing any more."""
    return is_broken(torch.device(device))


def prepare(made: Any, device: str, *, compiled: bool) -> tuple[Any, str]:
    """Move the modules of a Python object to a device, ready for inference.

    Returns:
        the object, compiled on request if it is a module; and a digest of the weights, "" if there are none.
    """
    hasher, weights = hashlib.sha256(), False
    own = [made] if isinstance(made, nn.Module) else getattr(made, "__dict__", {}).values()
    for module in (each for each in own if isinstance(each, nn.Module)):
        for name, tensor in module.to(device).eval().state_dict().items():
            if isinstance(tensor, Tensor):
                weights = True
                hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                hasher.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    if compiled and isinstance(made, nn.Module):
        made = torch.compile(made, dynamic=True)
    return made, hasher.hexdigest() if weights else ""


def local_folder(name: str, *, allow_pickle: bool) -> str:
    """Return the folder of ``--transformers``: this one, or the one that a model of the hub is stored in.

    Raises:
        DumpError: it is no folder, and the hub does not have it or cannot be reached.
    """
    if os.path.isdir(name):
        return os.path.abspath(name)
    if name.count("/") > 1 or name.startswith((".", "~", "/")):
        raise DumpError(f"--transformers={name}: there is no such folder")
    hub = import_extra("huggingface_hub", "--transformers")
    wanted, reason = ["*.json", "*.safetensors", *(["*.bin"] if allow_pickle else [])], ""
    try:
        revision = hub.HfApi().model_info(name, timeout=SECONDS_FOR_HUB).sha
    except Exception as error:  # what was downloaded before is used
        revision, reason = None, one_line(error)
    try:
        found = hub.snapshot_download(name, revision=revision, allow_patterns=wanted, local_files_only=bool(reason))
        return str(found)
    except Exception as error:
        raise DumpError(
            f"--transformers={name} is not a folder here, and the hub cannot be reached or does not have it "
            f"({(reason or one_line(error))[:200]}): give the folder of a downloaded model"
        ) from error


def open_pretrained(options: DumpOptions, device: str) -> _Encoder | _Codec:
    """Open the encoder or codec of ``--transformers``.

    Raises:
        DumpError: it cannot be opened; says why.
    """
    folder, transformers = Path(options.transformers), import_extra("transformers", "--transformers")
    if not options.allow_pickle and not any(folder.glob("*.safetensors")) and any(folder.glob("*.bin")):
        raise DumpError(
            f"{folder} has only pickled weights (.bin), which may run any code: convert them to safetensors, or give "
            "--allow-pickle if you trust them"
        )
    for name in ("config.json", "preprocessor_config.json"):
        if not (folder / name).is_file():
            raise DumpError(f"{folder / name} is missing: it says how the model takes audio")
    transformers.utils.logging.disable_progress_bar()
    try:
        processor = transformers.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
        model, found = transformers.AutoModel.from_pretrained(
            folder, use_safetensors=None if options.allow_pickle else True, dtype=torch.float32,
            output_loading_info=True, local_files_only=True,
        )  # fmt: skip
    except Exception as error:
        raise DumpError(f"{folder} cannot be opened by transformers: {one_line(error)[:300]}") from error
    if missing := sorted(name for name in found["missing_keys"] if not name.endswith(UNUSED)):
        raise DumpError(f"{folder} lacks {len(missing)} weights of the model, such as {missing[0]}")
    if getattr(model.config, "audio_channels", 1) != 1:
        raise DumpError(f"{folder} takes {model.config.audio_channels} channels: only models of one are supported")
    layers = [int(each) for each in options.layers.split(",") if each]
    made = (_Codec if hasattr(model, "quantizer") else _Encoder)(model.to(device).eval(), processor, layers)
    if options.compile:
        made.model = torch.compile(made.model, dynamic=True)
    return made


class _Pretrained:
    """A model of transformers; called with a list of audio.

    Attributes:
        sample_rate: sampling rate of the audio, in Hz.
        frame_shift: seconds from frame to frame, if the model's configuration says it.
    """

    def __init__(self, model: Any, processor: Any, layers: list[int]) -> None:
        self.model, self.processor, self.layers = model, processor, layers
        self.sample_rate = int(processor.sampling_rate)
        stride = getattr(model.config, "inputs_to_logits_ratio", None)
        self.frame_shift = stride / self.sample_rate if stride else None
        self.longest = getattr(processor, "n_samples", None)  # of Whisper, which takes windows of 30 s

    def inputs(self, audio: Audio, mask_name: str, **wanted: Any) -> tuple[dict[str, Tensor], list[int]]:
        """Return what the model takes, without a mask if it would mask nothing, and the lengths in it."""
        rate, device = self.sample_rate, next(self.model.parameters()).device
        if self.longest and max(map(len, audio)) > self.longest:
            raise ValueError(f"the audio is longer than the model's {self.longest / rate:g} s: cut it into segments")
        wanted |= {} if self.longest else {"padding": True}
        found = dict(self.processor(list(audio), sampling_rate=rate, return_tensors="pt", **wanted))
        mask = found.pop("attention_mask", found.pop("padding_mask", None))
        lengths = [] if mask is None else mask.sum(-1).reshape(-1).tolist()
        if mask is not None and not bool(mask.all()) and not self.longest:
            found[mask_name] = mask
        return {name: value.to(device) for name, value in found.items()}, lengths


class _Encoder(_Pretrained):
    """Hidden states of an encoder: layer 0 is the input of the first layer, the last one the model's output."""

    def __init__(self, model: Any, processor: Any, layers: list[int]) -> None:
        super().__init__(model, processor, layers)
        folder = model.name_or_path
        self.lengths_of = getattr(model, "_get_feat_extract_output_lengths", None)
        if model.config.is_encoder_decoder:
            model = self.model = model.get_encoder()
        inner = getattr(model, "encoder", model)
        if not hasattr(inner, "layers"):
            raise DumpError(f"{folder} is a {type(model).__name__}, which has no encoder with layers")
        self.count = len(inner.layers)
        self.layers = self.layers or [self.count]
        deepest = max(self.layers)
        if deepest > self.count:
            raise DumpError(f"--layers: {folder} has the layers 0 to {self.count}, not {deepest}")
        if 0 < deepest < self.count:
            inner.layers = inner.layers[:deepest]  # the others would be computed in vain
        self.states: dict[int, Tensor] = {}
        for number in set(self.layers) - {self.count}:
            if number == 0:
                inner.layers[0].register_forward_pre_hook(self._keep_input, with_kwargs=True)
            else:
                inner.layers[number - 1].register_forward_hook(partial(self._keep, number))

    def _keep_input(self, _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.states[0] = arguments[0] if arguments else named["hidden_states"]

    def _keep(self, number: int, _: nn.Module, arguments: Any, output: Any) -> None:
        self.states[number] = output[0] if isinstance(output, tuple) else output

    def __call__(self, audio: Audio) -> Any:
        inputs, lengths = self.inputs(audio, "attention_mask", return_attention_mask=True)
        last = self.model(**inputs).last_hidden_state
        states = [last if number == self.count else self.states.pop(number) for number in self.layers]
        samples, rows = [len(each) for each in audio], states[0].shape[1]
        if self.longest:  # the encoder computes its whole window
            counts = [max(1, rows * number // self.longest) for number in samples]
        elif self.lengths_of is not None and "input_values" in inputs:
            counts = self.lengths_of(torch.tensor(samples)).tolist()
        else:
            counts = [min(rows, -(-number * rows // max(lengths))) for number in lengths]
        found = {f"layer{n}": (state, np.array(counts)) for n, state in zip(self.layers, states, strict=True)}
        return found if len(found) > 1 else next(iter(found.values()))


class _Codec(_Pretrained):
    """Codes of a neural codec: a matrix with a column for each codebook, or chosen codebooks as vectors."""

    def __call__(self, audio: Audio) -> Any:
        inputs, _ = self.inputs(audio, "padding_mask")
        if type(self.model).__name__.startswith("Dac"):
            inputs.pop("padding_mask", None)
        codes = self.model.encode(**inputs).audio_codes
        if codes.dim() == 4:  # EnCodec: a chunk for all of it
            codes = codes[0]
        longest, frames = max(map(len, audio)), codes.shape[-1]
        counts = np.array([-(-len(each) * frames // longest) for each in audio])
        if self.layers:
            if max(self.layers) >= codes.shape[1]:
                raise ValueError(f"the codec has the codebooks 0 to {codes.shape[1] - 1}, not {max(self.layers)}")
            return {f"codes{number}": (codes[:, number], counts) for number in self.layers}
        return codes.transpose(1, 2), counts
