"""Functions of the dump that need torch: encoders and codecs of transformers, padded batches, contents of tensors."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from io_ark.extras import import_extra
from kaldi_compat.errors import OptionError
from kaldi_compat.torch.kernels import is_broken, is_out_of_memory
from kaldi_compat.torch.kernels.transfers import Transfers, release_memory
from kaldi_compat.torch.tensors.copies import to_device

Audio = Sequence[npt.NDArray[np.float32]]
HUB_TIMEOUT_SECONDS = 10
# Endings of the names of weights that only training uses. A model that lacks only these weights is complete.
UNUSED = ("masked_spec_embed",)
# Maximum numbers of characters of a message of the hub or of transformers in an error.
MAX_HUB_MESSAGE, MAX_MODEL_MESSAGE = 200, 300
FULL_MEMORY = "DefaultCPUAllocator"  # Substring of PyTorch's message that the memory of the host is full.
# Names of the attributes that every module has. iterate_state yields only the other attributes, which a subclass sets.
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
# Substrings of the code of a scripted module that differ between processes, and are removed before codes are compared.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|\.?___torch_mangle_\d+")
# With these options, transformers neither runs code in the folder of a model nor asks the user whether to run it.
FROM_FOLDER = {"local_files_only": True, "trust_remote_code": False}


def pad_audio(audio: Audio, device: str) -> tuple[Tensor, Tensor]:
    """Pad waveforms ``(samples,)`` with zeros. Return the batch ``(B, T)`` and the lengths ``(B,)`` on a device."""
    lengths = torch.tensor([len(samples) for samples in audio])
    batch = nn.utils.rnn.pad_sequence([torch.from_numpy(samples) for samples in audio], batch_first=True)
    return to_device(batch, torch.device(device)), to_device(lengths, torch.device(device))


def to_host(tensor: Tensor) -> npt.NDArray[Any]:
    """Copy a tensor to an array, with floating-point values as float32. The wait for a GPU does not occupy a core."""
    tensor = tensor.detach()
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    return Transfers(tensor.device).fetch_tensors([tensor])()[0]


@contextlib.contextmanager
def enter_inference(device: str, dtype: str, threads: int) -> Iterator[None]:
    """Run a ``with`` block on ``threads`` threads of the CPU, without gradients, and under autocast on ``device``.

    ``dtype`` is the name of the data type that autocast uses, such as "bfloat16". "float32" disables autocast.
    """
    previous_threads, device_type = torch.get_num_threads(), torch.device(device).type
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode(), torch.autocast(device_type, getattr(torch, dtype), enabled=dtype != "float32"):
            yield
    finally:
        torch.set_num_threads(previous_threads)


def release_after_memory_error(error: BaseException) -> bool:
    """Release the GPU's unused memory and return True if an error is about insufficient memory, else return False."""
    is_full = is_out_of_memory(error) or (isinstance(error, RuntimeError) and FULL_MEMORY in str(error))
    if is_full:
        release_memory()
    return is_full


def is_lost(device: str) -> bool:
    """Wait for the work on the GPU ``device``, and return True if this process can no longer use this GPU."""
    return is_broken(torch.device(device))


def is_module(value: Any) -> bool:
    """Return True if a value is a torch module."""
    return isinstance(value, nn.Module)


def is_generator(value: Any) -> bool:
    """Return True if a value is a torch generator of random numbers."""
    return isinstance(value, torch.Generator)


def prepare_modules(modules: Sequence[Any], device: str) -> None:
    """Prepare modules for inference: move them to a device, and set them to evaluation mode."""
    for module in modules:
        module.to(device).eval()


def compile_module(value: Any) -> Any:
    """Compile a module with torch.compile. Return any other value unchanged."""
    return torch.compile(value, dynamic=True) if isinstance(value, nn.Module) else value


def name_constant(value: Any) -> str:
    """Return the name of a device, data type, layout or memory format, or "" for other values."""
    return str(value) if isinstance(value, torch.device | torch.dtype | torch.layout | torch.memory_format) else ""


def is_tensor_or_storage(value: Any) -> bool:
    """Return True if a value is a tensor or the storage of a tensor."""
    return isinstance(value, Tensor | torch.UntypedStorage | torch.TypedStorage)


