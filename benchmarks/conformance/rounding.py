#!/usr/bin/env python3
"""Write into the conformance kit how far Kaldi's values are from a computation in double precision.

usage: rounding.py [KIT]
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import kaldi_compat
from kaldi_explain.grading import Vector, find_kit_folder, vectors

SMALLEST = 2e-4  # Smaller differences are not stored.
MODULES = {
    "compute-fbank-feats": kaldi_compat.Fbank,
    "compute-mfcc-feats": kaldi_compat.Mfcc,
    "compute-plp-feats": kaldi_compat.Plp,
    "compute-spectrogram-feats": kaldi_compat.Spectrogram,
}


def measure_rounding(vector: Vector) -> float:
    """Return the largest difference over max(1, |value|); 0 for what has no computation in double precision."""
    options, expected = dict(vector.options), vector.expected
    program = options.pop("program")
    if program not in MODULES or expected.dtype != np.float32 or not expected.size:
        return 0.0
    if options["allow_downsample"] or options["allow_upsample"]:
        return 0.0
    warp, center = options.pop("vtln_warp", 1.0), options.pop("subtract_mean")
    chosen = {name: value for name, value in options.items() if name not in ("chunks", "output")}
    audio = torch.from_numpy(vector.given.astype(np.float64))[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warps = torch.tensor([warp], dtype=torch.float64)
        features = MODULES[program](**chosen)(audio, vtln_warp=warps)[0].numpy()
    features = features - features.mean(0) if center else features
    return float(np.nanmax(np.abs(features - expected) / np.maximum(1, np.abs(expected)), initial=0.0))


def main() -> None:
    """Run the command line."""
    kit = find_kit_folder(*sys.argv[1:2])
    differences = {vector.id: measure_rounding(vector) for vector in vectors(kit=kit)}
    for path in sorted(Path(kit).glob("level-*.json")):
        head, *lines = path.read_text().splitlines()
        for number, line in enumerate(lines[:-1]):
            vector = json.loads(line.removesuffix(","))
            vector.pop("rounding", None)
            if differences[vector["id"]] > SMALLEST:
                vector["rounding"] = float(f"{differences[vector['id']]:.1e}")
            lines[number] = json.dumps(vector, separators=(",", ":")) + ("," if line.endswith(",") else "")
        path.write_text("\n".join([head, *lines]) + "\n")


if __name__ == "__main__":
    main()
