"""Dump a layer of HuBERT with random weights on a GPU, beside transformers alone.

    python benchmarks/gpu_encoders.py [--device cuda] [--hours 1] [--jobs 2] [--work DIR]

transformers computes 40 of the utterances one after the other in this process, from audio in memory, and copies the
layer to the host. `kaldi-compat dump` reads all audio and writes archives, in float32 and in bfloat16. Prints a line of
JSON for each way, and ends with status 1 if the float32 features differ. With --device cpu, a small model is dumped in
float32 only.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import RATE
from gpu_dump import in_memory, make_corpus, parse_options, report, run_dump

import io_ark

LAYER = 2
UTTERANCES = 40
# The relative difference of float32 sums in batches and alone. TF32 is off by default.
MAX_DIFFERENCE = 2e-3
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48, "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
LARGE_NORMS = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}


def save_model(folder: Path, *, small: bool) -> Any:
    """Save a HuBERT of the base size, with the normalization of the large size, and return it."""
    import transformers

    torch.manual_seed(0)
    model = transformers.HubertModel(transformers.HubertConfig(**(SMALL if small else {}), **LARGE_NORMS)).eval()
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True).save_pretrained(folder)
    return model


def compute_alone(model: Any, waves: dict[str, np.ndarray], device: str) -> tuple[float, dict[str, np.ndarray]]:
    """Compute the layer of each utterance with transformers; return the seconds, and the features."""
    model = model.to(device)

    def make_layer(samples: np.ndarray) -> np.ndarray:
        values = torch.from_numpy((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)).to(device)
        with torch.inference_mode():
            states = model(values[None], output_hidden_states=True).hidden_states
        features: np.ndarray = states[LAYER][0].cpu().numpy()
        return features

    make_layer(next(iter(waves.values())))
    start = time.perf_counter()
    features = {key: make_layer(samples) for key, samples in waves.items()}
    return time.perf_counter() - start, features


def main() -> None:
    """Dump and compare."""
    options = parse_options(__doc__, hours=1.0, jobs=2)
    with tempfile.TemporaryDirectory(dir=in_memory()) as scratch:
        work = (options.work or Path(scratch)).absolute()
        model = save_model(work / "model", small=options.device == "cpu")
        lines = make_corpus(work / "corpus", 3600 * options.hours)
        common = [f"--transformers={work / 'model'}", f"--layers={LAYER}", f"--device={options.device}",
                  f"--nj={options.jobs}", "--no-compress"]  # fmt: skip
        for dtype in ("float32",) if options.device == "cpu" else ("float32", "bfloat16"):
            seconds, worker = run_dump(work / dtype, lines, [*common, f"--dtype={dtype}"])
            report(encoder=f"dump, {dtype}", seconds=round(seconds, 2), seconds_of_slowest_worker=round(worker, 2),
                   times_real_time=round(3600 * options.hours / worker))  # fmt: skip
        features = io_ark.load_scp(work / "float32" / "feats.scp")
        audio = io_ark.load_scp(work / "float32" / "wav.scp")
        keys = list(features)[:UTTERANCES]
        waves = {key: audio[key].samples[0].astype(np.float32) / 32768 for key in keys}
        seconds, expected = compute_alone(model, waves, options.device)
        largest = max(float(np.abs(features[key] - expected[key]).max() / np.abs(expected[key]).max()) for key in keys)
        speed = round(sum(map(len, waves.values())) / RATE / seconds)
        report(encoder="transformers alone", seconds=round(seconds, 2), times_real_time=speed,
               largest_relative_difference_of_dump=largest)  # fmt: skip
    sys.exit(not largest < MAX_DIFFERENCE)


if __name__ == "__main__":
    main()