def iterate_tensor(value: Any) -> Iterator[str | memoryview]:
    """Yield type, shape, quantization and bytes of a tensor or storage, for a checksum independent of the device.

    Raise ValueError for a tensor without values, which is lazy or on the device meta.
    """
    if isinstance(value, torch.TypedStorage):
        value = value._untyped_storage
    if isinstance(value, torch.UntypedStorage):
        value = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value)
    if value.is_meta or nn.parameter.is_lazy(value):
        raise ValueError("the tensor has no values: initialize the module before the dump")
    content = value.detach()
    yield f"{value.dtype} {'nested' if value.is_nested else tuple(value.shape)}"
    if value.is_nested:
        for inner in content.unbind():
            yield from iterate_tensor(inner)
        return
    if value.is_quantized:
        if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            yield f"{value.q_scale()} {value.q_zero_point()}"
        else:
            scales, zero_points = value.q_per_channel_scales(), value.q_per_channel_zero_points()
            yield f"{value.q_per_channel_axis()} {scales.tolist()} {zero_points.tolist()}"
        content = content.int_repr()
    if content.layout != torch.strided:
        content = content.to_dense()
    content = content.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    content = torch.view_as_real(content) if content.is_complex() else content
    yield content.view(torch.uint8).numpy().data


def iterate_state(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values that determine the output of a module: weights, buffers, modules, hooks, attributes."""
    if isinstance(module, torch.jit.ScriptModule):
        yield from module.state_dict().items()
        yield "script", [_ADDRESS.sub("", str(inner.code)) for inner in module.modules() if hasattr(inner, "code")]
        yield "attributes", _ADDRESS.sub("", module._c.dump_to_str(code=False, attrs=True, params=False))
        return
    attributes = vars(module)
    for name in ("_parameters", "_buffers", "_modules"):
        yield from attributes[name].items()
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        yield name, list(attributes[name].values())
    if "_orig_mod" not in attributes["_modules"]:  # Other attributes of a compiled module are the compiler's.
        yield from ((name, attributes[name]) for name in sorted(attributes) if name not in _MODULE_ATTRIBUTES)


def find_or_download(name: str, *, allow_pickle: bool) -> str:
    """Return the local folder of a transformers model. Download the model from the Hugging Face Hub if necessary.

    Args:
        name: existing folder, or name of a model on the hub, such as "facebook/hubert-base-ls960".
        allow_pickle: True to download also the weights in ``*.bin`` files, which are pickles.

    Raises:
        OptionError: the name is not a folder, and the model can neither be downloaded nor was downloaded before.
        MissingExtraError: huggingface_hub is not installed.
    """
    if os.path.isdir(name):
        return os.path.abspath(name)
    if name.count("/") > 1 or name.startswith((".", "~", "/")):
        raise OptionError(f"--transformers={name} is not a folder: give the folder of a downloaded model")
    hub = import_extra("huggingface_hub", "--transformers")
    patterns = ["*.json", "*.safetensors", *(["*.bin"] if allow_pickle else [])]
    reason = ""  # Reason why the hub does not answer.
    try:
        revision = hub.HfApi().model_info(name, timeout=HUB_TIMEOUT_SECONDS).sha
    except Exception as error:  # Without the hub, a model that was downloaded before is used.
        revision, reason = None, _to_one_line(error)
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=patterns, local_files_only=bool(reason))
        return str(folder)
    except Exception as error:
        cause = (reason or _to_one_line(error))[:MAX_HUB_MESSAGE]
        raise OptionError(
            f"--transformers={name} is neither a local folder nor a model that the Hugging Face Hub returns "
            f"({cause}): give the folder of a downloaded model, or correct the name"
        ) from error


def _to_one_line(error: BaseException) -> str:
    """Return the message of an error as one line, or the name of the error's type if the message is empty."""
    return " ".join(str(error).split()) or type(error).__name__


def open_pretrained(options: Any, device: str) -> _Encoder | _Codec:
    """Open the encoder or codec in the folder that the dump's option ``--transformers`` names, on a device.

    Raises:
        OptionError: the folder lacks a file or weights, transformers cannot open the model, or the dump cannot use it.
        MissingExtraError: transformers is not installed.
    """
    folder, transformers = Path(options.transformers), import_extra("transformers", "--transformers")
    if (folder / "adapter_config.json").is_file():
        raise OptionError(
            f"{folder} is an adapter for the weights of a base model: merge the adapter into the base model, and give "
            "the folder of the merged model"
        )
    if not options.allow_pickle and not any(folder.glob("*.safetensors")) and any(folder.glob("*.bin")):
        raise OptionError(
            f"{folder} has only pickled weights (.bin), which may run any code: convert them to safetensors, or give "
            "--allow-pickle if you trust them"
        )
    for name in ("config.json", "preprocessor_config.json"):
        if not (folder / name).is_file():
            raise OptionError(f"{folder / name} is missing: copy it from the original model")
    transformers.utils.logging.disable_progress_bar()
    try:
        processor = transformers.AutoFeatureExtractor.from_pretrained(folder, **FROM_FOLDER)
        # None lets transformers load pickled weights if there are no safetensors.
        model, report = _load_model(transformers, folder, use_safetensors=None if options.allow_pickle else True)
    except Exception as error:
        raise OptionError(f"transformers cannot open {folder}: {_to_one_line(error)[:MAX_MODEL_MESSAGE]}") from error
    if missing := sorted(name for name in report["missing_keys"] if not name.endswith(UNUSED)):
        raise OptionError(
            f"{folder} lacks weights of the model, such as {missing[0]} ({len(missing)} in all): give a complete model"
        )
    if getattr(model.config, "audio_channels", 1) != 1:
        raise OptionError(
            f"{folder} takes audio with {model.config.audio_channels} channels: give a model for audio with one channel"
        )
    model_class = _Codec if hasattr(model, "quantizer") else _Encoder
    pretrained = model_class(model.to(device).eval(), processor, options.layer_numbers)
    if options.compile:
        pretrained.model = torch.compile(pretrained.model, dynamic=True)
    return pretrained


def _load_model(transformers: Any, folder: Path, **options: Any) -> Any:
    """Load the model in ``folder`` with transformers, and return the model and its loading report.

    The model uses PyTorch's own attention kernel if possible. The kernel is also set in the configuration, which may
    name a kernel that would be downloaded and run. ``options`` are arguments of ``from_pretrained``.
    """
    options |= {"dtype": torch.float32, "output_loading_info": True, **FROM_FOLDER}
    config = transformers.AutoConfig.from_pretrained(folder, **FROM_FOLDER)

    def load_with_attention(attention: str) -> Any:
        """Load the model with transformers' attention kernel ``attention``, such as "sdpa"."""
        config._attn_implementation = attention
        return transformers.AutoModel.from_pretrained(folder, config=config, attn_implementation=attention, **options)

    try:
        return load_with_attention("sdpa")
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):  # Transformers' message for a model without this kernel.
            raise
    return load_with_attention("eager")


