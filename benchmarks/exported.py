"""Front ends exported to ONNX, beside their modules: 10 s of audio, one thread.

    OMP_NUM_THREADS=1 python benchmarks/exported.py [--rounds 60] [--record]

Each round runs all contestants in turn: in onnxruntime the graph by a matrix product and by a DFT node, and the module
by the torch engine and by the fastest one. Printed is the least processor time of each in milliseconds.
"""

from __future__ import annotations

import tempfile

import numpy as np
import onnxruntime
import torch
from figures import Table, report
from measuring import make_parser, measure_least_times

from kaldi_compat import Frontend
from kaldi_compat.torch.export import export_frontend

PRESETS = ("paraformer", "seamless-m4t", "ast")
SECONDS = 10


def export_preset(name: str, dft: str, folder: str) -> onnxruntime.InferenceSession:
    """Export a preset, and return a session of one thread."""
    path = f"{folder}/{name}-{dft}.onnx"
    export_frontend(name, path, dft=dft)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def measure_preset(name: str, rounds: int) -> list[float]:
    """Return the least seconds for a preset: both graphs, then the modules with the torch and the fastest engine."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = [export_preset(name, dft, folder) for dft in ("matmul", "fft")]
    modules = [Frontend.from_preset(name, engine=engine) for engine in ("torch", "auto")]
    noise = np.random.default_rng(0).standard_normal((1, SECONDS * modules[0].sampling_rate)).astype(np.float32) / 10
    audio = torch.from_numpy(noise)
    works = {f"graph {i}": lambda g=graph: g.run(None, {"samples": noise}) for i, graph in enumerate(graphs)}
    works |= {f"module {i}": lambda m=module: m(audio) for i, module in enumerate(modules)}
    return list(measure_least_times(works, rounds).values())


def main() -> None:
    """Measure the presets, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        rows = [
            [f"`{name}`", *(f"{1e3 * seconds:.1f}" for seconds in measure_preset(name, chosen.rounds))]
            for name in PRESETS
        ]
    columns = [
        "front end",
        "matrix product: ms",
        "DFT node: ms",
        "module, torch engine: ms",
        "module, fastest engine: ms",
    ]
    report("exported", Table("OMP_NUM_THREADS=1 python benchmarks/exported.py", columns, rows))


if __name__ == "__main__":
    main()
