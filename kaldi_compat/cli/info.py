"""Describe which engines compute features on this machine, and why."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil

import io_ark.native
from io_ark import __version__
from io_ark.extras import format_missing_package
from kaldi_compat.native import library


def describe_installation() -> str:
    """Describe versions, engines, libraries and programs for users and bug reports. Each line describes one item."""
    versions = f"{__version__}, Python {platform.python_version()}, NumPy {importlib.metadata.version('numpy')}"
    lines = [
        ("kaldi-compat", versions),
        ("exact engine", _describe_library(library())),
        ("torch engine", _describe_torch()),
        ("Triton engine", _describe_triton()),
        ("archives", _describe_library(io_ark.native.library())),
        ("programs", _describe_programs()),
    ]
    return "\n".join(f"{name:<14} {text}" for name, text in lines)


def _describe_library(library: io_ark.native.Library) -> str:
    return f"C: {library.reason}" if library else f"NumPy, more slowly: {library.reason}"


def _describe_programs() -> str:
    """Describe whose programs are first on PATH. Only compute-mfcc-feats, which recipes call, is searched."""
    path = shutil.which("compute-mfcc-feats")
    if path is None:
        return "not on PATH"
    with open(path, "rb") as file:
        is_ours = b"kaldi_compat" in file.read(4096)  # The programs are short scripts that name their module.
    return f"{'these programs' if is_ours else 'other programs'} are first on PATH, in {os.path.dirname(path)}"


def _describe_torch() -> str:
    if importlib.util.find_spec("torch") is None:
        return f"not available: {format_missing_package('torch')}"
    return f"PyTorch {importlib.metadata.version('torch')}"


def _describe_triton() -> str:
    if importlib.util.find_spec("torch") is None:
        return "not available: PyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "not available: PyTorch sees no CUDA device"
    if importlib.util.find_spec("triton") is None:
        return "not available: Triton is not installed"
    return f"Triton {importlib.metadata.version('triton')} on {torch.cuda.get_device_name()}"