@dataclass(frozen=True)
class _Inputs:
    """Inputs of a model for a batch.

    Attributes:
        tensors: keyword arguments of the model. There is a mask only if it marks padding.
        width: length of the padded time axis in the unit of ``lengths``; 0 if the feature extractor does not report it.
        lengths: number of samples or frames of each utterance without padding.
    """

    tensors: dict[str, Tensor]
    width: int
    lengths: list[int]


class _Pretrained:
    """Base class of models of transformers. A call takes a list of audio arrays ``(samples,)``.

    ``layers`` are the layers or codebooks to return. If it is empty, the last layer or all codebooks are returned.

    Attributes:
        model, processor: the model and its feature extractor.
        sample_rate: sampling rate of the audio in Hz.
        frame_shift: seconds from frame to frame; None if the configuration of the model does not contain this number.
        max_samples: number of samples that the feature extractor pads or cuts all audio to; None if it does neither.
    """

    def __init__(self, model: Any, processor: Any, layers: list[int]) -> None:
        self.model, self.processor, self.layers = model, processor, layers
        self.sample_rate = int(processor.sampling_rate)
        stride = getattr(model.config, "inputs_to_logits_ratio", None)
        self.frame_shift = stride / self.sample_rate if stride else None
        self.max_samples = _find_max_samples(processor)
        self.length_functions = _find_length_functions(model)  # Functions from an input length to a number of rows.

    def make_inputs(self, audio: Audio, mask_name: str, **options: Any) -> _Inputs:
        """Compute the inputs of the model for a batch, on the device of the model.

        The argument ``mask_name`` of the model takes the mask of the padding. ``options`` are arguments of the feature
        extractor. Raise ValueError if an utterance is longer than ``max_samples``.
        """
        rate, device = self.sample_rate, next(self.model.parameters()).device
        if self.max_samples and max(map(len, audio)) > self.max_samples:
            seconds = self.max_samples / rate
            raise ValueError(
                f"the audio is longer than the model's limit of {seconds:g} s: cut the audio into segments"
            )
        options |= {"sampling_rate": rate, "return_tensors": "pt"}
        if not self.max_samples:
            options["padding"] = True
        with torch.autocast("cpu", enabled=False):  # Feature extractors compute on the CPU, in float32.
            if self.max_samples or len(audio) == 1 or self.processor.model_input_names[0] != "input_features":
                tensors = dict(self.processor(list(audio), **options))
            else:  # In a batch, sums of the feature extractor would include the padding, and round differently.
                utterance_inputs = [self.processor([samples], **options) for samples in audio]
                rows = {name: [inputs[name][0] for inputs in utterance_inputs] for name in utterance_inputs[0]}
                tensors = dict(self.processor.pad(rows, padding=True, return_tensors="pt"))
        mask = tensors.pop("attention_mask", tensors.pop("padding_mask", None))
        if mask is not None:
            width, lengths = mask.shape[-1], mask.sum(-1).reshape(-1).tolist()
        elif "input_values" in tensors and not self.max_samples:
            width, lengths = tensors["input_values"].shape[-1], [len(samples) for samples in audio]
        else:
            width, lengths = 0, []
        if mask is not None and not bool(mask.all()) and not self.max_samples:
            tensors[mask_name] = mask
        return _Inputs({name: to_device(value, device) for name, value in tensors.items()}, width, lengths)

    def count_rows(self, inputs: _Inputs, num_rows: int, num_utterances: int, mask: Tensor | None = None) -> list[int]:
        """Return the number of rows of each utterance without padding.

        Args:
            inputs: result of :meth:`make_inputs`.
            num_rows: number of rows of the padded output.
            num_utterances: number of utterances.
            mask: mask of the output (B, rows) if the model returns a mask.

        Raises:
            ValueError: there are several utterances, and the model does not report their padding.
        """
        if mask is not None and mask.shape == (num_utterances, num_rows):
            return [int(count) for count in mask.sum(-1)]
        # int is the identity function, for a model with one row for each sample or frame of its input.
        functions: list[Callable[[int], int]] = [*self.length_functions, int]
        for output_length in functions:
            # A function that does not give the number of rows of the padded batch computes the length of a different
            # output.
            if inputs.width and output_length(inputs.width) == num_rows:
                return [output_length(length) for length in inputs.lengths]
        if num_utterances > 1:
            raise ValueError("the model does not report which rows are padding: compute single utterances")
        return [num_rows]


