"""Stand-ins take the places of libraries in a process and in those that it starts."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import kaldi_standins
from kaldi_compat.errors import OptionError
from kaldi_standins import replace
from kaldi_standins.replace import LIBRARIES, Finder, main, make_environment

WORKERS = """
import multiprocessing, subprocess, sys
import kaldi_io, kaldiio, kaldiio.matio, _kaldi_native_fbank
from omniio import kaldi
from kaldi_io.kaldi_io import read_mat

def name_of(_):
    import kaldi_io
    return kaldi_io.__name__

if __name__ == "__main__":
    print(kaldi_io.__name__, kaldiio.matio.__name__, kaldi.__name__, kaldiio.__spec__.name, *sys.argv[1:])
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(name_of, [1])[0])
    subprocess.run([sys.executable, "-c", "import kaldi_io; print(kaldi_io.__name__)"], check=True)
"""
WITHOUT_TORCHAUDIO = """
import importlib.machinery
find = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = lambda name, *rest: None if name == "torchaudio" else find(name, *rest)
import kaldi_standins
kaldi_standins.install("torchaudio")
import torchaudio, torchaudio.compliance.kaldi
from torchaudio.functional import compute_deltas
import torchaudio.backend.sox_io_backend as sox
from torchaudio.compliance.kaldi import fbank
print(torchaudio.__name__, torchaudio.compliance.kaldi is torchaudio.compliance.kaldi,
      fbank.__module__, compute_deltas.__module__)
print(torchaudio.kaldi_io if hasattr(torchaudio, "kaldi_io") else "none")
import torchaudio.kaldi_io
print(torchaudio.kaldi_io.__name__)
from torchaudio.utils.sox_utils import set_buffer_size
set_buffer_size(16500)
try:
    import torchaudio.datasets
except ImportError as error:
    print(error)
