"""The package as imported: start-up cost and public names."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import io_ark


def test_import_loads_neither_torch_nor_subprocess() -> None:
    names = ("torch", "kaldi_compat", "subprocess", "tempfile")
    script = (
        "import sys, numpy; before = set(sys.modules); import io_ark; "  # NumPy itself may load some
        f"print([name for name in {names} if name in sys.modules and name not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {script}"], capture_output=True
    )
    assert done.stdout.strip() == b"[]", done


MODULES = [
    found.name
    for found in pkgutil.walk_packages(io_ark.__path__, "io_ark.")
    if not found.ispkg and not found.name.startswith("io_ark.native")
]


@pytest.mark.parametrize("name", ["io_ark", *MODULES])
def test_declared_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    declared = getattr(module, "__all__", [])
    assert len(set(declared)) == len(declared)
    assert all(hasattr(module, public) for public in declared)


PROMISED = ("codecs", "errors", "models")
# What kaldi_compat may use as it likes.
SHARED = (
    *PROMISED, "blocks", "data_dir", "data_dir.scripts", "extras", "libm", "logs", "numpy_files", "specifier",
    "streams", "tables", "text",
)  # fmt: skip
# Internal modules that kaldi_compat uses, and why.
INTERNAL = {
    "programs/copy_feats_to_htk.py": {"codecs.htk": "the features of a block in one pass"},
    "programs/copy_feats_to_sphinx.py": {"codecs.sphinx": "the features of a block in one pass"},
    "torch/data/datasets.py": {"codecs.wave": "the samples of a segment"},
    "cli/in_process.py": {"streams.pipes": "the registry of commands that run in the process"},
    "cli/log.py": {"streams.pipes": "the messages of a command that runs in the process"},
    "dump/commands.py": {
        "streams.files": "starts commands again when file descriptors run out, as readers do",
        "streams.pipes": "the words for the status of a command",
        "streams.system": "SIGPIPE, which Windows lacks",
    },
    "dump/files.py": {"streams.unfinished": "temporary files"},
    "dump/finalize.py": {"cli.ark": "writes an output in another format"},
    "dump/plan.py": {"data_dir.stage": "refuses a directory that a killed job left half changed"},
    "dump/read.py": {
        "streams.files": "the cache of open files of its readers",
        "tables.blocks": "reads audio into memory of its own",
        "tables.loader": "reads audio through its cache of open files",
        "tables.script": "the errors of lines of wav.scp",
    },
    "dump/speed_perturb.py": {
        "data_dir.perturb": "writes the directory of several speeds as the scripts do",
        "data_dir.stage": "the files of a data directory, and how they are replaced",
    },
    "dump/outputs.py": {
        "streams.unfinished": "what killed dumps left",
        "tables.overwriting": "no output is one of the inputs",
    },
    "dump/write.py": {"streams.unfinished": "what killed dumps left of an archive"},
    "programs/feat_to_dim.py": {"tables.overwriting": "no output is one of the inputs"},
    "torch/export.py": {"tables.overwriting": "no output is one of the inputs"},
    "cli/speakers.py": {
        "codecs.text_format": "the digits of scores",
        "tables.overwriting": "no output is one of the inputs",
    },
    "programs/ivector_compute_lda.py": {"models.lda": "the mean and the norm with Kaldi's rounding errors"},
    "programs/ivector_compute_plda.py": {"models.speaker_statistics": "statistics of one speaker at a time"},
    "cli/tables.py": {"tables.prefetch": "reads tables ahead in a thread"},
    "cli/files.py": {
        "streams.system": "how files are opened for writing",
        "streams.unfinished": "whether a link is replaced",
        "tables.overwriting": "no output is one of the inputs",
    },
    "cli/program.py": {
        "streams.pipes": "the variables of the environment that commands do not get",
        "tables.overwriting": "no output is one of the inputs",
    },
    "cli/info.py": {"native": "says whether the C library is in use"},
    "native/__init__.py": {"native.signatures": "the loader of C libraries"},
}


@pytest.mark.parametrize("name", ["", *(f".{each}" for each in PROMISED)])
def test_public_module_declares_its_names(name: str) -> None:
    assert importlib.import_module(f"io_ark{name}").__all__


def test_kaldi_compat_uses_few_internal_modules_of_io_ark() -> None:
    folder = Path(io_ark.__file__).parents[1] / "kaldi_compat"
    found = [
        (path.relative_to(folder).as_posix(), module)
        for path in folder.rglob("*.py")
        for module in re.findall(r"^ *(?:from|import) io_ark\.([\w.]+)", path.read_text(), re.MULTILINE)
        if module not in SHARED
    ]
    assert sorted(found) == sorted((path, module) for path, modules in INTERNAL.items() for module in modules)
    assert len(found) <= 34


def test_dir_shows_public_names_only() -> None:
    assert sorted(dir(io_ark)) == sorted(io_ark.__all__)


def test_version_is_that_of_the_distribution() -> None:
    assert io_ark.__version__ == importlib.metadata.version("kaldi-compat")