def _find_max_samples(processor: Any) -> int | None:
    """Return the number of samples to which a feature extractor pads or cuts audio, or None if it does neither."""
    if (samples := getattr(processor, "n_samples", None)) is not None:
        return int(samples)
    frames = getattr(processor, "max_length", None)  # Frames are 10 ms apart.
    return int(frames) * int(processor.sampling_rate) // 100 if frames else None


def _find_length_functions(model: Any) -> list[Callable[[int], int]]:
    """Return functions from the length of a model's input (samples or frames) to the number of rows of an output."""
    names = ("_get_feat_extract_output_lengths", "_get_subsampling_output_length", "get_encoded_length")
    functions = [getattr(model, name) for name in names if hasattr(model, name)]
    if getattr(model.config, "add_adapter", False):  # The adapter shortens only the output, not hidden states.
        functions += [partial(function, add_adapter=False) for function in functions]
    length_functions: list[Callable[[int], int]] = [partial(_compute_output_length, function) for function in functions]
    if hop := getattr(model.config, "hop_length", None):  # Codecs with this option pad the audio to whole frames.
        length_functions.append(lambda length: -(-length // int(hop)))
    return length_functions


def _compute_output_length(function: Callable[[Tensor], Any], length: int) -> int:
    """Return the output length that ``function``, a method of a model, computes for ``length`` samples or frames."""
    value = function(torch.tensor(length))
    # Some models return the lengths after several layers. The last length is the length of the output.
    return int(value[-1] if isinstance(value, tuple) else value)


class _Encoder(_Pretrained):
    """Computes hidden states of an encoder. Layer 0 is the input of the first layer. The last layer is the output.

    A call returns states ``(B, rows, dim)`` and the number of rows of each utterance ``(B,)``; for several layers, a
    dictionary of such pairs with the keys ``layer<number>``. Raises OptionError if the model has no such layers.
    """

    def __init__(self, model: Any, processor: Any, layers: list[int]) -> None:
        folder = model.name_or_path
        super().__init__(model, processor, layers)
        if model.config.is_encoder_decoder:
            model = self.model = model.get_encoder()
        encoder = getattr(model, "encoder", model)
        if not hasattr(encoder, "layers"):
            raise OptionError(
                f"{folder} is a {type(model).__name__}, which has no encoder with layers: "
                "give the folder of an encoder or a codec"
            )
        self.num_layers = len(encoder.layers)
        self.layers = self.layers or [self.num_layers]
        deepest = max(self.layers)
        if deepest > self.num_layers:
            raise OptionError(
                f"--layers: {folder} has no layer {deepest}: choose from the layers 0 to {self.num_layers}"
            )
        if 0 < deepest < self.num_layers:
            encoder.layers = encoder.layers[:deepest]  # Skip deeper layers, whose states are not requested.
        self.states: dict[int, Tensor] = {}  # States of the latest call, by layer, without the last layer.
        for layer in set(self.layers) - {self.num_layers}:
            if layer == 0:
                encoder.layers[0].register_forward_pre_hook(self._keep_input, with_kwargs=True)
            else:
                encoder.layers[layer - 1].register_forward_hook(partial(self._keep_output, layer))

    # Hooks store the hidden states of inner layers, because some models return only the output of the last layer.
    def _keep_input(self, _: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Store the input of the first layer as the states of layer 0. PyTorch calls this hook before the layer."""
        self.states[0] = arguments[0] if arguments else keywords["hidden_states"]

    def _keep_output(self, layer: int, _: nn.Module, arguments: Any, output: Any) -> None:
        """Store the output of the layer ``layer`` as its states. PyTorch calls this hook after the layer."""
        self.states[layer] = output[0] if isinstance(output, tuple) else output

    def __call__(self, audio: Audio) -> Any:
        """Return states (B, rows, dim) and row counts (B,). For several layers, return a dictionary of such pairs."""
        inputs = self.make_inputs(audio, "attention_mask", return_attention_mask=True)
        output = self.model(**inputs.tensors)
        mask, states = getattr(output, "attention_mask", None), {}
        for layer in self.layers:
            state = output.last_hidden_state if layer == self.num_layers else self.states.pop(layer)
            counts = self.count_rows(inputs, state.shape[1], len(audio), mask)
            states[f"layer{layer}"] = state, np.array(counts)
        return states if len(states) > 1 else next(iter(states.values()))


class _Codec(_Pretrained):
    """Computes the codes of a neural codec.

    A call returns codes ``(B, rows, codebooks)`` and the number of rows of each utterance ``(B,)``. If codebooks are
    chosen, it returns a dictionary of pairs with the keys ``codes<number>``, whose codes are ``(B, rows)``.
    """

    def __call__(self, audio: Audio) -> Any:
        """Return codes (B, rows, codebooks) and row counts, or a dictionary of both for each selected codebook.

        Raise ValueError if the codec divides the audio into several chunks, or a codebook does not exist.
        """
        inputs = self.make_inputs(audio, "padding_mask")
        if type(self.model).__name__.startswith("Dac"):  # DacModel.encode takes no mask.
            inputs.tensors.pop("padding_mask", None)
        codes = self.model.encode(**inputs.tensors).audio_codes
        if codes.dim() == 4:  # EnCodec returns (chunks, B, codebooks, rows).
            if len(codes) > 1:
                raise ValueError(
                    f"the codec divides the audio into {len(codes)} chunks: "
                    "give a codec whose configuration has no chunk_length_s"
                )
            codes = codes[0]
        counts = np.array(self.count_rows(inputs, codes.shape[-1], len(audio)))
        if self.layers:
            if max(self.layers) >= codes.shape[1]:
                raise ValueError(
                    f"the codec has no codebook {max(self.layers)}: choose from the codebooks 0 to {codes.shape[1] - 1}"
                )
            return {f"codes{codebook}": (codes[:, codebook], counts) for codebook in self.layers}
        return codes.transpose(1, 2), counts