"""


@pytest.fixture
def _undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a test installs in this process."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.setattr(os, "environ", {**os.environ})


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_a_program_and_its_workers_have_the_stand_ins(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    names = "kaldi_io,kaldiio,omniio,kaldi_native_fbank"
    done = run("-m", "kaldi_standins", "replace", names, "--", str(script), "-a", "b")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    modules = ["kaldi_io", "kaldiio.matio", "omniio.kaldi", "kaldiio"]
    assert first.split() == [*(f"kaldi_standins.{each}" for each in modules), "-a", "b"]
    assert others == ["kaldi_standins.kaldi_io"] * 3
    assert "kaldi_standins: kaldi_io is kaldi_standins.kaldi_io\n" in done.stderr


def test_torchaudio_need_not_be_installed() -> None:
    done = run("-c", WITHOUT_TORCHAUDIO)
    assert done.returncode == 0, done.stderr
    package = "kaldi_standins.torchaudio_package"
    assert done.stdout.splitlines() == [
        f"{package} True kaldi_standins.torchaudio {package}.functional",
        "none",
        "kaldi_standins.torchaudio_kaldi_io",
        "kaldi_compat's stand-in for torchaudio has no module torchaudio.datasets: run without the stand-in",
    ]


@pytest.mark.usefixtures("_undone")
@pytest.mark.parametrize("is_imported", [False, True])
def test_torchaudios_other_parts_stay_the_originals(is_imported: bool) -> None:
    pytest.importorskip("torchaudio")
    for name in [each for each in sys.modules if each.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]
    if is_imported:
        importlib.import_module("torchaudio.functional")
    kaldi_standins.install("torchaudio")
    torchaudio = importlib.import_module("torchaudio")
    functional = importlib.import_module("torchaudio.functional")
    assert importlib.import_module("torchaudio.compliance.kaldi").__name__ == "kaldi_standins.torchaudio"
    assert torchaudio.__name__ == "torchaudio"
    assert functional.compute_deltas.__module__.startswith("torchaudio.functional")
    assert functional.compute_kaldi_pitch.__module__.startswith("kaldi_standins.")
    assert torchaudio.info.__module__.startswith("kaldi_standins.")


@pytest.mark.costly
@pytest.mark.parametrize(
    "statement",
    [
        "from lhotse.features.kaldi.extractors import Fbank, FbankConfig",
        "from lhotse import Fbank, FbankConfig",
        "import kaldi_standins.lhotse; from lhotse import Fbank, FbankConfig",
    ],
)
def test_extractors_of_lhotse_are_replaced(statement: str) -> None:
    pytest.importorskip("lhotse")
    program = (
        f"{statement}\nimport lhotse, kaldi_standins.lhotse as ours\n"
        "from lhotse.features.whisper_fbank import WhisperFbank, log_mel_spectrogram\n"
        "print(Fbank is lhotse.Fbank is ours.Fbank, FbankConfig is ours.FbankConfig, "
        "WhisperFbank is lhotse.WhisperFbank is ours.WhisperFbank, log_mel_spectrogram.__module__)"
    )
    done = run("-m", "kaldi_standins", "replace", "lhotse", "--", "-c", program)
    assert done.stdout.split() == ["True", "True", "True", "lhotse.features.whisper_fbank"], done.stderr
    module = "lhotse.features.kaldi.extractors"
    assert f"kaldi_standins: {module} has the extractors of kaldi_standins.lhotse.extractors\n" in done.stderr


def test_lhotse_imported_before_the_switch_brings_a_warning() -> None:
    pytest.importorskip("lhotse")
    program = (
        "import lhotse, kaldi_standins; kaldi_standins.install('lhotse'); "
        "from lhotse.features.kaldi.extractors import Fbank; print(Fbank.__module__, lhotse.Fbank.__module__)"
    )
    done = run("-c", program)
    assert done.stdout.split() == ["kaldi_standins.lhotse.extractors", "lhotse.features.kaldi.extractors"]
    assert "lhotse.features.kaldi.extractors, lhotse.features.whisper_fbank: imported before" in done.stderr


@pytest.mark.usefixtures("_undone")
def test_a_name_that_is_missing_raises_an_import_error_that_says_so() -> None:
    kaldi_standins.install("kaldi_io")
    with pytest.raises(ImportError, match=r"kaldi_standins\.kaldi_io"):
        exec("from kaldi_io import nothing")
    with pytest.raises(ModuleNotFoundError, match=r"stand-in for kaldi_io has no module kaldi_io\.nothing"):
        importlib.import_module("kaldi_io.nothing")


def test_a_missing_dependency_is_named() -> None:
    without = "import sys; sys.modules['numpy'] = None; "
    done = run("-c", without + "import kaldi_standins as x; x.install('kaldiio'); import kaldiio")
    assert "ModuleNotFoundError: import of numpy halted" in done.stderr
    assert "has no module" not in done.stderr


@pytest.mark.usefixtures("_undone")
def test_a_library_that_was_imported_before_is_replaced_with_a_warning() -> None:
    pytest.importorskip("kaldiio")
    matio, original = importlib.import_module("kaldiio.matio"), importlib.import_module("kaldiio")
    with pytest.warns(UserWarning, match="kaldiio, kaldiio"):
        assert kaldi_standins.install("kaldiio") == {"kaldiio": "kaldi_standins.kaldiio"}
    assert importlib.import_module("kaldiio.matio").__name__ == "kaldi_standins.kaldiio.matio"
    assert original.matio is matio  # Earlier imports keep the original module.
    kaldi_standins.install("kaldiio")


@pytest.mark.usefixtures("_undone")
def test_processes_that_are_started_know_all_stand_ins() -> None:
    kaldi_standins.install("kaldi_io")
    kaldi_standins.install("omniio")
    assert os.environ[replace.VARIABLE] == "kaldi_io,omniio"
    assert os.environ["PYTHONPATH"].split(os.pathsep).count(replace.STARTUP) == 1
    assert sum(isinstance(each, Finder) for each in sys.meta_path) == 1
    replace.install_from_environment()
    assert os.environ[replace.VARIABLE] == "kaldi_io,omniio"
    assert make_environment(["kaldiio"])[replace.VARIABLE] == "kaldi_io,kaldiio,omniio"  # One switch is inside another.


def test_the_users_own_sitecustomize_is_executed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    variables = make_environment(["kaldi_io"])
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path)
    command = [sys.executable, "-c", "import kaldi_io; print(kaldi_io.__name__)"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["mine", "kaldi_standins.kaldi_io"]


def test_libraries_without_a_stand_in_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OptionError, match="librosa has no stand-in"):
        kaldi_standins.install("librosa")
    with pytest.raises(OptionError, match="a name is empty: separate the names of libraries by commas without spaces"):
        kaldi_standins.install("torchaudio", "")
    failing = (
        ("replace librosa x.py", 2),
        ("replace kaldiio", 2),
        ("", 2),
        ("--help", 0),
        ("replace kaldiio nothing", 127),
    )
    for words, status in failing:
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert stopped.value.code == status
    said = capsys.readouterr()
    assert "Usage: python -m kaldi_standins replace" in said.out
    assert said.err.endswith("kaldi_standins: cannot run nothing: No such file or directory\n")


@pytest.mark.parametrize(
    ("name", "advice"),
    [("transformers", "import the extractor from kaldi_standins.transformers"), ("espnet", "choose from kaldi_io, ")],
)
def test_unknown_library_is_one_line_with_advice(name: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replace", name, "--", "x.py"])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kaldi_standins: {name} ") and advice in line
    with pytest.raises(OptionError, match=advice):
        kaldi_standins.install(name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_help_that_nobody_gets_is_not_lost_in_silence(buffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kaldi_standins", "--help"], stdout=full, stderr=subprocess.PIPE, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": buffered},
        )  # fmt: skip
    assert done.stderr == b"kaldi_standins: standard output cannot be written to: No space left on device\n"
    assert done.returncode == 255


def test_a_command_may_be_options_of_python() -> None:
    command = "-u", "-c", "import kaldi_io, kaldiio; print(kaldi_io.__name__, kaldiio.__name__)"
    done = run("-m", "kaldi_standins", "replace", "kaldi_io, kaldiio", "--", *command)
    assert done.stdout.split() == ["kaldi_standins.kaldi_io", "kaldi_standins.kaldiio"], done.stderr


@pytest.mark.parametrize("library", ["kaldi_native_fbank", "kaldi_native_io", "kaldifeat", "kaldiio", "torchaudio"])
def test_stand_ins_have_the_version_that_programs_print(library: str) -> None:
    assert importlib.import_module(LIBRARIES[library][library]).__version__[0].isdigit()


def test_deprecated_names_of_torchaudio_bring_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replace, "find_audio_problem", lambda: "")
    module = ModuleType("torchaudio")

    def deprecated(name: str) -> object:
        warnings.warn(f"{name} is deprecated", UserWarning, stacklevel=2)
        return name

    module.__getattr__ = deprecated  # type: ignore[method-assign]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace._complete_module(module, "kaldi_standins.torchaudio_package")
    assert "load" not in vars(module)


def fake(folder: Path, library: str, version: str, **modules: str) -> None:
    """Install a library that consists of these modules."""
    (folder / library).mkdir()
    for name, source in modules.items():
        (folder / library / f"{name}.py").write_text(source)
    information = folder / f"{library}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {version}\n")


@pytest.mark.usefixtures("_undone")
@pytest.mark.parametrize(
    ("version", "decoders", "reason"),
    [
        ("2.8.0", None, ""),
        ("2.9.1+cu128", None, "torchaudio 2.9.1+cu128 needs torchcodec, which is not installed"),
        ("2.11.0", "", ""),
        (
            "2.11.0",
            "raise RuntimeError('No libtorchcodec.\\nLikely causes: ...')",
            "torchaudio 2.11.0 needs torchcodec, and torchcodec 0.8.1 cannot be imported with torch 2.6.0: "
            "No libtorchcodec.",
        ),
    ],
)  # fmt: skip
def test_a_torchaudio_that_cannot_read_files_is_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, decoders: str | None, reason: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    fake(tmp_path, "torch", "2.6.0")
    fake(tmp_path, "torchaudio", version)
    if decoders is not None:
        fake(tmp_path, "torchcodec", "0.8.1", decoders=decoders, encoders="")
    assert replace.find_audio_problem() == reason


def test_files_are_read_by_the_stand_in_where_torchaudio_cannot(tmp_path: Path) -> None:
    optional = "import importlib.util\nassert importlib.util.find_spec('torchaudio.sox') is None\n"
    fake(tmp_path, "torchaudio", "2.9.1", __init__=f"{optional}def load(uri): pass\ndef save(uri): pass")
    program = "from torchaudio import load, save, info; print(*{each.__module__ for each in (load, save, info)})"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "kaldi_standins", "replace", "torchaudio", "--", "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout == "kaldi_standins.torchaudio_package.files\n", done.stderr
    report = "torchaudio.load and save are kaldi_standins.torchaudio_package's: torchaudio 2.9.1 needs torchcodec"
    assert done.stderr.splitlines()[-1].startswith(f"kaldi_standins: {report}")


def test_a_torchaudio_for_another_torch_is_named(tmp_path: Path) -> None:
    fake(tmp_path, "torchaudio", "2.9.1", __init__="raise OSError('libtorchaudio.so: undefined symbol: x\\nmore')")
    program = "import kaldi_standins; kaldi_standins.install('torchaudio'); import torchaudio"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: torchaudio 2.9.1 cannot be imported with torch ")
    assert "libtorchaudio.so: undefined symbol: x; install the torchaudio for torch" in last
