"""Names that users import: they exist, are complete, and are imported only when they are used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import kaldi_compat
from tests.support.processes import output_of
from tools.generate import promised_names

PACKAGE = Path(kaldi_compat.__file__).parent
ROOT = Path(__file__).parents[2]
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def declared_names(path: Path) -> list[str] | None:
    """Return ``__all__`` of a module without importing it; None if it has none."""
    for statement in ast.parse((PACKAGE / path).read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return names
    return None


def bound_names(path: Path) -> set[str]:
    """Return the names that a module defines, assigns or imports at its top level."""
    names: set[str] = set()
    for each in ast.parse((PACKAGE / path).read_text()).body:
        if isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            names.add(each.name)
        else:  # also below "if TYPE_CHECKING:"
            names.update(node.id for node in ast.walk(each) if isinstance(node, ast.Name))
            names.update(node.asname or node.name for node in ast.walk(each) if isinstance(node, ast.alias))
    return names


def test_at_most_300_names_are_promised_and_the_reference_shows_their_modules() -> None:
    names = promised_names.list_promised_names()
    assert 150 < sum(map(len, names.values())) <= 300
    shown = (ROOT / "docs" / "site_builder" / "generate.py").read_text()
    hidden = [
        module for module in names if f'"{module}"' not in shown and f'"{module.rpartition(".")[0]}.*"' not in shown
    ]
    assert set(hidden) <= {"kaldi_compat", "kaldi_compat.errors"}


@pytest.mark.parametrize("path", [path for path in MODULES if declared_names(path) is not None], ids=str)
def test_module_declares_names_that_it_has(path: Path) -> None:
    declared = declared_names(path) or []
    assert len(set(declared)) == len(declared)
    assert not [name for name in declared if name.startswith("_")]
    assert set(declared) <= bound_names(path)


@pytest.mark.parametrize("name", kaldi_compat.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(kaldi_compat, name) is not None


def test_dir_lists_public_names_only() -> None:
    assert dir(kaldi_compat) == sorted(kaldi_compat.__all__)
    assert {"FeatureStream", "WaveDataset", "CmvnOptions", "Fbank"} < set(dir(kaldi_compat))


def test_every_feature_and_its_options_are_public() -> None:
    from kaldi_compat.options.registry import SPECTRAL_FEATURES

    for feature in SPECTRAL_FEATURES.values():
        assert getattr(kaldi_compat, feature.import_class().__name__) is feature.import_class()
        assert getattr(kaldi_compat, feature.options.__name__) is feature.options


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Fbnk'"):
        kaldi_compat.Fbnk  # noqa: B018


COMPUTE = "from kaldi_compat.programs.compute_fbank_feats import main"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import kaldi_compat", "numpy"),
        ("from kaldi_compat import OptionError", "numpy"),
        ("from kaldi_compat import FbankOptions, CmvnOptions, load_options", "torch"),
        ("from kaldi_compat import FbankOptions", "inspect"),
        ("from kaldi_compat import track_pitch", "torch"),
        ("import kaldi_compat.plot", "torch"),
        ("import kaldi_compat.plot", "matplotlib"),
        (f"{COMPUTE}; assert main([]) == 1 and main(['--no-such=1', 'a', 'b']) == 255", "torch"),
    ],
)
def test_import_stays_light(statement: str, absent: str) -> None:
    code = f"import sys; before = set(sys.modules)\n{statement}\nassert {absent!r} not in set(sys.modules) - before"
    if absent == "inspect":  # NumPy may import it
        code = f"import numpy, dataclasses\n{code}"
    output_of(code)


def test_only_the_wing_for_torch_imports_torch_at_its_top() -> None:
    found = {
        path
        for path in MODULES
        for statement in ast.parse((PACKAGE / path).read_text()).body
        if ast.unparse(statement).startswith(("import torch", "from torch"))
    }
    assert found and {path.parts[0] for path in found} == {"torch"}


def test_modules_show_no_hooks_of_the_project() -> None:
    inherited = set(dir(torch.nn.Module()))
    shared = {"Options", "options", "setup", "stream"}
    tables = {"window", "mel", "size", "shift", "points"}
    own = {"dft", "dim", "energies", "engine", "features_of_energies", "from_feature_extractor"}
    assert {name for name in dir(kaldi_compat.Fbank()) if name[0] != "_"} - inherited == shared | tables | own
    assert {name for name in dir(kaldi_compat.Deltas()) if name[0] != "_"} - inherited == shared


def test_names_without_torch_are_no_attributes_and_an_import_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')")
    script = f"""
import inspect, sys
sys.path.insert(0, {str(tmp_path)!r})
import kaldi_compat
assert not hasattr(kaldi_compat, "Fbank") and getattr(kaldi_compat, "Fbank", 3) == 3
assert "OptionError" in dict(inspect.getmembers(kaldi_compat))
for line in ("from kaldi_compat import Fbank", "from kaldi_compat import *", "kaldi_compat.Fbank"):
    try:
        exec(line)
    except (ModuleNotFoundError, AttributeError) as error:
        print(type(error).__name__, "pip install torch" in str(error))
"""
    assert output_of(script).split() == ["ModuleNotFoundError", "True"] * 2 + ["AttributeError", "True"]
