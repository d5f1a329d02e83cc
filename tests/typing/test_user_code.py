"""A user's code as type checkers and editors see it: outside our tree, against the installed package."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kaldi_compat
from kaldi_compat.torch.features.module import ConfiguredModule
from kaldi_compat.torch.streaming.base import Stream, StreamChain
from tests.support.type_checks import in_one_run, mypy_report, user_code, wrong_lines
from tools.generate.packages import PACKAGES, folder

ROOT = Path(__file__).parents[2]
CONSTRUCTORS = ROOT / "kaldi_compat" / "options" / "constructors.pyi"
CALLS = ROOT / "kaldi_compat" / "torch" / "calls.pyi"
MODULES = [
    each
    for each in (getattr(kaldi_compat, name) for name in kaldi_compat.__all__)
    if isinstance(each, type) and issubclass(each, ConfiguredModule)
]
STREAMS = [
    each
    for each in (getattr(kaldi_compat, name) for name in kaldi_compat.__all__)
    if isinstance(each, type) and issubclass(each, Stream)
]


def pyright_errors(directory: Path) -> set[int]:
    """Return the numbers of the lines that pyright refuses."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "user_code.py"]
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


def assert_wrong_lines_are_refused(refused: set[int]) -> None:
    lines, wrong = user_code().split("\n"), wrong_lines(user_code())
    assert [lines[number - 1] for number in sorted(wrong - refused)] == [], "not refused"
    assert [lines[number - 1] for number in sorted(refused - wrong)] == [], "refused, but right"


@in_one_run
def test_mypy_refuses_the_wrong_lines_and_no_others() -> None:
    assert_wrong_lines_are_refused({number for number, _ in mypy_report()["user_code.py"]})


@pytest.mark.costly
def test_pyright_refuses_the_wrong_lines_and_no_others(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "user_code.py").write_text(user_code())
    assert_wrong_lines_are_refused(pyright_errors(tmp_path))


@pytest.mark.parametrize("module", MODULES)
def test_static_constructor_is_that_of_the_running_code(module: type[Any]) -> None:
    name = next(base.__name__ for base in module.__mro__ if base.__name__.endswith("Constructor"))
    tree = ast.parse(CONSTRUCTORS.read_text())
    found = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    constructor = next(each for each in ast.walk(found) if isinstance(each, ast.FunctionDef))
    positional = [each.arg for each in constructor.args.args[1:]]
    required = positional[: len(positional) - len(constructor.args.defaults)]
    optional = [*positional[len(required) :], *(each.arg for each in constructor.args.kwonlyargs)]
    defaults = [ast.unparse(each) for each in (*constructor.args.defaults, *constructor.args.kw_defaults) if each]
    parameters = inspect.signature(module).parameters
    assert sorted(parameters) == sorted([*required, *optional])
    assert all(parameters[each].default is inspect.Parameter.empty for each in required)
    assert {each: repr(parameters[each].default) for each in optional} == dict(zip(optional, defaults, strict=True))
    statistics = {each: [[1.0, 2.0], [3.0, 0.0]] for each in required}
    arguments = statistics | {each: parameters[each].default for each in optional}
    assert isinstance(module(**arguments), module)


@pytest.mark.parametrize("module", MODULES)
def test_static_call_is_that_of_the_running_code(module: type[Any]) -> None:
    name = next(base.__name__ for base in module.__mro__ if base.__name__.endswith("Call"))
    found = next(each for each in ast.parse(CALLS.read_text()).body if getattr(each, "name", "") == name)
    for call in (each for each in ast.walk(found) if getattr(each, "name", "") == "__call__"):
        declared = [each.arg for each in (*call.args.args, *call.args.kwonlyargs)]
        assert declared == list(inspect.signature(module.forward).parameters)


@pytest.mark.parametrize("stream", [*STREAMS, StreamChain])
def test_static_call_of_a_stream_is_that_of_the_running_code(stream: type[Any]) -> None:
    name = next(base.__name__ for base in stream.__mro__ if base.__name__.endswith("Call"))
    found = next(each for each in ast.parse(CALLS.read_text()).body if getattr(each, "name", "") == name)
    for call in (each for each in ast.walk(found) if getattr(each, "name", "") == "__call__"):
        declared = [*call.args.args, *call.args.kwonlyargs, *filter(None, [call.args.kwarg])]
        assert [each.arg for each in declared] == list(inspect.signature(stream.__call__).parameters)


@pytest.mark.parametrize("module", MODULES)
def test_help_and_signature_list_every_option(module: type[Any]) -> None:
    text = inspect.getdoc(module)
    assert text is not None
    for name, option in inspect.signature(module.Options).parameters.items():
        assert f"\n    {name} ({type(option.default).__name__}, default " in text
        assert inspect.signature(module).parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


WRONG_NAMES = {
    "Fbank num_mell_bins": "did you mean num_mel_bins?",
    "Fbank n_mels": "did you mean num_mel_bins?",
    "Fbank sample_rate": "did you mean sample_frequency (in Hz)?",
    "Mfcc n_mfcc": "did you mean num_ceps?",
    "Plp hop_length": "did you mean frame_shift (in milliseconds)?",
    "Pitch fmin": "did you mean min_f0 (in Hz)?",
    "Deltas order": "did you mean delta_order?",
    "Cmvn norm_var": "did you mean norm_vars?",
    "Splice xyz": "help(Splice) lists them",
}


@pytest.mark.parametrize("wrong", WRONG_NAMES)
def test_wrong_name_at_run_time_is_an_option_error(wrong: str) -> None:
    module, name = wrong.split()
    with pytest.raises(kaldi_compat.OptionError) as caught:
        getattr(kaldi_compat, module)(**{name: 1})
    assert str(caught.value) == f"{module} has no option {name}: {WRONG_NAMES[wrong]}"


def test_subclass_with_its_own_constructor_has_its_own_signature() -> None:
    class Small(kaldi_compat.Fbank):
        """A feature with few bins."""

        def __init__(self, bins: int) -> None:
            super().__init__(num_mel_bins=bins)

    assert list(inspect.signature(Small).parameters) == ["bins"]
    assert Small(7).dim == 7


@pytest.mark.costly
@pytest.mark.parametrize(
    ("code", "completion"),
    [
        ("from kaldi_compat import Fbank\nFbank(num_m", "num_mel_bins="),
        ("import kaldi_compat\nkaldi_compat.Cmvn(norm_v", "norm_vars="),
        ("from kaldi_compat import FbankOptions\nFbankOptions(num_m", "num_mel_bins="),
    ],
)
def test_editor_completes_options(code: str, completion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jedi = pytest.importorskip("jedi")
    # Another process may be writing to the usual folder, and jedi does not read an incomplete file as missing.
    monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path))
    assert completion in [each.name for each in jedi.Script(code).complete()]
    running = {
        "kaldi_compat": kaldi_compat,
        **{name: getattr(kaldi_compat, name) for name in ("Fbank", "FbankOptions")},
    }
    assert completion in [each.name for each in jedi.Interpreter(code.split("\n")[1], [running]).complete()]


def test_modules_of_every_package_are_typed() -> None:
    assert [package for package in PACKAGES if not (folder(package) / "py.typed").is_file()] == []
