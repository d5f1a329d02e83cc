"""Adapter that runs this project's programs in this process for the options of the conformance kit."""

from __future__ import annotations

import contextlib
import importlib
import io
import tempfile
import wave
from pathlib import Path
from typing import Any

import numpy as np

import io_ark

Array = np.ndarray[Any, Any]
COPIES = {"float-matrix": "copy-matrix", "float-vector": "copy-vector", "int32-vector": "copy-int-vector",
          "posterior": "copy-post"}  # fmt: skip


def programs(samples: Array, options: dict[str, Any]) -> Array:
    """Run the program that the options name."""
    if options.pop("output", "features") != "features":
        raise NotImplementedError
    with tempfile.TemporaryDirectory() as scratch:
        return _compute_answer(Path(scratch), samples, options)


def _compute_answer(folder: Path, samples: Array, options: dict[str, Any]) -> Array:
    program, kind = options.pop("program"), options.pop("object", None)
    out = f"{folder}/out.ark"
    if program == "read-archive":
        Path(folder, "in.ark").write_bytes(samples.tobytes())
        [(_, value)] = io_ark.read(f"ark:{folder}/in.ark", kind="posterior" if kind == "posterior" else None)
        return np.array(_parse_rows(value), np.float32) if kind == "posterior" else np.atleast_1d(value)
    if program == "write-archive":
        _write(folder, options.pop("key"), _parse_posterior(samples) if kind == "posterior" else samples, kind)
        copy = "copy-feats" if "compress" in options else COPIES[str(kind)]
        text = "" if options.pop("binary", True) else ",t"
        _run(copy, options, f"ark:{folder}/in.ark", f"ark{text}:{out}")
        return np.frombuffer(Path(out).read_bytes(), np.uint8)
    options.pop("chunks", None)
    sources = [f"ark:{folder}/in.ark"]
    if samples.dtype == np.int16:
        with wave.open(f"{folder}/in.wav", "wb") as file:
            rate = options.pop("audio_frequency", options["sample_frequency"])
            file.setparams((1, 2, int(rate), len(samples), "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())
        Path(folder, "in.scp").write_text(f"utt {folder}/in.wav\n")
        sources = [f"scp:{folder}/in.scp"]
    else:
        _write(folder, "utt", samples)
    if program in ("apply-cmvn", "apply-cmvn-online"):
        stats = f"ark:{folder}/stats.ark" if program == "apply-cmvn" else f"{folder}/global.mat"
        _run("compute-cmvn-stats", {}, *sources, stats)
        sources = [stats, *sources]
    if "selection" in options:
        sources = [options.pop("selection"), *sources]
    _run(program, options, *sources, f"ark:{out}")
    [(_, value)] = io_ark.read(f"ark:{out}")
    return np.asarray(value)


def _run(program: str, options: dict[str, Any], *arguments: str) -> None:
    values = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    main = importlib.import_module(f"kaldi_compat.programs.{program.replace('-', '_')}").main
    with contextlib.redirect_stderr(io.StringIO()):
        main(["--print-args=false", *flags, *arguments])


def _write(folder: Path, key: str, value: Any, kind: str | None = None) -> None:
    writer: Any = io_ark.writer(f"ark:{folder}/in.ark", kind="posterior" if kind == "posterior" else None)
    with writer:
        writer[key] = value


def _parse_posterior(rows: Array) -> list[list[tuple[int, float]]]:
    return [[(int(i), float(w)) for t, i, w in rows if t == frame] for frame in range(int(rows[-1, 0]) + 1)]


def _parse_rows(posterior: Any) -> list[tuple[int, int, float]]:
    return [(frame, i, w) for frame, pairs in enumerate(posterior) for i, w in pairs]
